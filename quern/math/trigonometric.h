#pragma once

#include "quern/math/argument_reduction.h"

// sin, cos, tan: of an angle in two parts, whose sine and cosine are in two parts too.

namespace quern::math {

/// (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 in r^2, minimax on |r| <= 0.786.
template <class Element>
struct TrigonometricTable;

template <>
struct TrigonometricTable<float> {
    /// Error below 2^-27.9 and 2^-32.9 of the function.
    static constexpr std::array kSin = {-0x1.555546p-3, 0x1.11077ap-7, -0x1.99549p-13};
    static constexpr std::array kCos = {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e81ap-16};
};

template <>
struct TrigonometricTable<double> {
    /// Error below 2^-57.9 and 2^-63.9 of the function.
    static constexpr std::array kSin = {-0x1.5555555555549p-3,  0x1.111111110f893p-7,
                                        -0x1.a01a019c1241ap-13, 0x1.71de3576de2a9p-19,
                                        -0x1.ae5e64c032dfbp-26, 0x1.5d9263d9e0c86p-33};
    static constexpr std::array kCos = {0x1.555555555554bp-5,  -0x1.6c16c16c15006p-10,
                                        0x1.a01a019c8ca19p-16, -0x1.27e4f7ef2b219p-22,
                                        0x1.1ee9d9dbc64a7p-29, -0x1.8fa55ea884debp-37};
};

/// Sine and cosine of the rest, each main + low.
template <Value V>
struct SineAndCosine {
    V sine, sine_low, cosine, cosine_low;
};

template <Value V>
SineAndCosine<V> sine_and_cosine(Angle<V> angle) {
    using Table = TrigonometricTable<typename V::Element>;
    const V r = angle.rest, low = angle.rest_low;
    const V z = r * r, half = z * 0.5;
    const V one_less = 1.0 - half;
    return {r, r * z * polynomial(z, Table::kSin) + low * one_less, one_less,
            ((1.0 - one_less) - half) + (z * z * polynomial(z, Table::kCos) - r * low)};
}

/// An integer below 2^22 in the lowest bits.
template <Value V>
typename V::Int integer_bits(V x) {
    return bits(x + FormatOf<V>::kRounder);
}

template <Value V>
typename V::Mask is_odd(typename V::Int i) {
    return (i & i.constant(1)) == i.constant(1);
}

/// A sign for the integers that are 2 or 3 modulo 4.
template <Value V>
typename V::Int second_half_sign(typename V::Int i) {
    return (i & i.constant(2)) << (sizeof(typename V::Element) * 8 - 2);
}

template <Value V>
V sin(V x) {
    const Angle<V> angle = angle_of(abs(x));
    const SineAndCosine<V> p = sine_and_cosine(angle);
    const auto q = integer_bits(angle.quarter);
    const V size = select(is_odd<V>(q), p.cosine + p.cosine_low, p.sine + p.sine_low);
    return with_sign(size, sign_of(x) ^ second_half_sign<V>(q));
}

template <Value V>
V cos(V x) {
    const Angle<V> angle = angle_of(abs(x));
    const SineAndCosine<V> p = sine_and_cosine(angle);
    const auto q = integer_bits(angle.quarter);
    const V size = select(is_odd<V>(q), p.sine + p.sine_low, p.cosine + p.cosine_low);
    return with_sign(size, second_half_sign<V>(q + q.constant(1)));
}

template <Value V>
V tan(V x) {
    const Angle<V> angle = angle_of(abs(x));
    const SineAndCosine<V> p = sine_and_cosine(angle);
    const TwoParts<V> sine = ordered_sum(p.sine, p.sine_low);
    const TwoParts<V> cosine = ordered_sum(p.cosine, p.cosine_low);
    const auto odd = is_odd<V>(integer_bits(angle.quarter));
    const V above = select(odd, -cosine.high, sine.high);
    const V above_low = select(odd, -cosine.low, sine.low);
    const V below = select(odd, sine.high, cosine.high);
    const V below_low = select(odd, sine.low, cosine.low);
    // One quotient in two parts.
    const V inverse = 1.0 / below;
    const V near = above * inverse;
    const TwoParts<V> back = exact_product(near, below);
    const V missing = (((above - back.high) - back.low) + above_low) - near * below_low;
    return with_sign(near + missing * inverse, sign_of(x));
}

}  // namespace quern::math
