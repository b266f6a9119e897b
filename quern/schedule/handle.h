#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "quern/math/argument_reduction.h"
#include "quern/math/exponential.h"
#include "quern/schedule/functions.h"

// Values of quern/math that stand for instructions: the functions written there become LIR. They
// are of that namespace, so that its functions are found for them.

namespace quern::math {

using schedule::FunctionPlace;

template <class Element>
inline constexpr bool kIsFloat = std::is_same_v<Element, float>;

struct MaskHandle {
    const FunctionPlace* place;
    lir::ValueId id;

    friend MaskHandle operator&(MaskHandle a, MaskHandle b) {
        return {a.place, a.place->builder.binary(lir::Op::And, a.id, b.id)};
    }
    friend MaskHandle operator|(MaskHandle a, MaskHandle b) {
        return {a.place, a.place->builder.binary(lir::Op::Or, a.id, b.id)};
    }
    friend MaskHandle operator!(MaskHandle a) {
        return {a.place, a.place->builder.unary(lir::Op::Not, a.id)};
    }
};

template <class E>
struct IntHandle {
    static constexpr DType kDType = kIsFloat<E> ? DType::Int32 : DType::Int64;

    const FunctionPlace* place;
    lir::ValueId id;

    IntHandle constant(std::int64_t value) const {
        return {place, place->builder.constant(kDType, std::uint64_t(value))};
    }
    IntHandle with(lir::Op op, IntHandle other) const {
        return {place, place->builder.binary(op, id, other.id)};
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
        return {a.place, a.place->builder.compare(lir::Op::Less, a.id, b.id)};
    }
    friend MaskHandle operator==(IntHandle a, IntHandle b) {
        return {a.place, a.place->builder.compare(lir::Op::Equal, a.id, b.id)};
    }
    friend IntHandle select(MaskHandle m, IntHandle a, IntHandle b) {
        return {a.place, a.place->builder.select(m.id, a.id, b.id)};
    }
};

template <class E>
struct Handle {
    using Element = E;
    using Int = IntHandle<E>;
    using Mask = MaskHandle;
    static constexpr DType kDType = kIsFloat<E> ? DType::Float32 : DType::Float64;

    const FunctionPlace* place;
    lir::ValueId id;

    Handle constant(double value) const {
        using Bits = std::conditional_t<kIsFloat<E>, std::uint32_t, std::uint64_t>;
        return {place, place->builder.constant(kDType, std::bit_cast<Bits>(static_cast<E>(value)))};
    }
    Handle with(lir::Op op, Handle other) const {
        return {place, place->builder.binary(op, id, other.id)};
    }
    Handle with(lir::Op op) const { return {place, place->builder.unary(op, id)}; }
    Mask compare(lir::Op op, Handle other) const {
        return {place, place->builder.compare(op, id, other.id)};
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
    friend Handle multiply_add(Handle a, Handle b, Handle c) {
        if (!a.place->fuses) return a * b + c;
        return {a.place, a.place->builder.fma(a.id, b.id, c.id)};
    }
    friend Handle abs(Handle a) { return a.with(lir::Op::Abs); }
    friend Handle sqrt(Handle a) { return a.with(lir::Op::Sqrt); }
    friend Handle floor(Handle a) { return a.with(lir::Op::Floor); }
    friend Handle round_even(Handle a) { return a.with(lir::Op::RoundEven); }
    friend Handle select(Mask m, Handle a, Handle b) {
        return {a.place, a.place->builder.select(m.id, a.id, b.id)};
    }
    friend Int bits(Handle a) { return {a.place, a.place->builder.bitcast(a.id, Int::kDType)}; }
};

template <class E>
Handle<E> scaled(Handle<E> x, Handle<E> rounded) {
    if (!x.place->scales) return scaled_by_halves(x, rounded);
    return x.with(lir::Op::Scale, rounded - kRounderOfHalves<Handle<E>>);
}

template <class E>
Handle<E> scaled_sum(Handle<E> x, Handle<E> rounded) {
    return x.place->scales ? scaled(x + 1.0, rounded) : scaled_sum_by_halves(x, rounded);
}

template <class E>
Handle<E> rest_of_product(Handle<E> x, Handle<E> y, Handle<E> product) {
    if (!x.place->fuses) return rest_by_halves(x, y, product);
    return multiply_add(x, y, -product);
}

/// A branch that is taken where it is needed in any lane.
template <class E, class Rare>
Angle<Handle<E>> rarely(MaskHandle m, Angle<Handle<E>> common, Rare rare) {
    lir::Builder& b = m.place->builder;
    Handle<E>* const values[] = {&common.quarter, &common.rest, &common.rest_low};
    std::array<lir::ValueId, 3> results;
    for (std::size_t i = 0; i < 3; ++i) results[i] = b.reg(values[i]->id);
    b.begin_if(b.any(m.id));
    const Angle<Handle<E>> chosen = select(m, rare(), common);
    const Handle<E>* const others[] = {&chosen.quarter, &chosen.rest, &chosen.rest_low};
    for (std::size_t i = 0; i < 3; ++i) b.set(results[i], others[i]->id);
    b.end_if();
    for (std::size_t i = 0; i < 3; ++i) values[i]->id = b.get(results[i]);
    return common;
}

template <class E>
Handle<E> from_bits(IntHandle<E> i) {
    return {i.place, i.place->builder.bitcast(i.id, Handle<E>::kDType)};
}

}  // namespace quern::math
