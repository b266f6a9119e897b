// Each pass on CIR keeps every bit of what a kernel means.

#include "tests/cpu/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/schedule/examples.h"

namespace quern::schedule {
namespace {

using cpu_test::Case;
using cpu_test::first_wrong_pass;

class Passes : public ::testing::TestWithParam<Row> {};

TEST_P(Passes, KeepEveryBit) {
    const Case c = case_of(GetParam());
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        EXPECT_EQ(first_wrong_pass(c, numerics), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Passes, ::testing::ValuesIn(kRows), [](const auto& info) {
    return fmt::format("K{}_{}", info.param.number, info.index);
});

TEST(Passes, KeepSharedVariablesAndReadsOfTheOutput) {
    const std::vector<Tensor> x = {uniform({4, 40}, 3)};
    EXPECT_EQ(first_wrong_pass(Case(R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[64]
        for i in 0..n:
            if x[b, i] > 0.0:
                kept[i] = x[b, i]
        barrier()
        for i in 0..n:
            out[b, i] = select(x[b, i] > 0.0, kept[i], -1.0)
})",
                                    x),
                               Numerics::Strict),
              "");
    EXPECT_EQ(first_wrong_pass(Case(R"(
compute(x) {
    @kernel custom
    for i in 0..rows:
        var scale = x[i, 0]
        for j in 0..cols:
            out[i, j] = x[i, j] * scale
            if j > 0:
                out[i, j] = x[i, j] + out[i, j - 1]
})",
                                    x),
                               Numerics::Strict),
              "");
}

}  // namespace
}  // namespace quern::schedule
