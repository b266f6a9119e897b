// Products of which each element has a length of its own: copies of a loop would have one.

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

}  // namespace
}  // namespace quern::cpu_test
