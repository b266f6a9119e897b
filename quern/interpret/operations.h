#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "quern/dtype.h"

// What the scalar operations give, one function each. They are the only place where arithmetic on
// the elements of a kernel is written down.

namespace quern::interpret {

/// A scalar of any dtype. float16 and bfloat16 are held as the float of the same value, integers
/// and bool widened to 64 bits by their own sign.
union Reg {
    std::int64_t i;
    std::uint64_t u;
    float f;
    double d;
};

/// NaN if either is NaN.
template <class T>
T max_of(T x, T y) {
    return x != x || x > y ? x : y;
}
template <class T>
T min_of(T x, T y) {
    return x != x || x < y ? x : y;
}

inline float to_float16(double x) { return float_from_float16(float16_from_double(x)); }
inline float to_bfloat16(double x) { return float_from_bfloat16(bfloat16_from_double(x)); }
inline float round_float16(float x) { return float_from_float16(float16_from_float(x)); }
inline float round_bfloat16(float x) { return float_from_bfloat16(bfloat16_from_float(x)); }

/// A float that rounds to a narrower format as x does: where x does not fit, the neighbour of x
/// whose last bit is set.
inline float sticky_float(double x) {
    const auto near = static_cast<float>(x);
    auto bits = std::bit_cast<std::uint32_t>(near);
    if (x != x || double(near) == x || (bits & 1) != 0) return near;
    bits += std::fabs(double(near)) < std::fabs(x) ? 1u : 0u - 1u;
    return std::bit_cast<float>(bits);
}

inline float round_e4m3(float x) { return float_from_float8_e4m3(float8_e4m3_from_float(x)); }
inline float round_e5m2(float x) { return float_from_float8_e5m2(float8_e5m2_from_float(x)); }

/// Truncates and saturates; NaN gives 0.
template <class T>
T saturate(double x) {
    if (x != x) return 0;
    // 2^digits is exact where the largest value itself may not be.
    const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (x >= above) return std::numeric_limits<T>::max();
    if (x <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<T>(x);
}

/// A double that rounds to any format of at most 51 bits as x does: bits that do not fit leave a
/// trace in the last one that does.
inline double sticky(std::uint64_t x) {
    if (x >> 53 != 0) x = (x & ~std::uint64_t(0x7ff)) | std::uint64_t((x & 0x7ff) != 0) << 11;
    return double(x);
}
inline double sticky(std::int64_t x) {
    return x < 0 ? -sticky(0 - std::uint64_t(x)) : sticky(std::uint64_t(x));
}

/// Quotients of a divisor that is not zero. The least integer divided by -1 wraps.
inline std::int64_t divide(std::int64_t x, std::int64_t y) {
    return y == -1 ? std::int64_t(0 - std::uint64_t(x)) : x / y;
}
inline std::int64_t remainder(std::int64_t x, std::int64_t y) { return y == -1 ? 0 : x % y; }
inline std::int64_t floor_divide(std::int64_t x, std::int64_t y) {
    if (y == -1) return divide(x, y);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

/// x to the power of n, wrapped.
inline std::uint64_t wrapped_power(std::uint64_t x, std::uint64_t n) {
    std::uint64_t result = 1;
    for (; n != 0; n >>= 1, x *= x) {
        if (n & 1) result *= x;
    }
    return result;
}

/// Whether x takes the place of y in an argmin (argmax) that has y.
template <class T>
bool is_better_minimum(T x, T y) {
    return y == y && (x != x || x < y);
}
template <class T>
bool is_better_maximum(T x, T y) {
    return y == y && (x != x || x > y);
}

}  // namespace quern::interpret
