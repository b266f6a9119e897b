#include "quern/script/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <system_error>
#include <vector>

#include "quern/interpret/operations.h"
#include "quern/math/functions.h"

namespace quern::script {
namespace {

using lang::Code;
using lang::Op;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Unit {
    std::string_view name;
    std::int64_t bytes;
    double seconds;
};

constexpr std::int64_t kKiB = 1024;
constexpr Unit kUnits[] = {
    {"B", 1, 0},
    {"KB", kKiB, 0},
    {"MB", kKiB* kKiB, 0},
    {"GB", kKiB* kKiB* kKiB, 0},
    {"TB", kKiB* kKiB* kKiB* kKiB, 0},
    {"ns", 0, 1e-9},
    {"us", 0, 1e-6},
    {"ms", 0, 1e-3},
    {"s", 0, 1},
};

/// The parts of a literal as section 2 writes it; `end` is where the number stops.
struct Scan {
    std::size_t end = 0;
    bool is_float = false;
};

Scan scan(std::string_view text) {
    std::size_t at = 0;
    bool is_float = false;
    const auto digits = [&](std::size_t from) {
        while (from < text.size() && is_digit(text[from])) ++from;
        return from;
    };
    at = digits(0);
    if (at == 0) return {};
    if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
        at = digits(at + 1);
        is_float = true;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        std::size_t exponent = at + 1;
        if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
        if (const std::size_t end = digits(exponent); end > exponent) {
            at = end;
            is_float = true;
        }
    }
    return {at, is_float};
}

/// Of a float's text with digits other than 0.
bool is_below_one(std::string_view text) {
    const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
    std::int64_t exponent = 0;
    if (mark < text.size()) {
        std::string_view power = text.substr(mark + 1);
        if (power.starts_with('+')) power.remove_prefix(1);
        const auto [end, error] =
            std::from_chars(power.data(), power.data() + power.size(), exponent);
        // No text has as many digits.
        if (error != std::errc()) return power.starts_with('-');
    }
    const std::size_t point = std::min(text.find('.'), mark);
    const std::size_t first = text.find_first_of("123456789");
    const auto place = std::int64_t(point) - std::int64_t(first);
    return exponent + (first < point ? place - 1 : place) < 0;
}

template <class T>
std::optional<T> read(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size()) return std::nullopt;
    if constexpr (std::is_floating_point_v<T>) {
        // Too large or too small: the library does not say which.
        if (error == std::errc::result_out_of_range && is_below_one(text)) return T(0);
    }
    if (error != std::errc()) return std::nullopt;
    return value;
}

std::optional<Value> quantity(std::int64_t count, std::string_view unit) {
    for (const Unit& known : kUnits) {
        if (known.name != unit) continue;
        if (known.bytes == 0) return Value(double(count) * known.seconds);
        if (count > std::numeric_limits<std::int64_t>::max() / known.bytes) return std::nullopt;
        return Value(count * known.bytes);
    }
    return std::nullopt;
}

double as_double(const Value& value) {
    if (const auto* integer = value.as<std::int64_t>()) return double(*integer);
    if (const auto* truth = value.as<bool>()) return *truth ? 1 : 0;
    return *value.as<double>();
}

/// Two's complement, so that overflow wraps as it does in a kernel.
std::int64_t wrapped(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }

template <class T>
bool compare(Op op, T left, T right) {
    switch (op) {
        case Op::Less:
            return left < right;
        case Op::LessEqual:
            return left <= right;
        case Op::Greater:
            return left > right;
        case Op::GreaterEqual:
            return left >= right;
        case Op::Equal:
            return left == right;
        default:
            return left != right;
    }
}

NumberResult integers(Op op, std::int64_t left, std::int64_t right) {
    const auto a = static_cast<std::uint64_t>(left);
    const auto b = static_cast<std::uint64_t>(right);
    switch (op) {
        case Op::Add:
            return Value(wrapped(a + b));
        case Op::Sub:
            return Value(wrapped(a - b));
        case Op::Mul:
            return Value(wrapped(a * b));
        case Op::Div:
        case Op::Rem:
            if (right == 0) {
                return NumberFault{Code::E0621,
                                   fmt::format("expected a divisor other than 0, got {} {} 0", left,
                                               op == Op::Div ? '/' : '%')};
            }
            if (right == -1) return Value(op == Op::Div ? wrapped(0 - a) : std::int64_t{0});
            return Value(op == Op::Div ? left / right : left % right);
        default:
            return Value(compare(op, left, right));
    }
}

NumberResult floats(Op op, double left, double right) {
    switch (op) {
        case Op::Add:
            return Value(left + right);
        case Op::Sub:
            return Value(left - right);
        case Op::Mul:
            return Value(left * right);
        case Op::Div:
            return Value(left / right);
        case Op::Rem:
            return Value(std::fmod(left, right));
        default:
            return Value(compare(op, left, right));
    }
}

std::string_view symbol(Op op) {
    switch (op) {
        case Op::Add:
            return "+";
        case Op::Sub:
            return "-";
        case Op::Mul:
            return "*";
        case Op::Div:
            return "/";
        case Op::Rem:
            return "%";
        case Op::MatMul:
            return "@";
        case Op::Less:
            return "<";
        case Op::LessEqual:
            return "<=";
        case Op::Greater:
            return ">";
        case Op::GreaterEqual:
            return ">=";
        case Op::Equal:
            return "==";
        case Op::NotEqual:
            return "!=";
        case Op::And:
            return "and";
        case Op::Or:
            return "or";
        default:
            return "this operator";
    }
}

/// Of two integers, which wraps.
NumberResult power(std::span<const Value> arguments) {
    const std::int64_t x = *arguments[0].as<std::int64_t>(), n = *arguments[1].as<std::int64_t>();
    if (n < 0) {
        return NumberFault{Code::E0621,
                           fmt::format("expected an exponent of 0 or more, got pow({}, {})", x, n)};
    }
    return Value(wrapped(interpret::wrapped_power(std::uint64_t(x), std::uint64_t(n))));
}

NumberFault mismatch(std::string_view function, std::size_t expected, std::size_t got) {
    return {Code::E0408, fmt::format("'{}' expects {} argument{}, got {}", function, expected,
                                     expected == 1 ? "" : "s", got)};
}

}  // namespace

std::optional<Value> literal(std::string_view text) {
    const auto [end, is_float] = scan(text);
    if (end == 0) return std::nullopt;
    const std::string_view number = text.substr(0, end);
    if (is_float) {
        const auto value = end == text.size() ? read<double>(number) : std::nullopt;
        return value ? std::optional<Value>(*value) : std::nullopt;
    }
    const auto value = read<std::int64_t>(number);
    if (!value) return std::nullopt;
    if (end == text.size()) return Value(*value);
    return quantity(*value, text.substr(end));
}

bool has_known_unit(std::string_view quantity) {
    const std::string_view unit = quantity.substr(std::min(scan(quantity).end, quantity.size()));
    return std::any_of(std::begin(kUnits), std::end(kUnits),
                       [&](const Unit& known) { return known.name == unit; });
}

std::string quantity_units() {
    std::string names;
    for (const Unit& unit : kUnits) {
        if (!names.empty()) names += ", ";
        names += unit.name;
    }
    return names;
}

NumberResult negate(const Value& operand) {
    if (const auto* integer = operand.as<std::int64_t>()) {
        return Value(wrapped(0 - static_cast<std::uint64_t>(*integer)));
    }
    if (const auto* number = operand.as<double>()) return Value(-*number);
    return NumberFault{Code::E0441, fmt::format("'-' expects a number, got {}", describe(operand))};
}

NumberResult combine(Op op, const Value& left, const Value& right) {
    if (op == Op::And || op == Op::Or) {
        const bool* a = left.as<bool>();
        const bool* b = right.as<bool>();
        if (a == nullptr || b == nullptr) {
            return NumberFault{Code::E0405,
                               fmt::format("'{}' expects truth values, got {} and {}", symbol(op),
                                           describe(left), describe(right))};
        }
        return Value(op == Op::And ? *a && *b : *a || *b);
    }
    if (op == Op::Equal || op == Op::NotEqual) {
        const auto* a = left.as<std::string>();
        const auto* b = right.as<std::string>();
        if (a != nullptr && b != nullptr) return Value((*a == *b) == (op == Op::Equal));
    }
    const bool numbers = left.is_number() && right.is_number();
    const bool truths = left.as<bool>() != nullptr || right.as<bool>() != nullptr;
    const bool same_truths = left.as<bool>() != nullptr && right.as<bool>() != nullptr &&
                             (op == Op::Equal || op == Op::NotEqual);
    if (!numbers || op == Op::MatMul || (truths && !same_truths)) {
        const char* const expected = op == Op::MatMul ? "tiles of a kernel" : "numbers";
        return NumberFault{Code::E0441, fmt::format("'{}' expects {}, got {} and {}", symbol(op),
                                                    expected, describe(left), describe(right))};
    }
    if (left.as<double>() != nullptr || right.as<double>() != nullptr) {
        return floats(op, as_double(left), as_double(right));
    }
    if (same_truths) return integers(op, *left.as<bool>(), *right.as<bool>());
    return integers(op, *left.as<std::int64_t>(), *right.as<std::int64_t>());
}

NumberResult apply_function(std::string_view function, std::span<const Value> arguments) {
    const std::size_t count = arguments.size();
    const bool selects = function == "select";
    bool integral = true;
    for (std::size_t n = 0; n < count; ++n) {
        const Value& argument = arguments[n];
        const bool is_float = argument.as<double>() != nullptr;
        if (selects && n == 0) {
            if (argument.as<bool>() != nullptr) continue;
            return NumberFault{
                Code::E0405,
                fmt::format("'select' expects a truth value first, got {}", describe(argument))};
        }
        if (!is_float && argument.as<std::int64_t>() == nullptr) {
            return NumberFault{Code::E0441, fmt::format("'{}' expects numbers, got {}", function,
                                                        describe(argument))};
        }
        if (is_float) integral = false;
    }
    // The chosen argument, a float if any of them is one.
    const auto chosen = [&](std::size_t n) {
        return integral ? arguments[n] : Value(as_double(arguments[n]));
    };
    const auto less = [&](std::size_t a, std::size_t b) {
        if (!integral) return as_double(arguments[a]) < as_double(arguments[b]);
        return *arguments[a].as<std::int64_t>() < *arguments[b].as<std::int64_t>();
    };

#define UNARY(name, op, operand, value)                                            \
    if (function == #name) {                                                       \
        if (count != 1) return mismatch(function, 1, count);                       \
        if (function == "abs" && integral) {                                       \
            if (*arguments[0].as<std::int64_t>() < 0) return negate(arguments[0]); \
            return chosen(0);                                                      \
        }                                                                          \
        const math::Native<double> x = {as_double(arguments[0])};                  \
        return Value((value).number);                                              \
    }
#define BINARY(name, op, value)                                               \
    if (function == #name) {                                                  \
        if (count != 2) return mismatch(function, 2, count);                  \
        if (function == "max" && integral) return chosen(less(0, 1) ? 1 : 0); \
        if (function == "min" && integral) return chosen(less(1, 0) ? 1 : 0); \
        if (function == "pow" && integral) return power(arguments);           \
        const math::Native<double> x = {as_double(arguments[0])};             \
        const math::Native<double> y = {as_double(arguments[1])};             \
        return Value((value).number);                                         \
    }
#include "quern/lang/functions.def"

    if (function == "relu") {
        if (count != 1) return mismatch(function, 1, count);
        return apply_function("max", std::vector<Value>{arguments[0], std::int64_t{0}});
    }
    if (function == "sigmoid" || function == "isnan") {
        if (count != 1) return mismatch(function, 1, count);
        const double x = as_double(arguments[0]);
        if (function == "isnan") return Value(std::isnan(x));
        return Value((1.0 / (exp(-math::Native<double>{x}) + 1.0)).number);
    }
    if (function != "clamp" && !selects) {
        return NumberFault{Code::E0407, fmt::format("'{}' is no function of numbers", function)};
    }
    if (count != 3) return mismatch(function, 3, count);
    if (selects) return chosen(*arguments[0].as<bool>() ? 1 : 2);
    // As a kernel has it, NaN and bounds in the wrong order included.
    auto least = apply_function("max", arguments.first(2));
    if (!std::holds_alternative<Value>(least)) return least;
    return apply_function("min", std::vector<Value>{std::get<Value>(least), arguments[2]});
}

}  // namespace quern::script
