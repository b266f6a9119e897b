#pragma once

#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/module.h"
#include "quern/lir/lir.h"

namespace quern::vulkan {

/// An access of memory that others may touch too.
inline constexpr auto kNonPrivate = std::uint32_t(spv::MemoryAccessMask::NonPrivatePointer);

/// Instructions on scalars of dtypes. A bool is a bool as a value and 8 bits in memory; floats of
/// 16 bits are integers, since no device must have them, but while one that has them computes.
/// Integers of 8 and 16 bits that the device lacks are 32 bits, extended as their sign says.
class Code {
public:
    Code(Module& module, const Integers& integers) : m_(module), integers_(integers) {}

    Module& module() { return m_; }

    /// The type of a value, of the same in memory, and its bits.
    Id type(DType dtype);
    Id memory_type(DType dtype);
    static std::uint32_t bits(DType dtype);

    /// Whether values of the dtype are 32 bits though it has fewer.
    static bool is_widened(DType dtype, const Integers& integers);

    /// Whether memory has elements of the dtype's size.
    bool is_loaded(DType dtype) const;

    Id constant(DType dtype, std::uint64_t value);
    Id u32(std::uint32_t value) { return constant(DType::UInt32, value); }
    Id u64(std::uint64_t value) { return constant(DType::UInt64, value); }
    Id real(DType dtype, double value);

    Id unary(spv::Op op, DType dtype, Id a) { return m_.op(op, type(dtype), {a}); }
    Id binary(spv::Op op, DType dtype, Id a, Id b) { return m_.op(op, type(dtype), {a, b}); }

    /// An integer of some width in another; the upper bits of a narrower result go.
    Id resized(DType from, DType to, Id a);

    /// A value from the lower bits of a word of 32 bits, whose others do not matter, and such bits
    /// with zeros above them.
    Id from_word(DType dtype, Id word);
    Id to_word(DType dtype, Id value);

    /// What is left of 32 bits in the dtype, extended again.
    Id fit(DType dtype, Id a);
    Id test(spv::Op op, Id a, Id b) { return m_.op(op, m_.boolean(), {a, b}); }
    Id both(Id a, Id b) { return test(spv::Op::OpLogicalAnd, a, b); }
    Id either(Id a, Id b) { return test(spv::Op::OpLogicalOr, a, b); }
    Id negated(Id a) { return m_.op(spv::Op::OpLogicalNot, m_.boolean(), {a}); }
    Id select(DType dtype, Id condition, Id a, Id b) {
        return m_.op(spv::Op::OpSelect, type(dtype), {condition, a, b});
    }
    Id bitcast(DType to, Id a) { return m_.op(spv::Op::OpBitcast, type(to), {a}); }

    /// Of GLSL.std.450.
    Id function(std::uint32_t number, DType dtype, Id a);

    /// A sum, product, conversion, ... of floats that is never contracted with another: Mesa takes
    /// a double to a float and back for the double.
    Id exact(spv::Op op, DType dtype, std::initializer_list<Id> operands);

    /// The same of float16, on a device that has it: `operands` are of the device's type.
    Id half(spv::Op op, std::initializer_list<Id> operands);
    Id as_half(Id value);

    /// Those that legalised functions have: lir/legalise.h.
    Id cast(Id value, DType from, DType to);

private:
    bool is_widened(DType dtype) const { return is_widened(dtype, integers_); }

    Id half_type();

    Module& m_;
    Integers integers_;
};

}  // namespace quern::vulkan
