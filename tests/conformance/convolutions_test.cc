#include "tests/conformance/operands.h"

namespace quern {
namespace {

struct Sizes {
    std::int64_t batch, in_channels, in_h, in_w, out_channels, kernel_h, kernel_w;
};

/// The definition of K11: a padded, strided convolution with a bias.
std::vector<double> convolved(const Sizes& s, const Tensor& input, const Tensor& kernel,
                              const Tensor& bias, std::int64_t stride, std::int64_t padding) {
    const auto x = input.values(), w = kernel.values(), c = bias.values();
    const std::int64_t out_h = (s.in_h + 2 * padding - s.kernel_h) / stride + 1;
    const std::int64_t out_w = (s.in_w + 2 * padding - s.kernel_w) / stride + 1;
    std::vector<double> y;
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t oc = 0; oc < s.out_channels; ++oc)
            for (std::int64_t oh = 0; oh < out_h; ++oh)
                for (std::int64_t ow = 0; ow < out_w; ++ow) {
                    double sum = c[std::size_t(oc)];
                    for (std::int64_t ic = 0; ic < s.in_channels; ++ic)
                        for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
                            for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                                const std::int64_t ih = oh * stride + kh - padding;
                                const std::int64_t iw = ow * stride + kw - padding;
                                if (ih < 0 || iw < 0 || ih >= s.in_h || iw >= s.in_w) continue;
                                const std::int64_t from =
                                    ((b * s.in_channels + ic) * s.in_h + ih) * s.in_w + iw;
                                const std::int64_t by =
                                    ((oc * s.in_channels + ic) * s.kernel_h + kh) * s.kernel_w + kw;
                                sum += x[std::size_t(from)] * w[std::size_t(by)];
                            }
                    y.push_back(sum);
                }
    return y;
}

TEST(Check66, ConvolutionWithEveryBorder) {
    const Kernel conv = example("11");
    const std::pair<std::int64_t, std::int64_t> cases[] = {{1, 0}, {1, 1}, {2, 1}, {3, 2}};
    for (const Sizes& s :
         {Sizes{2, 3, 8, 7, 4, 3, 2}, Sizes{1, 1, 3, 2, 1, 3, 2}, Sizes{1, 2, 5, 17, 1, 3, 2}}) {
        const Tensor input = uniform({s.batch, s.in_channels, s.in_h, s.in_w}, 1);
        const Tensor kernel = uniform({s.out_channels, s.in_channels, s.kernel_h, s.kernel_w}, 2);
        const Tensor bias = uniform({s.out_channels}, 3);
        for (const auto& [stride, padding] : cases) {
            const Tensor y =
                conv(input, kernel, bias, arg("stride", stride), arg("padding", padding));
            const Shape shape = {s.batch, s.out_channels,
                                 (s.in_h + 2 * padding - s.kernel_h) / stride + 1,
                                 (s.in_w + 2 * padding - s.kernel_w) / stride + 1};
            EXPECT_EQ(y.shape(), shape);
            EXPECT_CLOSE(y, convolved(s, input, kernel, bias, stride, padding), kRelative, 1e-5);
        }
    }
}

TEST(Check66, StrideAndPaddingMayStandInTheTextOrBeLeftOut) {
    const Sizes s{1, 2, 6, 5, 2, 3, 2};
    const Tensor input = uniform({1, 2, 6, 5}, 1), kernel = uniform({2, 2, 3, 2}, 2),
                 bias = uniform({2}, 3);
    EXPECT_CLOSE(example("11")(input, kernel, bias), convolved(s, input, kernel, bias, 1, 0),
                 kRelative, 1e-5);
    std::string text = example_text("11");
    text.replace(text.find("@kernel conv2d"), 14, "@kernel conv2d(stride=2, padding=1)");
    EXPECT_CLOSE(Kernel(text)(input, kernel, bias), convolved(s, input, kernel, bias, 2, 1),
                 kRelative, 1e-5);
}

TEST(Check67, DepthwiseConvolution) {
    const Kernel conv = example("12");
    const Sizes cases[] = {{2, 3, 9, 8, 1, 3, 2},
                           {1, 1, 3, 3, 1, 3, 3},
                           {1, 2, 1, 33, 1, 1, 5},
                           {1, 2, 2, 2, 1, 3, 2}};
    for (const Sizes& s : cases) {
        const Tensor input = uniform({s.batch, s.in_channels, s.in_h, s.in_w}, 1);
        const Tensor kernel = uniform({s.in_channels, s.kernel_h, s.kernel_w}, 2);
        const std::int64_t out_h = s.in_h - s.kernel_h + 1, out_w = s.in_w - s.kernel_w + 1;
        const auto x = input.values(), w = kernel.values();
        std::vector<double> expected;
        for (std::int64_t bc = 0; bc < s.batch * s.in_channels; ++bc)
            for (std::int64_t oh = 0; oh < out_h; ++oh)
                for (std::int64_t ow = 0; ow < out_w; ++ow) {
                    double sum = 0;
                    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
                        for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                            const std::int64_t c = bc % s.in_channels;
                            sum += x[std::size_t((bc * s.in_h + oh + kh) * s.in_w + ow + kw)] *
                                   w[std::size_t((c * s.kernel_h + kh) * s.kernel_w + kw)];
                        }
                    expected.push_back(sum);
                }
        const Tensor y = conv(input, kernel);
        EXPECT_EQ(y.shape(), (Shape{s.batch, s.in_channels, out_h, out_w}));
        EXPECT_CLOSE(y, expected, kRelative, 1e-5);
    }
}

TEST(Check77, AndGuardsAnOutOfRangeReadAndSoDoesOr) {
    const Tensor x = Tensor::from({3}, {1.0, 2.0, 3.0}), at = Tensor::from({4}, {-1, 0, 2, 3});
    const Tensor guarded = compute(R"(compute(x, at) {
        @kernel custom
        for i in 0..n:
            var v = 0.0
            if at[i] >= 0 and at[i] < 3 and x[at[i]] > 0.0:
                v = x[at[i]]
            out[i] = v
    })",
                                   x, at);
    EXPECT_CLOSE(guarded, {0, 1, 3, 0}, 0, 0);
    // A number in a guard is no dimension: x may have more.
    EXPECT_CLOSE(compute(R"(compute(x) {
        @kernel custom
        for i in 0..4:
            var v = 0.0
            if i < 2: v = x[i]
            out[i] = v
    })",
                         x),
                 {1, 2, 0, 0}, 0, 0);
    const Tensor either = compute(R"(compute(x, at) {
        @kernel custom
        for i in 0..n:
            var v = 0.0
            if at[i] < 0 or at[i] >= 3 or x[at[i]] > 1.0:
                v = 1.0
            out[i] = v
    })",
                                  x, at);
    EXPECT_CLOSE(either, {1, 0, 1, 1}, 0, 0);
    // A side that needs statements of its own is guarded as well.
    const Tensor reduced = compute(R"(compute(x, at) {
        @kernel custom
        for i in 0..n:
            var v = 0.0
            if at[i] >= 0 and at[i] < 3 and dot(x, x) * x[at[i]] > 14.0:
                v = 1.0
            out[i] = v
    })",
                                   x, at);
    EXPECT_CLOSE(reduced, {0, 0, 1, 0}, 0, 0);
}

}  // namespace
}  // namespace quern
