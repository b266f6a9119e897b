#include "tests/conformance/operands.h"

namespace quern {
namespace {

struct Heads {
    std::int64_t batch, heads, length, width;

    Shape shape() const { return {batch, heads, length, width}; }
};

/// softmax(Q K' / sqrt(width)) V over the keys that the mask lets through; zero where there is
/// none.
std::vector<double> attention(const Heads& h, const Tensor& Q, const Tensor& K, const Tensor& V,
                              const std::vector<double>& mask = {}) {
    const auto q = Q.values(), k = K.values(), v = V.values();
    const std::int64_t n = h.length, w = h.width;
    std::vector<double> result(q.size(), 0);
    for (std::int64_t bh = 0; bh < h.batch * h.heads; ++bh) {
        for (std::int64_t i = 0; i < n; ++i) {
            std::vector<double> scores(std::size_t(n), -kInfinity);
            double largest = -kInfinity, total = 0;
            for (std::int64_t j = 0; j < n; ++j) {
                if (!mask.empty() && mask[std::size_t(i * n + j)] == 0) continue;
                double dot = 0;
                for (std::int64_t d = 0; d < w; ++d) {
                    dot +=
                        q[std::size_t((bh * n + i) * w + d)] * k[std::size_t((bh * n + j) * w + d)];
                }
                scores[std::size_t(j)] = dot / std::sqrt(double(w));
                largest = std::max(largest, scores[std::size_t(j)]);
            }
            if (largest == -kInfinity) continue;
            for (const double s : scores) total += std::exp(s - largest);
            for (std::int64_t j = 0; j < n; ++j) {
                const double weight = std::exp(scores[std::size_t(j)] - largest) / total;
                for (std::int64_t d = 0; d < w; ++d) {
                    result[std::size_t((bh * n + i) * w + d)] +=
                        weight * v[std::size_t((bh * n + j) * w + d)];
                }
            }
        }
    }
    return result;
}

std::vector<double> causal(std::int64_t n, std::int64_t masked_row) {
    std::vector<double> mask(std::size_t(n * n), 0);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i && i != masked_row; ++j) mask[std::size_t(i * n + j)] = 1;
    }
    return mask;
}

TEST(Check68, AttentionWithACausalMaskAndARowThatIsAllMasked) {
    const Kernel kernel = example("13");
    for (const Heads& h : {Heads{1, 1, 1, 1}, Heads{2, 3, 17, 5}, Heads{1, 2, 33, 8}}) {
        const Tensor q = uniform(h.shape(), 1), k = uniform(h.shape(), 2),
                     v = uniform(h.shape(), 3);
        const std::int64_t masked_row = h.length / 2;
        const std::vector<double> mask = causal(h.length, masked_row);
        const std::vector<double> expected = attention(h, q, k, v, mask);
        const Tensor bits = Tensor::from({h.length, h.length}, mask);
        for (const DType dtype : {DType::Bool, DType::UInt8, DType::Int32}) {
            const Tensor y = kernel(q, k, v, bits.to(dtype));
            EXPECT_EQ(y.shape(), h.shape());
            // Weights are positive and add up to 1; V cancels in absolute terms only.
            EXPECT_CLOSE(y, expected, kRelative, 1e-5);
            const Tensor row = y.slice(2, masked_row, masked_row + 1);
            for (const double value : row.values()) EXPECT_EQ(value, 0);
        }
    }
}

TEST(Check68, AttentionInHalfPrecisionKeepsItsDtype) {
    const Heads h{1, 2, 9, 16};
    const Tensor q = uniform(h.shape(), 1, -2, 2, DType::Float16);
    const Tensor k = uniform(h.shape(), 2, -2, 2, DType::Float16),
                 v = uniform(h.shape(), 3, 0, 1, DType::Float16);
    const std::vector<double> mask = causal(9, -1);
    const Tensor y = example("13")(q, k, v, Tensor::from({9, 9}, mask).to(DType::Bool));
    EXPECT_EQ(y.dtype(), DType::Float16);
    // Scores are up to 16: exp turns 2^-11 of that, should one be rounded, into 1 percent.
    EXPECT_CLOSE(y, attention(h, q, k, v, mask), 1e-2, 1e-3);
}

class Check69 : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Check69, FlashAttentionIsAttentionWithoutAMask) {
    const std::int64_t n = GetParam();
    // The longest runs once and narrow: it only adds whole blocks.
    const Heads h = n == 1000 ? Heads{1, 1, n, 2} : Heads{1, 2, n, 5};
    const Tensor q = uniform(h.shape(), 1), k = uniform(h.shape(), 2), v = uniform(h.shape(), 3);
    const Tensor y = example("14")(q, k, v);
    EXPECT_EQ(y.shape(), h.shape());
    EXPECT_CLOSE(y, attention(h, q, k, v), kRelative, 1e-5);
    if (n > 100) return;
    const Tensor all =
        Tensor::from({n, n}, std::vector<double>(std::size_t(n * n), 1)).to(DType::Bool);
    EXPECT_CLOSE(y, example("13")(q, k, v, all).values(), kRelative, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Lengths, Check69, ::testing::Values(0, 1, 3, 63, 64, 65, 100, 128, 1000));

TEST(Check69, ScoresOfTenThousandDoNotOverflow) {
    const Heads h{1, 1, 70, 4};
    const Tensor q = uniform(h.shape(), 1, -100, 100), k = uniform(h.shape(), 2, -100, 100);
    const Tensor v = uniform(h.shape(), 3);
    // Of scores near 1e4 float32 keeps about 1e-3, and so do their exponentials.
    EXPECT_CLOSE(example("14")(q, k, v), attention(h, q, k, v), 5e-3, 5e-3);
}

TEST(Check69, ARaggedEndHidesWhatLiesBehindIt) {
    // Keys past the end would be found as NaN in the result.
    Tensor storage = Tensor::from({1, 1, 65, 3}, std::vector<double>(195, kNaN)).to(DType::Float32);
    const Heads h{1, 1, 40, 3};
    const Tensor values = uniform(h.shape(), 5);
    std::memcpy(storage.data(), values.data(), values.bytes());
    const Tensor view = storage.slice(2, 0, 40);
    EXPECT_TRUE(same_bits(example("14")(view, view, view), example("14")(values, values, values)));
}

}  // namespace
}  // namespace quern
