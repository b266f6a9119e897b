// What kernels make of integers: sums, powers, and one loop over several axes.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "quern/kernel.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

constexpr DType kIntegers[] = {DType::Int8,  DType::Int16,  DType::Int32,  DType::Int64,
                               DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64};

/// A kernel over a and b whose body is indented by four columns.
Tensor run(const std::string& body, const Tensor& a, const Tensor& b) {
    const Kernel kernel("compute(a, b) {\n    @kernel custom\n" + body + "}\n");
    return kernel(a, b);
}

/// "E0621 3:29 message": the first diagnostic of a launch that fails.
std::string failure(const std::string& body, const Tensor& a, const Tensor& b) {
    try {
        run(body, a, b);
    } catch (const KernelError& error) {
        const Diagnostic& d = error.diagnostics().front();
        return d.code + " " + std::to_string(d.line) + ":" + std::to_string(d.column) + " " +
               d.message;
    }
    return "none";
}

Tensor integers(const std::vector<std::int64_t>& values, DType dtype) {
    return Tensor::from({std::int64_t(values.size())}, values).to(dtype);
}

const char* const kPower = "    for i in 0..n: out[i] = pow(a[i], b[i])\n";

TEST(IntegerPowers, StayIntegersAndWrapInEveryDtype) {
    const std::vector<std::int64_t> bases = {3, 2, 7, 0, 0, 1, 5, 11, -3},
                                    exponents = {5, 7, 0, 0, 3, 127, 63, 31, 3};
    std::vector<std::int64_t> products;
    for (std::size_t i = 0; i < bases.size(); ++i) {
        std::uint64_t product = 1;
        for (std::int64_t n = 0; n < exponents[i]; ++n) product *= std::uint64_t(bases[i]);
        products.push_back(std::int64_t(product));
    }
    for (const DType dtype : kIntegers) {
        const Tensor y = run(kPower, integers(bases, dtype), integers(exponents, dtype));
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.integers(), integers(products, dtype).integers()) << to_string(dtype);
    }
}

TEST(IntegerPowers, WithANegativeExponentHaveNoValue) {
    for (const DType dtype : kIntegers) {
        if (!is_signed_integer(dtype)) continue;
        for (const std::int64_t base : {0, 1, 2}) {
            EXPECT_EQ(failure(kPower, integers({base}, dtype), integers({-1}, dtype)),
                      "E0621 3:29 expected an exponent of at least 0 for an integer, got -1");
        }
    }
    EXPECT_EQ(failure("    for i in 0..n: out[i] = pow(a[i], -2) + b[i]\n",
                      integers({1}, DType::Int32), integers({0}, DType::Int32))
                  .substr(0, 10),
              "E0621 3:29");
}

TEST(IntegerSums, OfProductsDoNotWrapHoweverTheyAreWritten) {
    const char* const sums[] = {
        "    var s = 0\n    for i in 0..n: s += a[i] * b[i]\n    out[0] = s\n",
        "    out[0] = reduce(+, a[0:200] * b[0:200])\n",
        "    for z in 0..1: out[z] = dot(a, b)\n",
    };
    for (const DType dtype : {DType::Int8, DType::UInt8, DType::Int16, DType::UInt32}) {
        const std::int64_t top = std::int64_t(
            (std::uint64_t(1) << (8 * size_of(dtype) - std::size_t(is_signed_integer(dtype)))) - 1);
        const Tensor full = integers(std::vector<std::int64_t>(200, top), dtype);
        const std::int64_t expected = std::int64_t(200 * std::uint64_t(top) * std::uint64_t(top));
        for (const char* sum : sums) {
            EXPECT_EQ(run(sum, full, full).integers(), std::vector<std::int64_t>{expected})
                << to_string(dtype) << "\n"
                << sum;
        }
    }
}

TEST(IntegerSums, StartedByAFloatAreFloats) {
    const Tensor a = integers({1, 2, 3}, DType::Int32), b = integers({4, 5, 6}, DType::Int32);
    for (const std::string statement : {"s += a[i]", "s = s + a[i]", "s -= 0 - a[i]"}) {
        const Tensor y = run("    var s = 0.5\n    for i in 0..n:\n        " + statement +
                                 "\n        s += b[i]\n    out[0] = s\n",
                             a, b);
        EXPECT_EQ(y.dtype(), DType::Float32) << statement;
        EXPECT_CLOSE(y, {21.5}, 0, 0);
    }
}

TEST(OneLoopOverTwoAxes, ReadsAndWritesThemByQuotientAndRemainder) {
    const Tensor a = Tensor::from({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    const Tensor b = Tensor::from({3}, {10.0f, 20.0f, 30.0f});
    EXPECT_CLOSE(run("    for i in 0..n*m: out[i] = a[i / m, i % m] + b[i % m]\n", a, b),
                 {11, 22, 33, 14, 25, 36}, 0, 0);
    const Tensor turned =
        run("    for i in 0..n*m: out[i % m, i / m] = a[i / m, i % m] + b[i % m]\n", a, b);
    EXPECT_EQ(turned.shape(), (Shape{3, 2}));
    EXPECT_CLOSE(turned, {11, 14, 22, 25, 33, 36}, 0, 0);
}

TEST(ASliceToADimension, TakesWhatEveryReadHas) {
    const Tensor a = Tensor::from({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    const Tensor b = Tensor::from({2}, {10.0f, 100.0f});
    EXPECT_CLOSE(run("    for i in 0..n: out[i] = reduce(+, a[i, 0:m] * b[0:m])\n", a, b),
                 {210, 540}, 0, 0);
}

TEST(ReductionOverNothing, NamesTheOperatorAndWhatIsEmpty) {
    const auto of = [](const std::string& kind, const std::string& body, const Shape& shape) {
        const Kernel kernel("compute(x) {\n    @kernel " + kind + "\n" + body + "}\n");
        try {
            kernel(Tensor(shape));
        } catch (const KernelError& error) {
            const Diagnostic& d = error.diagnostics().front();
            return d.code + " " + std::to_string(d.line) + ":" + std::to_string(d.column) + " " +
                   d.message;
        }
        return std::string("none");
    };
    const std::string nest = "    for i in 0..r, j in 0..c:\n        yield x[i, j]\n";
    EXPECT_EQ(of("reduce(max)", nest, {2, 0}),
              "E0620 3:20 'max' over nothing has no value: the loop over 'j' is empty");
    EXPECT_EQ(of("reduce(min, axis=0)", nest, {0, 2}),
              "E0620 3:9 'min' over nothing has no value: the loop over 'i' is empty");
    EXPECT_EQ(of("reduce(argmin)", "    for i in 0..len:\n        yield (x[i], i)\n", {0}),
              "E0620 3:9 'argmin' over nothing has no value: the loop over 'i' is empty");
    EXPECT_EQ(
        of("reduce(argmax)",
           "    for i in 0..len:\n        if x[i] > 0.0:\n            yield (x[i], i)\n", {3}),
        "E0620 5:13 'argmax' over nothing has no value: no yield was reached");
    EXPECT_EQ(of("fused", "    out = reduce(max, x, axis=1)\n", {2, 0}),
              "E0620 3:11 'max' over nothing has no value: axis 1 has no elements");
    EXPECT_EQ(of("fused", "    out = reduce(min, x)\n", {2, 0}),
              "E0620 3:11 'min' over nothing has no value: axis 0 or axis 1 has no elements");
}

}  // namespace
}  // namespace quern
