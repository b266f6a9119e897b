#pragma once

#include <cstdint>

#include "quern/lir/builder.h"

namespace quern::lir {

/// A number that a builder writes of, with the operators of C++.
struct Word {
    Builder* b;
    ValueId id;

    DType dtype() const { return b->type(id).dtype; }
    Word of(std::uint64_t bits) const { return {b, b->constant(dtype(), bits)}; }
    Word as(DType to) const { return {b, b->cast(id, to)}; }
    Word bits_as(DType to) const { return {b, b->bitcast(id, to)}; }

    /// Of an int32 that is not below 0, which takes a device without integers of 64 bits nothing.
    Word widened() const { return as(DType::UInt32).as(DType::UInt64); }

    Word with(Op op, Word other) const { return {b, b->binary(op, id, other.id)}; }
    Word is(Op op, Word other) const { return {b, b->compare(op, id, other.id)}; }

    friend Word operator+(Word x, Word y) { return x.with(Op::Add, y); }
    friend Word operator-(Word x, Word y) { return x.with(Op::Sub, y); }
    friend Word operator*(Word x, Word y) { return x.with(Op::Mul, y); }
    friend Word operator&(Word x, Word y) { return x.with(Op::And, y); }
    friend Word operator|(Word x, Word y) { return x.with(Op::Or, y); }
    friend Word operator^(Word x, Word y) { return x.with(Op::Xor, y); }
    friend Word operator<<(Word x, Word y) { return x.with(Op::ShiftLeft, y); }
    friend Word operator>>(Word x, Word y) { return x.with(Op::ShiftRight, y); }
    friend Word operator<(Word x, Word y) { return x.is(Op::Less, y); }
    friend Word operator<=(Word x, Word y) { return x.is(Op::LessEqual, y); }
    friend Word operator==(Word x, Word y) { return x.is(Op::Equal, y); }
    friend Word operator!=(Word x, Word y) { return x.is(Op::NotEqual, y); }
    Word operator!() const { return {b, b->unary(Op::Not, id)}; }

    // With integers

    friend Word operator+(Word x, std::int64_t n) { return x + x.of(std::uint64_t(n)); }
    friend Word operator-(Word x, std::int64_t n) { return x - x.of(std::uint64_t(n)); }
    friend Word operator&(Word x, std::uint64_t n) { return x & x.of(n); }
    friend Word operator|(Word x, std::uint64_t n) { return x | x.of(n); }
    friend Word operator^(Word x, std::uint64_t n) { return x ^ x.of(n); }
    friend Word operator<<(Word x, int n) { return x << x.of(std::uint64_t(n)); }
    friend Word operator>>(Word x, int n) { return x >> x.of(std::uint64_t(n)); }
    friend Word operator<(Word x, std::uint64_t n) { return x < x.of(n); }
    friend Word operator<=(Word x, std::uint64_t n) { return x <= x.of(n); }
    friend Word operator==(Word x, std::uint64_t n) { return x == x.of(n); }
    friend Word operator!=(Word x, std::uint64_t n) { return x != x.of(n); }

    friend Word select(Word condition, Word x, Word y) {
        return {x.b, x.b->select(condition.id, x.id, y.id)};
    }
    friend Word at_least(Word x, std::int64_t n) { return x.with(Op::Max, x.of(std::uint64_t(n))); }
    friend Word at_most(Word x, std::uint64_t n) { return x.with(Op::Min, x.of(n)); }
};

}  // namespace quern::lir
