#pragma once

#include "quern/math/logarithm.h"
#include "quern/math/two_parts.h"

// pow, cbrt and rsqrt. |x|^y = 2^(y log2 |x|), with the logarithm and the product in two parts.

namespace quern::math {

template <class Element>
struct PowerTable;

template <>
struct PowerTable<float> {
    /// (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in s^2, minimax on |s| <= 0.1717: error below 2^-38.4 of
    /// 2 atanh(s).
    static constexpr std::array kAtanhTail = {0x1.99999ap-2, 0x1.249212p-2, 0x1.c7021cp-3,
                                              0x1.82b46ap-3};
    static constexpr double kTwoThirds = 0x1.555556p-1, kTwoThirdsLow = -0x1.5555555555555p-26;
    static constexpr double kLog2ENear = 0x1.715476p0, kLog2ERest = 0x1.4ae0bf85ddf44p-26;
};

template <>
struct PowerTable<double> {
    /// Error below 2^-66.2.
    static constexpr std::array kAtanhTail = {
        0x1.9999999999b32p-2, 0x1.2492492457978p-2, 0x1.c71c722dc4102p-3, 0x1.745ce9c1025a9p-3,
        0x1.3b1ef29cc1962p-3, 0x1.0f7f484073029p-3, 0x1.0e48ce947536p-3};
    static constexpr double kTwoThirds = 0x1.5555555555555p-1,
                            kTwoThirdsLow = 0x1.5555555555555p-55;
    static constexpr double kLog2ENear = kLog2E, kLog2ERest = 0x1.777d0ffda0d24p-56;
};

/// log2 of 2^k (1 + f), error about 2^-64 of it, for float 2^-36.
template <Value V>
TwoParts<V> log2_in_parts(Logarithm<V> p) {
    using Table = PowerTable<typename V::Element>;
    // s = f / (2 + f), in two parts.
    const TwoParts<V> divisor = ordered_sum(p.f.constant(2), p.f);
    const V s = p.f / divisor.high;
    const TwoParts<V> back = exact_product(s, divisor.high);
    const V s_low = (((p.f - back.high) - back.low) - s * divisor.low) / divisor.high;
    const TwoParts<V> root = ordered_sum(s, s_low);

    const TwoParts<V> square = product(root, root);
    const TwoParts<V> cube = product(root, square);
    const TwoParts<V> third = constant_parts(s, Table::kTwoThirds, Table::kTwoThirdsLow);
    const TwoParts<V> second = product(cube, third);
    const V tail = cube.high * square.high * polynomial(square.high, Table::kAtanhTail);

    const TwoParts<V> sum = ordered_sum(root.high + root.high, second.high);
    const TwoParts<V> natural =
        ordered_sum(sum.high, sum.low + ((root.low + root.low) + second.low + tail));
    const TwoParts<V> log2e = constant_parts(s, Table::kLog2ENear, Table::kLog2ERest);
    const TwoParts<V> binary = product(natural, log2e);
    const TwoParts<V> whole = ordered_sum(p.k, binary.high);
    return ordered_sum(whole.high, whole.low + binary.low);
}

/// size^y for size > 0; anything where size is infinite.
template <Value V>
V positive_power(V size, V y) {
    using Table = ExponentialTable<typename V::Element>;
    const TwoParts<V> logarithm = log2_in_parts(split(size));
    // Beyond 2^64 every power of a number other than 1 is 0 or infinite.
    const V times = clamped(y, -0x1p64, 0x1p64);
    const TwoParts<V> exact = exact_product(times, logarithm.high);
    const V low = multiply_add(times, logarithm.low, exact.low);
    const V near = clamped(exact.high, Table::kLeast2, Table::kMost2);
    const V rounded = near + kRounderOfHalves<V>;
    // What was clamped has no use for a low part, which may be large.
    const V rest = select(near == exact.high, low, 0.0);
    const V r = (near - (rounded - kRounderOfHalves<V>)) + rest;
    return scaled(multiply_add(r, polynomial(r, Table::kExp2), 1.0), rounded);
}

/// The special cases of C99, annex F.9.4.4.
template <Value V>
V pow(V x, V y) {
    const V size = abs(x);
    const auto falls = y < 0.0;
    const auto is_zero = size == 0.0;
    const auto is_end = is_zero | (size == kInfinity);
    const auto end_is_infinite = (is_zero & falls) | !(is_zero | falls);
    const V end = select(end_is_infinite, x.constant(kInfinity), x.constant(0));
    // The logarithm of 1 is 0, which has no product with infinity.
    const V magnitude = select(is_end, end, select(size == 1.0, 1.0, positive_power(size, y)));

    const V half = y * 0.5;
    const auto is_integer = floor(y) == y;
    const auto is_odd = is_integer & (floor(half) != half);
    const auto sign = sign_of(x);
    const V signed_power = with_sign(magnitude, select(is_odd, sign, sign.constant(0)));

    const auto is_undefined = (x < 0.0) & (x != -kInfinity) & !is_integer;
    const V real = select(is_undefined, kNan, signed_power);
    const V sum = x + y;
    const V number = select((x != x) | (y != y), sum, real);
    return select((y == 0.0) | (x == 1.0), 1.0, number);
}

/// cbrt(1 + f), minimax on [sqrt(1/2), sqrt(2)].
template <class Element>
struct CubeRootTable;

template <>
struct CubeRootTable<float> {
    /// Error below 2^-13.7 of it, and below 2^-41 after a step.
    static constexpr std::array kCbrt = {0x1.00048ap0, 0x1.55a118p-2, -0x1.d9f996p-4,
                                         0x1.dcf2a6p-5};
};

template <>
struct CubeRootTable<double> {
    /// Error below 2^-19.6 of it, and below 2^-59 after a step.
    static constexpr std::array kCbrt = {0x1.ffffdee369f19p-1,  0x1.5551eb9bda51ap-2,
                                         -0x1.c6824a034abd9p-4, 0x1.fe42af7025996p-5,
                                         -0x1.6edb344b9700bp-5, 0x1.b9a16ca88f25bp-6};
};

/// |x| = 2^(3 n + r) m with r of -1, 0 and 1: 2^n times the cube root of 2^r m, by a polynomial and
/// one step of Halley's method, y - y (y^3 - a) / (2 y^3 + a).
template <Value V>
V cbrt(V x) {
    using Table = CubeRootTable<typename V::Element>;
    constexpr double kRoot = 0x1.428a2f98d728bp0, kRootHalf = 0x1.965fea53d6e3dp-1;  // of 2, of 1/2
    const V size = abs(x);
    const Logarithm<V> p = split(size);
    const V rounded = multiply_add(p.k, 1.0 / 3, kRounderOfScale<V>);
    const V r = p.k - (rounded - kRounderOfScale<V>)*3.0;
    const auto is_more = r > 0.0, is_less = r < 0.0;
    const V m = p.f + 1.0, begin = polynomial(p.f, Table::kCbrt);
    const V a = select(is_more, m + m, select(is_less, m * 0.5, m));
    const V y = select(is_more, begin * kRoot, select(is_less, begin * kRootHalf, begin));
    const V cube = y * y * y;
    const V root = y - y * (cube - a) / (cube + cube + a);
    const V result = with_sign(root * scale_of(rounded), sign_of(x));
    return select((size > 0.0) & (size < kInfinity), result, x);
}

template <Value V>
V rsqrt(V x) {
    return 1.0 / sqrt(x);
}

}  // namespace quern::math
