#pragma once

#include "quern/math/value.h"

// exp, exp2, expm1, and the reduced exponential that erf uses.
//
// x = k ln 2 + r with k the nearest integer, r in two parts of ln 2 (Cody & Waite, "Software Manual
// for the Elementary Functions", 1980): the product of k and the first is exact. The polynomials
// are minimax (Remez' exchange, coefficients rounded one by one from the lowest and the others
// fitted again); the bounds are those of the rounded coefficients.

namespace quern::math {

inline constexpr double kLog2E = 0x1.71547652b82fep0;

/// ln 2 = high + low, (e^r - 1 - r) / r^2 and (2^r - 1) / r, and where results no longer differ.
template <class Element>
struct ExponentialTable;

template <>
struct ExponentialTable<float> {
    static constexpr double kLn2High = 0x1.62e4p-1;
    static constexpr double kLn2Low = 0x1.7f7d1cf79abcap-20;

    /// On |r| <= ln 2 / 2: error below 2^-28.0 e^r.
    static constexpr std::array kExp = {0x1.fffffcp-2, 0x1.55548cp-3, 0x1.5558a8p-5, 0x1.123d0ep-7,
                                        0x1.6a3428p-10};

    /// On |r| <= 1/2: error below 2^-26.2 2^r.
    static constexpr std::array kExp2 = {0x1.62e43p-1, 0x1.ebfb94p-3,  0x1.c6af9ep-5,
                                         0x1.3b68p-7,  0x1.5ef4dap-10, 0x1.17b882p-13};

    static constexpr double kLeast = -104, kMost = 89;
    static constexpr double kLeast2 = -151, kMost2 = 129;
};

template <>
struct ExponentialTable<double> {
    static constexpr double kLn2High = 0x1.62e42fefa4p-1;
    static constexpr double kLn2Low = -0x1.8432a1b0e2634p-43;

    /// Error below 2^-57.1 e^r.
    static constexpr std::array kExp = {
        0x1.000000000000ap-1,  0x1.55555555554eap-3,  0x1.555555555057ep-5, 0x1.1111111122543p-7,
        0x1.6c16c1852784bp-10, 0x1.a01a016f5a762p-13, 0x1.a019967ed09ep-16, 0x1.71de3fd79c291p-19,
        0x1.28b166f2f3f5p-22,  0x1.af5367cc7fb12p-26};

    /// Error below 2^-56.8 2^r.
    static constexpr std::array kExp2 = {
        0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5b3p-3,  0x1.c6b08d704a26ep-5,  0x1.3b2ab6fb9db19p-7,
        0x1.5d87fe78462d7p-10, 0x1.43091315e8d7cp-13, 0x1.ffcbfe5e8c9d9p-17, 0x1.62bfb76cbe3d4p-20,
        0x1.b520a86514748p-24, 0x1.e634c3019c33bp-28, 0x1.f083f55da57dp-32};

    static constexpr double kLeast = -746, kMost = 710;
    static constexpr double kLeast2 = -1076, kMost2 = 1025;
};

/// As kRounder, but the lowest bits are k + bias, of which scale_of makes 2^k by a shift.
template <class V>
inline constexpr double kRounderOfScale = FormatOf<V>::kRounder + double(FormatOf<V>::kBias);

/// As kRounder, but the lowest bits are k + 2 bias, of which halves_of makes two powers.
template <class V>
inline constexpr double kRounderOfHalves = FormatOf<V>::kRounder + 2 * double(FormatOf<V>::kBias);

/// e^x = 2^k (1 + fraction). k is in the lowest bits of `rounded` as the rounder says.
template <Value V>
struct Exponential {
    V rounded;
    V fraction;
};

template <Value V>
Exponential<V> reduced_exp(V x, double rounder) {
    using Table = ExponentialTable<typename V::Element>;
    const V rounded = multiply_add(x, kLog2E, rounder);
    const V k = rounded - rounder;
    const V r = multiply_add(k, -Table::kLn2Low, multiply_add(k, -Table::kLn2High, x));
    return {rounded, multiply_add(r * r, polynomial(r, Table::kExp), r)};
}

/// 2^k for k by kRounderOfScale, where that is a normal number.
template <Value V>
V scale_of(V rounded) {
    return power_of_two<V>(bits(rounded));
}

/// Two normal numbers, of which 2^k is the product.
template <Value V>
struct Halves {
    V first, second;
};

/// Of k by kRounderOfHalves. (k + 2 bias) / 2 is the first one's exponent and the rest the other's.
template <Value V>
Halves<V> halves_of(V rounded) {
    using Form = FormatOf<V>;
    const auto i = bits(rounded);
    const std::int64_t exponents = 2 * Form::kBias + 1;
    const auto first =
        i << (Form::kMantissaBits - 1) & i.constant(exponents << Form::kMantissaBits);
    return {from_bits(first), from_bits((i << Form::kMantissaBits) - first)};
}

template <Value V>
V scaled_by_halves(V x, V rounded) {
    const Halves<V> power = halves_of(rounded);
    return x * power.first * power.second;
}

template <Value V>
V scaled_sum_by_halves(V x, V rounded) {
    const Halves<V> power = halves_of(rounded);
    return multiply_add(x, power.first, power.first) * power.second;
}

/// 2^k x rounded once, also where 2^k or the result is no normal number, for k by kRounderOfHalves.
/// Who has an operation for it may overload this and `scaled_sum`.
template <Value V>
V scaled(V x, V rounded) {
    return scaled_by_halves(x, rounded);
}

/// The bits of scaled(x + 1).
template <Value V>
V scaled_sum(V x, V rounded) {
    return scaled_sum_by_halves(x, rounded);
}

/// x brought into [least, most]; NaN stays.
template <Value V>
V clamped(V x, double least, double most) {
    const V above = select(x < least, least, x);
    return select(above > most, most, above);
}

template <Value V>
V exp(V x) {
    using Table = ExponentialTable<typename V::Element>;
    const Exponential<V> e =
        reduced_exp(clamped(x, Table::kLeast, Table::kMost), kRounderOfHalves<V>);
    return scaled_sum(e.fraction, e.rounded);
}

/// 2^k e^r - 1 = 2^k r + (2^k - 1) + 2^k (e^r - 1 - r). Of the first sum, in which much cancels
/// where k is 1 or -1, nothing is lost, and r has a second part. All of it is halved, as 2^k may be
/// more than the largest number.
template <Value V>
V expm1(V x) {
    using Table = ExponentialTable<typename V::Element>;
    const V t = clamped(x, Table::kLeast, Table::kMost);
    const V rounded = multiply_add(t, kLog2E, FormatOf<V>::kRounder);
    const V k = rounded - FormatOf<V>::kRounder;
    const V high = multiply_add(k, -Table::kLn2High, t), low = k * Table::kLn2Low;
    const V r = high - low;
    const V excess = multiply_add(r * r, polynomial(r, Table::kExp), (high - r) - low);
    const auto i = bits(rounded);
    const auto biased = i + i.constant(FormatOf<V>::kBias - 1 - FormatOf<V>::kRounderBits);
    // Below 2^-80 nothing is left of e^x beside -1.
    const V half = power_of_two<V>(select(biased < i.constant(FormatOf<V>::kBias - 80),
                                          i.constant(FormatOf<V>::kBias - 80), biased));
    const V main = half * r;
    const V begin = half - 0.5;
    const V sum = begin + main;
    const V result = sum + multiply_add(half, excess, main - (sum - begin));
    return select(abs(x) < FormatOf<V>::kTiny, x, result + result);
}

template <Value V>
V exp2(V x) {
    using Table = ExponentialTable<typename V::Element>;
    const V near = clamped(x, Table::kLeast2, Table::kMost2);
    const V rounded = near + kRounderOfHalves<V>;
    const V r = near - (rounded - kRounderOfHalves<V>);
    return scaled(multiply_add(r, polynomial(r, Table::kExp2), 1.0), rounded);
}

}  // namespace quern::math
