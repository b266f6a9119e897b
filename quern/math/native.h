#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "quern/math/value.h"

// Plain numbers as values; a product and a sum are one operation where `fuses`. Code that uses this
// is compiled without contraction of products and sums (-ffp-contract=off).

namespace quern::math {

struct NativeMask {
    bool value;

    friend NativeMask operator&(NativeMask a, NativeMask b) { return {a.value && b.value}; }
    friend NativeMask operator|(NativeMask a, NativeMask b) { return {a.value || b.value}; }
    friend NativeMask operator!(NativeMask a) { return {!a.value}; }
};

template <class T, bool fuses = false>
struct NativeInt {
    using Unsigned = std::make_unsigned_t<T>;

    T number;

    static NativeInt of(Unsigned x) { return {static_cast<T>(x)}; }
    Unsigned wrapping() const { return static_cast<Unsigned>(number); }

    NativeInt constant(std::int64_t c) const { return {static_cast<T>(c)}; }

    friend NativeInt operator+(NativeInt a, NativeInt b) { return of(a.wrapping() + b.wrapping()); }
    friend NativeInt operator-(NativeInt a, NativeInt b) { return of(a.wrapping() - b.wrapping()); }
    friend NativeInt operator&(NativeInt a, NativeInt b) { return {a.number & b.number}; }
    friend NativeInt operator|(NativeInt a, NativeInt b) { return {a.number | b.number}; }
    friend NativeInt operator^(NativeInt a, NativeInt b) { return {a.number ^ b.number}; }
    friend NativeInt operator<<(NativeInt a, int n) { return of(a.wrapping() << n); }
    friend NativeInt operator>>(NativeInt a, int n) { return {a.number >> n}; }
    friend NativeMask operator<(NativeInt a, NativeInt b) { return {a.number < b.number}; }
    friend NativeMask operator==(NativeInt a, NativeInt b) { return {a.number == b.number}; }
    friend NativeInt select(NativeMask m, NativeInt a, NativeInt b) { return m.value ? a : b; }
};

template <class T, bool fuses = false>
struct Native {
    using Element = T;
    using Bits = std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>;
    using Int = NativeInt<Bits, fuses>;
    using Mask = NativeMask;

    T number;

    Native constant(double c) const { return {static_cast<T>(c)}; }

    friend Native operator+(Native a, Native b) { return {a.number + b.number}; }
    friend Native operator-(Native a, Native b) { return {a.number - b.number}; }
    friend Native operator*(Native a, Native b) { return {a.number * b.number}; }
    friend Native operator/(Native a, Native b) { return {a.number / b.number}; }
    friend Native operator-(Native a) { return {-a.number}; }
    friend NativeMask operator<(Native a, Native b) { return {a.number < b.number}; }
    friend NativeMask operator<=(Native a, Native b) { return {a.number <= b.number}; }
    friend NativeMask operator>(Native a, Native b) { return {a.number > b.number}; }
    friend NativeMask operator>=(Native a, Native b) { return {a.number >= b.number}; }
    friend NativeMask operator==(Native a, Native b) { return {a.number == b.number}; }
    friend NativeMask operator!=(Native a, Native b) { return {a.number != b.number}; }
    friend Native multiply_add(Native a, Native b, Native c) {
        return {fuses ? std::fma(a.number, b.number, c.number) : a.number * b.number + c.number};
    }
    friend Native abs(Native a) { return {std::fabs(a.number)}; }
    friend Native sqrt(Native a) { return {std::sqrt(a.number)}; }
    friend Native floor(Native a) { return {std::floor(a.number)}; }
    friend Native round_even(Native a) { return {std::nearbyint(a.number)}; }
    friend Native select(NativeMask m, Native a, Native b) { return m.value ? a : b; }
    friend Int bits(Native a) { return {std::bit_cast<decltype(Int::number)>(a.number)}; }
};

template <bool fuses>
Native<float, fuses> from_bits(NativeInt<std::int32_t, fuses> i) {
    return {std::bit_cast<float>(i.number)};
}
template <bool fuses>
Native<double, fuses> from_bits(NativeInt<std::int64_t, fuses> i) {
    return {std::bit_cast<double>(i.number)};
}
template <class T>
Native<T, true> rest_of_product(Native<T, true> x, Native<T, true> y, Native<T, true> product) {
    return multiply_add(x, y, -product);
}
template <class T, class Rare>
T rarely(NativeMask m, T common, Rare rare) {
    return m.value ? rare() : common;
}

}  // namespace quern::math
