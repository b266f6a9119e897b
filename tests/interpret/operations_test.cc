#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/interpret/elements.h"

// Every operator and every cast on every dtype, element by element, against references that compute
// in 64-bit integers and in double.

namespace quern::interpret::testing {
namespace {

constexpr DType kIntegers[] = {DType::Int8,  DType::Int16,  DType::Int32,  DType::Int64,
                               DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64};

std::uint64_t power(std::uint64_t x, std::uint64_t n) {
    std::uint64_t result = 1;
    for (; n != 0; --n) result *= x;
    return result;
}

/// The reference of an integer operator; false where it has no value.
bool integer_result(BinaryOp op, DType dtype, std::uint64_t a, std::uint64_t b,
                    std::uint64_t& result) {
    const bool is_signed = is_signed_integer(dtype);
    const std::int64_t x = signed_value(dtype, a), y = signed_value(dtype, b);
    const auto ux = std::uint64_t(x), uy = std::uint64_t(y);
    const bool less = is_signed ? x < y : a < b;
    switch (op) {
        case BinaryOp::Add:
            result = ux + uy;
            break;
        case BinaryOp::Sub:
            result = ux - uy;
            break;
        case BinaryOp::Mul:
            result = ux * uy;
            break;
        case BinaryOp::Div:
        case BinaryOp::Rem:
        case BinaryOp::FloorDiv: {
            if (b == 0) return false;
            // Of magnitudes: no overflow, and truncation is that of the definition.
            const std::uint64_t mx = is_signed && x < 0 ? 0 - ux : ux;
            const std::uint64_t my = is_signed && y < 0 ? 0 - uy : uy;
            const bool negative = is_signed && (x < 0) != (y < 0);
            std::uint64_t quotient = mx / my, rest = mx % my;
            if (op == BinaryOp::FloorDiv && negative && rest != 0) ++quotient;
            result = negative ? 0 - quotient : quotient;
            if (op == BinaryOp::Rem) result = is_signed && x < 0 ? 0 - rest : rest;
            break;
        }
        case BinaryOp::Less:
            result = less;
            return true;
        case BinaryOp::LessEqual:
            result = less || a == b;
            return true;
        case BinaryOp::Equal:
            result = a == b;
            return true;
        case BinaryOp::NotEqual:
            result = a != b;
            return true;
        case BinaryOp::Max:
            result = less ? uy : ux;
            break;
        case BinaryOp::Min:
            result = less ? ux : uy;
            break;
        case BinaryOp::Pow:
            if (is_signed && y < 0) return false;
            if (b > 100000) return false;
            result = power(ux, b);
            break;
        default:
            return false;
    }
    result = wrapped(dtype, result);
    return true;
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Less && op <= BinaryOp::NotEqual; }

constexpr BinaryOp kArithmetic[] = {
    BinaryOp::Add,      BinaryOp::Sub,  BinaryOp::Mul,       BinaryOp::Div,   BinaryOp::Rem,
    BinaryOp::FloorDiv, BinaryOp::Less, BinaryOp::LessEqual, BinaryOp::Equal, BinaryOp::NotEqual,
    BinaryOp::Max,      BinaryOp::Min,  BinaryOp::Pow};

TEST(Operations, BinaryOperatorsOfIntegersWrapAndTruncate) {
    for (const DType dtype : kIntegers) {
        for (const BinaryOp op : kArithmetic) {
            const Pairs all(dtype);
            std::vector<std::uint64_t> x, y, expected;
            for (std::size_t k = 0; k < all.x.size(); ++k) {
                std::uint64_t result = 0;
                if (!integer_result(op, dtype, all.x[k], all.y[k], result)) continue;
                x.push_back(all.x[k]);
                y.push_back(all.y[k]);
                expected.push_back(result);
            }
            const DType result = is_comparison(op) ? DType::Bool : dtype;
            const auto got = apply(
                dtype, result, [&](Build& b, ExprId p, ExprId q) { return b.op(op, p, q); }, x, y);
            for (std::size_t k = 0; k < x.size(); ++k) {
                expect_same(result, got[k], expected[k],
                            std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " " +
                                std::to_string(x[k]) + " " + std::to_string(y[k]));
            }
        }
    }
}

double floating_result(BinaryOp op, double x, double y) {
    switch (op) {
        case BinaryOp::Add:
            return x + y;
        case BinaryOp::Sub:
            return x - y;
        case BinaryOp::Mul:
            return x * y;
        case BinaryOp::Div:
            return x / y;
        case BinaryOp::Rem:
            return std::fmod(x, y);
        case BinaryOp::Less:
            return x < y;
        case BinaryOp::LessEqual:
            return x <= y;
        case BinaryOp::Equal:
            return x == y;
        case BinaryOp::NotEqual:
            return x != y;
        case BinaryOp::Max:
            return std::isnan(x) ? x : std::isnan(y) ? y : x > y ? x : y;
        default:
            return std::isnan(x) ? x : std::isnan(y) ? y : x < y ? x : y;
    }
}

TEST(Operations, BinaryOperatorsOfFloatsRoundOnce) {
    for (const DType dtype : kFloats) {
        for (const BinaryOp op : kArithmetic) {
            if (op == BinaryOp::FloorDiv || op == BinaryOp::Pow) continue;
            const Pairs all(dtype);
            const DType result = is_comparison(op) ? DType::Bool : dtype;
            const auto got = apply(
                dtype, result, [&](Build& b, ExprId p, ExprId q) { return b.op(op, p, q); }, all.x,
                all.y);
            for (std::size_t k = 0; k < all.x.size(); ++k) {
                const double x = floating_value(dtype, all.x[k]);
                const double y = floating_value(dtype, all.y[k]);
                const double exact = floating_result(op, x, y);
                const std::uint64_t expected =
                    is_comparison(op) ? std::uint64_t(exact) : rounded(dtype, exact);
                expect_same(result, got[k], expected,
                            std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " " +
                                std::to_string(x) + " " + std::to_string(y));
            }
        }
    }
}

TEST(Operations, NegationAndAbsoluteValueOfIntegersWrap) {
    for (const DType dtype : kIntegers) {
        const std::vector<std::uint64_t> x = samples(dtype);
        for (const UnaryOp op : {UnaryOp::Neg, UnaryOp::Abs}) {
            const auto got = apply(
                dtype, dtype, [&](Build& b, ExprId p, ExprId) { return b.kernel().unary(op, p); },
                x, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                const std::int64_t value = signed_value(dtype, x[k]);
                const bool negates = op == UnaryOp::Neg || (is_signed_integer(dtype) && value < 0);
                EXPECT_EQ(got[k], negates ? wrapped(dtype, 0 - x[k]) : x[k])
                    << to_string(dtype) << " " << to_string(op) << " " << value;
            }
        }
    }
}

TEST(Operations, BoolHasNotAndOrEqualityAndOrder) {
    const std::vector<std::uint64_t> x{0, 0, 1, 1}, y{0, 1, 0, 1};
    const auto table = [&](const Make& make) {
        return apply(DType::Bool, DType::Bool, make, x, y);
    };
    using Bits = std::vector<std::uint64_t>;
    const auto binary = [&](BinaryOp op) {
        return table([op](Build& b, ExprId p, ExprId q) { return b.op(op, p, q); });
    };
    EXPECT_EQ(table([](Build& b, ExprId p, ExprId) { return b.kernel().unary(UnaryOp::Not, p); }),
              (Bits{1, 1, 0, 0}));
    EXPECT_EQ(binary(BinaryOp::And), (Bits{0, 0, 0, 1}));
    EXPECT_EQ(binary(BinaryOp::Or), (Bits{0, 1, 1, 1}));
    EXPECT_EQ(binary(BinaryOp::Equal), (Bits{1, 0, 0, 1}));
    EXPECT_EQ(binary(BinaryOp::NotEqual), (Bits{0, 1, 1, 0}));
}

/// What Tensor::to gives, from the exact value.
std::uint64_t converted(DType from, std::uint64_t bits, DType to) {
    if (is_floating(from)) {
        const double x = floating_value(from, bits);
        if (is_floating(to)) return rounded(to, x);
        if (to == DType::Bool) return x != 0;
        if (std::isnan(x)) return 0;
        const int width = int(size_of(to)) * 8;
        const double whole = std::trunc(x);
        if (is_signed_integer(to)) {
            const double limit = std::ldexp(1.0, width - 1);
            if (whole >= limit) return (std::uint64_t(1) << (width - 1)) - 1;
            if (whole < -limit) return std::uint64_t(1) << (width - 1);
            return wrapped(to, std::uint64_t(std::int64_t(whole)));
        }
        if (whole >= std::ldexp(1.0, width)) return wrapped(to, ~std::uint64_t(0));
        return whole <= 0 ? 0 : std::uint64_t(whole);
    }
    const std::int64_t x = signed_value(from, bits);
    if (to == DType::Bool) return x != 0;
    if (!is_floating(to)) return wrapped(to, std::uint64_t(x));
    // The samples that are not exact in a long double's 64 bits do not exist.
    const long double exact = from == DType::UInt64 ? static_cast<long double>(bits) : x;
    if (to == DType::Float32) return std::bit_cast<std::uint32_t>(float(exact));
    if (to == DType::Float64) return std::bit_cast<std::uint64_t>(double(exact));
    return rounded(to, double(exact));
}

TEST(Operations, CastsConvertAsTensorsDo) {
    constexpr DType all[] = {DType::Bool,    DType::Int8,       DType::Int16,     DType::Int32,
                             DType::Int64,   DType::UInt8,      DType::UInt16,    DType::UInt32,
                             DType::UInt64,  DType::Float16,    DType::BFloat16,  DType::Float32,
                             DType::Float64, DType::Float8E4M3, DType::Float8E5M2};
    for (const DType from : all) {
        const std::vector<std::uint64_t> x = samples(from);
        for (const DType to : all) {
            const auto got = apply(
                from, to, [&](Build& b, ExprId p, ExprId) { return b.kernel().cast(p, to); }, x, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                expect_same(to, got[k], converted(from, x[k], to),
                            std::string(to_string(from)) + " to " + std::string(to_string(to)) +
                                " " + std::to_string(x[k]));
            }
        }
    }
}

TEST(Operations, CastsRoundOnlyOnce) {
    // 2^60 + 2^52 lies between two bfloat16 values; the 1 below makes it more than a tie, and is
    // lost where the integer is made a double first.
    const std::int64_t tie = (std::int64_t(1) << 60) + (std::int64_t(1) << 52);
    const std::vector<std::uint64_t> x{std::uint64_t(tie), std::uint64_t(tie + 1),
                                       std::uint64_t(-tie - 1)};
    const auto to_brain = [](Build& b, ExprId p, ExprId) {
        return b.kernel().cast(p, DType::BFloat16);
    };
    const auto got = apply(DType::Int64, DType::BFloat16, to_brain, x, x);
    EXPECT_EQ(float_from_bfloat16(std::uint16_t(got[0])), std::ldexp(1.f, 60));
    EXPECT_EQ(float_from_bfloat16(std::uint16_t(got[1])), std::ldexp(1.0078125f, 60));
    EXPECT_EQ(float_from_bfloat16(std::uint16_t(got[2])), -std::ldexp(1.0078125f, 60));

    // 1 + 2^-11 is a tie of float16, 1 + 2^-11 + 2^-40 is not, though as a float it is.
    const std::vector<std::uint64_t> y{std::bit_cast<std::uint64_t>(1 + 0x1p-11),
                                       std::bit_cast<std::uint64_t>(1 + 0x1p-11 + 0x1p-40)};
    const auto halves = apply(
        DType::Float64, DType::Float16,
        [](Build& b, ExprId p, ExprId) { return b.kernel().cast(p, DType::Float16); }, y, y);
    EXPECT_EQ(float_from_float16(std::uint16_t(halves[0])), 1.f);
    EXPECT_EQ(float_from_float16(std::uint16_t(halves[1])), 1.f + 0x1p-10f);

    // The same for float8_e4m3, whose step at 1 is 2^-3.
    const std::vector<std::uint64_t> z{std::bit_cast<std::uint64_t>(1 + 0x1p-4),
                                       std::bit_cast<std::uint64_t>(1 + 0x1p-4 + 0x1p-40)};
    const auto eighths = apply(
        DType::Float64, DType::Float8E4M3,
        [](Build& b, ExprId p, ExprId) { return b.kernel().cast(p, DType::Float8E4M3); }, z, z);
    EXPECT_EQ(float_from_float8_e4m3(std::uint8_t(eighths[0])), 1.f);
    EXPECT_EQ(float_from_float8_e4m3(std::uint8_t(eighths[1])), 1.125f);
}

TEST(Operations, AProductAndASumRoundSeparately) {
    const std::vector<std::uint64_t> x{std::bit_cast<std::uint32_t>(1 + 0x1p-12f)};
    const std::vector<std::uint64_t> y{std::bit_cast<std::uint32_t>(-1 - 0x1p-11f)};
    const auto got = apply(
        DType::Float32, DType::Float32,
        [](Build& b, ExprId p, ExprId q) { return b.add(b.mul(p, p), q); }, x, y);
    EXPECT_EQ(got[0], 0u) << "an fma gives 2^-24";
}

}  // namespace
}  // namespace quern::interpret::testing
