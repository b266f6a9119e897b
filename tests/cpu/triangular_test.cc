// Products of which each element has a length of its own: copies of a loop would have one.

#include <cmath>

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

class Triangular : public Compiled, public testing::WithParamInterface<const char*> {};
class QuotientsUnderConditions : public Triangular {};

TEST_P(Triangular, ProductsGiveTheInterpretersNumbers) {
    const std::string begin =
        "compute(a, b) {\n@kernel custom\nfor i in 0..n, j in 0..m:\n  var s = 0.0\n";
    const Case c(begin + GetParam() + "  out[i, j] = s\n}",
                 {uniform({20, 20}, 1), uniform({20, 20}, 2)});
    expect_agreement(c, 1e-5, 10);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Triangular,
                         testing::Values("  for k in 0..i + 1: s += a[i, k] * b[k, j]\n",
                                         "  for k in 0..j + 1: s += a[i, k] * b[k, j]\n",
                                         "  for k in i..n: s += a[i, k] * b[k, j]\n",
                                         "  for k in 0..n:\n    var u = 0.0\n"
                                         "    for l in 0..k: u += a[i, l] * b[l, j]\n    s += u\n",
                                         "  for k in 0..n: s += exp(a[i, k]) * b[k, j]\n"));

/// What all lanes and copies share is one value under a condition too.
TEST_P(QuotientsUnderConditions, GiveTheInterpretersNumbers) {
    const std::string begin =
        "compute(x, w) {\n@kernel custom\nfor i in 0..n, j in 0..m:\n  var s = x[i, j]\n"
        "  if j > i:\n    for k in 0..";
    const Case c(begin + GetParam() + ": s += w[k]\n  out[i, j] = s + w[0]\n}",
                 {uniform({19, 64}, 1), uniform({64}, 2)});
    expect_agreement(c, 1e-5, 10);
}

INSTANTIATE_TEST_SUITE_P(Kernels, QuotientsUnderConditions,
                         testing::Values("i / 2", "i / 3", "i / n", "i % 5", "i % m", "n - i / 3"));

class LoopsOfData : public Triangular {};

/// Bounds that elements decide, or the variables that the loop changes.
TEST_P(LoopsOfData, GiveTheInterpretersNumbers) {
    const Tensor c = Tensor::from<std::int64_t>({4}, {0, 1, 2, 4});
    expect_agreement(Case(GetParam(), {uniform({4}, 1), c}));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, LoopsOfData,
    testing::Values("compute(x: [n], c: [m]) {\n@kernel custom\n"
                    "for i in 0..min(2, c[1]): out[i] = x[i]\n}",
                    "compute(x: [n], c: [m]) {\n@kernel custom\n"
                    "for i in 0..n, j in 0..clamp(c[2], 0, 2): out[i, j] = x[i] + j\n}",
                    "compute(x: [n], c: [m]) {\n@kernel reduce(argmax)\n"
                    "for i in c[1]..c[3]: yield (x[i], i)\n}",
                    "compute(x: [n], c: [m]) {\n@kernel custom\nfor a in 0..n:\n  var w = 3\n"
                    "  for q in 0..w: w += c[q % 4] + 1\n  out[a] = f32(w) + x[a]\n}",
                    "compute(x: [n], c: [m]) {\n@kernel reduce(+)\n"
                    "for i in 9..n, j in 0..m: yield x[i] * f32(c[j])\n}"));

/// What is jumped over is decided before the left side, which has parts of the right one.
TEST_F(Triangular, ConditionsThatShareTheirPartsAreThoseOfTheText) {
    const char* text =
        "compute(x: [n]) {\n@kernel custom\nfor i in 0..n:\n"
        "  if abs(x[min(i + 1, n - 1)] - x[i]) > 9.0 or x[min(i + 1, n - 1)] - x[i] > 0.0:\n"
        "    out[i] = 1.0\n}";
    const Case c(text, {Tensor::from<float>({4}, {1, 2, 3, 3})});
    EXPECT_CLOSE(*c.interpreted(), (std::vector<double>{1, 1, 0, 0}), 0, 0);
    expect_agreement(c);
}

class Extremes : public Triangular {};

TEST_P(Extremes, OfTrianglesAreTheInterpreters) {
    for (const char* loops : {"i in 0..n, j in 0..i + 1", "i in 0..n, j in 0..i",
                              "i in 0..n, j in i..n", "i in 0..n, j in 0..n - i"}) {
        const std::string text = std::string("compute(x: [n, n]) {\n@kernel reduce(") + GetParam() +
                                 ")\nfor " + loops + ": yield x[i, j]\n}";
        for (const std::int64_t n : {2, 19, 100})
            expect_agreement(Case(text, {uniform({n, n}, 1)}));
        EXPECT_THROWS(KernelError, "E0620", Kernel(text)(Tensor({0, 0}))) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Extremes, testing::Values("max", "min"));

class Ragged : public Compiled, public testing::WithParamInterface<const char*> {};

/// Sums whose lengths nobody knows before they begin, below, at and beyond one chunk.
TEST_P(Ragged, SumsHaveTheInterpretersBits) {
    const std::int64_t n = 70000;
    const Tensor counts = Tensor::from<std::int64_t>({7}, {0, 1, 17, 4096, 4097, 65537, n});
    const Case c(std::string("compute(x: [m, n], counts) {\n@kernel custom\nfor i in 0..m:\n"
                             "  var s = 0.0\n  var t = 0.0\n  ") +
                     GetParam() + "\n  out[i] = s + t\n}",
                 {uniform({7, n}, 1), counts});
    // Strict code of no lanes adds up one after the other: 6 sqrt(n) u of the terms' magnitudes
    // (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, theorem 2.4).
    expect_agreement(c, 6 * std::sqrt(double(n)) * 0x1p-24, double(n));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Ragged,
    testing::Values("for k in 0..counts[i]: s += x[i, k]",
                    "for k in counts[i] / 2..counts[i]:\n    s += x[i, k] * x[i, k]\n"
                    "    t += x[i, k]",
                    "for k in 0..counts[i] step 3: s += x[i, k]",
                    "for j in 0..3, k in 0..counts[i] / (j + 1): s += x[i, k]",
                    "if counts[i] > 20:\n    for k in 5..counts[i]: s += exp(x[i, k])",
                    "for k in 1000 * i..min(1000 * i + 5000, n): s += x[i, k]",
                    "for k in max(9000 * i - 4500, 0)..9000 * i + 1: s += x[i, k]"));

}  // namespace
}  // namespace quern::cpu_test
