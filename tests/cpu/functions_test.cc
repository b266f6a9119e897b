#include "quern/dtype.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/definitions.h"
#include "tests/math/validation_sets.h"

namespace quern::cpu_test {
namespace {

using Functions = Compiled;

bool has_fma(cpu::Simd simd) { return simd == cpu::Simd::Avx2 || simd == cpu::Simd::Avx512; }

TEST_F(Functions, HaveTheBitsOfTheirDefinitionOnEveryLevel) {
    for (const char* name : kFunctions) {
        const std::string text = text_of(name);
        for (const DType dtype : kDTypes) {
            const Tensor x = arguments(dtype);
            const Case c(text, {x});
            const auto interpreted = c.interpreted();
            ASSERT_TRUE(interpreted.has_value());
            const Tensor plain = definition(name, x, false), fused = definition(name, x, true);
            for (const cpu::Simd simd : levels_here()) {
                SCOPED_TRACE(std::string(name) + " of " + std::string(to_string(dtype)) + ", " +
                             std::string(cpu::to_string(simd)));
                const auto exact = c.compiled(Numerics::Reproducible, simd);
                ASSERT_TRUE(exact.has_value());
                EXPECT_TRUE(same_numbers(*exact, *interpreted));
                EXPECT_TRUE(same_numbers(*exact, plain));
                const auto strict = c.compiled(Numerics::Strict, simd);
                ASSERT_TRUE(strict.has_value());
                EXPECT_TRUE(same_numbers(*strict, has_fma(simd) ? fused : plain));
            }
        }
    }
}

TEST_F(Functions, OfEveryFloat16AndBFloat16HaveTheBitsOfTheirDefinition) {
    for (const DType dtype : {DType::Float16, DType::BFloat16}) {
        const Tensor numbers = every_number(dtype);
        // A sanitizer sees nothing of the code that is made.
        const Tensor x = kSanitized ? numbers.slice(0, 0, 1 << 16, 61).clone() : numbers;
        for (const char* name : kFunctions) {
            const Case c(text_of(name), {x});
            const Tensor plain = definition(name, x, false), fused = definition(name, x, true);
            for (const cpu::Simd simd : levels_here()) {
                if (kSanitized && simd != cpu::chosen_simd()) continue;
                SCOPED_TRACE(std::string(name) + " of " + std::string(to_string(dtype)) + ", " +
                             std::string(cpu::to_string(simd)));
                const auto strict = c.compiled(Numerics::Strict, simd);
                ASSERT_TRUE(strict.has_value());
                EXPECT_TRUE(same_numbers(*strict, has_fma(simd) ? fused : plain));
            }
        }
    }
}

/// How many rows there are. Results are compared as numbers of T.
template <class T>
std::size_t check_rows(const char* name) {
    const auto rows = math::testing::validation_rows<T>(name);
    if (rows.empty()) return 0;
    Tensor x = Tensor::empty({std::int64_t(rows.size())},
                             sizeof(T) == 4 ? DType::Float32 : DType::Float64);
    for (std::size_t i = 0; i < rows.size(); ++i) x.data<T>()[i] = rows[i].x;
    const Case c(text_of(name), {x});
    for (const cpu::Simd simd : levels_here()) {
        for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
            const auto got = c.compiled(numerics, simd);
            EXPECT_TRUE(got.has_value());
            for (std::size_t i = 0; got && i < rows.size(); ++i) {
                const T y = std::as_const(*got).template data<T>()[i];
                EXPECT_LE(math::testing::steps(y, rows[i].result), rows[i].bound)
                    << name << "(" << rows[i].x << ") is " << y << ", expected " << rows[i].result
                    << ", " << cpu::to_string(simd) << ", " << to_string(numerics);
            }
        }
    }
    return rows.size();
}

TEST_F(Functions, AreWithinTheBoundsOfNumpysValidationSetsOnEveryLevel) {
    std::size_t rows = 0;
    for (const char* name : kFunctions) {
        rows += check_rows<float>(name) + check_rows<double>(name);
    }
    if (rows == 0)
        GTEST_SKIP() << "no validation sets; expected " << math::testing::validation_set("exp");
    EXPECT_EQ(rows, 26'610u);
}

TEST_F(Functions, OfOneNumberForAllPointsAreThoseOfVectors) {
    const char* text = R"(
compute(x, y) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i] + exp(y[0])
})";
    for (const DType dtype : {DType::Float32, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor y = Tensor::from({1}, {-3.25}).to(dtype);
        // Two results, each within 2 units of the exact one, which is below 2^-4.
        const double tolerance = dtype == DType::Float32 ? 0x1p-25 : 0x1p-54;
        expect_agreement(Case(text, {Tensor({37}, dtype), y}), tolerance);
    }
}

TEST_F(Functions, PowersHaveTheBitsOfTheirDefinition) {
    for (const DType dtype : kDTypes) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor x = arguments(dtype);
        const Tensor y = uniform(x.shape(), 4, -3, 3, dtype);
        const Case c(kPower, {x, y});
        const auto interpreted = c.interpreted();
        ASSERT_TRUE(interpreted.has_value());
        const Tensor fused = fused_powers(x, y);
        for (const cpu::Simd simd : levels_here()) {
            SCOPED_TRACE(cpu::to_string(simd));
            const auto exact = c.compiled(Numerics::Reproducible, simd);
            const auto strict = c.compiled(Numerics::Strict, simd);
            ASSERT_TRUE(exact.has_value() && strict.has_value());
            EXPECT_TRUE(same_numbers(*exact, *interpreted));
            EXPECT_TRUE(same_numbers(*strict, has_fma(simd) ? fused : *interpreted));
        }
    }
}

}  // namespace
}  // namespace quern::cpu_test
