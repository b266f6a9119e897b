#pragma once

#include "quern/math/value.h"

// asin, acos, atan: odd polynomials around 0, and identities that lead there. Constants are in two
// parts, so that what is taken from them is as accurate as they are.

namespace quern::math {

template <class Element>
struct InverseTrigonometricTable;

template <>
struct InverseTrigonometricTable<float> {
    /// (asin(r) / r - 1) / r^2 in r^2, minimax on |r| <= 1/2: error below 2^-27.5 of asin.
    static constexpr std::array kAsin = {0x1.5555cap-3, 0x1.33016cp-4, 0x1.7489e6p-5, 0x1.8bb842p-6,
                                         0x1.59c9d8p-5};

    /// (atan(r) / r - 1) / r^2 in r^2, minimax on |r| <= 1/2: error below 2^-31.7 of atan.
    static constexpr std::array kAtan = {-0x1.555552p-2, 0x1.999748p-3,  -0x1.24509cp-3,
                                         0x1.c07a58p-4,  -0x1.482ca4p-4, 0x1.402e72p-5};
    static constexpr double kHalfPi = 0x1.921fb4p0, kHalfPiRest = 0x1.4442d18469899p-24;
};

template <>
struct InverseTrigonometricTable<double> {
    /// Error below 2^-55.8 of asin.
    static constexpr std::array kAsin = {
        0x1.5555555555387p-3, 0x1.333333336f87cp-4, 0x1.6db6db41d459ap-5,  0x1.f1c72c6d2536p-6,
        0x1.6e89ef7dd8c59p-6, 0x1.1c6c278083131p-6, 0x1.c6f8829f6097cp-7,  0x1.8ee485e5f325ep-7,
        0x1.aab4c9efb1782p-8, 0x1.40b11cbfed46bp-6, -0x1.0af3a02f91cc5p-6, 0x1.05cdf04fb5deap-5};

    /// Error below 2^-62 of atan.
    static constexpr std::array kAtan = {
        -0x1.5555555555552p-2, 0x1.99999999990e9p-3, -0x1.24924924540a5p-3, 0x1.c71c71ab37ce8p-4,
        -0x1.745d1397d6012p-4, 0x1.3b13614f51388p-4, -0x1.110c78b1a82dcp-4, 0x1.e18353dc7aaacp-5,
        -0x1.ac7567e4ab7fcp-5, 0x1.780659276c2a6p-5, -0x1.3035c0cf2f33fp-5, 0x1.83ed6d31b294dp-6,
        -0x1.12913fb756eb8p-7};
    static constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;
};

/// asin r = r + excess, where r = |x| up to 1/2; beyond it asin |x| = pi/2 - 2 asin r and
/// r = sqrt((1 - |x|) / 2), of which 1 - |x| is exact. NaN where |x| > 1.
template <Value V>
struct HalfAngle {
    typename V::Mask is_far;
    V r, excess;
};

template <Value V>
HalfAngle<V> half_angle(V x) {
    using Table = InverseTrigonometricTable<typename V::Element>;
    const V size = abs(x);
    const auto is_far = size > 0.5;
    const V z = select(is_far, (1.0 - size) * 0.5, size * size);
    const V r = select(is_far, sqrt(z), size);
    return {is_far, r, r * z * polynomial(z, Table::kAsin)};
}

template <Value V>
V asin(V x) {
    using Table = InverseTrigonometricTable<typename V::Element>;
    const HalfAngle<V> h = half_angle(x);
    // pi/2 - 2 r - 2 excess, where the first difference of quarters is nearly always exact.
    const V low = x.constant(Table::kHalfPiRest) - (h.excess + h.excess);
    const V far = (Table::kHalfPi / 2 - (h.r + h.r)) + (low + Table::kHalfPi / 2);
    return with_sign(select(h.is_far, far, h.r + h.excess), sign_of(x));
}

template <Value V>
V acos(V x) {
    using Table = InverseTrigonometricTable<typename V::Element>;
    const HalfAngle<V> h = half_angle(x);
    const V rest = x.constant(Table::kHalfPiRest);
    const V signed_r = with_sign(h.r, sign_of(x)), excess = with_sign(h.excess, sign_of(x));
    const V near = Table::kHalfPi - (signed_r + (excess - rest));
    const V far = h.r + h.excess;
    const V beyond = Table::kHalfPi - (h.r + (h.excess - rest));
    const V half = select(x < 0.0, beyond, far);
    return select(h.is_far, half + half, near);
}

/// atan |x| = atan a + atan t with a of 0, 1 and infinity, and t = (|x| - a) / (1 + a |x|), at most
/// 1/2. From 1/2 on |x| - 1 is exact.
template <Value V>
V atan(V x) {
    using Table = InverseTrigonometricTable<typename V::Element>;
    const V size = abs(x);
    const auto is_middle = size > 0.5, is_far = size > 2.0;
    const V one = x.constant(1), zero = x.constant(0);
    const V over = select(is_far, -one, select(is_middle, size - 1.0, size));
    const V under = select(is_far, size, select(is_middle, size + 1.0, one));
    const V high = select(is_far, Table::kHalfPi, select(is_middle, Table::kHalfPi / 2, zero));
    const V low =
        select(is_far, Table::kHalfPiRest, select(is_middle, Table::kHalfPiRest / 2, zero));
    const V t = over / under;
    const V z = t * t;
    const V excess = multiply_add(t * z, polynomial(z, Table::kAtan), low);
    return with_sign(high + (t + excess), sign_of(x));
}

}  // namespace quern::math
