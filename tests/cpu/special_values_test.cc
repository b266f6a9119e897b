// Random expressions of what is exact, choices above all, at numbers that compilers treat apart:
// zeros of both signs, infinities, NaN, the least and the greatest. The interpreter's bits in
// reproducible mode, on every level.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

/// Writes expressions over x[i], y[i] of a float dtype and m[i], n[i] of an integer one.
class Expressions {
public:
    /// `is_rounded`: with sums, products and quotients of floats, which modes round differently.
    Expressions(std::uint64_t seed, bool is_rounded) : random_(seed), is_rounded_(is_rounded) {}

    std::string number(int depth) {
        if (depth == 0) return one_of({"x[i]", "y[i]", "x[i]", "y[i]", constant()});
        const auto a = [&] { return number(depth - 1); };
        switch (pick(12)) {
            case 0:
            case 1:
                return call(one_of({"abs", "ceil", "floor", "relu", "sqrt"}), {a()});
            case 2:
                return "(-" + a() + ")";
            case 3:
            case 4:
                return call(one_of({"max", "min"}), {a(), a()});
            case 5:
                return call(one_of({"max", "min"}), {a(), constant()});
            case 6:
                return call("clamp", {a(), constant(), constant()});
            case 7:
            case 8:
                return call("select", {condition(depth - 1), a(), a()});
            case 9:
                return call("select", {condition(depth - 1), a(), constant()});
            case 10:
                if (!is_rounded_) return call("abs", {a()});
                return "(" + a() + one_of({" + ", " - ", " * ", " / "}) + a() + ")";
            default:
                return call(float_name, {integer(depth - 1)});
        }
    }

    std::string condition(int depth) {
        if (depth == 0) return one_of({"x[i]", "y[i]"}) + compare() + one_of({"0.0", "y[i]"});
        const auto a = [&] { return condition(depth - 1); };
        switch (pick(7)) {
            case 0:
                return "(not " + a() + ")";
            case 1:
                return "(" + a() + one_of({" and ", " or "}) + a() + ")";
            case 2:
                return call("isnan", {number(depth - 1)});
            case 3:
                return "(" + integer(depth - 1) + compare() + integer(depth - 1) + ")";
            case 4:
                return "(" + number(depth - 1) + compare() + constant() + ")";
            default:
                return "(" + number(depth - 1) + compare() + number(depth - 1) + ")";
        }
    }

    std::string integer(int depth) {
        if (depth == 0) return one_of({"m[i]", "n[i]", "m[i]", "n[i]", whole()});
        const auto a = [&] { return integer(depth - 1); };
        switch (pick(8)) {
            case 0:
                return call("abs", {a()});
            case 1:
                return call(one_of({"max", "min"}), {a(), a()});
            case 2:
                return call("select", {condition(depth - 1), a(), a()});
            case 3:
                return "(" + a() + one_of({" / ", " % "}) + one_of({"1", "2", "3", "7"}) + ")";
            case 4:
                return call(integer_name, {number(depth - 1)});
            case 5:
                return call("clamp", {a(), "1", "5"});
            default:
                return "(" + a() + one_of({" + ", " - ", " * "}) + a() + ")";
        }
    }

    std::string float_name = "float32", integer_name = "int32";

private:
    std::size_t pick(std::size_t count) { return std::size_t(random_() % count); }
    std::string one_of(const std::vector<std::string>& all) { return all[pick(all.size())]; }
    std::string constant() { return one_of({"0.0", "(-0.0)", "1.0", "(-1.0)", "inf", "(-inf)"}); }
    std::string whole() { return one_of({"0", "1", "(-1)", "5"}); }
    std::string compare() { return one_of({" < ", " <= ", " > ", " >= ", " == ", " != "}); }
    static std::string call(const std::string& name, const std::vector<std::string>& all) {
        std::string text = name + "(";
        for (const std::string& one : all) text += (&one == &all.front() ? "" : ", ") + one;
        return text + ")";
    }

    std::mt19937_64 random_;
    bool is_rounded_;
};

double least_of(DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return 0x1p-24;
        case DType::BFloat16:
            return 0x1p-133;
        case DType::Float32:
            return 0x1p-149;
        default:
            return std::numeric_limits<double>::denorm_min();
    }
}

/// All pairs of special numbers: of the first, and of the second.
std::array<Tensor, 2> pairs(const std::vector<double>& numbers, DType dtype) {
    std::vector<double> first, second;
    for (const double a : numbers) {
        for (const double b : numbers) {
            first.push_back(a);
            second.push_back(b);
        }
    }
    const Shape shape{std::int64_t(first.size())};
    return {Tensor::from(shape, first).to(dtype), Tensor::from(shape, second).to(dtype)};
}

/// The kernel of a seed; none if it has no operand.
std::optional<Case> case_of(std::uint64_t seed, bool is_rounded) {
    constexpr std::array kFloats{DType::Float32, DType::Float64, DType::Float32, DType::Float16,
                                 DType::BFloat16};
    constexpr std::array kIntegers{DType::Int32, DType::Int64,  DType::Int8,   DType::UInt8,
                                   DType::Int16, DType::UInt16, DType::UInt32, DType::UInt64};
    const DType floats = kFloats[seed % kFloats.size()];
    const DType integers = kIntegers[seed / kFloats.size() % kIntegers.size()];
    Expressions all(seed, is_rounded);
    all.float_name = to_string(floats);
    all.integer_name = to_string(integers);
    const double least = least_of(floats);
    const auto [x, y] = pairs({0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, INFINITY, -INFINITY, NAN,
                               least, -least, 65504.0, -7.0},
                              floats);
    const auto [m, n] =
        pairs({0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 32767, 65535, -1, -128}, integers);
    const std::string value = seed % 4 == 3 ? all.integer(3) : all.number(3);
    std::string names;
    std::vector<Tensor> operands;
    for (const auto& [name, tensor] : {std::pair{"x", x}, {"y", y}, {"m", m}, {"n", n}}) {
        if (value.find(std::string(name) + "[i]") == std::string::npos) continue;
        names += (names.empty() ? "" : ", ") + std::string(name);
        operands.push_back(tensor);
    }
    if (operands.empty()) return std::nullopt;
    return Case("compute(" + names +
                    ") {\n    @kernel custom\n    for i in 0..size: out[i] = " + value + "\n}",
                operands);
}

class SpecialValues : public Compiled {};

TEST_F(SpecialValues, RandomChoicesHaveTheInterpretersBitsOnEveryLevel) {
    int seen = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const std::optional<Case> c = case_of(seed, true);
        const auto expected = c ? c->interpreted() : std::nullopt;
        if (!expected) continue;
        ++seen;
        SCOPED_TRACE(std::to_string(seed) + "\n" + c->text());
        for (const cpu::Simd simd : levels_here()) {
            const auto got = c->compiled(Numerics::Reproducible, simd);
            ASSERT_TRUE(got);
            EXPECT_TRUE(same_numbers(*got, *expected)) << to_string(simd);
        }
        // As devices without numbers of 64 bits compute, of which each seed takes one.
        schedule::Target target = vulkan::kInvocations;
        target.native.int64 = target.native.int8 = target.native.int16 = seed % 2 == 0;
        target.native.float64 = false;
        const LanesRun run = run_on_lanes(*c, Numerics::Reproducible, target);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(same_numbers(*run.result, *expected)) << "without numbers of 64 bits";
    }
    EXPECT_GT(seen, 80);
}

/// What LLVM's instcombine gets wrong.
TEST_F(SpecialValues, ChoicesBetweenZerosHaveTheInterpretersSign) {
    const auto [x, y] = pairs({0.0, -0.0, 1.0, -1.0, NAN}, DType::Float32);
    for (const char* value :
         {"sqrt(relu(max(0.0, x[i] + 0.0 * y[i])))", "relu(max(0.0, x[i])) + y[i]",
          "min(max(0.0, x[i]), select(x[i] < 0.0, x[i], y[i]))"}) {
        for (const DType dtype :
             {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
            const Case c(std::string("compute(x, y) {\n    @kernel custom\n    for i in 0..size: "
                                     "out[i] = ") +
                             value + "\n}",
                         {x.to(dtype), y.to(dtype)});
            SCOPED_TRACE(c.text() + std::string(to_string(dtype)));
            const auto expected = c.interpreted();
            ASSERT_TRUE(expected);
            for (const cpu::Simd simd : levels_here()) {
                const auto got = c.compiled(Numerics::Reproducible, simd);
                ASSERT_TRUE(got);
                EXPECT_TRUE(same_numbers(*got, *expected)) << to_string(simd);
            }
        }
    }
}

/// To fast code zeros are alike.
TEST_F(SpecialValues, RandomChoicesWithoutRoundingHaveTheirValuesInFastMode) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const std::optional<Case> c = case_of(seed, false);
        const auto expected = c ? c->interpreted() : std::nullopt;
        if (!expected) continue;
        SCOPED_TRACE(std::to_string(seed) + "\n" + c->text());
        const cpu::Simd simd = levels_here()[seed % levels_here().size()];
        const auto got = c->compiled(Numerics::Fast, simd);
        ASSERT_TRUE(got);
        const std::vector<double> numbers = got->values(), wanted = expected->values();
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            if (std::isnan(numbers[i]) && std::isnan(wanted[i])) continue;
            ASSERT_EQ(numbers[i], wanted[i]) << to_string(simd) << ", element " << i;
        }
    }
}

/// What reciprocals and roots have no number for, or one that is not normal.
TEST_F(SpecialValues, AreDividedByTooInFastMode) {
    const std::vector<double> numbers{0, 1, 4,     1e-40, 3e38,      kInfinity, 1e10,  2e-38, 0,
                                      1, 4, 1e-40, 3e38,  kInfinity, 1e10,      2e-38, 5};
    const Tensor y = Tensor::from({std::int64_t(numbers.size())}, numbers).to(DType::Float32);
    for (const char* value : {"1.0 / sqrt(y[i])", "2.0 / sqrt(y[i] + 1.0)", "rsqrt(y[i])",
                              "min(1.0 / sqrt(abs(y[i])), 1000.0)", "y[i] / 1e-40", "y[i] / 3e38",
                              "y[i] / 0.0", "1.0 / y[i]"}) {
        const Case c(std::string("compute(y) {\n    @kernel custom\n    for i in 0..n: out[i] = ") +
                         value + "\n}",
                     {y});
        const auto expected = c.interpreted();
        ASSERT_TRUE(expected);
        for (const cpu::Simd simd : levels_here()) {
            SCOPED_TRACE(value + std::string(" on ") + to_string(simd));
            const auto got = c.compiled(Numerics::Fast, simd);
            ASSERT_TRUE(got);
            const std::vector<double> a = got->values(), b = expected->values();
            for (std::size_t i = 0; i < a.size(); ++i) {
                if (std::isnan(a[i]) && std::isnan(b[i])) continue;
                if (a[i] == b[i]) continue;
                // A reciprocal and a product are rounded, or a quotient and a root; what is not
                // normal has its last place at 2^-149.
                EXPECT_NEAR(a[i], b[i], std::max(std::abs(b[i]) * 0x1p-22, 0x1p-149)) << numbers[i];
            }
        }
    }
}

}  // namespace
}  // namespace quern::cpu_test
