#include "quern/math/functions.h"

#include "tests/interpret/elements.h"

// The functions of functions.def on every floating dtype. How accurate they are on all numbers is
// tested in tests/math.

namespace quern::interpret::testing {
namespace {

struct Function {
    UnaryOp op;
    double (*reference)(double);
};

std::vector<std::uint64_t> results_of(UnaryOp op, DType dtype,
                                      const std::vector<std::uint64_t>& x) {
    return apply(
        dtype, dtype, [op](Build& b, ExprId p, ExprId) { return b.kernel().unary(op, p); }, x, x);
}

std::string call(DType dtype, std::string_view op, double x) {
    return std::string(to_string(dtype)) + " " + std::string(op) + " " + std::to_string(x);
}

/// How many numbers of the dtype lie between.
double steps(DType dtype, std::uint64_t got, std::uint64_t expected) {
    const bool is_nan = std::isnan(floating_value(dtype, got));
    if (is_nan || std::isnan(floating_value(dtype, expected))) {
        return is_nan && std::isnan(floating_value(dtype, expected)) ? 0 : HUGE_VAL;
    }
    const auto place = [dtype](std::uint64_t bits) {
        const std::uint64_t sign = std::uint64_t(1) << (size_of(dtype) * 8 - 1);
        return bits & sign ? -double(bits & ~sign) : double(bits);
    };
    return std::fabs(place(got) - place(expected));
}

// Within 2 ulp of exact by their definition; the reference rounds once more.
constexpr double kSteps = 2;

TEST(Functions, AreWithinTwoUlpOfTheCLibraryInDouble) {
    const Function functions[] = {
        {UnaryOp::Acos, [](double x) { return std::acos(x); }},
        {UnaryOp::Acosh, [](double x) { return std::acosh(x); }},
        {UnaryOp::Asin, [](double x) { return std::asin(x); }},
        {UnaryOp::Asinh, [](double x) { return std::asinh(x); }},
        {UnaryOp::Atan, [](double x) { return std::atan(x); }},
        {UnaryOp::Atanh, [](double x) { return std::atanh(x); }},
        {UnaryOp::Cbrt, [](double x) { return std::cbrt(x); }},
        {UnaryOp::Cos, [](double x) { return std::cos(x); }},
        {UnaryOp::Cosh, [](double x) { return std::cosh(x); }},
        {UnaryOp::Erf, [](double x) { return std::erf(x); }},
        {UnaryOp::Exp, [](double x) { return std::exp(x); }},
        {UnaryOp::Exp2, [](double x) { return std::exp2(x); }},
        {UnaryOp::Expm1, [](double x) { return std::expm1(x); }},
        {UnaryOp::Log, [](double x) { return std::log(x); }},
        {UnaryOp::Log10, [](double x) { return std::log10(x); }},
        {UnaryOp::Log1p, [](double x) { return std::log1p(x); }},
        {UnaryOp::Log2, [](double x) { return std::log2(x); }},
        {UnaryOp::Rsqrt, [](double x) { return 1 / std::sqrt(x); }},
        {UnaryOp::Sin, [](double x) { return std::sin(x); }},
        {UnaryOp::Sinh, [](double x) { return std::sinh(x); }},
        {UnaryOp::Tan, [](double x) { return std::tan(x); }},
        {UnaryOp::Tanh, [](double x) { return std::tanh(x); }},
    };
    for (const DType dtype : kFloats) {
        const std::vector<std::uint64_t> x = samples(dtype);
        for (const Function& f : functions) {
            const auto got = results_of(f.op, dtype, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                const double value = floating_value(dtype, x[k]);
                EXPECT_LE(steps(dtype, got[k], rounded(dtype, f.reference(value))), kSteps)
                    << call(dtype, to_string(f.op), value);
            }
        }
    }
}

TEST(Functions, HaveTheBitsOfTheirDefinitionRoundedToTheDtype) {
    const std::pair<UnaryOp, float (*)(float)> functions[] = {
#define UNARY(name, op, operand, value)       \
    {UnaryOp::op, [](float number) -> float { \
         const math::Native<float> x{number}; \
         return (value).number;               \
     }},
#include "quern/lang/functions.def"
    };
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
        const std::vector<std::uint64_t> x = samples(dtype);
        for (const auto& [op, definition] : functions) {
            const auto got = results_of(op, dtype, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                const auto value = float(floating_value(dtype, x[k]));
                expect_same(dtype, got[k], rounded(dtype, definition(value)),
                            call(dtype, to_string(op), value));
            }
        }
    }
}

TEST(Functions, ThatSelectOrRoundAreExact) {
    const Function functions[] = {
        {UnaryOp::Neg, [](double x) { return -x; }},
        {UnaryOp::Abs, [](double x) { return std::copysign(x, 1.0); }},
        {UnaryOp::Ceil, [](double x) { return std::ceil(x); }},
        {UnaryOp::Floor, [](double x) { return std::floor(x); }},
        {UnaryOp::Sqrt, [](double x) { return std::sqrt(x); }},
    };
    for (const DType dtype : kFloats) {
        const std::vector<std::uint64_t> x = samples(dtype);
        for (const Function& f : functions) {
            const auto got = results_of(f.op, dtype, x);
            for (std::size_t k = 0; k < x.size(); ++k) {
                const double value = floating_value(dtype, x[k]);
                expect_same(dtype, got[k], rounded(dtype, f.reference(value)),
                            call(dtype, to_string(f.op), value));
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

TEST(Functions, PowerIsWithinTwoUlpOfTheCLibraryInDouble) {
    for (const DType dtype : kFloats) {
        const Pairs all(dtype);
        const auto got = apply(
            dtype, dtype, [](Build& b, ExprId p, ExprId q) { return b.op(BinaryOp::Pow, p, q); },
            all.x, all.y);
        for (std::size_t k = 0; k < all.x.size(); ++k) {
            const double x = floating_value(dtype, all.x[k]), y = floating_value(dtype, all.y[k]);
            EXPECT_LE(steps(dtype, got[k], rounded(dtype, std::pow(x, y))), kSteps)
                << call(dtype, "pow", x) << " " << y;
        }
    }
}

}  // namespace
}  // namespace quern::interpret::testing
