#pragma once

#include "quern/math/exponential.h"

// sinh, cosh, tanh.

namespace quern::math {

/// (sinh(r) / r - 1) / r^2 and (cosh(r) - 1) / r^2 in r^2, minimax on |r| <= 0.562.
template <class Element>
struct HyperbolicTable;

template <>
struct HyperbolicTable<float> {
    /// Error below 2^-31.4 and 2^-28.5 of the function.
    static constexpr std::array kSinh = {0x1.555558p-3, 0x1.110e16p-7, 0x1.a3e294p-13};
    static constexpr std::array kCosh = {0x1.000004p-1, 0x1.554ffcp-5, 0x1.6fee82p-10};

    /// Above it sinh and cosh are infinite, tanh is 1.
    static constexpr double kMost = 89.5, kMostTanh = 9.5;

    /// (r coth r - 1) / r^2 in r^2 on |r| <= 0.26: error below 2^-24.8 of r coth r; minimax is
    /// 2^-25.3; these leave the least error of tanh.
    static constexpr std::array kCoth = {0x1.555466p-2, -0x1.690396p-6};
};

template <>
struct HyperbolicTable<double> {
    /// Error below 2^-63.6 and 2^-60.5 of the function.
    static constexpr std::array kSinh = {0x1.5555555555555p-3,  0x1.1111111111245p-7,
                                         0x1.a01a019fbd822p-13, 0x1.71de3b21d6165p-19,
                                         0x1.ae628d988ea45p-26, 0x1.631a7eeff201ep-33};
    static constexpr std::array kCosh = {0x1.ffffffffffffep-2,  0x1.5555555555915p-5,
                                         0x1.6c16c16b81181p-10, 0x1.a01a02f761cf5p-16,
                                         0x1.27e36d81b9c4fp-22, 0x1.20b332e805f1cp-29};
    static constexpr double kMost = 710.5, kMostTanh = 20;

    /// Minimax, error below 2^-59.3.
    static constexpr std::array kCoth = {0x1.5555555555552p-2,  -0x1.6c16c16c135d1p-6,
                                         0x1.1566abb5e1a17p-9,  -0x1.bbd75d1254c31p-13,
                                         0x1.66954ccf63902p-16, -0x1.1bbc452928b7ep-19};
};

/// |x| = k ln 2 + r. With a, b = 2^(k-2) -+ 2^(-k-2):
/// sinh |x| = 2 (a cosh r + b sinh r), cosh |x| = 2 (b cosh r + a sinh r).
template <Value V>
struct Hyperbolic {
    V a, b, sinh_r, cosh_r_minus_1;
};

template <Value V>
Hyperbolic<V> reduced_hyperbolic(V x) {
    using Table = HyperbolicTable<typename V::Element>;
    using Exp = ExponentialTable<typename V::Element>;
    using Form = FormatOf<V>;
    const V size = abs(x);
    const V t = select(size > Table::kMost, Table::kMost, size);
    // k is 0 up to |x| = 0.7 ln 2, since the terms of a sum cancel where k is 1 and r negative.
    const V rounded = multiply_add(t, kLog2E, -0.2) + Form::kRounder;
    const V n = rounded - Form::kRounder;
    const V r = multiply_add(n, -Exp::kLn2Low, multiply_add(n, -Exp::kLn2High, t));
    const V z = r * r;

    const auto i = bits(rounded);
    const auto k = i - i.constant(Form::kRounderBits);
    const auto middle = i.constant(Form::kBias - 2);
    const V grows = power_of_two<V>(middle + k);
    // From k = 64 on the other power is too small to matter.
    const V falls = power_of_two<V>(select(k < i.constant(64), middle - k, i.constant(0)));
    return {grows - falls, grows + falls, multiply_add(r * z, polynomial(z, Table::kSinh), r),
            z * polynomial(z, Table::kCosh)};
}

template <Value V>
V sinh(V x) {
    const Hyperbolic<V> h = reduced_hyperbolic(x);
    const V half = h.a + multiply_add(h.a, h.cosh_r_minus_1, h.b * h.sinh_r);
    return with_sign(half + half, sign_of(x));
}

template <Value V>
V cosh(V x) {
    const Hyperbolic<V> h = reduced_hyperbolic(x);
    const V half = h.b + multiply_add(h.b, h.cosh_r_minus_1, h.a * h.sinh_r);
    return half + half;
}

/// |x| = k ln 2 / 2 + r. With q = r coth r, e^(2 r) is (q + r) / (q - r), so that
/// tanh |x| = (r + (2^k - 1) / 2 (q + r)) / (q + (2^k - 1) / 2 (q + r)), which is r / q where k is
/// 0. The denominator is the numerator and q - r: as their sum it follows the numerator's error, of
/// which 1 - tanh |x| is left. Errors of k ln 2 / 2 count for less than k grows, so that it need
/// not be in two parts.
template <Value V>
V tanh(V x) {
    using Table = HyperbolicTable<typename V::Element>;
    using Form = FormatOf<V>;
    constexpr double kHalfLn2 = 0x1.62e42fefa39efp-2;
    const V size = abs(x);
    const V clamped = select(size > Table::kMostTanh, Table::kMostTanh, size);
    // k is 0 up to |x| = 0.75 ln 2 / 2, since terms of a sum cancel where k is 1 and r negative:
    // what is rounded to halves is cut to an integer. The lowest bits are the exponent of 2^(k-1).
    constexpr double rounder = Form::kRounder / 2 + double(Form::kBias - 1);
    const auto halves = bits(multiply_add(clamped, 2 * kLog2E, rounder));
    const auto whole = halves & halves.constant(-2);
    const V r = multiply_add(from_bits(whole) - rounder, -kHalfLn2, clamped);
    const V z = r * r;
    const V q = multiply_add(polynomial(z, Table::kCoth), z, 1.0);
    const V half_scale = from_bits(whole << (Form::kMantissaBits - 1));
    const V over = multiply_add(half_scale - 0.5, q + r, r);
    const V under = over + (q - r);
    return with_sign(over / under, sign_of(x));
}

}  // namespace quern::math
