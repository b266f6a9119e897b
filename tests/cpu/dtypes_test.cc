#include <random>

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

using Dtypes = Compiled;

constexpr DType kNumbers[] = {DType::Int8,    DType::Int16,    DType::Int32,   DType::Int64,
                              DType::UInt8,   DType::UInt16,   DType::UInt32,  DType::UInt64,
                              DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

/// Narrow floats differ by a last place where a sum was taken in another order.
double tolerance_of(DType dtype) {
    return dtype == DType::Float16 ? 2e-3 : dtype == DType::BFloat16 ? 2e-2 : 1e-5;
}

Tensor spread(const Shape& shape, std::uint64_t seed, DType dtype) {
    const bool is_unsigned = is_unsigned_integer(dtype);
    return uniform(shape, seed, is_unsigned ? 0 : -100, 100, dtype);
}

TEST_F(Dtypes, ArithmeticAndComparisonsOfEveryNumber) {
    const char* text = R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = select(x[i] < y[i], x[i] * y[i] + x[i], max(x[i], y[i]) - min(x[i], y[i]))
})";
    for (const DType dtype : kNumbers) {
        SCOPED_TRACE(to_string(dtype));
        expect_agreement(Case(text, {spread({67}, 1, dtype), spread({67}, 2, dtype)}),
                         tolerance_of(dtype), 100);
    }
}

TEST_F(Dtypes, SumsProductsAndExtremesOfEveryNumber) {
    for (const char* op : {"+", "*", "min", "max"}) {
        const std::string text =
            "compute(x) {\n    @kernel reduce(" + std::string(op) +
            ", axis=1)\n    for i in 0..n, j in 0..m:\n        yield x[i, j]\n}";
        for (const DType dtype : kNumbers) {
            SCOPED_TRACE(std::string(op) + " of " + std::string(to_string(dtype)));
            const bool is_product = *op == '*';
            const Tensor x =
                is_product ? uniform({3, 33}, 7, 0.9, 1.2, dtype) : spread({3, 33}, 7, dtype);
            expect_agreement(Case(text, {x}), tolerance_of(dtype), is_product ? 1 : 1000);
        }
    }
}

TEST_F(Dtypes, ExtremesOfNarrowFloatsThatAreSeenToBeNumbersCallNoLibrary) {
    for (const char* value : {"min(2.125, select(i < 6, 1.625 + 0, 2.375 + 0))",
                              "max(-2.125, select(i < 6, -1.625 + 0, -2.375 + 0))"}) {
        const std::string text =
            "compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = x[i] / "
            "(abs(clamp(" +
            std::string(value) + ", -3.0, 3.0)) + 0.5)\n}";
        for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
            const Case c(text, {spread({21}, 3, dtype)});
            const auto expected = c.interpreted();
            ASSERT_TRUE(expected);
            for (const cpu::Simd simd : levels_here()) {
                // Without lanes too: LLVM knows more of single numbers.
                schedule::Tiling none;
                none.numerics = Numerics::Reproducible;
                const ir::Facts facts = c.facts();
                const CompiledKernel serial(c.kernel(), facts,
                                            compile({.kernel = c.kernel(),
                                                     .facts = facts,
                                                     .numerics = Numerics::Reproducible,
                                                     .simd = simd,
                                                     .tiling = &none}));
                for (const auto& got :
                     {c.compiled(serial), c.compiled(Numerics::Reproducible, simd)}) {
                    ASSERT_TRUE(got);
                    EXPECT_TRUE(same_numbers(*got, *expected))
                        << to_string(dtype) << " on " << cpu::to_string(simd);
                }
            }
        }
    }
}

TEST_F(Dtypes, LogicalReductionsOfBool) {
    for (const char* op : {"and", "or"}) {
        const std::string text =
            "compute(x) {\n    @kernel reduce(" + std::string(op) +
            ", axis=1)\n    for i in 0..n, j in 0..m:\n        yield x[i, j]\n}";
        Tensor x({4, 33}, DType::Bool, Device("interpreter"));
        for (int j = 0; j < 33; ++j) x.data<bool>()[j] = true;
        x.data<bool>()[33 + 32] = true;
        expect_agreement(Case(text, {x}));
    }
}

TEST_F(Dtypes, WideIntegersRoundOnceToNarrowFloats) {
    // Around the numbers halfway between two bfloat16s, where rounding to float32 or float64 first
    // would go the other way.
    std::vector<std::int64_t> values = {INT64_MAX, INT64_MIN, INT64_MIN + 1, 65504, 65519, 65520};
    for (int exponent = 8; exponent < 62; ++exponent) {
        for (const std::int64_t fraction : {0x100, 0x101, 0x181, 0x1ff}) {
            const std::int64_t halfway = exponent >= 8 ? fraction << (exponent - 8) : fraction;
            for (const std::int64_t off : {-2, -1, 0, 1, 2, 2047, 2048, 4095, 4096}) {
                values.push_back(halfway + off);
                values.push_back(-halfway - off);
            }
        }
    }
    const std::int64_t count = std::int64_t(values.size());
    for (const char* to : {"float16", "bfloat16", "float32"}) {
        const std::string text =
            std::string("compute(x) {\n    @kernel elementwise\n    for i in ") +
            "0..len:\n        out[i] = " + to + "(x[i])\n}";
        const Tensor x = Tensor::from({count}, values);
        expect_agreement(Case(text, {x}));
        expect_agreement(Case(text, {x.to(DType::UInt64)}));
    }
}

TEST_F(Dtypes, IntegersOf64BitsUseAllOfThem) {
    const char* text = R"(
compute(x, y) {
    @kernel custom
    for i in 0..n, k in 0..7:
        let a = x[i]
        let b = y[i]
        let sign = select(a < b, 1, 0) + select(a <= b, 2, 0) + select(a == b, 4, 0)
        let extreme = min(a, b) - max(a, b)
        out[i, k] = select(k == 0, a * b,
                    select(k == 1, a / b,
                    select(k == 2, a % b,
                    select(k == 3, a + b,
                    select(k == 4, extreme, select(k == 5, abs(a) - b, sign))))))
})";
    std::mt19937_64 engine(3);
    // As many of each size: from 1 bit to all 64.
    const auto number = [&] { return std::int64_t(engine() >> engine() % 64); };
    std::vector<std::int64_t> a, b;
    for (int i = 0; i < 300; ++i) {
        a.push_back(engine() % 2 != 0 ? number() : -number());
        b.push_back(engine() % 2 != 0 ? number() : -number());
        if (b.back() == 0 || b.back() == -1) b.back() = 3;
        if (i % 5 == 0) b.back() = a.back() == 0 ? 1 : a.back();
    }
    for (const DType dtype : {DType::Int64, DType::UInt64}) {
        SCOPED_TRACE(to_string(dtype));
        const auto tensor = [&](const std::vector<std::int64_t>& v) {
            return Tensor::from({300}, v).to(dtype);
        };
        expect_agreement(Case(text, {tensor(a), tensor(b)}), 0);
    }
}

TEST_F(Dtypes, ANumberOfTheHostIsRoundedOnce) {
    // Above the middle of two float16, by less than a float32 says.
    const double number = 1 + 0x1p-11 + 0x1p-30;
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        expect_agreement(Case("compute(x) {\n    @kernel custom\n"
                              "    for i in 0..n: out[i] = x[i] * c\n}",
                              {spread({40}, 1, dtype)}, {{"c", number}}),
                         tolerance_of(dtype), 100);
    }
}

TEST_F(Dtypes, StepsBeyond32BitsEndALoop) {
    const Case c(
        "compute(x) {\n    @kernel custom\n    for i in 0..n:\n        var s = 0.0\n"
        "        for k in 0..5 step 3000000000: s += x[i] + k\n        out[i] = s\n}",
        {spread({40}, 1, DType::Float32)});
    const auto narrow = c.without_int64(Numerics::Reproducible, cpu::chosen_simd());
    // What 32 bits do not hold the interpreter runs.
    EXPECT_TRUE(!narrow || same_numbers(*narrow, *c.interpreted()));
}

TEST_F(Dtypes, PowersOfIntegersWrap) {
    const char* text = R"(
compute(x, n) {
    @kernel elementwise
    for i in 0..len:
        out[i] = pow(x[i], n[i])
})";
    for (const DType dtype : kNumbers) {
        if (is_floating(dtype)) continue;
        SCOPED_TRACE(to_string(dtype));
        expect_agreement(Case(text, {spread({67}, 1, dtype), uniform({67}, 2, 0, 100, dtype)}));
    }
    const std::vector<Tensor> negative = {Tensor::from({3}, std::vector<std::int64_t>{2, 2, 2}),
                                          Tensor::from({3}, std::vector<std::int64_t>{1, -1, 1})};
    EXPECT_FALSE(Case(text, negative).interpreted().has_value());
    EXPECT_FALSE(Case(text, negative).compiled(Numerics::Strict, cpu::Simd::Scalar).has_value());
}

TEST_F(Dtypes, CastsBetweenAnyTwo) {
    std::vector<double> values = {
        0,         -0.0, 1,      -1,      0.5,          1.5,          2.5,   127,
        128,       255,  256,    -128.5,  32767,        65504,        65520, 1e-5,
        1e-8,      6e-8, 3.4e38, -3.4e38, 2147483648.0, 4294967295.0, NAN,   INFINITY,
        -INFINITY, 1e10, -1e10,  0.1};
    for (const DType from : kNumbers) {
        const Tensor x = Tensor::from({std::int64_t(values.size())}, values).to(from);
        for (const DType to : kNumbers) {
            SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
            const std::string text =
                "compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n"
                "        out[i] = " +
                std::string(to_string(to)) + "(x[i])\n}";
            expect_agreement(Case(text, {x}));
        }
    }
}

TEST_F(Dtypes, EveryFloat16AndBFloat16GoesThroughFloat32) {
    for (const DType dtype : {DType::Float16, DType::BFloat16}) {
        Tensor x({65536}, dtype, Device("interpreter"));
        for (int i = 0; i < 65536; ++i) x.data<std::uint16_t>()[i] = std::uint16_t(i);
        for (const char* expression : {"float32(x[i])", "x[i] * 1.0", "x[i] / 3.0", "x[i] + 0.1"}) {
            SCOPED_TRACE(expression);
            expect_agreement(
                Case("compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n"
                     "        out[i] = " +
                         std::string(expression) + "\n}",
                     {x}));
        }
    }
}

TEST_F(Dtypes, IntegerDivisionTruncatesAndTheLeastValueWraps) {
    const char* text = R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] / y[i] * 1000 + x[i] % y[i]
})";
    const std::vector<double> x = {7, -7, 7, -7, -128, 127, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, -9};
    const std::vector<double> y = {2, 2, -2, -2, -1, -1, 3, 1, 1, 1, 1, 1, 3, 3, 3, 3, 4};
    for (const DType dtype : {DType::Int8, DType::Int16, DType::Int32, DType::Int64}) {
        SCOPED_TRACE(to_string(dtype));
        expect_agreement(
            Case(text, {Tensor::from({17}, x).to(dtype), Tensor::from({17}, y).to(dtype)}));
    }
}

}  // namespace
}  // namespace quern::cpu_test
