#include <limits>
#include <random>
#include <string>

#include "tests/cpu/compiled_run.h"
#include "tests/cpu/passes.h"

namespace quern::cpu_test {
namespace arg_reductions_test {

class ArgReductions : public Compiled {};

std::string text_of(const char* op) {
    return std::string("compute(x) {\n    @kernel reduce(") + op +
           ")\n    for i in 0..n: yield (x[i], i)\n}";
}

/// Few values, so that the best occurs often.
Tensor values_with_ties(std::int64_t n, DType dtype, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) value = double(random() % 100);
    return Tensor::from({n}, values).to(dtype);
}

/// What no rounding of a tolerance hides.
void expect_same(const std::string& text, const Tensor& x) {
    const Case c(text, {x});
    const auto expected = c.interpreted();
    ASSERT_TRUE(expected.has_value());
    for (const cpu::Simd simd : levels_here()) {
        for (const Numerics numerics : {Numerics::Reproducible, Numerics::Strict}) {
            const auto got = c.compiled(numerics, simd);
            ASSERT_TRUE(got.has_value());
            EXPECT_TRUE(same_numbers(*got, *expected))
                << cpu::to_string(simd) << ": " << to_string(*got) << " is not "
                << to_string(*expected);
        }
    }
}

TEST_F(ArgReductions, FindTheFirstOfTheBestAtEverySize) {
    for (const std::int64_t n : {1, 3, 15, 16, 17, 257, 4095, 4096, 4097, 8192, 20011}) {
        SCOPED_TRACE(n);
        for (const char* op : {"argmax", "argmin"}) {
            expect_same(text_of(op), values_with_ties(n, DType::Float32, unsigned(n)));
        }
    }
}

TEST_F(ArgReductions, RunOnAllThreadsInLanes) {
    const Case c(text_of("argmax"), {values_with_ties(20000, DType::Float32, 1)});
    const CompiledKernel kernel(c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Sse41);
    EXPECT_EQ(kernel.schedule().find("chunk: grid; i: vector 16"), 0u) << kernel.schedule();
}

TEST_F(ArgReductions, FindItInEveryDtype) {
    for (const DType dtype : {DType::Int8, DType::UInt8, DType::Int32, DType::UInt64, DType::Int64,
                              DType::Float16, DType::BFloat16, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        for (const char* op : {"argmax", "argmin"}) {
            expect_same(text_of(op), values_with_ties(5000, dtype, 1));
        }
    }
}

TEST_F(ArgReductions, TakeTheFirstNaN) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::size_t first : {0, 5, 17, 4095, 4096, 9000}) {
        std::vector<float> values(9001, 1.0f);
        for (std::size_t i = first; i < values.size(); i += 11) values[i] = nan;
        for (const char* op : {"argmax", "argmin"}) {
            const Tensor x = Tensor::from({9001}, values);
            expect_same(text_of(op), x);
            EXPECT_EQ(Kernel(text_of(op)).on(Device("cpu"))(x).integers()[0], std::int64_t(first));
        }
    }
}

TEST_F(ArgReductions, KnowInfinitiesAndZerosOfBothSigns) {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const std::vector<float>& few : {std::vector<float>{-0.0f, 0.0f, -0.0f},
                                          {0.0f, -0.0f},
                                          {-infinity, -infinity},
                                          {infinity, infinity, 1.0f}}) {
        std::vector<float> values;
        while (values.size() < 5000) values.insert(values.end(), few.begin(), few.end());
        const auto n = std::int64_t(values.size());
        for (const char* op : {"argmax", "argmin"}) {
            expect_same(text_of(op), Tensor::from({n}, values));
        }
    }
}

TEST_F(ArgReductions, YieldAnyIndexOfValuesThatAreComputed) {
    expect_same(R"(
compute(x) {
    @kernel reduce(argmax)
    for i in 0..n:
        let d = x[i] - 50.0
        yield (d * d, 2 * i + 1)
})",
                values_with_ties(10000, DType::Float32, 3));
    expect_same(R"(
compute(x) {
    @kernel reduce(argmin)
    for i in 0..n:
        if x[i] > 20.0:
            yield (x[i], i)
})",
                values_with_ties(10000, DType::Float32, 4));
}

TEST_F(ArgReductions, FindTheBestOfEachRow) {
    const Tensor x = values_with_ties(7 * 5003, DType::Float32, 5).reshape({7, 5003});
    for (const int axis : {0, 1}) {
        expect_same("compute(x) {\n    @kernel reduce(argmax, axis=" + std::to_string(axis) +
                        ")\n    for r in 0..rows:\n        for c in 0..cols: yield (x[r, c], " +
                        (axis == 0 ? "r" : "c") + ")\n}",
                    x);
    }
}

TEST_F(ArgReductions, KeepIndicesBelowZero) {
    const std::string text =
        "compute(x) {\n@kernel reduce(argmin)\nfor i in 0..n: yield (x[i], i - 5000)\n}";
    for (const std::int64_t n : {8, 9000}) {
        Tensor x({n});
        for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = float(i);
        const Case c(text, {x});
        EXPECT_EQ(c.interpreted()->values(), (std::vector<double>{-5000}));
        expect_agreement(c);
    }
}

TEST_F(ArgReductions, OfTwoAxesStayValidThroughEachPass) {
    const std::string text =
        "compute(x) {\n@kernel reduce(argmax)\nfor p in 0..P, i in 0..n: yield (x[p, i], i)\n}";
    Tensor x({3, 5000});
    for (std::int64_t i = 0; i < 15000; ++i) x.data<float>()[i] = float(i * 37 % 1009);
    const Case c(text, {x});
    EXPECT_EQ(first_wrong_pass(c, Numerics::Strict), "");
    expect_agreement(c);
}

TEST_F(ArgReductions, FailForAnIterationThatIsNotTheLastBest) {
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    const Tensor divisors = Tensor::from<std::int64_t>({4}, {1, 2, 0, 4});
    for (const char* body :
         {" yield (x[i], 100 / b[i])\n", "\n  let u = 100 / b[i]\n  yield (x[i], i)\n"}) {
        const Case c(
            "compute(x, b) {\n@kernel reduce(argmax)\nfor i in 0..n:" + std::string(body) + "}",
            {x, divisors});
        EXPECT_FALSE(c.interpreted());
        EXPECT_FALSE(c.compiled(Numerics::Strict, cpu::chosen_simd())) << body;
    }
}

}  // namespace arg_reductions_test
}  // namespace quern::cpu_test
