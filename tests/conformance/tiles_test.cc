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

TEST(Tiles, ALaneAloneMayBeAbsent) {
    constexpr std::int64_t kRows = 5;
    // Whether text reads x[k + 1] of the last row, where there is none: then it is as `last` says.
    struct Row {
        const char* body;
        std::function<double(double next, double own)> value;
        std::function<double(double own)> last;
    };
    const auto none = [](double) { return 0.0; };
    const Row rows[] = {
        {"let t = x[k+1:k+2] * 2.0\n        out[k:k+1] = y[k:k+1] + t",
         [](double next, double own) { return own + 2 * next; }, none},
        {"out[k:k+1] = y[k:k+1] + x[k+1:k+2]", [](double next, double own) { return own + next; },
         none},
        {"out[k:k+1] = x[k+1:k+2] - y[k:k+1]", [](double next, double own) { return next - own; },
         none},
        {"out[k:k+1] = y[k:k+1]\n        out[k:k+1] = select(x[k+1:k+2] > 0.0, 1.0, 2.0)",
         [](double next, double) { return next > 0 ? 1.0 : 2.0; }, [](double own) { return own; }},
        {"var v = zeros(4)\n        v = x[k+1:k+2] * 2.0\n"
         "        out[k] = reduce(+, v) + reduce(+, y[k:k+1])",
         [](double next, double own) { return 8 * next + own; }, [](double own) { return own; }},
        {"var v = zeros(1) + 3.0\n        v = x[k+1:k+2]\n        out[k:k+1] = v + y[k:k+1]",
         [](double next, double own) { return next + own; }, none},
        {"out[k] = reduce(+, x[k+1:k+2]) + reduce(+, y[k:k+1])",
         [](double next, double own) { return next + own; }, [](double own) { return own; }},
    };
    const Tensor x = random_tensor({kRows}, DType::Float32, 6);
    const Tensor y = random_tensor({kRows}, DType::Float32, 7);
    const auto next = x.values(), own = y.values();
    for (const Row& row : rows) {
        SCOPED_TRACE(row.body);
        const Tensor result =
            compute("compute(x, y) {\n    @kernel custom\n    for k in 0..n step 1:\n        " +
                        std::string(row.body) + "\n}",
                    x, y);
        std::vector<double> expected;
        for (std::size_t k = 0; k + 1 < std::size_t(kRows); ++k) {
            expected.push_back(row.value(next[k + 1], own[k]));
        }
        expected.push_back(row.last(own.back()));
        EXPECT_CLOSE(result, expected, 0, 0);
    }
}

TEST(Tiles, ALaneAloneIsAbsentWhereALoopGoesOnBehindTheEnd) {
    const Tensor x = Tensor::from<float>({3}, {1, 2, 4});
    const Tensor ends = Tensor::from<std::int64_t>({3}, {2, 3, 5});
    const Tensor sums = compute(R"(compute(x, ends) {
        @kernel custom
        for b in 0..n:
            var s = 0.0
            for i in 0..ends[b]:
                s += reduce(+, x[i:i+1])
            out[b] = s
    })",
                                x, ends);
    EXPECT_CLOSE(sums, {3, 7, 7}, 0, 0);
}

TEST(Tiles, AnAbsentLaneBesideSeveralLeavesNoneOfThem) {
    const Tensor x = random_tensor({8}, DType::Float32, 8),
                 y = random_tensor({8}, DType::Float32, 9);
    const auto next = x.values(), own = y.values();
    const Tensor sums = compute(R"(compute(x, y) {
        @kernel custom
        for k in 0..n step 4:
            out[k:k+4] = y[k:k+4] + x[k+4:k+5]
    })",
                                x, y);
    EXPECT_CLOSE(
        sums, {own[0] + next[4], own[1] + next[4], own[2] + next[4], own[3] + next[4], 0, 0, 0, 0},
        0, 0);
    const Tensor rows = random_tensor({4, 3}, DType::Float32, 10);
    const auto v = rows.values();
    for (const std::string t :
         {"row_sum(x[k+1:k+2])", "x[k+1:k+2] @ transpose(y[k:k+1]) * 0.0 + row_sum(x[k+1:k+2])"}) {
        const Tensor result = compute(
            "compute(x, y) {\n    @kernel custom\n    for k in 0..n step 1:\n        out[k:k+1] = "
            "y[k:k+1] + " +
                t + "\n}",
            rows, rows);
        std::vector<double> expected;
        for (std::size_t k = 0; k < 4; ++k) {
            for (std::size_t i = 0; i < 3; ++i) {
                const double sum = k == 3 ? 0 : v[3 * k + 3] + v[3 * k + 4] + v[3 * k + 5];
                expected.push_back(k == 3 ? 0 : v[3 * k + i] + sum);
            }
        }
        EXPECT_CLOSE(result, expected, 0, 0);
    }
}

TEST(Tiles, ArraysMayHaveHolesThatNobodyWrote) {
    const Tensor x = random_tensor({3, 100}, DType::Float32, 11);
    const Tensor y = compute(R"(compute(x) {
        @kernel fused
        for b in 0..r:
            shared var t[200]
            for i in 0..n:
                t[2*i] = x[b, i]
            barrier()
            for i in 0..n:
                out[b, i] = t[2*i]
    })",
                             x);
    EXPECT_CLOSE(y, x.values(), 0, 0);
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

/// Loops over the axes of `out` are none over those of operands of more.
TEST(Tiles, OfMoreAxesThanTheResultMayStandBesideIt) {
    const Tensor a = random_tensor({3, 4}, DType::Float32, 5),
                 b = random_tensor({4}, DType::Float32, 6);
    const Tensor c = random_tensor({5, 2, 7}, DType::Float32, 7);
    for (const char* other : {"a", "floor(a)", "a * a", "c", "max(a * b, a + b)"}) {
        const Tensor y =
            compute(std::string("compute(a, b, c) {\n    @kernel fused\n    let t = ") + other +
                        "\n    out = b\n}",
                    a, b, c);
        EXPECT_EQ(y.shape(), Shape{4}) << other;
        EXPECT_CLOSE(y, b.values(), 0, 0);
    }
}

}  // namespace
}  // namespace quern
