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

TEST(Work, ReadsNoMoreOfAnOperandThanItsLoopsName) {
    const auto read = [](const std::string& operands, const std::string& body,
                         const std::vector<Shape>& shapes) {
        return work(custom(operands, body), shapes).read / 4;
    };
    EXPECT_EQ(read("x: [m]", "for i in 0..10: out[i] = x[i] * 2.0", {{4000}}), 10);
    EXPECT_EQ(read("x: [m]", "for i in 0..10: out[i] = x[i] + x[i + 1]", {{4000}}), 20);
    EXPECT_EQ(read("x: [m]", "for i in 0..10: out[i] = x[i] + x[i + 1]", {{11}}), 11);
    EXPECT_EQ(read("x: [m]", "for i in 0..10: out[i] = x[3]", {{4000}}), 1);
    EXPECT_EQ(read("x: [n, m]",
                   "for i in 0..n:\n  var s = 0.0\n  for j in 0..i: s += x[i, j]\n"
                   "  out[i] = s",
                   {{100, 100}}),
              4950);
    EXPECT_EQ(read("x: [m], y: [n]", "for i in 0..n: out[i] = x[0] + y[i]", {{4000}, {7}}), 8);
    // A row of x for each row of out, and y for each of them.
    EXPECT_EQ(read("x, y",
                   "for i in 0..n, j in 0..m:\n  var s = 0.0\n"
                   "  for k in 0..p: s += x[i, k] * y[k, j]\n  out[i, j] = s",
                   {{6, 8}, {8, 10}}),
              6 * 8 + 8 * 10);
    // Windows, side by side and one into the other.
    const auto windows = [&](const std::string& range) {
        return read(
            "x: [m]",
            "for i in 0..100:\n  var s = 0.0\n  for j in " + range + ": s += x[j]\n  out[i] = s",
            {{400}});
    };
    EXPECT_EQ(windows("i * 4..i * 4 + 4"), 400);
    EXPECT_EQ(windows("i..i + 3"), 300);
    EXPECT_EQ(windows("0..i"), 99);
    const Work gathered = work(custom("x: [m], at: [n]", "for i in 0..n: out[i] = x[at[i]]"),
                               {{DType::Float32, Shape{1000}}, {DType::Int64, Shape{10}}});
    EXPECT_EQ(gathered.read, 4 * 10 + 8 * 10);
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

TEST(Work, FollowsVariablesThroughTheIterationsThatAreLookedAt) {
    const auto of = [](const std::string& body) {
        return work(custom("x", "for i in 0..n:\n  var s = 0.0\n" + body + "  out[i] = s"),
                    std::vector<Shape>{{50}});
    };
    const Work doubled =
        of("  var len = 1\n  for j in 0..10:\n    len = len * 2\n    for k in 0..len: s += x[i]\n");
    EXPECT_EQ(doubled.operations, 50 * 2046);
    const Work behind =
        of("  var len = 3\n  for j in 0..10:\n    for k in 0..len: s += x[i]\n    len = j\n");
    EXPECT_EQ(behind.operations, 50 * (3 + 36));
    const Work steady =
        of("  var len = 3\n  for j in 0..1000:\n    for k in 0..len: s += x[i]\n    len = 3\n");
    EXPECT_EQ(steady.operations, 50 * 3000);
    for (const Work& each : {doubled, behind, steady}) EXPECT_FALSE(each.is_least);
}

TEST(Work, SaysAtLeastWhereAVariableOfOtherIterationsIsABound) {
    for (const char* body :
         {"  var len = 0\n  for j in 0..1000: len = len + 1\n  for k in 0..len: s += x[i]\n",
          "  var len = 3\n  for j in 0..1000:\n    for k in 0..len: s += x[i]\n    len = j\n",
          "  var len = 2\n  if x[i] > 0.0: len = 1000\n  for k in 0..len: s += x[i]\n"}) {
        const std::string text =
            custom("x", std::string("for i in 0..n:\n  var s = 0.0\n") + body + "  out[i] = s");
        EXPECT_TRUE(work(text, std::vector<Shape>{{50}}).is_least) << text;
    }
    const Work same = work(custom("x",
                                  "for i in 0..n:\n  var s = 0.0\n  var len = 2\n"
                                  "  if x[i] > 0.0: len = 7\n  else: len = 7\n"
                                  "  for k in 0..len: s += x[i]\n  out[i] = s"),
                           std::vector<Shape>{{50}});
    EXPECT_FALSE(same.is_least);
    // A comparison and seven sums.
    EXPECT_EQ(same.operations, 50 * 8);
}

TEST(Work, OfDeepNestsTakesNoLongerThanALaunch) {
    std::string loops = "for a in 0..n:\n  var s = 0.0\n";
    std::string indent = "  ", outer = "a";
    for (const char* name : {"b", "c", "d", "e", "f"}) {
        loops += indent + "for " + name + " in 0.." + outer + ":\n";
        indent += "  ";
        outer = name;
    }
    const Work deep = work(custom("x: [n]", loops + indent + "s += x[f]\n  out[a] = s"),
                           std::vector<Shape>{{2000}});
    // Binomial: 2000 over 6. A few iterations of each loop are looked at.
    EXPECT_NEAR(deep.operations / 8.8e16, 1, 0.5);
    // As many loops as nest.
    std::string many = "for i in 0..n";
    for (int k = 0; k < 38; ++k) many += ", i" + std::to_string(k) + " in 0..1";
    EXPECT_EQ(work("compute(x: [n]) {\n@kernel custom\nfor i in 0..n:\n  var s = 0.0\n  " +
                       ("for j in 0..2" + many.substr(13)) + ": s += x[i] * 2.0\n  out[i] = s\n}",
                   std::vector<Shape>{{50}})
                  .operations,
              50 * 3);
    // More iterations than a word counts.
    const Work endless =
        work(custom("x",
                    "for i in 0..n:\n  var s = 0.0\n"
                    "  for j in 0..4000000000000000000:\n    for k in 0..j: s += x[i]\n"
                    "  out[i] = s"),
             std::vector<Shape>{{5}});
    EXPECT_NEAR(endless.operations / (5 * 8e36), 1, 0.01);
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
