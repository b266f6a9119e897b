// What absent lanes mean: they are no part of any result.
#include "tests/conformance/operands.h"

namespace quern {
namespace {

TEST(Tiles, ReductionsSkipAbsentLanes) {
    const Kernel kernel(R"(compute(x) {
        @kernel custom
        for b in 0..n:
            var total = 0.0
            var largest = -inf
            for k in 0..m step 8:
                let t = x[b, k:k+8]
                total += reduce(+, t)
                largest = max(largest, reduce(max, t))
            out[b, 0] = total
            out[b, 1] = largest
    })");
    for (const std::int64_t m : kSizes) {
        if (m == 0 || m > 300) continue;
        const Tensor x = random_tensor({3, m}, DType::Float32, std::uint64_t(m));
        const std::vector<double> v = x.values();
        std::vector<double> expected;
        for (std::int64_t b = 0; b < 3; ++b) {
            double total = 0, largest = -kInfinity;
            for (std::int64_t k = 0; k < m; ++k) {
                total += v[std::size_t(b * m + k)];
                largest = std::max(largest, v[std::size_t(b * m + k)]);
            }
            expected.push_back(total);
            expected.push_back(largest);
        }
        // Eighths of this size add exactly.
        EXPECT_CLOSE(kernel(x), expected, 0, 0);
    }
}

TEST(Tiles, StoresDropAbsentLanesAndAbsentQuotientsAreNotSeen) {
    const Tensor x = Tensor::from({5}, {1.0f, 2.0f, 4.0f, 5.0f, 8.0f});
    const Tensor y = compute(R"(compute(x) {
        @kernel custom
        for k in 0..n step 4:
            out[k:k+4] = 8.0 / x[k:k+4]
    })",
                             x);
    EXPECT_CLOSE(y, {8, 4, 2, 1.6, 1}, 1e-7, 0);
    EXPECT_EQ(y.shape(), Shape{5});
}

TEST(Tiles, AnInfiniteFactorBesideAnAbsentLaneGivesNoNan) {
    // If absent keys counted as 0, inf * 0 would be NaN.
    const Tensor a = Tensor::from({2, 3}, std::vector<float>(6, HUGE_VALF));
    const Tensor b = Tensor::from({3, 2}, std::vector<float>(6, 1));
    const Tensor y = compute(R"(compute(a, b) {
        @kernel custom
        for i in 0..n step 4:
            var o = zeros(4, 2)
            for k in 0..m step 4:
                o = o + a[i:i+4, k:k+4] @ b[k:k+4, 0:2]
            out[i:i+4, 0:2] = o
    })",
                             a, b);
    EXPECT_EQ(y.shape(), (Shape{2, 2}));
    EXPECT_CLOSE(y, {kInfinity, kInfinity, kInfinity, kInfinity}, 0, 0);
}

TEST(Tiles, AVarUpdatedFromItsOwnTransposeReadsTheOldOne) {
    const Tensor x = random_tensor({3, 3}, DType::Float32, 4);
    const Tensor y = compute(R"(compute(x) {
        @kernel custom
        for b in 0..1:
            var t = x[0:3, 0:3] * 1.0
            t = t - transpose(t)
            out[0:3, 0:3] = t
    })",
                             x);
    const auto v = x.values();
    std::vector<double> expected;
    for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 3; ++j) expected.push_back(v[3 * i + j] - v[3 * j + i]);
    }
    EXPECT_CLOSE(y, expected, 0, 0);
}

}  // namespace
}  // namespace quern
