#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// What the functions of this folder are written for: a value of type float or double that may be a
// number (native.h) or a handle to a node of a program that is being built. The operations below
// are all that they use. Each is exact or rounded once as IEEE 754 says, and nothing else is
// contracted or reassociated, so whoever evaluates them, and fuses alike, gets the same bits.
//
//   V          typename V::Element (float or double), V::Int (int32 or int64), V::Mask
//              x.constant(c)      the double c rounded to Element, in whatever x lives in
//              x + y  x - y  x * y  x / y  -x
//              x < y  x <= y  x > y  x >= y  x == y  x != y      a mask, false for NaN but for !=
//              multiply_add(x, y, z)   x y + z: V says whether the product is rounded, and the
//                                 functions keep their bounds either way
//              abs(x)  sqrt(x)  floor(x)  round_even(x)
//              select(m, x, y)    m ? x : y; both sides are evaluated
//              bits(x)            its bits as V::Int; from_bits(i) is the way back
//   V::Int     i.constant(c)      with c an std::int64_t
//              i + j  i - j       wrapping
//              i & j  i | j  i ^ j
//              i << n  i >> n     n a constant; what i >> n shifts is never negative, unless the
//                                 result is discarded, so its kind of shift does not matter
//              i < j  i == j      a mask
//              select(m, i, j)
//   V::Mask    m & n  m | n  !m   of V and V::Int alike
//
// `rarely` below is optional.

namespace quern::math {

template <class I, class M>
concept Integer = requires(I i, M m) {
    { i.constant(std::int64_t{1}) } -> std::same_as<I>;
    { i + i } -> std::same_as<I>;
    { i - i } -> std::same_as<I>;
    { i& i } -> std::same_as<I>;
    { i | i } -> std::same_as<I>;
    { i ^ i } -> std::same_as<I>;
    { i << 1 } -> std::same_as<I>;
    { i >> 1 } -> std::same_as<I>;
    { i < i } -> std::same_as<M>;
    { i == i } -> std::same_as<M>;
    { select(m, i, i) } -> std::same_as<I>;
};

/// What can only be a value: enough to choose an operator by.
template <class V>
concept ValueType = requires {
    typename V::Element;
    typename V::Int;
    typename V::Mask;
};

template <class V>
concept Value = ValueType<V> && requires(V x, typename V::Int i, typename V::Mask m) {
    requires std::same_as<typename V::Element, float> || std::same_as<typename V::Element, double>;
    requires Integer<typename V::Int, typename V::Mask>;
    { x.constant(1.0) } -> std::same_as<V>;
    { x + x } -> std::same_as<V>;
    { x - x } -> std::same_as<V>;
    { x* x } -> std::same_as<V>;
    { x / x } -> std::same_as<V>;
    { -x } -> std::same_as<V>;
    { x < x } -> std::same_as<typename V::Mask>;
    { x <= x } -> std::same_as<typename V::Mask>;
    { x > x } -> std::same_as<typename V::Mask>;
    { x >= x } -> std::same_as<typename V::Mask>;
    { x == x } -> std::same_as<typename V::Mask>;
    { x != x } -> std::same_as<typename V::Mask>;
    { multiply_add(x, x, x) } -> std::same_as<V>;
    { abs(x) } -> std::same_as<V>;
    { sqrt(x) } -> std::same_as<V>;
    { floor(x) } -> std::same_as<V>;
    { round_even(x) } -> std::same_as<V>;
    { select(m, x, x) } -> std::same_as<V>;
    { bits(x) } -> std::same_as<typename V::Int>;
    { from_bits(i) } -> std::same_as<V>;
    { m& m } -> std::same_as<typename V::Mask>;
    { m | m } -> std::same_as<typename V::Mask>;
    { !m } -> std::same_as<typename V::Mask>;
};

    // A number meets a value as a constant of the value's own type.

#define QUERN_MATH_MIXED(op)          \
    template <ValueType V>            \
    auto operator op(V x, double c) { \
        return x op x.constant(c);    \
    }
QUERN_MATH_MIXED(+)
QUERN_MATH_MIXED(-)
QUERN_MATH_MIXED(*)
QUERN_MATH_MIXED(<)
QUERN_MATH_MIXED(<=)
QUERN_MATH_MIXED(>)
QUERN_MATH_MIXED(>=)
QUERN_MATH_MIXED(==)
QUERN_MATH_MIXED(!=)
#undef QUERN_MATH_MIXED

template <ValueType V>
V operator-(double c, V x) {
    return x.constant(c) - x;
}
template <ValueType V>
V operator/(double c, V x) {
    return x.constant(c) / x;
}

template <ValueType V>
V multiply_add(V x, double c, V z) {
    return multiply_add(x, x.constant(c), z);
}
template <ValueType V>
V multiply_add(V x, V y, double c) {
    return multiply_add(x, y, x.constant(c));
}
template <ValueType V>
V multiply_add(V x, double c, double d) {
    return multiply_add(x, x.constant(c), x.constant(d));
}

template <ValueType V>
V select(typename V::Mask m, V x, double c) {
    return select(m, x, x.constant(c));
}
template <ValueType V>
V select(typename V::Mask m, double c, V y) {
    return select(m, y.constant(c), y);
}

/// m ? rare() : common, where m is false for most values; T is a value or a struct of values with
/// a `select`. To evaluate both and select is right everywhere. Who can jump may overload it for
/// its own type of mask.
template <class Mask, class T, class Rare>
T rarely(Mask m, T common, Rare rare) {
    return select(m, rare(), common);
}

template <class Element>
struct Format;

template <>
struct Format<float> {
    static constexpr int kMantissaBits = 23;
    static constexpr std::int64_t kBias = 127;
    static constexpr std::int64_t kSign = -0x80000000LL;
    static constexpr double kInfinity = __builtin_inf();

    /// Added to a number below 2^22 it leaves the nearest integer in the lowest bits of the sum.
    static constexpr double kRounder = 0x1.8p23;
    static constexpr std::int64_t kRounderBits = 0x4b400000;

    /// The square of a smaller number is nothing beside it.
    static constexpr double kTiny = 0x1p-26;

    /// The bits of a number but for the second half of its digits.
    static constexpr std::int64_t kFirstHalf = -0x1000;
};

template <>
struct Format<double> {
    static constexpr int kMantissaBits = 52;
    static constexpr std::int64_t kBias = 1023;
    static constexpr std::int64_t kSign = INT64_MIN;
    static constexpr double kInfinity = __builtin_inf();
    static constexpr double kRounder = 0x1.8p52;
    static constexpr std::int64_t kRounderBits = 0x4338000000000000;
    static constexpr double kTiny = 0x1p-55;
    static constexpr std::int64_t kFirstHalf = -0x8000000;
};

template <class V>
using FormatOf = Format<typename V::Element>;

inline constexpr double kInfinity = __builtin_inf();
inline constexpr double kNan = __builtin_nan("");

inline constexpr std::size_t kLongPolynomial = 7;

/// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule; a long one in its even and its odd terms,
/// which do not wait for each other.
template <Value V, std::size_t n>
V polynomial(V x, const std::array<double, n>& c) {
    constexpr std::size_t step = n < kLongPolynomial ? 1 : 2;
    const V power = step == 1 ? x : x * x;
    const auto terms = [&](std::size_t first) {
        std::size_t k = first + (n - 1 - first) / step * step;
        V sum = x.constant(c[k]);
        for (; k > first; k -= step) sum = multiply_add(sum, power, c[k - step]);
        return sum;
    };
    return step == 1 ? terms(0) : multiply_add(x, terms(1), terms(0));
}

/// The bit of a value's sign, and nothing else.
template <Value V>
typename V::Int sign_of(V x) {
    const auto i = bits(x);
    return i & i.constant(FormatOf<V>::kSign);
}

/// x >= 0 with another sign.
template <Value V>
V with_sign(V x, typename V::Int sign) {
    return from_bits(bits(x) ^ sign);
}

/// 2^(i - bias), for i from 1 to 2 bias.
template <Value V>
V power_of_two(typename V::Int biased) {
    return from_bits(biased << FormatOf<V>::kMantissaBits);
}

}  // namespace quern::math
