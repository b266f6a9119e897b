// Which tilings of a kernel's loops are legal, and that legal ones change nothing.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "quern/backend/vulkan/targets.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/random_tiling.h"
#include "tests/schedule/examples.h"

namespace quern::schedule {
namespace {

using cpu_test::Case;

using CompiledTilings = cpu_test::Compiled;
class Tilings : public CompiledTilings, public ::testing::WithParamInterface<Row> {};

TEST_P(Tilings, ThatAreLegalGiveTheInterpretersNumbers) {
    const Case c = case_of(GetParam());
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected);
    std::mt19937 engine(std::uint32_t(std::stoi(GetParam().number)));
    for (const cpu::Simd simd : cpu_test::levels_here()) {
        EXPECT_EQ(
            cpu_test::wrong_by_random_tiling(c, *expected, simd, Numerics::Reproducible, engine),
            "");
    }
}

TEST_F(CompiledTilings, ThatAreLegalAddUpSmallIntegersExactlyInStrictMode) {
    const auto integers = [](const Shape& shape, std::uint64_t seed) {
        return uniform(shape, seed, -9, 9).to(DType::Int32).to(DType::Float32);
    };
    const cpu_test::Arguments padded{{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}};
    const Case cases[] = {
        Case(example_text("04"), {integers({9000}, 1)}),
        Case(example_text("05"), {integers({9000}, 2)}),
        Case(example_text("07"), {integers({19, 700}, 3)}),
        Case(example_text("09"), {integers({17, 33}, 4), integers({33, 70}, 5)}),
        Case(example_text("11"),
             {integers({1, 3, 9, 21}, 6), integers({5, 3, 3, 3}, 7), integers({5}, 8)}, padded)};
    std::mt19937 engine(11);
    for (const Case& c : cases) {
        const std::optional<Tensor> expected = c.interpreted();
        ASSERT_TRUE(expected);
        for (const cpu::Simd simd : cpu_test::levels_here()) {
            for (int i = 0; i < 4; ++i) {
                EXPECT_EQ(
                    cpu_test::wrong_by_random_tiling(c, *expected, simd, Numerics::Strict, engine),
                    "");
            }
        }
    }
}

TEST_P(Tilings, OfTheDefaultScheduleAreLegal) {
    const Case c = case_of(GetParam());
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
        std::vector<Target> targets = {vulkan::kGroups, vulkan::kInvocations};
        for (const cpu::Simd simd : cpu::kSimdLevels) targets.push_back(cpu::target_of(simd));
        for (const Target& target : targets) {
            const Tiling tiling = choose(prepared, c.facts(), numerics, target);
            EXPECT_EQ(legal(prepared, target, tiling), "") << to_string(prepared, tiling);
        }
    }
}

/// What is chosen in strict mode, as "i: grid, unroll 8".
std::string chosen_for(const Target& target, const Case& c) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
    return to_string(prepared, choose(prepared, c.facts(), Numerics::Strict, target));
}

std::string chosen_without_lanes(const Case& c, bool has_int64 = true) {
    Target target = vulkan::kInvocations;
    target.native.int64 = has_int64;
    return chosen_for(target, c);
}

TEST(DefaultSchedule, WithoutLanesCopiesOfAProductShareLoads) {
    const Tensor matrix({64, 64});
    EXPECT_EQ(chosen_without_lanes(Case(example_text("09"), {matrix, matrix})),
              "i: grid, unroll 8; j: grid, unroll 8; k: serial");
    const Tensor large({65, 65});
    EXPECT_EQ(chosen_without_lanes(Case(example_text("09"), {large, large})),
              "i: grid, unroll 16; j: grid, unroll 8; k: serial");
    const std::string convolution = chosen_without_lanes(
        Case(example_text("11"), {Tensor({1, 16, 32, 32}), Tensor({16, 16, 3, 3}), Tensor({16})}));
    EXPECT_EQ(convolution.substr(0, convolution.find("ic")),
              "b: grid; oc: grid, unroll 8; oh: grid; ow: grid, unroll 4; ")
        << "guards make long code";
    const Tensor head({1, 8, 64, 32});
    const std::string attention =
        chosen_without_lanes(Case(example_text("14"), {head, head, head}));
    EXPECT_EQ(attention.substr(0, attention.find(';', attention.find("q_block"))),
              "b: grid; h: grid; q_block: grid")
        << "what a point does is not one sum";
    EXPECT_EQ(chosen_without_lanes(Case(example_text("01"), {Tensor({64})})), "i: grid");
    std::string sum = "s";
    for (int n = 0; n < 50; ++n) sum += " + a[i, 0] * b[" + std::to_string(n % 9) + ", j]";
    const Case beside(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[i, k] * b[k, j]\n  out[i, j] = " +
            sum + "\n}",
        {matrix, matrix});
    EXPECT_EQ(chosen_without_lanes(beside), "i: grid; j: grid; k: serial")
        << "64 copies of what is long";
}

TEST(DefaultSchedule, CopiesNoQuotientsOfIntegersThatADeviceHasNot) {
    const Tensor matrix({64, 64}, DType::Int64);
    const Case c(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0\n"
        "  for k in 0..depth: s += a[i, k] / b[k, j]\n  out[i, j] = s\n}",
        {matrix, matrix});
    EXPECT_EQ(chosen_without_lanes(c), "i: grid, unroll 8; j: grid, unroll 8; k: serial");
    EXPECT_EQ(chosen_without_lanes(c, false), "i: grid; j: grid; k: serial");
}

TEST(DefaultSchedule, FunctionsTakeTurnsWhereRegistersHoldTheirValues) {
    const Case gelu(example_text("17"), {Tensor({1000})});
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Avx512), gelu), "i: vector 16, grid, unroll 6");
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Avx2), gelu), "i: vector 16, grid, unroll 2");
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Sse41), gelu), "i: vector 16, grid");
    EXPECT_EQ(chosen_for(vulkan::kGroups, gelu).find("unroll"), std::string::npos);
    const Case wide(example_text("17"), {Tensor({1000}, DType::Float64)});
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Avx512), wide), "i: vector 16, grid, unroll 2");
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Avx2), wide), "i: vector 16, grid");
    const Case few("compute(x) {\n@kernel custom\nfor i in 0..200: out[i] = tanh(x[i])\n}",
                   {Tensor({200})});
    EXPECT_EQ(chosen_for(cpu::target_of(cpu::Simd::Avx2), few), "i: vector 16, grid");
}

INSTANTIATE_TEST_SUITE_P(Kernels, Tilings, ::testing::ValuesIn(kRows), [](const auto& info) {
    return fmt::format("K{}_{}", info.param.number, info.index);
});

struct Loop {
    const char* name;
    Level level;
    int factor;
};

/// Why the loops named may not be split so.
std::string why_not(const Case& c, const std::vector<Loop>& loops,
                    Numerics numerics = Numerics::Strict, const Target& target = {}) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
    Tiling tiling;
    tiling.numerics = numerics;
    for (const Loop& loop : loops) {
        for (std::size_t s = 0; s < prepared.symbols.size(); ++s) {
            if (prepared.symbols[s].name != loop.name) continue;
            tiling.splits.push_back({ir::SymbolId(s), loop.level, std::uint16_t(loop.factor)});
            break;
        }
    }
    EXPECT_EQ(tiling.splits.size(), loops.size());
    return legal(prepared, target, tiling);
}

const Case& matmul() {
    static const Case c(example_text("09"), {Tensor({17, 33}), Tensor({33, 20})});
    return c;
}

TEST(Legal, AllowsWhatTheDefaultScheduleOfAProductDoes) {
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Grid, 1},
                                 {"j", Level::Grid, 1},
                                 {"i", Level::Unroll, 8},
                                 {"j", Level::Vector, 16},
                                 {"j", Level::Unroll, 2}}),
              "");
}

TEST(Legal, SaysWhyALoopIsNotOfTheGrid) {
    EXPECT_EQ(why_not(matmul(), {{"j", Level::Grid, 1}}), "j: no loop of a grid around it");
    EXPECT_EQ(why_not(matmul(), {{"k", Level::Grid, 1}}), "k: no loop of a grid around it");
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Grid, 4}}), "i: a grid has no factor");
}

TEST(Legal, SaysWhyALoopIsNotLanes) {
    EXPECT_EQ(why_not(matmul(), {{"j", Level::Vector, 8}}), "j: a vector has 16 lanes, not 8");
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Vector, 16}, {"j", Level::Vector, 16}}),
              "j: a loop around it has the lanes");
    EXPECT_EQ(why_not(matmul(), {{"j", Level::Vector, 16}}, Numerics::Strict, {.lanes = 1}),
              "j: the processor has no vectors");
    const Case scan(R"(
compute(x) {
    @kernel custom
    for b in 0..rows:
        var before = 0.0
        for i in 0..n:
            before = before * 0.5 + x[b, i]
            out[b, i] = before
})",
                    {Tensor({3, 40})});
    EXPECT_EQ(why_not(scan, {{"i", Level::Vector, 16}}), "i: it assigns 'before'");
    EXPECT_EQ(why_not(scan, {{"i", Level::Unroll, 2}}), "i: it assigns 'before'");
    EXPECT_EQ(why_not(scan, {{"b", Level::Vector, 16}}), "");
}

TEST(Legal, SaysWhyALoopIsNotUnrolled) {
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Unroll, 1}}), "i: fewer than two copies");
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Unroll, 16}, {"j", Level::Unroll, 8}}),
              "j: more than 32 copies");
    EXPECT_EQ(why_not(matmul(), {{"k", Level::Unroll, 2}}), "k: one sum is for all copies");
    EXPECT_EQ(why_not(matmul(), {{"k", Level::Vector, 16}, {"k", Level::Unroll, 2}}), "");
    EXPECT_EQ(why_not(matmul(), {{"k", Level::Vector, 16}, {"k", Level::Unroll, 2}},
                      Numerics::Reproducible),
              "k: copies add up in another order");
    EXPECT_EQ(why_not(matmul(),
                      {{"i", Level::Unroll, 2}, {"k", Level::Vector, 16}, {"k", Level::Unroll, 2}}),
              "k: sums of copies inside of copies");
}

TEST(Legal, SaysWhyALoopHasNoRowsOfLanes) {
    const Target groups{.rows = 4};
    const auto why = [&](const std::vector<Loop>& loops, Numerics numerics = Numerics::Strict) {
        std::vector<Loop> all{{"i", Level::Grid, 1}, {"j", Level::Grid, 1}};
        all.insert(all.end(), loops.begin(), loops.end());
        return why_not(matmul(), all, numerics, groups);
    };
    const Loop lanes{"j", Level::Vector, 16}, rows{"i", Level::Rows, 4};
    EXPECT_EQ(why({lanes, rows}), "");
    EXPECT_EQ(why({lanes, rows}, Numerics::Reproducible), "");
    EXPECT_EQ(why({lanes, {"i", Level::Rows, 3}}), "i: rows are a power of two, at most 4");
    EXPECT_EQ(why({lanes, {"i", Level::Rows, 8}}), "i: rows are a power of two, at most 4");
    EXPECT_EQ(why({rows}), "i: no loop of the grid inside has the lanes");
    EXPECT_EQ(why({{"i", Level::Vector, 16}, {"j", Level::Rows, 4}}),
              "j: a loop around it has the lanes");
    EXPECT_EQ(why({lanes, {"k", Level::Rows, 4}}), "k: a loop around it has the lanes");
    EXPECT_EQ(why_not(matmul(), {lanes, rows}, Numerics::Strict, groups),
              "i: no loop of a grid around it");
    EXPECT_EQ(why_not(matmul(), {lanes, rows}), "i: the processor has no rows of lanes");

    const Loop stage{"k", Level::Stage, 16};
    EXPECT_EQ(why({lanes, rows, stage}), "");
    EXPECT_EQ(why({lanes, stage}), "k: no rows of lanes around it share what it reads");
    EXPECT_EQ(why({lanes, rows, {"k", Level::Stage, 8}}),
              "k: fewer iterations than lanes or rows, or no power of two");
    EXPECT_EQ(why({lanes, rows, stage}, Numerics::Reproducible),
              "k: its sums have partials in memory");
    EXPECT_EQ(why({lanes, rows, {"j", Level::Stage, 16}}), "j: it does not reduce");
    // Each loop fills all that the loops around it share.
    const Case nested(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth:\n    if k % 2 == 0:\n      for l in 0..depth: s += a[i, l] * b[k, "
        "j]\n"
        "  out[i, j] = s\n}",
        {Tensor({8, 32}), Tensor({32, 32})});
    EXPECT_EQ(why_not(nested,
                      {{"i", Level::Grid, 1},
                       {"j", Level::Grid, 1},
                       lanes,
                       rows,
                       stage,
                       {"l", Level::Stage, 16}},
                      Numerics::Strict, groups),
              "k: a loop inside of it");
}

TEST(Legal, SaysWhyALoopOfAPointHasNoRowsOfLanes) {
    const Case c(
        "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  var all = 0.0\n"
        "  for h in 0..n: all += x[p, 0, h]\n  for i in 0..m:\n    var s = 0.0\n"
        "    for k in 0..n: s += x[p, i, k]\n    for l in 0..n: out[p, i, l] = s\n"
        "  for j in 0..m:\n    for q in 0..n: all += x[p, j, q]\n"
        "  for r in 0..m:\n    for t in 0..n: out[p, r, t] = out[p, r, t] + all\n}",
        {Tensor({2, 8, 32})});
    const auto why = [&](std::vector<Loop> loops, Numerics numerics = Numerics::Strict) {
        loops.insert(loops.begin(), {"p", Level::Grid, 1});
        return why_not(c, loops, numerics, Target{.rows = 4});
    };
    const Loop rows{"i", Level::Rows, 4}, lanes{"k", Level::Vector, 16};
    EXPECT_EQ(why({rows, lanes}), "");
    EXPECT_EQ(why({rows, lanes}, Numerics::Reproducible), "");
    EXPECT_EQ(why({rows, {"l", Level::Vector, 16}}), "");
    EXPECT_EQ(why({rows, lanes, {"r", Level::Rows, 4}, {"t", Level::Vector, 16}}), "");
    EXPECT_EQ(why({rows}), "i: no loop inside has the lanes");
    EXPECT_EQ(why({rows, lanes, {"i", Level::Vector, 16}}), "k: a loop around it has the lanes");
    EXPECT_EQ(why({lanes, {"l", Level::Rows, 4}}), "l: no loop inside has the lanes");
    EXPECT_EQ(why({rows, lanes, {"r", Level::Rows, 2}, {"t", Level::Vector, 16}}),
              "r: other loops have 4 rows");
    EXPECT_EQ(why({{"j", Level::Rows, 4}, {"q", Level::Vector, 16}}), "j: it reduces");
    const Loop all{"h", Level::Vector, 16};
    EXPECT_EQ(why({rows, lanes, all}), "");
    EXPECT_EQ(why({all}, Numerics::Reproducible), "");
    EXPECT_EQ(why({rows, lanes, all}, Numerics::Reproducible),
              "h: its sums have a partial for each lane of one row");
}

TEST(Legal, NamesASplitThatIsNoneOfALoop) {
    EXPECT_EQ(why_not(matmul(), {{"i", Level::Unroll, 2}, {"i", Level::Unroll, 4}}),
              "i: split twice on one level");
    ir::Kernel prepared = prepare(matmul().kernel(), matmul().facts(), Numerics::Strict);
    Tiling tiling;
    tiling.splits = {{ir::SymbolId(prepared.symbols.size()), Level::Unroll, 2}};
    EXPECT_EQ(legal(prepared, {}, tiling), "a split of a loop that is not there");
}

TEST_F(CompiledTilings, ACompilerRefusesATilingThatIsNot) {
    const ir::Facts facts = matmul().facts();
    Tiling tiling;
    tiling.splits = {{0, Level::Vector, 3}};
    try {
        compile({matmul().kernel(), facts, Numerics::Strict, cpu::Simd::Sse41, &tiling});
        FAIL() << "it compiled";
    } catch (const Refusal& refusal) {
        EXPECT_NE(refusal.reason().find("a vector has 16 lanes, not 3"), std::string::npos)
            << refusal.reason();
    }
}

TEST_F(CompiledTilings, ACompilerRefusesATilingForAnotherMode) {
    const ir::Facts facts = matmul().facts();
    const Tiling tiling;
    EXPECT_THROWS(
        Refusal, "a tiling for another numeric mode",
        compile({matmul().kernel(), facts, Numerics::Reproducible, cpu::Simd::Sse41, &tiling}));
}

}  // namespace
}  // namespace quern::schedule
