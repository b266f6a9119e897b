#include "quern/lir/scalars.h"

#include <bit>
#include <cmath>
#include <functional>

#include "quern/interpret/operations.h"
#include "quern/support/check.h"
#include "quern/support/convert.h"

namespace quern::lir {
namespace {

float float_of(std::uint64_t bits, DType dtype) {
    if (dtype == DType::Float16) return float_from_float16(std::uint16_t(bits));
    if (dtype == DType::BFloat16) return float_from_bfloat16(std::uint16_t(bits));
    return std::bit_cast<float>(std::uint32_t(bits));
}

std::uint64_t bits_of(float value, DType dtype) {
    if (dtype == DType::Float16) return float16_from_float(value);
    if (dtype == DType::BFloat16) return bfloat16_from_float(value);
    return std::bit_cast<std::uint32_t>(value);
}

inline int width_of(DType dtype) { return dtype == DType::Bool ? 1 : int(size_of(dtype)) * 8; }

inline std::uint64_t cut(std::uint64_t bits, DType dtype) {
    return bits & ~std::uint64_t{0} >> (64 - width_of(dtype));
}

inline std::int64_t signed_of(std::uint64_t bits, DType dtype) {
    const int above = 64 - width_of(dtype);
    return std::int64_t(bits << above) >> above;
}

/// Gives `work` doubles or floats, and the bits of what it makes in the dtype.
template <class Work, class... Bits>
std::uint64_t on_floats(DType dtype, const Work& work, Bits... bits) {
    if (dtype == DType::Float64) {
        return std::bit_cast<std::uint64_t>(work(std::bit_cast<double>(bits)...));
    }
    return bits_of(work(float_of(bits, dtype)...), dtype);
}

template <class T>
T of_floats(Op op, T a, T b) {
    switch (op) {
        case Op::Add:
            return a + b;
        case Op::Sub:
            return a - b;
        case Op::Mul:
            return a * b;
        case Op::Div:
            return a / b;
        case Op::Min:
            return interpret::min_of(a, b);
        case Op::Max:
            return interpret::max_of(a, b);
        case Op::Scale:
            return std::ldexp(a, int(b));
        default:
            QUERN_CHECK(false, "an operation of floats");
            return a;
    }
}

/// Sums and so on wrap, so their sign does not matter.
std::uint64_t of_bits(Op op, std::uint64_t a, std::uint64_t b) {
    switch (op) {
        case Op::Add:
            return a + b;
        case Op::Sub:
            return a - b;
        case Op::Mul:
            return a * b;
        case Op::And:
            return a & b;
        case Op::Or:
            return a | b;
        case Op::Xor:
            return a ^ b;
        case Op::ShiftLeft:
            return a << (b & 63);
        default:
            QUERN_CHECK(false, "an operation of integers");
            return a;
    }
}

std::int64_t quotient(std::int64_t a, std::int64_t b) { return interpret::divide(a, b); }
std::uint64_t quotient(std::uint64_t a, std::uint64_t b) { return a / b; }
std::int64_t rest(std::int64_t a, std::int64_t b) { return interpret::remainder(a, b); }
std::uint64_t rest(std::uint64_t a, std::uint64_t b) { return a % b; }

template <class T>
std::uint64_t of_integers(Op op, T a, T b) {
    switch (op) {
        case Op::Div:
            return b == 0 ? 0 : std::uint64_t(quotient(a, b));
        case Op::Rem:
            return b == 0 ? 0 : std::uint64_t(rest(a, b));
        case Op::Min:
            return std::uint64_t(a < b ? a : b);
        case Op::Max:
            return std::uint64_t(b < a ? a : b);
        case Op::ShiftRight:
            return std::uint64_t(a >> (b & 63));
        default:
            return of_bits(op, std::uint64_t(a), std::uint64_t(b));
    }
}

template <class Work>
void each(std::span<std::uint64_t> results, const std::uint64_t* a, const std::uint64_t* b,
          const Work& work) {
    for (std::size_t n = 0; n < results.size(); ++n) results[n] = work(a[n], b[n]);
}

template <class T>
bool holds(Op op, T a, T b) {
    switch (op) {
        case Op::Less:
            return a < b;
        case Op::LessEqual:
            return a <= b;
        case Op::Equal:
            return a == b;
        default:
            return a != b;
    }
}

}  // namespace

std::uint64_t unary_of(Op op, DType dtype, std::uint64_t a) {
    if (!is_floating(dtype)) {
        const bool is_below = is_signed_integer(dtype) && signed_of(a, dtype) < 0;
        if (op == Op::Not) return cut(~a, dtype);
        return cut(op == Op::Neg || is_below ? 0 - a : a, dtype);
    }
    const std::uint64_t sign = std::uint64_t{1} << (width_of(dtype) - 1);
    if (op == Op::Neg) return a ^ sign;
    if (op == Op::Abs) return a & ~sign;
    const auto work = [&](auto x) {
        switch (op) {
            case Op::Sqrt:
                return std::sqrt(x);
            case Op::Floor:
                return std::floor(x);
            case Op::Ceil:
                return std::ceil(x);
            default:
                return std::nearbyint(x);
        }
    };
    return on_floats(dtype, work, a);
}

std::uint64_t binary_of(Op op, DType dtype, std::uint64_t a, std::uint64_t b) {
    if (is_floating(dtype)) {
        return on_floats(
            dtype, [&](auto x, auto y) { return of_floats(op, x, y); }, a, b);
    }
    const bool is_signed = is_signed_integer(dtype);
    return cut(is_signed ? of_integers(op, signed_of(a, dtype), signed_of(b, dtype))
                         : of_integers(op, a, b),
               dtype);
}

bool compare_of(Op op, DType dtype, std::uint64_t a, std::uint64_t b) {
    if (dtype == DType::Float64) {
        return holds(op, std::bit_cast<double>(a), std::bit_cast<double>(b));
    }
    if (is_floating(dtype)) return holds(op, float_of(a, dtype), float_of(b, dtype));
    if (is_signed_integer(dtype)) return holds(op, signed_of(a, dtype), signed_of(b, dtype));
    return holds(op, a, b);
}

void binary_of(Op op, DType dtype, std::span<std::uint64_t> results, const std::uint64_t* a,
               const std::uint64_t* b) {
    const auto floats = [&](const auto& work) {
        each(results, a, b, [&](std::uint64_t x, std::uint64_t y) {
            const auto number = [](std::uint64_t bits) {
                return std::bit_cast<float>(std::uint32_t(bits));
            };
            return std::bit_cast<std::uint32_t>(work(number(x), number(y)));
        });
    };
    const auto integers = [&](const auto& work) {
        const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width_of(dtype));
        each(results, a, b, [&](std::uint64_t x, std::uint64_t y) { return work(x, y) & mask; });
    };
    // Those that most code is of; the others look at operation and dtype for each lane.
    if (dtype == DType::Float32 && op == Op::Add) return floats(std::plus<float>());
    if (dtype == DType::Float32 && op == Op::Sub) return floats(std::minus<float>());
    if (dtype == DType::Float32 && op == Op::Mul) return floats(std::multiplies<float>());
    if (!is_floating(dtype)) {
        using Bits = std::uint64_t;
        if (op == Op::Add) return integers(std::plus<Bits>());
        if (op == Op::Sub) return integers(std::minus<Bits>());
        if (op == Op::Mul) return integers(std::multiplies<Bits>());
        if (op == Op::And) return integers(std::bit_and<Bits>());
        if (op == Op::Or) return integers(std::bit_or<Bits>());
        if (op == Op::Xor) return integers(std::bit_xor<Bits>());
    }
    each(results, a, b,
         [&](std::uint64_t x, std::uint64_t y) { return binary_of(op, dtype, x, y); });
}

void compare_of(Op op, DType dtype, std::span<std::uint64_t> results, const std::uint64_t* a,
                const std::uint64_t* b) {
    const auto integers = [&](const auto& work) {
        const int above = 64 - width_of(dtype);
        each(results, a, b, [&](std::uint64_t x, std::uint64_t y) {
            return work(std::int64_t(x << above), std::int64_t(y << above));
        });
    };
    if (is_signed_integer(dtype)) {
        if (op == Op::Less) return integers(std::less<std::int64_t>());
        if (op == Op::LessEqual) return integers(std::less_equal<std::int64_t>());
        if (op == Op::Equal) return integers(std::equal_to<std::int64_t>());
        if (op == Op::NotEqual) return integers(std::not_equal_to<std::int64_t>());
    }
    each(results, a, b,
         [&](std::uint64_t x, std::uint64_t y) { return compare_of(op, dtype, x, y); });
}

std::uint64_t fma_of(DType dtype, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return on_floats(
        dtype, [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, b, c);
}

std::uint64_t cast_of(std::uint64_t a, DType from, DType to) {
    // Most are of indices, for which a conversion of tensors does too much.
    if (!is_floating(from) && !is_floating(to) && to != DType::Bool) {
        return cut(is_signed_integer(from) ? std::uint64_t(signed_of(a, from)) : a, to);
    }
    std::uint64_t result = 0;
    convert(&a, from, 1, &result, to, 1);
    return result;
}

void cast_of(DType from, DType to, std::span<std::uint64_t> results, const std::uint64_t* a) {
    const bool are_integers = !is_floating(from) && !is_floating(to) && to != DType::Bool;
    const int above = 64 - width_of(from);
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width_of(to));
    for (std::size_t n = 0; n < results.size(); ++n) {
        if (!are_integers) {
            results[n] = cast_of(a[n], from, to);
        } else if (is_signed_integer(from)) {
            results[n] = std::uint64_t(std::int64_t(a[n] << above) >> above) & mask;
        } else {
            results[n] = a[n] & mask;
        }
    }
}

bool is_in_range(std::uint64_t a, DType from, DType to) {
    const double value = std::bit_cast<double>(cast_of(a, from, DType::Float64));
    if (is_floating(to)) return !std::isfinite(value) || std::abs(value) < 0x1p126;
    const double whole = std::trunc(value);
    const bool is_signed = is_signed_integer(to);
    const double beyond = std::ldexp(1.0, 8 * int(size_of(to)) - (is_signed ? 1 : 0));
    return (is_signed ? -beyond : 0) <= whole && whole < beyond;
}

}  // namespace quern::lir
