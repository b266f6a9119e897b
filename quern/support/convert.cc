#include "quern/support/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace quern {
namespace {

/// Elements that pass through a carrier at a time.
constexpr std::int64_t kBlock = 512;

/// Returns v with at most 53 significant bits, such that rounding it to 40 bits or fewer gives what
/// rounding v gives: what is cut off survives as the last bit kept (rounding to odd).
double round_to_odd(std::uint64_t v) {
    if (v >> 53 == 0) return static_cast<double>(v);
    const std::uint64_t sticky = (v & 0x7FF) != 0 ? 0x800 : 0;
    return static_cast<double>((v & ~std::uint64_t{0x7FF}) | sticky);
}

/// A value that one rounding to a 16-bit or 8-bit float turns into the nearest such float.
double for_narrow(double v) { return v; }
double for_narrow(std::uint64_t v) { return round_to_odd(v); }
double for_narrow(std::int64_t v) {
    const auto magnitude = static_cast<std::uint64_t>(v);
    return v < 0 ? -round_to_odd(0 - magnitude) : round_to_odd(magnitude);
}

template <class Integer>
Integer to_integer(double v) {
    using Limits = std::numeric_limits<Integer>;
    if (std::isnan(v)) return 0;
    // Limits::max() of a 64-bit type is no double; the power of two above it is.
    if (v >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    if (v <= static_cast<double>(Limits::min())) return Limits::min();
    return static_cast<Integer>(v);
}
template <class Integer>
Integer to_integer(std::int64_t v) {
    return static_cast<Integer>(v);
}
template <class Integer>
Integer to_integer(std::uint64_t v) {
    return static_cast<Integer>(v);
}

/// An element in memory of each dtype: `Bits` is how it is stored, `Carrier` holds every value of
/// it.
template <DType>
struct Element;

template <class Integer>
struct IntegerElement {
    using Bits = Integer;
    using Carrier = std::conditional_t<std::is_signed_v<Integer>, std::int64_t, std::uint64_t>;
    static Carrier load(Bits bits) { return bits; }
    template <class C>
    static Bits store(C v) {
        return to_integer<Integer>(v);
    }
};

template <class Float>
struct FloatElement {
    using Bits = Float;
    using Carrier = double;
    static Carrier load(Bits bits) { return static_cast<double>(bits); }
    template <class C>
    static Bits store(C v) {
        return static_cast<Float>(v);
    }
};

template <class BitsType, auto Widen, auto Narrow>
struct NarrowElement {
    using Bits = BitsType;
    using Carrier = double;
    static Carrier load(Bits bits) { return static_cast<double>(Widen(bits)); }
    template <class C>
    static Bits store(C v) {
        return Narrow(for_narrow(v));
    }
};

template <>
struct Element<DType::Bool> {
    using Bits = std::uint8_t;
    using Carrier = std::uint64_t;
    static Carrier load(Bits bits) { return bits != 0; }
    template <class C>
    static Bits store(C v) {
        return v != 0;
    }
};
template <>
struct Element<DType::Int8> : IntegerElement<std::int8_t> {};
template <>
struct Element<DType::Int16> : IntegerElement<std::int16_t> {};
template <>
struct Element<DType::Int32> : IntegerElement<std::int32_t> {};
template <>
struct Element<DType::Int64> : IntegerElement<std::int64_t> {};
template <>
struct Element<DType::UInt8> : IntegerElement<std::uint8_t> {};
template <>
struct Element<DType::UInt16> : IntegerElement<std::uint16_t> {};
template <>
struct Element<DType::UInt32> : IntegerElement<std::uint32_t> {};
template <>
struct Element<DType::UInt64> : IntegerElement<std::uint64_t> {};
template <>
struct Element<DType::Float16>
    : NarrowElement<std::uint16_t, float_from_float16, float16_from_double> {};
template <>
struct Element<DType::BFloat16>
    : NarrowElement<std::uint16_t, float_from_bfloat16, bfloat16_from_double> {};
template <>
struct Element<DType::Float32> : FloatElement<float> {};
template <>
struct Element<DType::Float64> : FloatElement<double> {};
template <>
struct Element<DType::Float8E4M3>
    : NarrowElement<std::uint8_t, float_from_float8_e4m3, float8_e4m3_from_double> {};
template <>
struct Element<DType::Float8E5M2>
    : NarrowElement<std::uint8_t, float_from_float8_e5m2, float8_e5m2_from_double> {};

/// Calls visit with std::integral_constant<DType, dtype>.
template <class Visit>
void with_dtype(DType dtype, Visit visit) {
    switch (dtype) {
#define QUERN_CASE(D) \
    case DType::D:    \
        return visit(std::integral_constant<DType, DType::D>())
        QUERN_CASE(Bool);
        QUERN_CASE(Int8);
        QUERN_CASE(Int16);
        QUERN_CASE(Int32);
        QUERN_CASE(Int64);
        QUERN_CASE(UInt8);
        QUERN_CASE(UInt16);
        QUERN_CASE(UInt32);
        QUERN_CASE(UInt64);
        QUERN_CASE(Float16);
        QUERN_CASE(BFloat16);
        QUERN_CASE(Float32);
        QUERN_CASE(Float64);
        QUERN_CASE(Float8E4M3);
        QUERN_CASE(Float8E5M2);
#undef QUERN_CASE
    }
}

template <std::size_t Size>
void copy_strided(const std::byte* src, std::int64_t stride, std::byte* dst, std::int64_t count) {
    const std::int64_t step = stride * static_cast<std::int64_t>(Size);
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(dst + i * Size, src + i * step, Size);
}

void copy(const std::byte* src, std::int64_t stride, std::size_t size, std::byte* dst,
          std::int64_t count) {
    if (stride == 1) {
        std::memcpy(dst, src, static_cast<std::size_t>(count) * size);
        return;
    }
    switch (size) {
        case 1:
            return copy_strided<1>(src, stride, dst, count);
        case 2:
            return copy_strided<2>(src, stride, dst, count);
        case 4:
            return copy_strided<4>(src, stride, dst, count);
        default:
            return copy_strided<8>(src, stride, dst, count);
    }
}

template <class E, class Carrier>
void load_block(const std::byte* src, std::int64_t stride, Carrier* block, std::int64_t count) {
    const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(typename E::Bits));
    for (std::int64_t i = 0; i < count; ++i) {
        typename E::Bits bits;
        std::memcpy(&bits, src + i * step, sizeof bits);
        block[i] = E::load(bits);
    }
}

template <class Carrier>
void store_block(const Carrier* block, std::byte* dst, DType dtype, std::int64_t count) {
    with_dtype(dtype, [&](auto constant) {
        using E = Element<constant()>;
        for (std::int64_t i = 0; i < count; ++i) {
            const typename E::Bits bits = E::store(block[i]);
            std::memcpy(dst + i * static_cast<std::int64_t>(sizeof bits), &bits, sizeof bits);
        }
    });
}

}  // namespace

double rounded_to_odd(std::int64_t v) { return for_narrow(v); }

void convert(const void* src, DType src_dtype, std::int64_t stride, void* dst, DType dst_dtype,
             std::int64_t count) noexcept {
    if (count <= 0) return;
    const auto* from = static_cast<const std::byte*>(src);
    auto* to = static_cast<std::byte*>(dst);
    const auto src_step = stride * static_cast<std::int64_t>(size_of(src_dtype));
    const auto dst_step = static_cast<std::int64_t>(size_of(dst_dtype));
    if (src_dtype == dst_dtype) return copy(from, stride, size_of(src_dtype), to, count);
    with_dtype(src_dtype, [&](auto constant) {
        using E = Element<constant()>;
        typename E::Carrier block[kBlock];
        for (std::int64_t done = 0; done < count; done += kBlock) {
            const std::int64_t part = std::min(kBlock, count - done);
            load_block<E>(from + done * src_step, stride, block, part);
            store_block(block, to + done * dst_step, dst_dtype, part);
        }
    });
}

}  // namespace quern
