#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/interpret/kernels.h"

// Every operator and every cast on every dtype, element by element, against references that compute
// in 64-bit integers and in double.

namespace quern::interpret::testing {
namespace {

constexpr DType kIntegers[] = {DType::Int8,  DType::Int16,  DType::Int32,  DType::Int64,
                               DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64};
constexpr DType kFloats[] = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

/// The bits of an element, and what they mean.
std::uint64_t wrapped(DType dtype, std::uint64_t x) {
    const int bits = int(size_of(dtype)) * 8;
    return bits == 64 ? x : x & ((std::uint64_t(1) << bits) - 1);
}

std::int64_t signed_value(DType dtype, std::uint64_t bits) {
    const int shift = 64 - int(size_of(dtype)) * 8;
    return is_signed_integer(dtype) ? std::int64_t(bits << shift) >> shift : std::int64_t(bits);
}

double floating_value(DType dtype, std::uint64_t bits) {
    switch (dtype) {
        case DType::Float16:
            return float_from_float16(std::uint16_t(bits));
        case DType::BFloat16:
            return float_from_bfloat16(std::uint16_t(bits));
        case DType::Float32:
            return std::bit_cast<float>(std::uint32_t(bits));
        case DType::Float8E4M3:
            return float_from_float8_e4m3(std::uint8_t(bits));
        case DType::Float8E5M2:
            return float_from_float8_e5m2(std::uint8_t(bits));
        default:
            return std::bit_cast<double>(bits);
    }
}

std::uint64_t rounded(DType dtype, double x) {
    switch (dtype) {
        case DType::Float16:
            return float16_from_double(x);
        case DType::BFloat16:
            return bfloat16_from_double(x);
        case DType::Float32:
            return std::bit_cast<std::uint32_t>(float(x));
        case DType::Float8E4M3:
            return float8_e4m3_from_float(float(x));
        case DType::Float8E5M2:
            return float8_e5m2_from_float(float(x));
        default:
            return std::bit_cast<std::uint64_t>(x);
    }
}

std::vector<std::uint8_t> packed(DType dtype, const std::vector<std::uint64_t>& elements) {
    const std::size_t size = size_of(dtype);
    std::vector<std::uint8_t> bytes;
    for (const std::uint64_t e : elements) {
        for (std::size_t b = 0; b < size; ++b) bytes.push_back(std::uint8_t(e >> (8 * b)));
    }
    return bytes;
}

std::vector<std::uint64_t> samples(DType dtype) {
    std::vector<std::uint64_t> list;
    if (dtype == DType::Bool) return {0, 1};
    if (!is_floating(dtype)) {
        for (const std::int64_t x :
             {0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 1000, -1, -2, -3, -7, -128}) {
            list.push_back(wrapped(dtype, std::uint64_t(x)));
        }
        const std::uint64_t top = std::uint64_t(1) << (size_of(dtype) * 8 - 1);
        for (const std::uint64_t x : {top, top - 1, top + 1, ~std::uint64_t(0), top / 2 + 3}) {
            list.push_back(wrapped(dtype, x));
        }
        return list;
    }
    for (const double x : {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           0.5,
                           1.5,
                           -2.5,
                           3.0,
                           7.25,
                           -9.0,
                           1e-3,
                           0.1,
                           300.7,
                           65504.0,
                           1e30,
                           -1e38,
                           1e-40,
                           2.5e9,
                           -3e9,
                           1e19,
                           -1e19,
                           255.9,
                           128.0,
                           double(INFINITY),
                           -double(INFINITY),
                           double(NAN)}) {
        list.push_back(rounded(dtype, x));
    }
    return list;
}

/// Every pair of samples, as two operands.
struct Pairs {
    std::vector<std::uint64_t> x, y;
    explicit Pairs(DType dtype) {
        for (const std::uint64_t a : samples(dtype)) {
            for (const std::uint64_t b : samples(dtype)) {
                x.push_back(a);
                y.push_back(b);
            }
        }
    }
};

using Make = std::function<ExprId(Build&, ExprId x, ExprId y)>;

/// out[i] = make(x[i], y[i]); the bits of out.
std::vector<std::uint64_t> apply(DType dtype, DType result, const Make& make,
                                 const std::vector<std::uint64_t>& x,
                                 const std::vector<std::uint64_t>& y) {
    Build b;
    const BufferId left = b.operand("x", dtype, 1), right = b.operand("y", dtype, 1);
    const BufferId out = b.output("out", result, {b.extent(left)});
    const ExprId i = b.points("i", b.extent(left));
    b.store(out, {i}, make(b, b.at(left, {i}), b.at(right, {i})));
    b.end_for();
    const auto count = std::int64_t(x.size());
    Data<std::uint8_t> a(dtype, {count}, packed(dtype, x)), c(dtype, {count}, packed(dtype, y));
    Data<std::uint8_t> got(result, {count}, std::vector<std::uint8_t>(x.size() * size_of(result)));
    const std::vector<View> operands{a.view, c.view};
    const auto failure = Program(b.take()).run({}, {}, operands, got.view);
    EXPECT_FALSE(failure) << failure->message;
    std::vector<std::uint64_t> bits(x.size());
    for (std::size_t k = 0; k < x.size(); ++k) {
        for (std::size_t byte = 0; byte < size_of(result); ++byte) {
            bits[k] |= std::uint64_t(got.values[k * size_of(result) + byte]) << (8 * byte);
        }
    }
    return bits;
}

/// Floats must have the same bits, but any NaN is as good as another.
void expect_same(DType dtype, std::uint64_t got, std::uint64_t expected, const std::string& what) {
    if (is_floating(dtype) && std::isnan(floating_value(dtype, expected))) {
        EXPECT_TRUE(std::isnan(floating_value(dtype, got))) << what;
        return;
    }
    EXPECT_EQ(got, expected) << what;
}

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
        case BinaryOp::Min:
            return std::isnan(x) ? x : std::isnan(y) ? y : x < y ? x : y;
        default:
            return std::pow(x, y);
    }
}

TEST(Operations, BinaryOperatorsOfFloatsRoundOnce) {
    for (const DType dtype : kFloats) {
        for (const BinaryOp op : kArithmetic) {
            if (op == BinaryOp::FloorDiv) continue;
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

TEST(Operations, UnaryFunctionsOfFloatsAreTheDoubleFunctionRoundedOnce) {
    struct Function {
        UnaryOp op;
        double (*reference)(double);
    };
    const Function functions[] = {
        {UnaryOp::Neg, [](double x) { return -x; }},
        {UnaryOp::Abs, [](double x) { return std::copysign(x, 1.0); }},
        {UnaryOp::Ceil, [](double x) { return -std::floor(-x); }},
        {UnaryOp::Cos, [](double x) { return std::cos(x); }},
        {UnaryOp::Cosh, [](double x) { return std::cosh(x); }},
        {UnaryOp::Erf, [](double x) { return std::erf(x); }},
        {UnaryOp::Exp, [](double x) { return std::exp(x); }},
        {UnaryOp::Exp2, [](double x) { return std::exp2(x); }},
        {UnaryOp::Floor, [](double x) { return -std::ceil(-x); }},
        {UnaryOp::Log, [](double x) { return std::log(x); }},
        {UnaryOp::Log2, [](double x) { return std::log2(x); }},
        {UnaryOp::Rsqrt, [](double x) { return 1 / std::sqrt(x); }},
        {UnaryOp::Sin, [](double x) { return std::sin(x); }},
        {UnaryOp::Sinh, [](double x) { return std::sinh(x); }},
        {UnaryOp::Sqrt, [](double x) { return std::sqrt(x); }},
        {UnaryOp::Tan, [](double x) { return std::tan(x); }},
        {UnaryOp::Tanh, [](double x) { return std::tanh(x); }},
    };
    for (const DType dtype : kFloats) {
        const std::vector<std::uint64_t> x = samples(dtype);
        for (const Function& f : functions) {
            const auto got = apply(
                dtype, dtype, [&](Build& b, ExprId p, ExprId) { return b.kernel().unary(f.op, p); },
                x, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                const double value = floating_value(dtype, x[k]);
                expect_same(dtype, got[k], rounded(dtype, f.reference(value)),
                            std::string(to_string(dtype)) + " " + std::string(to_string(f.op)) +
                                " " + std::to_string(value));
            }
        }
        const auto is_nan = apply(
            dtype, DType::Bool,
            [](Build& b, ExprId p, ExprId) { return b.kernel().unary(UnaryOp::IsNan, p); }, x, x);
        for (std::size_t k = 0; k < x.size(); ++k) {
            EXPECT_EQ(is_nan[k], std::isnan(floating_value(dtype, x[k])));
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
