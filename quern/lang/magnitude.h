#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::lang {

/// True if the nearest double of a float literal is infinity.
constexpr bool rounds_to_infinity(std::string_view literal) {
    // The first digits of 2^1024 - 2^970, the least number that does: 0.1797... * 10^309.
    constexpr std::string_view kLeast = "17976931348623158079";
    constexpr std::int64_t kLeastScale = 309;
    constexpr std::int64_t kLargeExponent = 1 << 30;
    char digits[kLeast.size()]{};
    std::size_t count = 0;
    std::int64_t scale = 0;
    bool behind_point = false;
    std::size_t i = 0;
    for (; i < literal.size() && literal[i] != 'e' && literal[i] != 'E'; ++i) {
        const char c = literal[i];
        if (c == '.') {
            behind_point = true;
        } else if (count == 0 && c == '0') {
            scale -= behind_point ? 1 : 0;
        } else {
            scale += behind_point ? 0 : 1;
            if (count < kLeast.size()) digits[count++] = c;
        }
    }
    if (count == 0) return false;
    std::int64_t exponent = 0;
    const bool negative = i + 1 < literal.size() && literal[i + 1] == '-';
    for (; i < literal.size(); ++i) {
        const bool is_digit = literal[i] >= '0' && literal[i] <= '9';
        if (is_digit && exponent < kLargeExponent) exponent = exponent * 10 + (literal[i] - '0');
    }
    scale += negative ? -exponent : exponent;
    if (scale != kLeastScale) return scale > kLeastScale;
    for (std::size_t k = 0; k < kLeast.size(); ++k) {
        const char digit = k < count ? digits[k] : '0';
        if (digit != kLeast[k]) return digit > kLeast[k];
    }
    return true;
}

}  // namespace quern::lang
