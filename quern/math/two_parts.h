#pragma once

#include "quern/math/value.h"

// Numbers in two parts, high + low, where one rounding is too much (Dekker, "A
// floating-point technique for extending the available precision", 1971; Knuth, TAOCP 2, 4.2.2).

namespace quern::math {

template <Value V>
struct TwoParts {
    V high, low;
};

/// x + y exactly, if |x| >= |y| or x = 0.
template <Value V>
TwoParts<V> ordered_sum(V x, V y) {
    const V sum = x + y;
    return {sum, y - (sum - x)};
}

/// x + y exactly.
template <Value V>
TwoParts<V> exact_sum(V x, V y) {
    const V sum = x + y;
    const V from_y = sum - x;
    return {sum, (x - (sum - from_y)) + (y - from_y)};
}

/// The first 26 bits of x, and the others.
template <DoubleValue V>
TwoParts<V> halves(V x) {
    const auto i = bits(x);
    const V high = from_bits(i & i.constant(-0x8000000));
    return {high, x - high};
}

/// x y but for 2^-106 of it.
template <DoubleValue V>
TwoParts<V> exact_product(V x, V y) {
    const V product = x * y;
    const TwoParts<V> a = halves(x), b = halves(y);
    const V rest = ((a.high * b.high - product) + a.high * b.low) + a.low * b.high;
    return {product, rest + a.low * b.low};
}

template <DoubleValue V>
TwoParts<V> product(TwoParts<V> x, TwoParts<V> y) {
    const TwoParts<V> p = exact_product(x.high, y.high);
    return ordered_sum(p.high, p.low + (x.high * y.low + x.low * y.high));
}

template <DoubleValue V>
TwoParts<V> constant_parts(V x, double high, double low) {
    return {x.constant(high), x.constant(low)};
}

}  // namespace quern::math
