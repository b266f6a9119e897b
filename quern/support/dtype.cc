#include "quern/dtype.h"

#include <bit>

namespace quern {
namespace {

struct Name {
    std::string_view full;
    std::string_view brief;
};

constexpr Name kNames[kDTypeCount] = {
    {"bool", "bool"},           {"int8", "i8"},
    {"int16", "i16"},           {"int32", "i32"},
    {"int64", "i64"},           {"uint8", "u8"},
    {"uint16", "u16"},          {"uint32", "u32"},
    {"uint64", "u64"},          {"float16", "f16"},
    {"bfloat16", "bf16"},       {"float32", "f32"},
    {"float64", "f64"},         {"float8_e4m3", "f8_e4m3"},
    {"float8_e5m2", "f8_e5m2"},
};

/// A format narrower than float32: a sign, then exponent, then mantissa.
struct Format {
    int exponent_bits;
    int mantissa_bits;

    /// Without it the largest pattern is the only NaN, and the rest of its binade is finite.
    bool has_infinity;

    constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    constexpr unsigned mantissa_mask() const { return (1u << mantissa_bits) - 1; }
    constexpr unsigned exponent_mask() const {
        return ((1u << exponent_bits) - 1) << mantissa_bits;
    }
    constexpr unsigned first_not_finite() const {
        return has_infinity ? exponent_mask() : exponent_mask() | mantissa_mask();
    }
};

constexpr Format kFloat16{5, 10, true};
constexpr Format kBFloat16{8, 7, true};
constexpr Format kFloat8E4M3{4, 3, false};
constexpr Format kFloat8E5M2{5, 2, true};

template <class Float>
struct Wide;

template <>
struct Wide<float> {
    using Word = std::uint32_t;
    static constexpr int kMantissaBits = 23;
    static constexpr int kBias = 127;
};

template <>
struct Wide<double> {
    using Word = std::uint64_t;
    static constexpr int kMantissaBits = 52;
    static constexpr int kBias = 1023;
};

template <Format F, class Float>
unsigned narrow(Float value) noexcept {
    using Word = typename Wide<Float>::Word;
    constexpr int kWide = Wide<Float>::kMantissaBits;
    constexpr int kDropped = kWide - F.mantissa_bits;
    constexpr int kWidth = static_cast<int>(sizeof(Word)) * 8;
    constexpr Word kImplicit = Word{1} << kWide;
    constexpr Word kInfinity = (~Word{0} >> 1) & ~(kImplicit - 1);

    const Word bits = std::bit_cast<Word>(value);
    const Word magnitude = bits & (~Word{0} >> 1);
    const unsigned sign = static_cast<unsigned>(bits >> (kWidth - 1))
                          << (F.exponent_bits + F.mantissa_bits);
    if (magnitude > kInfinity) {
        const unsigned payload = static_cast<unsigned>(magnitude >> kDropped) & F.mantissa_mask();
        const unsigned quiet = 1u << (F.mantissa_bits - 1);
        return sign | F.first_not_finite() | payload | quiet;
    }

    const int stored = static_cast<int>(magnitude >> kWide);
    const Word mantissa = (magnitude & (kImplicit - 1)) | (stored != 0 ? kImplicit : 0);
    const int exponent = (stored != 0 ? stored : 1) - Wide<Float>::kBias + F.bias();
    const int shift = kDropped + (exponent < 1 ? 1 - exponent : 0);
    if (shift > kWide + 1) return sign;

    Word rounded = mantissa >> shift;
    const Word rest = mantissa & ((Word{1} << shift) - 1);
    const Word half = Word{1} << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
    // Adding, not or-ing: the implicit bit and a carry out of the mantissa both raise the exponent.
    if (exponent > 1) rounded += static_cast<Word>(exponent - 1) << F.mantissa_bits;
    if (rounded > F.first_not_finite()) rounded = F.first_not_finite();
    return sign | static_cast<unsigned>(rounded);
}

template <Format F>
float widen(unsigned bits) noexcept {
    const unsigned exponent = (bits & F.exponent_mask()) >> F.mantissa_bits;
    const unsigned mantissa = bits & F.mantissa_mask();
    const std::uint32_t sign =
        static_cast<std::uint32_t>(bits >> (F.exponent_bits + F.mantissa_bits)) << 31;
    const std::uint32_t shifted = static_cast<std::uint32_t>(mantissa) << (23 - F.mantissa_bits);
    if ((bits & (F.exponent_mask() | F.mantissa_mask())) >= F.first_not_finite()) {
        return std::bit_cast<float>(sign | 0x7F800000u | shifted);
    }
    if (exponent == 0) {
        constexpr std::uint32_t kUnit = static_cast<std::uint32_t>(128 - F.bias() - F.mantissa_bits)
                                        << 23;
        const float value = static_cast<float>(mantissa) * std::bit_cast<float>(kUnit);
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(sign | ((exponent + 127 - F.bias()) << 23) | shifted);
}

}  // namespace

std::string_view to_string(DType dtype) { return kNames[static_cast<int>(dtype)].full; }

std::optional<DType> dtype_from_string(std::string_view name) {
    for (int i = 0; i < kDTypeCount; ++i) {
        if (name == kNames[i].full || name == kNames[i].brief) return static_cast<DType>(i);
    }
    return std::nullopt;
}

std::uint16_t float16_from_float(float value) noexcept {
    return static_cast<std::uint16_t>(narrow<kFloat16>(value));
}
std::uint16_t float16_from_double(double value) noexcept {
    return static_cast<std::uint16_t>(narrow<kFloat16>(value));
}
float float_from_float16(std::uint16_t bits) noexcept { return widen<kFloat16>(bits); }

std::uint16_t bfloat16_from_float(float value) noexcept {
    return static_cast<std::uint16_t>(narrow<kBFloat16>(value));
}
std::uint16_t bfloat16_from_double(double value) noexcept {
    return static_cast<std::uint16_t>(narrow<kBFloat16>(value));
}
float float_from_bfloat16(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint8_t float8_e4m3_from_float(float value) noexcept {
    return static_cast<std::uint8_t>(narrow<kFloat8E4M3>(value));
}
std::uint8_t float8_e4m3_from_double(double value) noexcept {
    return static_cast<std::uint8_t>(narrow<kFloat8E4M3>(value));
}
float float_from_float8_e4m3(std::uint8_t bits) noexcept { return widen<kFloat8E4M3>(bits); }

std::uint8_t float8_e5m2_from_float(float value) noexcept {
    return static_cast<std::uint8_t>(narrow<kFloat8E5M2>(value));
}
std::uint8_t float8_e5m2_from_double(double value) noexcept {
    return static_cast<std::uint8_t>(narrow<kFloat8E5M2>(value));
}
float float_from_float8_e5m2(std::uint8_t bits) noexcept { return widen<kFloat8E5M2>(bits); }

}  // namespace quern
