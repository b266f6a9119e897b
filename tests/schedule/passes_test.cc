// Each pass on CIR keeps every bit of what a kernel means.

#include "tests/cpu/passes.h"

#include <gtest/gtest.h>

#include "tests/conformance/operands.h"

namespace quern::schedule {
namespace {

using cpu_test::Case;
using cpu_test::first_wrong_pass;

struct Row {
    const char* number;
    std::vector<Shape> operands;
    bool has_eps = false;
};

// Beyond a chunk of a reduction, and beyond a tile.
const Row kRows[] = {
    {"01", {{37}}},
    {"02", {{37}, {37}}},
    {"03", {{5, 7}, {7}}},
    {"04", {{9000}}},
    {"05", {{9000}}},
    {"06", {{9000}}},
    {"07", {{3, 9000}}},
    {"08", {{9000}}},
    {"09", {{17, 33}, {33, 20}}},
    {"10", {{2, 5, 7}, {2, 7, 3}}},
    {"11", {{2, 3, 6, 5}, {4, 3, 3, 2}, {4}}},
    {"12", {{2, 3, 6, 5}, {3, 3, 2}}},
    {"14", {{1, 2, 130, 8}, {1, 2, 130, 8}, {1, 2, 130, 8}}},
    {"15", {{70, 80}}},
    {"16", {{4, 50}, {50}, {50}}, true},
    {"17", {{2, 3, 5}}},
    {"18", {{2, 2, 3, 6}, {3, 3}, {3, 3}}},
};

class Passes : public ::testing::TestWithParam<Row> {};

TEST_P(Passes, KeepEveryBit) {
    const Row& row = GetParam();
    cpu_test::Arguments arguments;
    if (row.has_eps) arguments["eps"] = 1e-5;
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < row.operands.size(); ++i) {
        operands.push_back(uniform(row.operands[i], i + 1));
    }
    const Case c(example_text(row.number), operands, arguments);
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        EXPECT_EQ(first_wrong_pass(c, numerics), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Passes, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string("K") + info.param.number; });

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
