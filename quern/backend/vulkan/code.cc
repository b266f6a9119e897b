#include "quern/backend/vulkan/code.h"

#include <bit>
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

bool Code::is_widened(DType dtype, const Integers& integers) {
    return (bits(dtype) == 8 && !integers.has_8) || (bits(dtype) == 16 && !integers.has_16);
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
    return fit(to, unary(is_signed_integer(from) ? Op::OpSConvert : Op::OpUConvert, to, a));
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

Id Code::half_type() {
    m_.capability(spv::Capability::Float16);
    return m_.real(16);
}

Id Code::as_half(Id value) { return m_.op(Op::OpBitcast, half_type(), {value}); }

Id Code::half(Op op, std::initializer_list<Id> operands) {
    const Id result = m_.op(op, half_type(), operands);
    m_.decorate(result, spv::Decoration::NoContraction);
    return bitcast(DType::Float16, result);
}

Id Code::cast(Id value, DType from, DType to) {
    if (from == to) return value;
    if (from == DType::Float16 && to == DType::Float32) {
        return exact(Op::OpFConvert, to, {as_half(value)});
    }
    if (from == DType::Float32 && to == DType::Float16) return half(Op::OpFConvert, {value});
    const bool from_real = is_floating(from), to_real = is_floating(to);
    if (from == DType::Bool) {
        return select(to, value, to_real ? real(to, 1) : constant(to, 1), constant(to, 0));
    }
    QUERN_CHECK(!is_narrow(from) && !is_narrow(to) && to != DType::Bool, "casts that are legal");
    if (from_real && to_real) return exact(Op::OpFConvert, to, {value});
    if (from_real) {
        return exact(is_signed_integer(to) ? Op::OpConvertFToS : Op::OpConvertFToU, to, {value});
    }
    if (!to_real) return resized(from, to, value);
    if (from == DType::UInt32 && to == DType::Float32) {
        // SwiftShader rounds twice. Both halves are exact, and so is their multiple.
        const Id high = m_.op(Op::OpShiftRightLogical, type(from), {value, constant(from, 16)});
        const Id low = m_.op(Op::OpBitwiseAnd, type(from), {value, constant(from, 0xFFFF)});
        const Id whole =
            exact(Op::OpFMul, to, {exact(Op::OpConvertUToF, to, {high}), real(to, 65536)});
        return exact(Op::OpFAdd, to, {whole, exact(Op::OpConvertUToF, to, {low})});
    }
    return exact(is_signed_integer(from) ? Op::OpConvertSToF : Op::OpConvertUToF, to, {value});
}

}  // namespace quern::vulkan
