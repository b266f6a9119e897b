#include <limits>

#include "quern/runtime/cpu_plugin.h"
#include "tests/conformance/operands.h"

namespace quern {
namespace {

/// A[batch, M, K] * B[batch, K, N].
std::vector<double> product(const Tensor& a, const Tensor& b, std::int64_t batch, std::int64_t M,
                            std::int64_t K, std::int64_t N) {
    const std::vector<double> x = a.values(), y = b.values();
    std::vector<double> c(std::size_t(batch * M * N), 0);
    for (std::int64_t s = 0; s < batch; ++s) {
        for (std::int64_t i = 0; i < M; ++i) {
            for (std::int64_t j = 0; j < N; ++j) {
                double sum = 0;
                for (std::int64_t k = 0; k < K; ++k) {
                    sum +=
                        x[std::size_t((s * M + i) * K + k)] * y[std::size_t((s * K + k) * N + j)];
                }
                c[std::size_t((s * M + i) * N + j)] = sum;
            }
        }
    }
    return c;
}

TEST(Check64, MatmulOfOddShapes) {
    const Kernel matmul = example("09");
    const std::int64_t shapes[][3] = {{1, 1, 1}, {17, 33, 65}, {128, 128, 128}, {1, 1023, 1},
                                      {5, 0, 4}, {0, 3, 4},    {3, 4, 0},       {257, 3, 2}};
    for (const auto& [M, K, N] : shapes) {
        const Tensor a = uniform({M, K}, 1), b = uniform({K, N}, 2);
        const Tensor c = matmul(a, b);
        EXPECT_EQ(c.shape(), (Shape{M, N}));
        // Terms cancel: the bound is 1e-5 of what sums of up to 1023 terms of about 1 reach.
        EXPECT_CLOSE(c, product(a, b, 1, M, K, N), kRelative, 1e-4);
    }
}

/// Every 585th row of a matrix of 4096 rows: the first, the last and six between.
Tensor rows_across(const Tensor& matrix) { return matrix.slice(0, 0, 4096, 585); }

TEST(Check64, TheProductOf4096CubedIsRight) {
    const bool is_fast = Device().is_cpu() && cpu::chosen_simd() >= cpu::Simd::Avx2;
    if (!is_fast) GTEST_SKIP() << "minutes on " << Device().id() << " with these instructions";
    const Kernel matmul = example("09");
    const Tensor whole = uniform({4096, 4096}, 1, 0.5, 1);
    for (const DType dtype : {DType::Float32, DType::Float16}) {
        const Tensor a = whole.to(dtype), b = a.permute({1, 0}).contiguous();
        const Tensor c = matmul(a, b);
        ASSERT_EQ(c.dtype(), dtype);
        const Tensor some = rows_across(rows_across(c).permute({1, 0}));
        const double store = dtype == DType::Float16 ? rounding_of(dtype) : 0;
        const std::vector<double> expected =
            product(rows_across(a), rows_across(a).permute({1, 0}).contiguous(), 1, 8, 4096, 8);
        // That of a matrix with its transpose is symmetric.
        EXPECT_CLOSE(some, expected, store + kRelative, 0);
        EXPECT_TRUE(same_bits(c, c.permute({1, 0})));
    }
}

// The product of two 4096 x 4096 matrices takes the interpreter minutes. An element of it is made
// from one row and one column alone, so 64 of its elements are computed here, the four corners
// among them, each over the whole depth and through the strides of the whole operands; and the same
// elements within a product of more rows have the same bits.
TEST(Check64, ElementsAcrossTheProductOf4096CubedAreRight) {
    const Kernel matmul = example("09");
    const Tensor whole = uniform({4096, 4096}, 1, 0.5, 1);
    for (const DType dtype : {DType::Float32, DType::Float16}) {
        const Tensor matrix = whole.to(dtype);
        const Tensor a = rows_across(matrix),
                     b = rows_across(matrix.permute({1, 0})).permute({1, 0});
        ASSERT_EQ(a.shape(), (Shape{8, 4096}));
        ASSERT_EQ(b.shape(), (Shape{4096, 8}));
        ASSERT_EQ(b.strides(), (std::vector<std::int64_t>{4096, 585}));
        const Tensor c = matmul(a, b);
        EXPECT_EQ(c.dtype(), dtype);
        const double store = dtype == DType::Float16 ? rounding_of(dtype) : 0;
        EXPECT_CLOSE(c, product(a, b, 1, 8, 4096, 8), store + kRelative, 0);
        const Tensor among_others = matmul(matrix.slice(0, 585, 1756), b);
        EXPECT_TRUE(same_bits(among_others.slice(0, 0, 1171, 585), c.slice(0, 1, 4)));
    }
}

TEST(Check64, NanTimesZeroIsKeptOverADepthOf4096) {
    std::vector<float> row(4096, 1);
    row[4095] = std::numeric_limits<float>::quiet_NaN();
    const Tensor a = Tensor::from({1, 4096}, row), b(Shape{4096, 1});
    EXPECT_TRUE(std::isnan(example("09")(a, b).item()));
}

TEST(Check64, HalfPrecisionAccumulatesInFloat32) {
    const Kernel matmul = example("09");
    for (const DType dtype : {DType::Float16, DType::BFloat16}) {
        const Tensor a = uniform({9, 300}, 1, 0.5, 1, dtype),
                     b = uniform({300, 5}, 2, 0.5, 1, dtype);
        const Tensor c = matmul(a, b);
        EXPECT_EQ(c.dtype(), dtype);
        // Products and sums in float32, one rounding at the store.
        EXPECT_CLOSE(c, product(a, b, 1, 9, 300, 5), rounding_of(dtype) + kRelative, 0);
    }
    // The product itself is not rounded to float16, where 300 * 300 overflows.
    const Tensor a = Tensor::from({1, 2}, {300.0, 300.0}).to(DType::Float16);
    const Tensor b = Tensor::from({2, 1}, {300.0, -299.0}).to(DType::Float16);
    EXPECT_EQ(matmul(a, b).item(), 300);
}

TEST(Check64, DoubleIsDoubleThroughout) {
    const Tensor a = uniform({7, 9}, 1, 0, 1, DType::Float64),
                 b = uniform({9, 4}, 2, 0, 1, DType::Float64);
    const Tensor c = example("09")(a, b);
    EXPECT_EQ(c.dtype(), DType::Float64);
    // The order of nine sums differs from the reference's.
    EXPECT_CLOSE(c, product(a, b, 1, 7, 9, 4), 10 * rounding_of(DType::Float64), 0);
}

TEST(Check64, IntegersAreExactAndNanSurvivesZero) {
    for (const DType dtype :
         {DType::Int8, DType::UInt8, DType::Int16, DType::Int32, DType::Int64}) {
        const Tensor a = random_tensor({3, 40}, dtype, 1), b = random_tensor({40, 2}, dtype, 2);
        const Tensor c = example("09")(a, b);
        // A float literal begins the sum; sums this small are exact in float32.
        EXPECT_EQ(c.dtype(), DType::Float32);
        EXPECT_CLOSE(c, product(a, b, 1, 3, 40, 2), 0, 0);
    }
    const Tensor a = Tensor::from({1, 2}, {kNaN, 1.0}), b = Tensor::from({2, 1}, {0.0, 1.0});
    EXPECT_TRUE(std::isnan(example("09")(a, b).item()));
}

TEST(Check65, BatchedMatmulOfOddShapes) {
    const Kernel matmul = example("10");
    const std::int64_t shapes[][4] = {
        {1, 1, 1, 1}, {3, 5, 17, 7}, {2, 33, 4, 31}, {0, 2, 2, 2}, {2, 3, 0, 4}};
    for (const auto& [batch, M, K, N] : shapes) {
        const Tensor a = uniform({batch, M, K}, 1), b = uniform({batch, K, N}, 2);
        const Tensor c = matmul(a, b);
        EXPECT_EQ(c.shape(), (Shape{batch, M, N}));
        EXPECT_CLOSE(c, product(a, b, batch, M, K, N), kRelative, 1e-5);
    }
}

}  // namespace
}  // namespace quern
