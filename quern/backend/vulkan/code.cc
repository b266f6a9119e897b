#include "quern/backend/vulkan/code.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "quern/support/check.h"

namespace quern::vulkan {
namespace {

using spv::Op;

bool is_narrow(DType dtype) { return dtype == DType::Float16 || dtype == DType::BFloat16; }

}  // namespace

std::uint32_t Code::bits(DType dtype) {
    return dtype == DType::Bool ? 1 : std::uint32_t(size_of(dtype)) * 8;
}

Id Code::type(DType dtype) {
    if (dtype == DType::Bool) return m_.boolean();
    if (dtype == DType::Float32) return m_.real(32);
    if (is_widened(dtype)) return m_.integer(32);
    switch (bits(dtype)) {
        case 8:
            m_.capability(spv::Capability::Int8);
            break;
        case 16:
            m_.capability(spv::Capability::Int16);
            break;
        case 64:
            m_.capability(dtype == DType::Float64 ? spv::Capability::Float64
                                                  : spv::Capability::Int64);
            break;
        default:
            break;
    }
    return dtype == DType::Float64 ? m_.real(64) : m_.integer(bits(dtype));
}

bool Code::is_widened(DType dtype) const {
    return (bits(dtype) == 8 && !integers_.has_8) || (bits(dtype) == 16 && !integers_.has_16);
}

bool Code::is_loaded(DType dtype) const {
    const std::size_t bytes = size_of(dtype);
    return bytes >= 4 || (bytes == 2 ? integers_.loads_16 && integers_.has_16
                                     : integers_.loads_8 && integers_.has_8);
}

Id Code::constant(DType dtype, std::uint64_t value) {
    if (!is_widened(dtype)) return m_.constant(type(dtype), bits(dtype), value);
    const std::uint32_t unused = 64 - bits(dtype);
    const std::uint64_t top = value << unused;
    const std::uint64_t all = is_signed_integer(dtype)
                                  ? static_cast<std::uint64_t>(std::int64_t(top) >> unused)
                                  : top >> unused;
    return m_.constant(type(dtype), 32, all & 0xffffffffu);
}

Id Code::fit(DType dtype, Id a) {
    if (!is_widened(dtype)) return a;
    const Id whole = type(dtype);
    if (!is_signed_integer(dtype)) {
        return m_.op(Op::OpBitwiseAnd, whole, {a, u32((1u << bits(dtype)) - 1)});
    }
    const Id unused = u32(32 - bits(dtype));
    const Id top = m_.op(Op::OpShiftLeftLogical, whole, {a, unused});
    return m_.op(Op::OpShiftRightArithmetic, whole, {top, unused});
}

Id Code::resized(DType from, DType to, Id a) {
    const auto width = [&](DType d) { return is_widened(d) ? 32 : bits(d); };
    if (width(from) == width(to)) return from == to ? a : fit(to, a);
    return unary(is_signed_integer(from) ? Op::OpSConvert : Op::OpUConvert, to, a);
}

Id Code::from_word(DType d, Id word) {
    if (d == DType::Bool) {
        const Id byte = binary(Op::OpBitwiseAnd, DType::UInt32, word, u32(0xff));
        return test(Op::OpINotEqual, byte, u32(0));
    }
    if (d == DType::Float32) return bitcast(d, word);
    return resized(DType::UInt32, d, word);
}

Id Code::to_word(DType d, Id value) {
    if (d == DType::Bool) return cast(value, d, DType::UInt32);
    if (d == DType::Float32) return bitcast(DType::UInt32, value);
    const Id word = resized(d, DType::UInt32, value);
    if (size_of(d) == 4) return word;
    return binary(Op::OpBitwiseAnd, DType::UInt32, word, u32(size_of(d) == 2 ? 0xffff : 0xff));
}

Id Code::memory_type(DType dtype) {
    if (size_of(dtype) == 1) m_.capability(spv::Capability::StorageBuffer8BitAccess);
    if (size_of(dtype) == 2) m_.capability(spv::Capability::StorageBuffer16BitAccess);
    return type(dtype == DType::Bool ? DType::UInt8 : dtype);
}

Id Code::real(DType dtype, double value) {
    const std::uint64_t bits = dtype == DType::Float64
                                   ? std::bit_cast<std::uint64_t>(value)
                                   : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return constant(dtype, bits);
}

Id Code::function(std::uint32_t number, DType dtype, Id a) {
    return m_.op(Op::OpExtInst, type(dtype), {m_.instructions("GLSL.std.450"), number, a});
}

Id Code::exact(Op op, DType dtype, std::initializer_list<Id> operands) {
    const Id result = m_.op(op, type(dtype), operands);
    m_.decorate(result, spv::Decoration::NoContraction);
    return result;
}

Id Code::cast(Id value, DType from, DType to) {
    if (from == to) return value;
    if (from == DType::Bool) {
        if (is_narrow(to)) return from_float32(cast(value, from, DType::Float32), to);
        const bool is_real = is_floating(to);
        return select(to, value, is_real ? real(to, 1) : constant(to, 1), constant(to, 0));
    }
    if (to == DType::Bool) {
        if (is_narrow(from)) return cast(to_float32(value, from), DType::Float32, to);
        return test(is_floating(from) ? Op::OpFUnordNotEqual : Op::OpINotEqual, value,
                    constant(from, 0));
    }
    if (!is_floating(from) && !is_floating(to)) return resized(from, to, value);
    if (!is_floating(from)) {
        const Op convert = is_signed_integer(from) ? Op::OpConvertSToF : Op::OpConvertUToF;
        if (!is_narrow(to)) return exact(convert, to, {value});
        if (size_of(from) >= 4) value = sticky_integer(value, from);
        if (size_of(from) <= 4) return from_float32(exact(convert, DType::Float32, {value}), to);
        return from_float32(sticky_float(exact(convert, DType::Float64, {value})), to);
    }
    if (!is_floating(to)) {
        if (is_narrow(from)) return saturate(to_float32(value, from), DType::Float32, to);
        return saturate(value, from, to);
    }
    if (is_narrow(from)) return cast(to_float32(value, from), DType::Float32, to);
    if (from == DType::Float32) {
        return to == DType::Float64 ? exact(Op::OpFConvert, to, {value}) : from_float32(value, to);
    }
    return to == DType::Float32 ? exact(Op::OpFConvert, to, {value})
                                : from_float32(sticky_float(value), to);
}

Id Code::to_float32(Id value, DType from) {
    if (from == DType::Float32) return value;
    if (from == DType::Float16) return half_to_float(value);
    const Id wide = resized(DType::UInt16, DType::UInt32, value);
    return bitcast(DType::Float32, word(Op::OpShiftLeftLogical, wide, u32(16)));
}

Id Code::from_float32(Id value, DType to) {
    if (to == DType::Float32) return value;
    return to == DType::BFloat16 ? float_to_bfloat(value) : float_to_half(value);
}

/// Normal numbers move to the other exponent; denormal ones are integers times 2^-24.
Id Code::half_to_float(Id value) {
    const Id all = resized(DType::UInt16, DType::UInt32, value);
    const Id sign = word(Op::OpShiftLeftLogical, word(Op::OpBitwiseAnd, all, u32(0x8000)), u32(16));
    const Id rest = word(Op::OpBitwiseAnd, all, u32(0x7fff));
    const Id moved = word(Op::OpShiftLeftLogical, rest, u32(13));
    const Id normal = word(Op::OpIAdd, moved, u32(112u << 23));
    const Id special = word(Op::OpBitwiseOr, moved, u32(0x7f800000));
    const Id small = bitcast(DType::UInt32, exact(Op::OpFMul, DType::Float32,
                                                  {exact(Op::OpConvertUToF, DType::Float32, {rest}),
                                                   real(DType::Float32, 0x1p-24)}));
    Id result = select(DType::UInt32, test(Op::OpULessThan, rest, u32(0x400)), small, normal);
    result =
        select(DType::UInt32, test(Op::OpUGreaterThanEqual, rest, u32(0x7c00)), special, result);
    // A signalling NaN becomes quiet.
    const Id quiet = word(Op::OpBitwiseOr, result, u32(0x400000));
    result = select(DType::UInt32, test(Op::OpUGreaterThan, rest, u32(0x7c00)), quiet, result);
    return bitcast(DType::Float32, word(Op::OpBitwiseOr, result, sign));
}

/// Adding 0.5 aligns a denormal result's last bit with a float's; the rest rounds by its bits.
Id Code::float_to_half(Id value) {
    const Id all = bitcast(DType::UInt32, value);
    const Id rest = word(Op::OpBitwiseAnd, all, u32(0x7fffffff));
    const Id sign =
        word(Op::OpBitwiseAnd, word(Op::OpShiftRightLogical, all, u32(16)), u32(0x8000));
    const Id aligned = exact(Op::OpFAdd, DType::Float32,
                             {bitcast(DType::Float32, rest), real(DType::Float32, 0.5)});
    const Id small = word(Op::OpISub, bitcast(DType::UInt32, aligned), u32(0x3f000000));
    const Id odd = word(Op::OpBitwiseAnd, word(Op::OpShiftRightLogical, rest, u32(13)), u32(1));
    Id normal = word(Op::OpIAdd, rest, word(Op::OpIAdd, odd, u32(0xfff)));
    normal = word(Op::OpShiftRightLogical, word(Op::OpISub, normal, u32(112u << 23)), u32(13));
    Id result = select(DType::UInt32, test(Op::OpULessThan, rest, u32(0x38800000)), small, normal);
    result = select(DType::UInt32, test(Op::OpUGreaterThanEqual, rest, u32(0x47800000)),
                    u32(0x7c00), result);
    const Id payload =
        word(Op::OpBitwiseAnd, word(Op::OpShiftRightLogical, rest, u32(13)), u32(0x3ff));
    const Id nan = word(Op::OpBitwiseOr, payload, u32(0x7e00));
    result = select(DType::UInt32, test(Op::OpUGreaterThan, rest, u32(0x7f800000)), nan, result);
    return resized(DType::UInt32, DType::UInt16, word(Op::OpBitwiseOr, result, sign));
}

Id Code::float_to_bfloat(Id value) {
    const Id all = bitcast(DType::UInt32, value);
    const Id high = word(Op::OpShiftRightLogical, all, u32(16));
    const Id odd = word(Op::OpBitwiseAnd, high, u32(1));
    const Id sum = word(Op::OpIAdd, all, word(Op::OpIAdd, odd, u32(0x7fff)));
    const Id rounded = word(Op::OpShiftRightLogical, sum, u32(16));
    const Id rest = word(Op::OpBitwiseAnd, all, u32(0x7fffffff));
    const Id is_nan = test(Op::OpUGreaterThan, rest, u32(0x7f800000));
    const Id nan = word(Op::OpBitwiseOr, high, u32(0x40));
    return resized(DType::UInt32, DType::UInt16, select(DType::UInt32, is_nan, nan, rounded));
}

/// An integer that is a float of its size, and rounds to a 16-bit float as the given one does: from
/// where floats have gaps, what 12 bits say is only whether they are 0. 16-bit floats are farther
/// apart there.
Id Code::sticky_integer(Id value, DType from) {
    const bool is_signed = is_signed_integer(from);
    const DType dtype = size_of(from) == 8 ? DType::UInt64 : DType::UInt32;
    const std::uint64_t exact = std::uint64_t{1} << (size_of(from) == 8 ? 53 : 24);
    const auto number = [&](std::uint64_t n) { return constant(dtype, n); };
    const Id shifted = is_signed ? binary(Op::OpIAdd, dtype, value, number(exact)) : value;
    const Id is_exact = test(Op::OpULessThanEqual, shifted, number(is_signed ? 2 * exact : exact));
    const Id low = binary(Op::OpBitwiseAnd, dtype, value, number(0xfff));
    const Id high = binary(Op::OpBitwiseAnd, dtype, value, number(~std::uint64_t{0xfff}));
    const Id between = binary(Op::OpBitwiseOr, dtype, high, number(0x800));
    const Id sticky = select(dtype, test(Op::OpIEqual, low, number(0)), high, between);
    return select(dtype, is_exact, value, sticky);
}

/// A float that rounds to a narrower format as the double does: where the double does not fit, the
/// neighbour of it whose last bit is set.
Id Code::sticky_float(Id value) {
    const Id near = exact(Op::OpFConvert, DType::Float32, {value});
    const Id back = exact(Op::OpFConvert, DType::Float64, {near});
    const Id all = bitcast(DType::UInt32, near);
    const Id odd = test(Op::OpINotEqual, word(Op::OpBitwiseAnd, all, u32(1)), u32(0));
    const Id is_exact = test(Op::OpFUnordEqual, back, value);
    // Of numbers of one sign.
    const auto magnitude = [&](Id x) {
        return binary(Op::OpBitwiseAnd, DType::UInt64, bitcast(DType::UInt64, x),
                      u64(~std::uint64_t{0} >> 1));
    };
    const Id below = test(Op::OpULessThan, magnitude(back), magnitude(value));
    const Id moved =
        word(Op::OpIAdd, all, select(DType::UInt32, below, u32(1), u32(~std::uint32_t{0})));
    return bitcast(DType::Float32, select(DType::UInt32, either(odd, is_exact), all, moved));
}

Id Code::saturate(Id value, DType from, DType to) {
    const bool is_signed = is_signed_integer(to);
    const auto width = int(bits(to));
    const double above = std::ldexp(1.0, is_signed ? width - 1 : width);
    const double least = is_signed ? -above : 0;
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - width);
    const std::uint64_t most = is_signed ? all >> 1 : all;
    const Id too_high = test(Op::OpFOrdGreaterThanEqual, value, real(from, above));
    const Id too_low = test(Op::OpFOrdLessThanEqual, value, real(from, least));
    const Id is_nan = test(Op::OpFUnordNotEqual, value, value);
    // What is out of range has no defined conversion.
    const Id inside = select(from, either(either(too_high, too_low), is_nan), real(from, 0), value);
    // No device must convert to integers narrower than 32 bits.
    const DType wide = width >= 32 ? to : is_signed ? DType::Int32 : DType::UInt32;
    Id result = exact(is_signed ? Op::OpConvertFToS : Op::OpConvertFToU, wide, {inside});
    if (wide != to) result = resized(wide, to, result);
    result = select(to, too_high, constant(to, most), result);
    return select(to, too_low, constant(to, is_signed ? most + 1 : 0), result);
}

}  // namespace quern::vulkan
