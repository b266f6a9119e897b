#pragma once

#include "quern/math/logarithm.h"

// asinh, acosh, atanh as logarithms of 1 + y, with y in two parts: what y has lost when it was
// rounded counts where the logarithm is small.

namespace quern::math {

/// Above it asinh and acosh are log 2 |x|, and the square of x may overflow.
inline constexpr double kAreaBig = 0x1p30;

/// log(1 + y), and log 2 |x| where x is big.
template <Value V>
V area_logarithm(typename V::Mask is_big, V size, TwoParts<V> y) {
    const V zero = size.constant(0), one = size.constant(1);
    return log_of_sum(select(is_big, size, y.high), select(is_big, -one, y.low),
                      select(is_big, one, zero));
}

/// asinh |x| = log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))).
template <Value V>
V asinh(V x) {
    const V size = abs(x);
    const auto is_big = size > kAreaBig;
    const V a = select(is_big, 1.0, size);
    const V square = a * a;
    const V y = square / (sqrt(square + 1.0) + 1.0);
    return with_sign(area_logarithm(is_big, size, ordered_sum(a, y)), sign_of(x));
}

/// acosh x = log(1 + t + sqrt(2 t + t^2)) with t = x - 1, which is exact where it is small.
template <Value V>
V acosh(V x) {
    const auto is_big = x > kAreaBig;
    const V t = select(is_big, 1.0, x - 1.0);
    const V root = sqrt(multiply_add(t, t, t + t));
    return select(x >= 1.0, area_logarithm(is_big, x, exact_sum(t, root)), kNan);
}

/// atanh |x| = log(1 + 2 |x| + 2 x^2 / (1 - |x|)) / 2.
template <Value V>
V atanh(V x) {
    const V size = abs(x);
    const V twice = size + size;
    const TwoParts<V> y = exact_sum(twice, twice * size / (1.0 - size));
    const V half = log_of_sum(y.high, y.low, x.constant(0)) * 0.5;
    return with_sign(select(size <= 1.0, half, kNan), sign_of(x));
}

}  // namespace quern::math
