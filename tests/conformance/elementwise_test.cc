#include <cmath>
#include <limits>

#include "tests/conformance/operands.h"

namespace quern {
namespace {

constexpr DType kFloats[] = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

TEST(Check56, ReluOfEverySizeIsExact) {
    const Kernel relu = example("01");
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, 1);
        std::vector<double> expected;
        for (const double v : x.values()) expected.push_back(v > 0 ? v : 0);
        const Tensor y = relu(x);
        EXPECT_EQ(y.shape(), Shape{n});
        EXPECT_CLOSE(y, expected, 0, 0);
    }
}

TEST(Check56, ReluKeepsNanAndInfinityAndEveryDtype) {
    const Kernel relu = example("01");
    for (const DType dtype : kFloats) {
        const Tensor x =
            Tensor::from({6}, {kNaN, -0.0, 0.0, kInfinity, -kInfinity, -1.5}).to(dtype);
        const Tensor y = relu(x);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_CLOSE(y, {kNaN, 0, 0, kInfinity, 0, 0}, 0, 0);
    }
    for (const DType dtype :
         {DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8}) {
        const Tensor x = random_tensor({33}, dtype, 2);
        std::vector<double> expected;
        for (const double v : x.values()) expected.push_back(std::max(v, 0.0));
        const Tensor y = relu(x);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_CLOSE(y, expected, 0, 0);
    }
}

TEST(Check57, MultiplyAddOfEverySize) {
    const Kernel kernel = example("02");
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, 1), y = uniform({n}, 2);
        std::vector<double> expected = x.values();
        const std::vector<double> other = y.values();
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] * other[i] + 1;
        EXPECT_CLOSE(kernel(x, y), expected, kRelative, kAbsolute);
    }
}

TEST(Check57, MultiplyAddRoundsAfterEachOperationInEveryFloat) {
    const Kernel kernel = example("02");
    for (const DType dtype : kFloats) {
        const Tensor x = uniform({65}, 1, 0.5, 2, dtype), y = uniform({65}, 2, 0.5, 2, dtype);
        const Tensor z = kernel(x, y);
        EXPECT_EQ(z.dtype(), dtype);
        std::vector<double> expected = x.values();
        const std::vector<double> other = y.values();
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] * other[i] + 1;
        // All terms are positive: two roundings of at most the dtype's, no cancellation.
        EXPECT_CLOSE(z, expected, 2 * rounding_of(dtype), 0);
    }
}

TEST(Check57, AFloatLiteralLiftsIntegersToFloat32) {
    const Tensor x = Tensor::from({3}, {1, -2, 3}).to(DType::Int32);
    const Tensor z = example("02")(x, x);
    EXPECT_EQ(z.dtype(), DType::Float32);
    EXPECT_CLOSE(z, {2, 5, 10}, 0, 0);
}

TEST(Check58, ScaleRowsOfOddShapesAndEveryDtype) {
    const Kernel kernel = example("03");
    for (const std::int64_t n : kSizes) {
        for (const Shape& shape : {Shape{3, n}, Shape{n, 5}}) {
            const Tensor m = uniform(shape, 1), v = uniform({shape[1]}, 2);
            std::vector<double> expected = m.values();
            const std::vector<double> factors = v.values();
            for (std::size_t i = 0; i < expected.size(); ++i) {
                expected[i] *= factors[i % std::size_t(shape[1])];
            }
            const Tensor y = kernel(m, v);
            EXPECT_EQ(y.shape(), shape);
            // One product, rounded once.
            EXPECT_CLOSE(y, expected, rounding_of(DType::Float32), 0);
        }
    }
    for (const DType dtype : kKernelDTypes) {
        if (dtype == DType::Bool) continue;
        const Tensor m = random_tensor({4, 7}, dtype, 1), v = random_tensor({7}, dtype, 2);
        std::vector<double> expected = m.values();
        const std::vector<double> factors = v.values();
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= factors[i % 7];
        const Tensor y = kernel(m, v);
        EXPECT_EQ(y.dtype(), dtype);
        // Products of small integers, and of eighths up to 4 but in bfloat16, are exact.
        EXPECT_CLOSE(y, expected, dtype == DType::BFloat16 ? rounding_of(dtype) : 0, 0);
    }
}

double gelu(double x) {
    return x * 0.5 * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

TEST(Check71, GeluOfEverySize) {
    const Kernel kernel = example("17");
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, 3, -6, 6);
        std::vector<double> expected = x.values();
        for (double& v : expected) v = gelu(v);
        // 1 + tanh cancels for x below 0: half an ulp of 1 times |x| stays.
        EXPECT_CLOSE(kernel(x), expected, kRelative, 1e-6);
    }
}

TEST(Check75, OneLoopOverLenTakesAnyRank) {
    const Kernel kernel = example("17");
    for (const Shape& shape : {Shape{}, Shape{2, 3, 5}, Shape{4, 0, 3}, Shape{1, 1, 1, 7}}) {
        const Tensor x = uniform(shape, 4);
        std::vector<double> expected = x.values();
        for (double& v : expected) v = gelu(v);
        const Tensor y = kernel(x);
        EXPECT_EQ(y.shape(), shape);
        EXPECT_CLOSE(y, expected, kRelative, 1e-6);
        EXPECT_TRUE(same_bits(kernel(transposed_in_memory(x)), y));
        EXPECT_TRUE(same_bits(kernel(sliced_from_larger(x)), y));
    }
    const Tensor x = uniform({2, 3}, 1), y = uniform({3, 2}, 2);
    EXPECT_EQ(refusal([&] { return example("02")(x, y); }), "E0502 1:20");
}

TEST(Check75, AResultThatIsLongerThanTheOperandsHasOneAxis) {
    const auto kernel = [](const std::string& store) {
        return "compute(x) {\n @kernel elementwise\n for i in 0..len: " + store + "\n}";
    };
    const Tensor x = Tensor::from({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor odd = compute(kernel("out[2 * i + 1] = x[i]"), x);
    EXPECT_EQ(odd.shape(), Shape{12});
    EXPECT_CLOSE(odd, {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6}, 0, 0);
    const Tensor after = compute(kernel("out[i + 1] = x[i]"), x);
    EXPECT_EQ(after.shape(), Shape{7});
    EXPECT_CLOSE(after, {0, 1, 2, 3, 4, 5, 6}, 0, 0);
    const Tensor column = compute(kernel("out[i, 0] = x[i]"), x);
    EXPECT_EQ(column.shape(), (Shape{6, 1}));
    EXPECT_CLOSE(column, {1, 2, 3, 4, 5, 6}, 0, 0);
    const Tensor reversed = compute(kernel("out[len - 1 - i] = x[i]"), x);
    EXPECT_EQ(reversed.shape(), x.shape());
    EXPECT_CLOSE(reversed, {6, 5, 4, 3, 2, 1}, 0, 0);
    // len is the number of elements, whatever is read.
    for (const char* read : {"x[i + 1]", "x[2 * i]"}) {
        EXPECT_EQ(refusal([&] {
                      return compute(kernel(std::string("out[i] = ") + read), x);
                  }).substr(0, 5),
                  "E0507")
            << read;
    }
    EXPECT_EQ(compute(kernel("out[i] = x[i / 2]"), x).shape(), x.shape());
}

TEST(Check78, AZeroMadeOfIntegersTakesNoNanAwayAndNoSign) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
    const Tensor x = Tensor::from({5}, {inf, 1.0, -0.0, nan, -3.0}).to(DType::Float32);
    const auto of = [&](const std::string& value) {
        return compute("compute(x) {\n @kernel custom\n for i in 0..n: out[i] = " + value + "\n}",
                       x);
    };
    EXPECT_CLOSE(of("x[i] * (i - i)"), {nan, 0, -0.0, nan, -0.0}, 0, 0);
    EXPECT_CLOSE(of("1.0 / (x[i] * f32(i * 0))"), {nan, inf, -inf, nan, -inf}, 0, 0);
    EXPECT_CLOSE(of("1.0 / (x[i] + (i - i))"), {0, 1, inf, nan, -1 / 3.0}, 1e-7, 0);
    EXPECT_CLOSE(of("(i - i) / x[i]"), {0, 0, nan, nan, -0.0}, 0, 0);
}

TEST(Check78, FunctionsKeepTheirLimits) {
    const Tensor x = Tensor::from({2}, {-kInfinity, -1.0});
    const auto of = [&](const std::string& value) {
        return compute(
            "compute(x) {\n @kernel elementwise\n for i in 0..len: out[i] = " + value + "\n}",
            x.to(DType::Float32));
    };
    EXPECT_CLOSE(of("exp(x[i])"), {0, std::exp(-1)}, kRelative, 0);
    EXPECT_CLOSE(of("sqrt(x[i])"), {kNaN, kNaN}, 0, 0);
    EXPECT_CLOSE(of("1.0 / (x[i] + 1.0)"), {0, kInfinity}, 0, 0);
    EXPECT_CLOSE(of("0.0 * x[i]"), {kNaN, 0}, 0, 0);
    EXPECT_CLOSE(of("x[i] - x[i]"), {kNaN, 0}, 0, 0);
    EXPECT_CLOSE(of("max(x[i], 0.0 / 0.0)"), {kNaN, kNaN}, 0, 0);
    EXPECT_CLOSE(of("min(0.0 / 0.0, x[i])"), {kNaN, kNaN}, 0, 0);
}

TEST(Check79, IntegerDivisionTruncatesTowardZero) {
    const Tensor a = Tensor::from({6}, {7, -7, 7, -7, 1, -1});
    const Tensor b = Tensor::from({6}, {2, 2, -2, -2, 3, 3});
    for (const DType dtype : {DType::Int8, DType::Int16, DType::Int32, DType::Int64}) {
        const Tensor q = compute(
            "compute(a, b) {\n @kernel elementwise\n for i in 0..len: out[i] = a[i] / b[i]\n}",
            a.to(dtype), b.to(dtype));
        EXPECT_EQ(q.dtype(), dtype);
        EXPECT_CLOSE(q, {3, -3, -3, 3, 0, 0}, 0, 0);
        const Tensor r = compute(
            "compute(a, b) {\n @kernel elementwise\n for i in 0..len: out[i] = a[i] % b[i]\n}",
            a.to(dtype), b.to(dtype));
        EXPECT_CLOSE(r, {1, -1, 1, -1, 1, -1}, 0, 0);
    }
    const Tensor zero = Tensor::from({6}, {1, 1, 0, 1, 1, 1}).to(DType::Int32);
    EXPECT_EQ(refusal([&] {
                  return compute(
                      "compute(a, b) {\n @kernel elementwise\n for i in 0..len:\n"
                      "  out[i] = a[i] / b[i]\n}",
                      a.to(DType::Int32), zero);
              }),
              "E0621 4:12");
    // Of loop variables and extents too.
    const Tensor halves = compute(
        "compute(x) {\n @kernel elementwise\n for i in 0..n: out[i] = x[i] + (i - 3) / 2\n}",
        Tensor({7}, DType::Int64));
    EXPECT_CLOSE(halves, {-1, -1, 0, 0, 0, 1, 1}, 0, 0);
}

TEST(Check79, ADivisionByZeroFailsThoughItsQuotientIsOfNoUse) {
    const auto code_of = [](const std::string& body) {
        return refusal([&] {
            return compute("compute(x) {\n @kernel custom\n for i in 0..n:\n  var v = 4\n" + body +
                               "  out[i] = x[i] + v\n}",
                           Tensor({5}, DType::Int64));
        });
    };
    EXPECT_EQ(code_of("  v = max(v, 3 / i)\n"), "E0621 5:14");
    EXPECT_EQ(code_of("  v = v + (1 / i) * 0\n"), "E0621 5:12");
    EXPECT_EQ(code_of("  v = v + min(3 % i, 8) * 0\n"), "E0621 5:15");
    EXPECT_EQ(code_of("  v = v * 0 + select(i < 9, 3 / i, 8 / i)\n"), "E0621 5:29");
    EXPECT_EQ(code_of("  let w = 3\n  if w - 3 == 0 * (v / i): v = 2\n"), "E0621 6:20");
}

TEST(Extremes, OfASizeAndZeroAreTheSize) {
    const float inf = std::numeric_limits<float>::infinity();
    std::vector<double> values{-3, -1, 2, -5, 4, 0, -0.0, inf, -inf, std::nan(""), -1e-30, 1e-30};
    for (int i = 0; i < 30; ++i) values.push_back(i % 2 ? i : -i);
    const Tensor x = Tensor::from({std::int64_t(values.size())}, values);
    for (const char* body : {
             "out[i] = max(abs(x[i]), 0.0)",
             "out[i] = max(abs(x[i]), -0.0)",
             "out[i] = max(0.0, abs(x[i]))",
             "out[i] = relu(abs(x[i]))",
             "out[i] = -min(-abs(x[i]), 0.0)",
             "out[i] = clamp(abs(x[i]), 0.0, inf)",
             "let a = abs(x[i])\n  out[i] = select(isnan(a), a, select(a > 0.0, a, 0.0))",
             "let a = abs(x[i])\n  out[i] = select(a > 0.0 or isnan(a), a, 0.0)",
             "var a = 0.0\n  a = abs(x[i])\n  out[i] = max(a, 0.0)",
         }) {
        const Kernel kernel("compute(x: [n]) {\n@kernel custom\nfor i in 0..n:\n  " +
                            std::string(body) + "\n}");
        for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16}) {
            const std::vector<double> out = kernel(x.to(dtype)).values();
            const std::vector<double> in = x.to(dtype).values();
            for (std::size_t i = 0; i < in.size(); ++i) {
                if (std::isnan(in[i])) {
                    EXPECT_TRUE(std::isnan(out[i])) << body;
                } else {
                    EXPECT_EQ(out[i], std::abs(in[i])) << body << " of " << in[i];
                }
            }
        }
    }
}

}  // namespace
}  // namespace quern
