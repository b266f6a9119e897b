// Rows of lanes inside of points, such as tiles have: each row folds what its own lanes have, run
// lane by lane.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/random_tiling.h"

namespace quern::schedule {
namespace point_rows_test {

using cpu_test::Case;

/// Their sums are exact in any order.
Tensor integers(const Shape& shape, std::uint64_t seed, DType dtype = DType::Float32) {
    return uniform(shape, seed, -4, 4).to(DType::Int32).to(dtype);
}

/// The default schedule, as "i: grid; j: rows 8; k: vector 16".
std::string chosen(const Case& c, Numerics numerics = Numerics::Strict) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
    return to_string(prepared, choose(prepared, c.facts(), numerics, vulkan::kGroups));
}

bool has_rows(const Case& c, Numerics numerics = Numerics::Strict) {
    return chosen(c, numerics).find("rows") != std::string::npos;
}

/// The interpreter's numbers, whatever the device's subgroups: of a row, of less, of more.
void expect_right(const Case& c, Numerics numerics = Numerics::Strict,
                  const std::vector<std::uint32_t>& subgroups = {1, 4, 16, 32}) {
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected);
    for (const std::uint32_t subgroup : subgroups) {
        if (kSanitized && subgroup != subgroups.back()) continue;
        SCOPED_TRACE("subgroups of " + std::to_string(subgroup));
        const cpu_test::LanesRun run =
            cpu_test::run_on_lanes(c, numerics, vulkan::kGroups, subgroup);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected));
    }
}

/// The `let` keeps the loop over i out of the grid.
std::string folds(const std::string& begin, const std::string& step) {
    return "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n"
           "  for i in 0..m:\n    var s = " +
           begin + "\n    for k in 0..n: " + step + "\n    out[p, i] = s + first\n}";
}

const std::string kSums = folds("x[p, i, 0]", "s += x[p, i, k]");
const std::string kLeast = folds("x[p, i, 0]", "s = min(s, x[p, i, k])");
const std::string kMost = folds("x[p, i, 0]", "s = max(s, x[p, i, k])");

/// Tiles of 16 x 16, whose numbers are small integers.
constexpr const char* kTiles =
    "compute(Q, K, V) {\n@kernel custom\nfor b in 0..batch:\n  for q in 0..len step 16:\n"
    "    var o = zeros(16, width)\n    var l = 0.0\n    var m = -100.0\n"
    "    for c in 0..len step 16:\n"
    "      let S = Q[b, q:q+16] @ transpose(K[b, c:c+16])\n"
    "      let m_new = max(m, row_max(S))\n"
    "      l = l + row_sum(S) - m\n"
    "      o = o + (m_new - m) + S @ V[b, c:c+16]\n      m = m_new\n"
    "    out[b, q:q+16] = o + l\n}";

Case tiles(std::int64_t batch, std::int64_t length, std::int64_t width,
           DType dtype = DType::Float32) {
    const Shape shape{batch, length, width};
    const auto some = [&](std::uint64_t seed) { return integers(shape, seed, dtype); };
    return Case(kTiles, {some(1), some(2), some(3)});
}

TEST(PointRows, AreWhatWorkGroupsDoWithTiles) {
    const Shape shape{1, 2, 128, 64};
    const Case attention(example_text("14"),
                         {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
    const std::string how = chosen(attention);
    for (const char* part :
         {"b: grid; h: grid; q_block: grid; r4: vector 16;", "r8: rows 8; r9: vector 16;",
          "kv_block: serial;", "r11: rows 8, unroll 4; r12: vector 16, unroll 4; r14: stage 16;",
          "r17: rows 8; r19: vector 16, unroll 2;",
          "r27: rows 8, unroll 4; r28: vector 16, unroll 2; r30: stage 16;"}) {
        EXPECT_NE(how.find(part), std::string::npos) << part << "\nin " << how;
    }
    const Case sums(kSums, {integers({3, 20, 40}, 1)});
    EXPECT_EQ(chosen(sums), "p: grid; i: rows 8; k: vector 16, unroll 2");
    EXPECT_EQ(chosen(sums, Numerics::Reproducible), "p: grid; i: rows 8; k: vector 16");
    const Case few(
        "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n"
        "  for i in 0..3:\n    for k in 0..n: out[p, i, k] = x[p, i, k] + first\n}",
        {integers({3, 3, 40}, 1)});
    EXPECT_FALSE(has_rows(few));
}

TEST(PointRows, OfAnySizeFoldTheirOwnLanes) {
    for (const auto& [m, n] :
         {std::pair{8, 16}, {20, 40}, {13, 37}, {9, 1}, {4, 130}, {64, 5}, {1, 64}}) {
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n));
        expect_right(Case(kSums, {integers({2, m, n}, 1)}));
    }
    expect_right(Case(kSums, {integers({0, 20, 40}, 1)}));
}

TEST(PointRows, FoldEveryDtype) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                              DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
                              DType::UInt32, DType::Int64, DType::UInt64}) {
        SCOPED_TRACE(to_string(dtype));
        for (const std::string& text : {kSums, kLeast, kMost}) {
            const Case c(text, {integers({2, 11, 21}, 1, dtype)});
            EXPECT_TRUE(has_rows(c));
            expect_right(c);
            // Pairs of 32 bits in place of 64, and what is small in 32.
            for (const bool has_int64 : {false, true}) {
                Target target = vulkan::kGroups;
                target.native.int64 = target.native.float64 = has_int64;
                target.is_small = has_int64;
                const cpu_test::LanesRun run =
                    cpu_test::run_on_lanes(c, Numerics::Strict, target, 8);
                EXPECT_EQ(run.mistake, "");
                ASSERT_TRUE(run.result);
                EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted())) << has_int64;
            }
        }
    }
}

TEST(PointRows, FoldByEveryOperator) {
    const Tensor x = integers({2, 11, 21}, 1, DType::Int32);
    expect_right(Case(folds("x[p, i, 0]", "s *= x[p, i, k]"), {x}));
    const std::string bools =
        "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0] > 3\n"
        "  for i in 0..m:\n    var s = first\n    for k in 0..n: s = s or x[p, i, k] > 3\n"
        "    out[p, i] = s\n}";
    expect_right(Case(bools, {x}));
}

/// Of zeros that differ in sign a maximum is the one that the order says.
TEST(PointRows, HaveTheSameZeroInEachLane) {
    for (const DType dtype : {DType::Float32, DType::Float64}) {
        Tensor x({2, 11, 16}, DType::Float32);
        for (int i = 0; i < 2 * 11 * 16; ++i) x.data<float>()[i] = i * i % 7 % 2 ? -0.0f : 0.0f;
        const Case c(
            "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n"
            "  for i in 0..m:\n    var s = -1.0\n    for k in 0..n: s = max(s, x[p, i, k])\n"
            "    for k in 0..n: out[p, i, k] = 1.0 / s + first\n}",
            {x.to(dtype)});
        EXPECT_TRUE(has_rows(c));
        for (const auto& [has_int64, has_float64] :
             {std::pair{true, true}, {true, false}, {false, false}}) {
            SCOPED_TRACE(to_string(dtype));
            Target target = vulkan::kGroups;
            target.native.int64 = has_int64;
            target.native.float64 = has_float64;
            const cpu_test::LanesRun run =
                cpu_test::run_on_lanes(c, Numerics::Reproducible, target, 8);
            EXPECT_EQ(run.mistake, "");
            ASSERT_TRUE(run.result);
            EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted())) << has_float64;
        }
    }
}

TEST(PointRows, KeepWhatIsNoNumberInItsRow) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Tensor x = integers({2, 11, 21}, 1);
    float* const data = x.data<float>();
    data[21 * 3 + 7] = kNan;
    data[21 * 4 + 20] = kInfinity;
    data[21 * 10] = -kInfinity;
    data[21 * 19 + 1] = kInfinity;
    data[21 * 19 + 2] = -kInfinity;
    for (const std::string& text : {kSums, kLeast, kMost}) expect_right(Case(text, {x}));
}

TEST(PointRows, ReadOperandsOfAnyLayout) {
    const Tensor x = integers({2, 13, 37}, 1);
    for (const Tensor& view : {transposed_in_memory(x), sliced_from_larger(x)}) {
        for (const std::string& text : {kSums, kLeast}) expect_right(Case(text, {view}));
    }
}

/// What is done once for a row, before, behind and between the loops in its lanes.
TEST(PointRows, DoOnceWhatIsOfARow) {
    const Tensor x = integers({2, 13, 37}, 1), y = integers({13, 37}, 2);
    const std::string begin =
        "compute(x, y) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n";
    for (const char* rows : {
             // Sums that wait for each other.
             "  for i in 0..m:\n    var s = 0.0\n    for k in 0..n: s += x[p, i, k]\n"
             "    var t = s\n    for k in 0..n: t = max(t, s - y[i, k])\n"
             "    for k in 0..n: out[p, i, k] = x[p, i, k] * t + first\n",
             // Conditions on rows, on lanes, on both.
             "  for i in 0..m:\n    var s = first\n    if i % 3 != 1:\n"
             "      for k in 0..n:\n        if k > i: s += x[p, i, k]\n      s = s * 2.0\n"
             "    if y[i, 0] > 0.0: s = s + 1.0\n"
             "    for k in 0..n: out[p, i, k] = s + y[i, k]\n",
             // What rows wrote, read by lanes that are in none.
             "  shared var t[13]: float32\n"
             "  for i in 0..13:\n    var s = 0.0\n    for k in 0..n: s += x[p, i, k]\n"
             "    t[i] = s\n  barrier()\n  var all = first\n  for i in 0..13: all += t[12 - i]\n"
             "  for i in 0..13:\n    for k in 0..n: out[p, i, k] = t[i] + all\n",
             // A loop between rows and lanes.
             "  for i in 0..m:\n    var s = 0.0\n    for j in 0..13:\n"
             "      for k in 0..n: s += x[p, i, k] * y[j, k]\n"
             "    for k in 0..n: out[p, i, k] = s + first\n",
         }) {
        SCOPED_TRACE(rows);
        const Case c(begin + rows + "}", {x, y});
        EXPECT_TRUE(has_rows(c));
        expect_right(c);
    }
}

TEST(PointRows, OfTilesHaveTheInterpretersNumbers) {
    for (const auto& [length, width] : {std::pair{32, 16}, {21, 37}, {5, 18}, {16, 1}}) {
        SCOPED_TRACE(std::to_string(length) + " x " + std::to_string(width));
        expect_right(tiles(1, length, width), Numerics::Strict, {1, 32});
    }
    for (const DType dtype : {DType::Float64, DType::Float16, DType::Int32}) {
        SCOPED_TRACE(to_string(dtype));
        expect_right(tiles(1, 18, 18, dtype), Numerics::Strict, {8});
    }
}

TEST(PointRows, AddUpInTheOrderOfTheDefinitionWhereThatIsAsked) {
    const Case sums(kSums, {uniform({2, 13, 150}, 1)});
    EXPECT_TRUE(has_rows(sums, Numerics::Reproducible));
    expect_right(sums, Numerics::Reproducible);
    const Shape shape{1, 37, 20};
    expect_right(Case(kTiles, {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)}),
                 Numerics::Reproducible, {1, 32});
    // The same lanes would have the partials of eight rows.
    const Case mixed(
        "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  var all = 0.0\n"
        "  for k in 0..n: all += x[p, 0, k]\n"
        "  for i in 0..m:\n    for k in 0..n: out[p, i, k] = x[p, i, k] + all\n}",
        {uniform({2, 13, 150}, 1)});
    EXPECT_TRUE(has_rows(mixed));
    EXPECT_FALSE(has_rows(mixed, Numerics::Reproducible));
    expect_right(mixed, Numerics::Reproducible);
}

TEST(PointRows, ShareWhatProductsOfTilesRead) {
    const Shape shape{1, 1, 128, 64};
    const Case c(example_text("14"), {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
    const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
    const std::vector<lir::Function> functions = cpu_test::functions_of(plan, 32);
    ASSERT_EQ(functions.size(), 1u);
    EXPECT_EQ(functions[0].lanes, 128u);
    std::set<std::string> staged;
    for (const lir::Buffer& buffer : functions[0].buffers) {
        if (buffer.name.find(".stage") != std::string::npos) staged.insert(buffer.name);
    }
    // What a tile was turned to, and what it keeps of exp, lie in the device's memory too.
    EXPECT_EQ(staged, (std::set<std::string>{"Q.stage", "V.stage", "kept.stage", "turned.stage"}));
}

TEST(PointRows, CopyNothingThatTheGroupHasAlready) {
    const Case c(
        "compute(x, y) {\n@kernel custom\nfor p in 0..batch:\n"
        "  shared var t[16, 24]: float32\n"
        "  for i in 0..16:\n    for k in 0..24: t[i, k] = floor(exp(x[p, i, k]))\n  barrier()\n"
        "  for i in 0..16:\n    for j in 0..n:\n      var s = 0.0\n"
        "      for k in 0..24: s += t[i, k] * y[k, j]\n      out[p, i, j] = s\n}",
        {integers({2, 16, 24}, 1), integers({24, 40}, 2)});
    EXPECT_NE(chosen(c).find("stage 16"), std::string::npos) << chosen(c);
    const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
    std::set<std::string> staged;
    for (const lir::Buffer& buffer : plan.stages.at(0).function.buffers) {
        if (buffer.name.find(".stage") != std::string::npos) staged.insert(buffer.name);
    }
    EXPECT_EQ(staged, std::set<std::string>{"y.stage"});
    expect_right(c);
}

TEST(PointRows, ByRandomTilingsHaveTheInterpretersNumbers) {
    std::mt19937 engine(11);
    int in_points = 0;
    for (int n = 0; n < (kSanitized ? 10 : 40); ++n) {
        const auto size = [&](int most) { return std::int64_t(1 + engine() % most); };
        const Case c = n % 2 == 0 ? tiles(1, size(30), size(30))
                                  : Case(kSums, {integers({size(3), size(30), size(60)}, 1)});
        ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
        const Tiling tiling =
            cpu_test::random_tiling(prepared, vulkan::kGroups, Numerics::Strict, engine);
        SCOPED_TRACE(to_string(prepared, tiling));
        in_points += std::ranges::any_of(tiling.splits, [&](const Split& split) {
            return split.level == Level::Rows && !tiling.has(split.loop, Level::Grid);
        });
        const Plan plan = lower(std::move(prepared), c.facts(), vulkan::kGroups, tiling);
        const std::uint32_t subgroup = 1u << engine() % 7;
        const auto run = cpu_test::run_on_lanes(c, plan, cpu_test::functions_of(plan, subgroup));
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted())) << subgroup;
    }
    EXPECT_GT(in_points, kSanitized ? 1 : 8);
}

}  // namespace point_rows_test
}  // namespace quern::schedule
