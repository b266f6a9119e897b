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

/// The first half of the bits of x, and the others: a product of two halves is exact.
template <Value V>
TwoParts<V> halves(V x) {
    const auto i = bits(x);
    const V high = from_bits(i & i.constant(FormatOf<V>::kFirstHalf));
    return {high, x - high};
}

/// x y less its rounded product, by halves (Dekker's product).
template <Value V>
V rest_by_halves(V x, V y, V product) {
    const TwoParts<V> a = halves(x), b = halves(y);
    const V rest = ((a.high * b.high - product) + a.high * b.low) + a.low * b.high;
    return rest + a.low * b.low;
}

/// The same. Who fuses products may overload it.
template <Value V>
V rest_of_product(V x, V y, V product) {
    return rest_by_halves(x, y, product);
}

/// x y but for what two parts cannot hold.
template <Value V>
TwoParts<V> exact_product(V x, V y) {
    const V product = x * y;
    return {product, rest_of_product(x, y, product)};
}

template <Value V>
TwoParts<V> product(TwoParts<V> x, TwoParts<V> y) {
    const TwoParts<V> p = exact_product(x.high, y.high);
    return ordered_sum(p.high, p.low + (x.high * y.low + x.low * y.high));
}

template <Value V>
TwoParts<V> constant_parts(V x, double high, double low) {
    return {x.constant(high), x.constant(low)};
}

}  // namespace quern::math
