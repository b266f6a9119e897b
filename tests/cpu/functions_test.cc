#include "quern/math/functions.h"

#include "quern/dtype.h"
#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

using Functions = Compiled;

constexpr DType kDTypes[] = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

/// Numbers of every size and sign, and what is special.
Tensor arguments(DType dtype) {
    std::vector<double> x = {0.0,   -0.0,   1.0,    -1.0, 0.5,    INFINITY, -INFINITY,
                             NAN,   1e-40,  -1e-40, 88.7, -103.9, 127.99,   -149.5,
                             709.7, -745.1, 1e5,    1e10, 3e38,   2.5};
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
        const double size = std::exp2(double(random.bits() % 60) - 40);
        x.push_back((random.bits() % 2 ? 1 : -1) * size *
                    (1 + double(random.bits() >> 12) * 0x1p-52));
    }
    return Tensor::from({std::int64_t(x.size())}, x).to(dtype);
}

/// What the definition of a function gives, where products and sums are fused or are not.
template <class T, bool fuses>
T defined(const std::string& name, T number) {
    const math::Native<T, fuses> x = {number};
    if (name == "relu") return x.number > 0 || x.number != x.number ? x.number : T(0);
#define UNARY(text, op, operand, value) \
    if (name == #text) return (value).number;
#include "quern/lang/functions.def"
    ADD_FAILURE() << "no definition of " << name;
    return number;
}

template <class T, bool fuses>
Tensor defined_all(const std::string& name, const Tensor& x) {
    std::vector<double> results;
    for (const double v : x.values()) results.push_back(defined<T, fuses>(name, T(v)));
    return Tensor::from(x.shape(), results).to(x.dtype());
}

template <class F>
Tensor map(const Tensor& x, F f) {
    std::vector<double> values = x.values();
    for (double& v : values) v = f(v);
    return Tensor::from(x.shape(), values).to(x.dtype());
}

Tensor definition(const std::string& name, const Tensor& x, bool fuses) {
    if (name == "sigmoid") {
        // Each step is rounded to the dtype. In double it is exact, or so near that to round once
        // more changes nothing.
        const Tensor power = definition("exp", map(x, [](double v) { return -v; }), fuses);
        const Tensor sum = map(power, [](double v) { return v + 1; });
        return map(sum, [](double v) { return 1 / v; });
    }
    if (x.dtype() == DType::Float64) {
        return fuses ? defined_all<double, true>(name, x) : defined_all<double, false>(name, x);
    }
    return fuses ? defined_all<float, true>(name, x) : defined_all<float, false>(name, x);
}

bool has_fma(cpu::Simd simd) { return simd == cpu::Simd::Avx2 || simd == cpu::Simd::Avx512; }

TEST_F(Functions, HaveTheBitsOfTheirDefinitionOnEveryLevel) {
    for (const char* name :
         {"abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt",
          "sin", "sinh", "sqrt", "tan", "tanh", "sigmoid", "relu"}) {
        const std::string text =
            "compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n        out[i] = " +
            std::string(name) + "(x[i])\n}";
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
    const char* text = R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = pow(x[i], y[i])
})";
    for (const DType dtype : kDTypes) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor x = arguments(dtype);
        const Tensor y = uniform(x.shape(), 4, -3, 3, dtype);
        const Case c(text, {x, y});
        const auto interpreted = c.interpreted();
        ASSERT_TRUE(interpreted.has_value());
        const std::vector<double> a = x.values(), b = y.values();
        std::vector<double> powers;
        for (std::size_t i = 0; i < a.size(); ++i) {
            using Double = math::Native<double, true>;
            using Float = math::Native<float, true>;
            powers.push_back(dtype == DType::Float64
                                 ? pow(Double{a[i]}, Double{b[i]}).number
                                 : pow(Float{float(a[i])}, Float{float(b[i])}).number);
        }
        const Tensor fused = Tensor::from(x.shape(), powers).to(dtype);
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
