// How many operations a launch is, beside counts by hand.

#include "quern/frontend/work.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "quern/frontend/prepare.h"
#include "quern/lang/parse.h"
#include "tests/conformance/operands.h"

namespace quern::frontend {
namespace {

Work work(const std::string& text, const std::vector<std::pair<DType, Shape>>& operands) {
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    diagnostics.raise();
    std::vector<Tensor> tensors;
    for (const auto& [dtype, shape] : operands) tensors.emplace_back(shape, dtype);
    lang::NodeId compute = 0;
    while (source->nodes[std::size_t(compute)].kind != lang::Kind::Compute) ++compute;
    return work_of(*source, compute, infos_of(tensors), {}, {});
}

Work work(const std::string& text, const std::vector<Shape>& operands) {
    std::vector<std::pair<DType, Shape>> all;
    for (const Shape& shape : operands) all.emplace_back(DType::Float32, shape);
    return work(text, all);
}

std::string custom(const std::string& operands, const std::string& body) {
    return "compute(" + operands + ") {\n@kernel custom\n" + body + "\n}";
}

TEST(Work, OfRectangularNestsIsEachOperationTimesTheirTrips) {
    const Work product = work(example_text("09"), {{7, 5}, {5, 3}});
    EXPECT_EQ(product.operations, 2.0 * 7 * 5 * 3);
    EXPECT_EQ(product.points, 21);
    EXPECT_EQ(product.read, 4.0 * (7 * 5 + 5 * 3));
    EXPECT_EQ(product.written, 4.0 * 7 * 3);
    const Work gelu = work(example_text("17"), std::vector<Shape>{{10, 10}});
    EXPECT_EQ(gelu.operations, 800);
    EXPECT_EQ(gelu.functions, 100);
    EXPECT_EQ(work(example_text("09"), {{0, 5}, {5, 3}}).operations, 0);
}

TEST(Work, OfTriangularNestsIsExact) {
    for (const std::int64_t n : {1, 2, 100, 513, 2048, 4097}) {
        SCOPED_TRACE(n);
        const std::vector<Shape> square = {{n, n}};
        const double half = double(n) * double(n - 1) / 2;
        const Work below =
            work(custom("x",
                        "for i in 0..n:\n  var s = 0.0\n  for j in 0..i: s += x[i, j] * 2.0\n"
                        "  out[i] = s"),
                 square);
        EXPECT_EQ(below.operations, 2 * half);
        const Work with =
            work(custom("x",
                        "for i in 0..n:\n  var s = 0.0\n  for j in 0..i+1: s += exp(x[i, j])\n"
                        "  out[i] = s"),
                 square);
        EXPECT_EQ(with.functions, half + double(n));
        const Work named = work(custom("x",
                                       "for i in 0..n:\n  let first = i * 1\n  var s = 0.0\n"
                                       "  for j in first..n: s += x[i, j]\n  out[i] = s"),
                                square);
        EXPECT_EQ(named.operations, half + double(n));
    }
}

TEST(Work, OfTilesIsThatOfTheirProductsAndOfEachFunctionOnce) {
    const Shape shape{1, 2, 1024, 64};
    const double scores = 2.0 * 1024 * 1024;
    const Work flash = work(example_text("14"), {shape, shape, shape});
    // A division and the row's maximum, sum and difference of each score, twice; rows are few.
    EXPECT_NEAR(flash.operations, scores * (2 * 2 * 64 + 6), 0.03 * flash.operations);
    EXPECT_NEAR(flash.functions, 2 * scores, 0.03 * flash.functions);
    // Tiles that are cut off.
    const Shape ragged{1, 2, 1000, 64};
    const Work cut = work(example_text("14"), {ragged, ragged, ragged});
    EXPECT_NEAR(cut.operations / flash.operations, 1000.0 * 1000 / (1024 * 1024), 0.01);
}

TEST(Work, OfAFunctionThatAProductsColumnsShareIsThatOfItsOwnLoops) {
    const Work shared =
        work(custom("a, b",
                    "for i in 0..n, j in 0..m:\n  var s = 0.0\n"
                    "  for k in 0..p: s += exp(a[i, k]) * b[k, j]\n  out[i, j] = s"),
             {{6, 8}, {8, 10}});
    EXPECT_EQ(shared.functions, 6 * 8);
    EXPECT_EQ(shared.operations, 2.0 * 6 * 8 * 10);
    // What a text names inside a loop it computes there.
    const Work named =
        work(custom("a, b",
                    "for i in 0..n, j in 0..m:\n  var s = 0.0\n"
                    "  for k in 0..p:\n    let e = exp(a[i, k])\n    s += e * b[k, j]\n"
                    "  out[i, j] = s"),
             {{6, 8}, {8, 10}});
    EXPECT_EQ(named.functions, 6 * 8 * 10);
}

TEST(Work, CountsIntegersOfOperandsAndNoIndices) {
    const std::string text = custom("x", "for i in 0..n: out[i] = x[i] * 3 + 1");
    for (const DType dtype : {DType::Int32, DType::Int64, DType::Float16, DType::Float64}) {
        EXPECT_EQ(work(text, {{dtype, Shape{50}}}).operations, 100) << to_string(dtype);
    }
    EXPECT_EQ(
        work(custom("x: [n]", "for i in 0..n: out[i] = x[n - 1 - i]"), std::vector<Shape>{{50}})
            .operations,
        0);
}

TEST(Work, OfLoopsWhoseBoundsAreElementsIsAtLeastOneIteration) {
    const Work rows =
        work(custom("x, counts",
                    "for i in 0..n:\n  var s = 0.0\n  for k in 0..counts[i]: s += x[i]\n"
                    "  out[i] = s"),
             {{DType::Float32, Shape{50}}, {DType::Int64, Shape{50}}});
    EXPECT_TRUE(rows.is_least);
    EXPECT_EQ(rows.operations, 50);
    EXPECT_FALSE(work(example_text("01"), std::vector<Shape>{{50}}).is_least);
}

TEST(Work, OfTwoBranchesIsTheLonger) {
    const Work work_of_both =
        work(custom("x",
                    "for i in 0..n:\n  if i < 3:\n    out[i] = x[i] + 1.0\n  else:\n"
                    "    out[i] = (x[i] + 1.0) * 2.0"),
             std::vector<Shape>{{50}});
    EXPECT_EQ(work_of_both.operations, 100);
}

}  // namespace
}  // namespace quern::frontend
