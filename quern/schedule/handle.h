#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "quern/lir/builder.h"
#include "quern/math/value.h"

// Values of quern/math that stand for instructions: the functions written there become LIR. They
// are of that namespace, so that its functions are found for them.

namespace quern::math {

template <class Element>
inline constexpr bool kIsFloat = std::is_same_v<Element, float>;

struct MaskHandle {
    lir::Builder* builder;
    lir::ValueId id;

    friend MaskHandle operator&(MaskHandle a, MaskHandle b) {
        return {a.builder, a.builder->binary(lir::Op::And, a.id, b.id)};
    }
    friend MaskHandle operator|(MaskHandle a, MaskHandle b) {
        return {a.builder, a.builder->binary(lir::Op::Or, a.id, b.id)};
    }
    friend MaskHandle operator!(MaskHandle a) {
        return {a.builder, a.builder->unary(lir::Op::Not, a.id)};
    }
};

template <class E>
struct IntHandle {
    static constexpr DType kDType = kIsFloat<E> ? DType::Int32 : DType::Int64;

    lir::Builder* builder;
    lir::ValueId id;

    IntHandle constant(std::int64_t value) const {
        return {builder, builder->constant(kDType, std::uint64_t(value))};
    }
    IntHandle with(lir::Op op, IntHandle other) const {
        return {builder, builder->binary(op, id, other.id)};
    }

    friend IntHandle operator+(IntHandle a, IntHandle b) { return a.with(lir::Op::Add, b); }
    friend IntHandle operator-(IntHandle a, IntHandle b) { return a.with(lir::Op::Sub, b); }
    friend IntHandle operator&(IntHandle a, IntHandle b) { return a.with(lir::Op::And, b); }
    friend IntHandle operator|(IntHandle a, IntHandle b) { return a.with(lir::Op::Or, b); }
    friend IntHandle operator^(IntHandle a, IntHandle b) { return a.with(lir::Op::Xor, b); }
    friend IntHandle operator<<(IntHandle a, int n) {
        return a.with(lir::Op::ShiftLeft, a.constant(n));
    }
    friend IntHandle operator>>(IntHandle a, int n) {
        return a.with(lir::Op::ShiftRight, a.constant(n));
    }
    friend MaskHandle operator<(IntHandle a, IntHandle b) {
        return {a.builder, a.builder->compare(lir::Op::Less, a.id, b.id)};
    }
    friend MaskHandle operator==(IntHandle a, IntHandle b) {
        return {a.builder, a.builder->compare(lir::Op::Equal, a.id, b.id)};
    }
    friend IntHandle select(MaskHandle m, IntHandle a, IntHandle b) {
        return {a.builder, a.builder->select(m.id, a.id, b.id)};
    }
};

template <class E>
struct Handle {
    using Element = E;
    using Int = IntHandle<E>;
    using Mask = MaskHandle;
    static constexpr DType kDType = kIsFloat<E> ? DType::Float32 : DType::Float64;

    lir::Builder* builder;
    lir::ValueId id;

    Handle constant(double value) const {
        using Bits = std::conditional_t<kIsFloat<E>, std::uint32_t, std::uint64_t>;
        return {builder, builder->constant(kDType, std::bit_cast<Bits>(static_cast<E>(value)))};
    }
    Handle with(lir::Op op, Handle other) const {
        return {builder, builder->binary(op, id, other.id)};
    }
    Handle with(lir::Op op) const { return {builder, builder->unary(op, id)}; }
    Mask compare(lir::Op op, Handle other) const {
        return {builder, builder->compare(op, id, other.id)};
    }

    friend Handle operator+(Handle a, Handle b) { return a.with(lir::Op::Add, b); }
    friend Handle operator-(Handle a, Handle b) { return a.with(lir::Op::Sub, b); }
    friend Handle operator*(Handle a, Handle b) { return a.with(lir::Op::Mul, b); }
    friend Handle operator/(Handle a, Handle b) { return a.with(lir::Op::Div, b); }
    friend Handle operator-(Handle a) { return a.with(lir::Op::Neg); }
    friend Mask operator<(Handle a, Handle b) { return a.compare(lir::Op::Less, b); }
    friend Mask operator<=(Handle a, Handle b) { return a.compare(lir::Op::LessEqual, b); }
    friend Mask operator>(Handle a, Handle b) { return b.compare(lir::Op::Less, a); }
    friend Mask operator>=(Handle a, Handle b) { return b.compare(lir::Op::LessEqual, a); }
    friend Mask operator==(Handle a, Handle b) { return a.compare(lir::Op::Equal, b); }
    friend Mask operator!=(Handle a, Handle b) { return a.compare(lir::Op::NotEqual, b); }
    friend Handle abs(Handle a) { return a.with(lir::Op::Abs); }
    friend Handle sqrt(Handle a) { return a.with(lir::Op::Sqrt); }
    friend Handle floor(Handle a) { return a.with(lir::Op::Floor); }
    friend Handle round_even(Handle a) { return a.with(lir::Op::RoundEven); }
    friend Handle select(Mask m, Handle a, Handle b) {
        return {a.builder, a.builder->select(m.id, a.id, b.id)};
    }
    friend Int bits(Handle a) { return {a.builder, a.builder->bitcast(a.id, Int::kDType)}; }
};

template <class E>
Handle<E> from_bits(IntHandle<E> i) {
    return {i.builder, i.builder->bitcast(i.id, Handle<E>::kDType)};
}

inline Handle<double> widen(Handle<float> x) {
    return {x.builder, x.builder->cast(x.id, DType::Float64)};
}
inline Handle<float> narrow(Handle<double> x) {
    return {x.builder, x.builder->cast(x.id, DType::Float32)};
}

}  // namespace quern::math
