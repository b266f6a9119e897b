#include "quern/runtime/float_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace quern {
namespace {

constexpr int kMaxFraction = 8;

/// A number as it is written: `whole` may begin with '-', `exponent` counts in exponential form
/// only.
struct Parts {
    std::string whole;
    std::string fraction;
    int exponent = 0;
};

/// Returns d.ddd and the exponent of a finite value, without zeros at the end of the fraction.
/// `precision` is the number of digits after the point; -1 is the fewest that tell `value` from
/// other values of its type.
template <class Float>
Parts scientific(Float value, int precision) {
    char buffer[64];
    const std::to_chars_result end =
        precision < 0
            ? std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific)
            : std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific,
                            precision);
    const std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
    const std::size_t e = text.find('e');
    const std::size_t point = std::min(text.find('.'), e);
    Parts parts{std::string(text.substr(0, point)), std::string(text.substr(point, e - point)), 0};
    parts.fraction.erase(0, 1);
    parts.fraction.erase(parts.fraction.find_last_not_of('0') + 1);
    // from_chars takes no plus sign.
    const char* exponent = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(exponent, end.ptr, parts.exponent);
    return parts;
}

std::uint16_t narrow_bits(double value, DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return float16_from_double(value);
        case DType::BFloat16:
            return bfloat16_from_double(value);
        case DType::Float8E4M3:
            return float8_e4m3_from_double(value);
        default:
            return float8_e5m2_from_double(value);
    }
}

/// The value of a few digits, near enough to round to a narrow float.
double value_of(const Parts& parts) {
    double digits = 0;
    for (const char c : parts.whole + parts.fraction) {
        if (c != '-') digits = digits * 10 + (c - '0');
    }
    const int exponent = parts.exponent - static_cast<int>(parts.fraction.size());
    const double value =
        exponent < 0 ? digits / std::pow(10.0, -exponent) : digits * std::pow(10.0, exponent);
    return parts.whole[0] == '-' ? -value : value;
}

Parts shortest(double value, DType dtype) {
    if (dtype == DType::Float64) return scientific(value, -1);
    if (dtype == DType::Float32) return scientific(static_cast<float>(value), -1);
    for (int precision = 0;; ++precision) {
        Parts parts = scientific(value, precision);
        if (narrow_bits(value_of(parts), dtype) == narrow_bits(value, dtype)) return parts;
    }
}

/// Moves the point of `parts` to where exponent 0 puts it.
Parts positional(Parts parts, double value) {
    const int exponent = parts.exponent;
    const int fraction = static_cast<int>(parts.fraction.size()) - exponent;
    if (fraction > kMaxFraction) {
        char buffer[512];
        char* const end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                        std::chars_format::fixed, kMaxFraction)
                              .ptr;
        const std::string text(buffer, end);
        const std::size_t point = text.find('.');
        Parts rounded{text.substr(0, point), text.substr(point + 1), 0};
        rounded.fraction.erase(rounded.fraction.find_last_not_of('0') + 1);
        return rounded;
    }
    std::string& whole = parts.whole;
    if (exponent >= 0) {
        if (fraction < 0) parts.fraction.append(static_cast<std::size_t>(-fraction), '0');
        whole += parts.fraction.substr(0, static_cast<std::size_t>(exponent));
        parts.fraction.erase(0, static_cast<std::size_t>(exponent));
    } else {
        const bool negative = whole[0] == '-';
        parts.fraction.insert(0, 1, whole.back());
        parts.fraction.insert(0, static_cast<std::size_t>(-exponent - 1), '0');
        whole = negative ? "-0" : "0";
    }
    parts.exponent = 0;
    return parts;
}

bool wants_exponent(std::span<const double> values) {
    double smallest = std::numeric_limits<double>::infinity();
    double largest = 0;
    for (const double value : values) {
        const double magnitude = std::abs(value);
        if (!std::isfinite(value) || magnitude == 0) continue;
        smallest = std::min(smallest, magnitude);
        largest = std::max(largest, magnitude);
    }
    return largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
}

std::string exponent_text(int exponent, std::size_t width) {
    const std::string digits = std::to_string(std::abs(exponent));
    return (exponent < 0 ? "e-" : "e+") + std::string(width - digits.size(), '0') + digits;
}

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.insert(0, width - text.size(), ' ');
    return text;
}

std::string not_finite_text(double value) {
    if (std::isnan(value)) return "nan";
    return value < 0 ? "-inf" : "inf";
}

}  // namespace

std::vector<std::string> float_texts(std::span<const double> values, DType dtype) {
    const bool exponential = wants_exponent(values);
    std::vector<Parts> parts(values.size());
    std::size_t whole = 0, fraction = 0, exponent = 2;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) continue;
        Parts& p = parts[i] = shortest(values[i], dtype);
        if (!exponential) p = positional(std::move(p), values[i]);
        if (p.fraction.size() > kMaxFraction) p = scientific(values[i], kMaxFraction);
        whole = std::max(whole, p.whole.size());
        fraction = std::max(fraction, p.fraction.size());
        exponent = std::max(exponent, std::to_string(std::abs(p.exponent)).size());
    }
    std::vector<std::string> texts(values.size());
    std::size_t width = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const Parts& p = parts[i];
        if (!std::isfinite(values[i])) {
            texts[i] = not_finite_text(values[i]);
        } else if (exponential) {
            texts[i] = padded(p.whole, whole) + "." + p.fraction +
                       std::string(fraction - p.fraction.size(), '0') +
                       exponent_text(p.exponent, exponent);
        } else {
            texts[i] = padded(p.whole, whole) + "." + p.fraction +
                       std::string(fraction - p.fraction.size(), ' ');
        }
        width = std::max(width, texts[i].size());
    }
    for (std::string& text : texts) text = padded(std::move(text), width);
    return texts;
}

}  // namespace quern
