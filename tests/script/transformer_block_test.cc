// The transformer block of examples/kernels/19 against the same block written from its definitions
// in double: scaled dot-product attention (Vaswani et al., Attention Is All You Need, 2017, eq. 1),
// layer norm after each residual, GELU in its tanh form.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "quern/io.h"
#include "script_helpers.h"

namespace quern::script {
namespace {

using Vector = std::vector<double>;

struct Sizes {
    std::size_t batch, seq, hidden, heads, ffn;
};

/// Values in [-1, 1) from a fixed linear congruential sequence.
Tensor noise(const Shape& shape, std::uint32_t seed, float scale, float offset = 0) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (float& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = offset + scale * (float(seed >> 8) / float(1 << 23) - 1);
    }
    return Tensor::from(shape, values);
}

TensorSet weights(const Sizes& s) {
    const auto h = std::int64_t(s.hidden), f = std::int64_t(s.ffn);
    TensorSet set;
    const std::string layer = "layers.3.";
    set[layer + "qkv_proj"] = noise({h, 3 * h}, 1, 0.3f);
    set[layer + "out_proj"] = noise({h, h}, 2, 0.2f);
    set[layer + "ln1_weight"] = noise({h}, 3, 0.2f, 1);
    set[layer + "ln1_bias"] = noise({h}, 4, 0.1f);
    set[layer + "ffn_up"] = noise({h, f}, 5, 0.2f);
    set[layer + "ffn_down"] = noise({f, h}, 6, 0.2f);
    set[layer + "ln2_weight"] = noise({h}, 7, 0.2f, 1);
    set[layer + "ln2_bias"] = noise({h}, 8, 0.1f);
    // Another layer, so that taking the wrong one shows.
    set["layers.0.qkv_proj"] = noise({h, 3 * h}, 9, 0.3f);
    return set;
}

/// rows x inner times inner x columns.
Vector product(const Vector& a, const Vector& b, std::size_t rows, std::size_t inner,
               std::size_t columns) {
    Vector result(rows * columns, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t k = 0; k < inner; ++k) {
            for (std::size_t c = 0; c < columns; ++c) {
                result[r * columns + c] += a[r * inner + k] * b[k * columns + c];
            }
        }
    }
    return result;
}

Vector attention(const Vector& qkv, const Sizes& s) {
    const std::size_t width = s.hidden / s.heads;
    Vector result(s.batch * s.seq * s.hidden, 0.0);
    const auto element = [&](std::size_t part, std::size_t b, std::size_t h, std::size_t t,
                             std::size_t d) {
        return qkv[(b * s.seq + t) * 3 * s.hidden + part * s.hidden + h * width + d];
    };
    for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t h = 0; h < s.heads; ++h) {
            for (std::size_t i = 0; i < s.seq; ++i) {
                Vector score(s.seq, 0.0);
                double largest = -INFINITY, sum = 0;
                for (std::size_t j = 0; j < s.seq; ++j) {
                    for (std::size_t d = 0; d < width; ++d) {
                        score[j] += element(0, b, h, i, d) * element(1, b, h, j, d);
                    }
                    score[j] /= std::sqrt(double(width));
                    largest = std::max(largest, score[j]);
                }
                for (double& value : score) sum += value = std::exp(value - largest);
                for (std::size_t d = 0; d < width; ++d) {
                    double& out = result[(b * s.seq + i) * s.hidden + h * width + d];
                    for (std::size_t j = 0; j < s.seq; ++j) {
                        out += score[j] / sum * element(2, b, h, j, d);
                    }
                }
            }
        }
    }
    return result;
}

Vector layer_norm_of_sum(const Vector& a, const Vector& b, const Vector& weight, const Vector& bias,
                         double eps) {
    const std::size_t width = weight.size();
    Vector result(a.size());
    for (std::size_t row = 0; row < a.size(); row += width) {
        double mean = 0, variance = 0;
        for (std::size_t c = 0; c < width; ++c) mean += (a[row + c] + b[row + c]) / double(width);
        for (std::size_t c = 0; c < width; ++c) {
            const double d = a[row + c] + b[row + c] - mean;
            variance += d * d / double(width);
        }
        for (std::size_t c = 0; c < width; ++c) {
            result[row + c] =
                (a[row + c] + b[row + c] - mean) / std::sqrt(variance + eps) * weight[c] + bias[c];
        }
    }
    return result;
}

Vector reference(const Vector& x, const TensorSet& set, const Sizes& s, double eps) {
    const auto weight = [&](const std::string& name) {
        return set.at("layers.3." + name).values();
    };
    const std::size_t rows = s.batch * s.seq;
    const Vector qkv = product(x, weight("qkv_proj"), rows, s.hidden, 3 * s.hidden);
    const Vector projected =
        product(attention(qkv, s), weight("out_proj"), rows, s.hidden, s.hidden);
    const Vector normed =
        layer_norm_of_sum(x, projected, weight("ln1_weight"), weight("ln1_bias"), eps);
    Vector up = product(normed, weight("ffn_up"), rows, s.hidden, s.ffn);
    for (double& u : up) {
        u = u * 0.5 * (1 + std::tanh(0.7978845608 * (u + 0.044715 * u * u * u)));
    }
    const Vector down = product(up, weight("ffn_down"), rows, s.ffn, s.hidden);
    return layer_norm_of_sum(normed, down, weight("ln2_weight"), weight("ln2_bias"), eps);
}

class TransformerBlock : public ::testing::Test {
protected:
    TransformerBlock() {
        std::string pattern = (std::filesystem::temp_directory_path() / "quern-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        std::ifstream file(QUERN_SOURCE_DIR "/examples/kernels/19_transformer_block.quern");
        std::ostringstream text;
        text << file.rdbuf();
        text_ = text.str();
    }
    ~TransformerBlock() override { std::filesystem::remove_all(folder_); }

    /// Runs the block with weights that have been through a file.
    Results run_block(const Tensor& x, const TensorSet& set, std::int64_t heads, double eps,
                      const RunOptions& options = {}) {
        const std::string path = (folder_ / "model.safetensors").string();
        save_safetensors(path, set);
        std::string text = text_;
        if (options.device) {
            // Two of its kernels name the device "auto", which is the cpu.
            const std::string automatic = "\"auto\"", id = '"' + options.device->id() + '"';
            int count = 0;
            for (std::size_t at; (at = text.find(automatic)) != std::string::npos; ++count) {
                text.replace(at, automatic.size(), id);
            }
            EXPECT_EQ(count, 2);
        }
        return run_text(text,
                        {{"x", x},
                         {"layer", std::int64_t{3}},
                         {"model", set_of(load_safetensors(path))},
                         {"num_heads", heads},
                         {"eps", eps}},
                        options);
    }

    void compare(const Sizes& s) {
        for (const DeviceInfo& info : devices()) {
            SCOPED_TRACE(info.id);
            compare(s, Device(info.id));
        }
    }

    void compare(const Sizes& s, const Device& device) {
        const Tensor x =
            noise({std::int64_t(s.batch), std::int64_t(s.seq), std::int64_t(s.hidden)}, 100, 1);
        const TensorSet set = weights(s);
        RunOptions options;
        options.device = device;
        const Results results = run_block(x, set, std::int64_t(s.heads), 1e-5, options);
        const Tensor& result = tensor_in(results, "transformer_block");
        ASSERT_EQ(result.shape(), x.shape());
        ASSERT_EQ(result.dtype(), DType::Float32);
        const Vector expected = reference(x.values(), set, s, 1e-5);
        const Vector got = result.values();
        for (std::size_t n = 0; n < expected.size(); ++n) {
            // Elements are of order one after a layer norm; float32 has 1.2e-7 and the sums are of
            // up to 256 products.
            ASSERT_NEAR(got[n], expected[n], 1e-5 * std::max(1.0, std::fabs(expected[n])))
                << "element " << n;
        }
    }

    std::filesystem::path folder_;
    std::string text_;
};

TEST_F(TransformerBlock, EqualsItsDefinition) { compare({2, 16, 64, 4, 256}); }

TEST_F(TransformerBlock, EqualsItsDefinitionWhereABlockOfTheSequenceIsRagged) {
    compare({1, 67, 8, 2, 12});
}

TEST_F(TransformerBlock, EqualsItsDefinitionForOneToken) { compare({1, 1, 4, 1, 3}); }

TEST_F(TransformerBlock, NamesAWeightThatIsMissing) {
    TensorSet set = weights({1, 2, 4, 1, 3});
    set.erase("layers.3.ffn_up");
    try {
        run_block(noise({1, 2, 4}, 100, 1), set, 1, 1e-5);
        FAIL() << "it ran";
    } catch (const KernelError& error) {
        EXPECT_EQ(error.diagnostics()[0].code, "E0442");
        EXPECT_NE(error.diagnostics()[0].message.find("ffn_up"), std::string::npos);
    }
}

TEST_F(TransformerBlock, RefusesHeadsThatDoNotDivideTheWidth) {
    try {
        run_block(noise({1, 2, 4}, 100, 1), weights({1, 2, 4, 1, 3}), 3, 1e-5);
        FAIL() << "it ran";
    } catch (const KernelError& error) {
        EXPECT_EQ(error.diagnostics()[0].code, "E0502");
    }
}

}  // namespace
}  // namespace quern::script
