// Makes weights and an input for examples/kernels/19_transformer_block.quern, and compares what the
// command quern made of them with the same block computed here in double.
//
//     transformer_block make FOLDER        writes model.safetensors and x.npy
//     transformer_block compare FOLDER     reads y.npy too; exit code 1 if they differ

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/io.h"

namespace {

constexpr int kBatch = 2, kSeq = 16, kHidden = 64, kHeads = 4, kFfn = 256;
constexpr double kEps = 1e-5;

// Sums of up to 256 float32 products, through two layer norms.
constexpr double kTolerance = 1e-5;

using Matrix = std::vector<double>;

quern::Tensor random_tensor(const quern::Shape& shape, double scale, double mean, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(static_cast<std::size_t>(quern::element_count(shape)));
    for (float& v : values) {
        const double unit = double(generator()) / 4294967296.0;
        v = static_cast<float>(mean + scale * (2 * unit - 1));
    }
    return quern::Tensor::from<float>(shape, values);
}

void make(const std::string& folder) {
    quern::TensorSet model;
    const std::string layer = "layers.0.";
    model[layer + "qkv_proj"] = random_tensor({kHidden, 3 * kHidden}, 0.2, 0, 1);
    model[layer + "out_proj"] = random_tensor({kHidden, kHidden}, 0.2, 0, 2);
    model[layer + "ffn_up"] = random_tensor({kHidden, kFfn}, 0.2, 0, 3);
    model[layer + "ffn_down"] = random_tensor({kFfn, kHidden}, 0.1, 0, 4);
    model[layer + "ln1_weight"] = random_tensor({kHidden}, 0.3, 1, 5);
    model[layer + "ln1_bias"] = random_tensor({kHidden}, 0.3, 0, 6);
    model[layer + "ln2_weight"] = random_tensor({kHidden}, 0.3, 1, 7);
    model[layer + "ln2_bias"] = random_tensor({kHidden}, 0.3, 0, 8);
    quern::save_safetensors(folder + "/model.safetensors", model);
    quern::save_npy(folder + "/x.npy", random_tensor({kBatch, kSeq, kHidden}, 1, 0, 9));
}

/// [rows, inner] times [inner, columns].
Matrix product(const Matrix& a, const Matrix& b, int rows, int inner, int columns) {
    Matrix c(static_cast<std::size_t>(rows * columns));
    for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < inner; ++k) {
            for (int j = 0; j < columns; ++j)
                c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
        }
    }
    return c;
}

/// Layer norm of a + b over rows of kHidden.
Matrix normed_sum(const Matrix& a, const Matrix& b, const Matrix& weight, const Matrix& bias) {
    Matrix y(a.size());
    for (std::size_t row = 0; row < a.size(); row += kHidden) {
        double mean = 0, variance = 0;
        for (int h = 0; h < kHidden; ++h) mean += (a[row + h] + b[row + h]) / kHidden;
        for (int h = 0; h < kHidden; ++h) {
            const double d = a[row + h] + b[row + h] - mean;
            variance += d * d / kHidden;
        }
        for (int h = 0; h < kHidden; ++h) {
            y[row + h] =
                (a[row + h] + b[row + h] - mean) / std::sqrt(variance + kEps) * weight[h] + bias[h];
        }
    }
    return y;
}

/// softmax(q k^T / sqrt(width)) v for each head; qkv is [kBatch * kSeq, 3 * kHidden].
Matrix attention(const Matrix& qkv) {
    constexpr int kWidth = kHidden / kHeads;
    Matrix out(std::size_t(kBatch) * kSeq * kHidden);
    for (int b = 0; b < kBatch; ++b) {
        for (int h = 0; h < kHeads; ++h) {
            const auto at = [&](int part, int s, int d) {
                return qkv[(b * kSeq + s) * 3 * kHidden + part * kHidden + h * kWidth + d];
            };
            for (int i = 0; i < kSeq; ++i) {
                double scores[kSeq], largest = -1e300, total = 0;
                for (int j = 0; j < kSeq; ++j) {
                    scores[j] = 0;
                    for (int d = 0; d < kWidth; ++d) scores[j] += at(0, i, d) * at(1, j, d);
                    scores[j] /= std::sqrt(double(kWidth));
                    largest = std::max(largest, scores[j]);
                }
                for (double& score : scores) total += score = std::exp(score - largest);
                for (int d = 0; d < kWidth; ++d) {
                    double sum = 0;
                    for (int j = 0; j < kSeq; ++j) sum += scores[j] / total * at(2, j, d);
                    out[(b * kSeq + i) * kHidden + h * kWidth + d] = sum;
                }
            }
        }
    }
    return out;
}

int compare(const std::string& folder) {
    std::map<std::string, Matrix> w;
    for (const auto& [name, tensor] : quern::load_safetensors(folder + "/model.safetensors")) {
        w[name.substr(std::string("layers.0.").size())] = tensor.values();
    }
    const Matrix x = quern::load_npy(folder + "/x.npy").values();
    constexpr int kRows = kBatch * kSeq;
    const Matrix attended = attention(product(x, w["qkv_proj"], kRows, kHidden, 3 * kHidden));
    const Matrix projected = product(attended, w["out_proj"], kRows, kHidden, kHidden);
    const Matrix normed = normed_sum(x, projected, w["ln1_weight"], w["ln1_bias"]);
    Matrix up = product(normed, w["ffn_up"], kRows, kHidden, kFfn);
    for (double& u : up) u = u * 0.5 * (1 + std::tanh(0.7978845608 * (u + 0.044715 * u * u * u)));
    const Matrix down = product(up, w["ffn_down"], kRows, kFfn, kHidden);
    const Matrix expected = normed_sum(normed, down, w["ln2_weight"], w["ln2_bias"]);

    const std::vector<double> actual = quern::load_npy(folder + "/y.npy").values();
    double worst = actual.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < actual.size() && i < expected.size(); ++i) {
        const double error = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
        worst = error <= worst ? worst : error;
    }
    std::printf(
        "transformer block: %zu numbers, largest difference from double %.2g (allowed %.0e)\n",
        actual.size(), worst, kTolerance);
    return worst <= kTolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc == 3 ? argv[1] : "";
    if (verb != "make" && verb != "compare") {
        std::fprintf(stderr, "usage: transformer_block make|compare FOLDER\n");
        return 2;
    }
    try {
        if (verb == "compare") return compare(argv[2]);
        make(argv[2]);
        return 0;
    } catch (const quern::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
