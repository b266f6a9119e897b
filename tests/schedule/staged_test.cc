// Products whose operands a work-group copies to arrays of its own: rows of lanes, run lane by
// lane.

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "quern/lir/iterations.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/random_tiling.h"

namespace quern::schedule {
namespace {

using cpu_test::Case;

/// Their sums are exact in any order.
Tensor integers(const Shape& shape, std::uint64_t seed, DType dtype = DType::Float32) {
    return uniform(shape, seed, -4, 4).to(DType::Int32).to(dtype);
}

Tiling chosen(const Case& c, Numerics numerics = Numerics::Strict) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
    return choose(prepared, c.facts(), numerics, vulkan::kGroups);
}

bool is_staged(const Tiling& tiling) {
    return std::ranges::any_of(tiling.splits,
                               [](const Split& split) { return split.level == Level::Stage; });
}

/// The interpreter's sums, whatever the device's subgroups.
void expect_right(const Case& c) {
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected);
    for (std::uint32_t subgroup = kSanitized ? 32 : 1; subgroup <= 32; subgroup *= 32) {
        const cpu_test::LanesRun run =
            cpu_test::run_on_lanes(c, Numerics::Strict, vulkan::kGroups, subgroup);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected)) << subgroup;
    }
}

Case product(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype = DType::Float32) {
    return Case(example_text("09"), {integers({m, k}, 1, dtype), integers({k, n}, 2, dtype)});
}

/// The second operand by rows, as layers have their weights.
constexpr const char* kByRows =
    "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
    "  for k in 0..depth: s += a[i, k] * b[j, k]\n  out[i, j] = s\n}";

TEST(Staged, IsWhatWorkGroupsDoWithProducts) {
    const Case c = product(128, 128, 128);
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
    EXPECT_EQ(to_string(prepared, chosen(c)),
              "i: grid, rows 8, unroll 4; j: vector 16, grid, unroll 4; k: stage 16");
    EXPECT_FALSE(is_staged(chosen(c, Numerics::Reproducible))) << "its sums are trees";
    const Case few(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..8: s += a[i, k] * b[k, j]\n  out[i, j] = s\n}",
        {integers({128, 8}, 1), integers({8, 128}, 2)});
    EXPECT_FALSE(is_staged(chosen(few))) << "too few iterations to copy for";
    // Neighbours in memory are iterations of the sum, but only a tile is read more than once.
    const Case weights(kByRows, {integers({128, 64}, 1), integers({128, 64}, 2)});
    EXPECT_TRUE(is_staged(chosen(weights)));
    const Case one_row(kByRows, {integers({1, 64}, 1), integers({128, 64}, 2)});
    EXPECT_FALSE(is_staged(chosen(one_row))) << "a vector and a matrix";
    const Case sums(example_text("07"), {integers({64, 64}, 1)});
    EXPECT_FALSE(is_staged(chosen(sums))) << "nothing is read twice";
    const Case convolution(
        example_text("11"),
        {integers({1, 4, 9, 21}, 6), integers({5, 4, 3, 3}, 7), integers({5}, 8)},
        {{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}});
    EXPECT_FALSE(is_staged(chosen(convolution))) << "guarded";
}

TEST(Staged, ReadsNoOperandWhereItMultiplies) {
    const Case c = product(128, 128, 128);
    const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
    ASSERT_EQ(plan.stages.size(), 1u);
    const lir::Function& f = plan.stages[0].function;
    int products = 0;
    for (const auto& block : f.blocks) {
        const auto has = [&](const auto& what) {
            return std::ranges::any_of(block, [&](lir::ValueId id) { return what(f[id]); });
        };
        const bool multiplies = has([](const lir::Inst& i) {
            return i.op == lir::Op::Mul && i.type.dtype == DType::Float32;
        });
        if (!multiplies) continue;
        ++products;
        EXPECT_FALSE(has([&](const lir::Inst& i) {
            return i.op == lir::Op::Gather && f.buffers[i.buffer].space == lir::Space::Global;
        }));
    }
    EXPECT_GT(products, 0);
    std::set<std::uint32_t> elements;
    for (const lir::Buffer& buffer : lir::for_lanes(f).buffers) elements.insert(buffer.elements);
    EXPECT_EQ(elements, (std::set<std::uint32_t>{0, 32 * 16, 16 * 64}));
    EXPECT_EQ(lir::lanes_of(f), 128u);
}

TEST(Staged, OfAnySizeHaveTheInterpretersSums) {
    for (const auto& [m, k, n] : {std::tuple{32, 16, 64},
                                  {33, 17, 65},
                                  {1, 16, 16},
                                  {5, 64, 3},
                                  {70, 33, 19},
                                  {31, 100, 63},
                                  {8, 31, 130},
                                  {64, 48, 64},
                                  {70, 20, 130},
                                  {3, 4097, 5},
                                  {5, 8191, 3}}) {
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n));
        expect_right(product(m, k, n));
    }
    expect_right(product(9, 0, 9));
    expect_right(product(0, 20, 9));
}

TEST(Staged, OfEveryDtypeHaveTheInterpretersSums) {
    for (const DType dtype :
         {DType::Float64, DType::Float16, DType::BFloat16, DType::Int8, DType::UInt8, DType::Int16,
          DType::UInt16, DType::Int32, DType::UInt32, DType::Int64, DType::UInt64}) {
        SCOPED_TRACE(to_string(dtype));
        expect_right(product(37, 21, 35, dtype));
    }
}

TEST(Staged, ReadOperandsOfAnyLayout) {
    const Tensor a = integers({37, 21}, 1), b = integers({21, 35}, 2);
    for (const Tensor& x : {a, transposed_in_memory(a), sliced_from_larger(a)}) {
        for (const Tensor& y : {b, transposed_in_memory(b), sliced_from_larger(b)}) {
            expect_right(Case(example_text("09"), {x, y}));
        }
    }
    // What several rows read is read for all of them, whatever it is.
    Tensor special = a.clone();
    special.data<float>()[40] = std::numeric_limits<float>::quiet_NaN();
    special.data<float>()[70] = std::numeric_limits<float>::infinity();
    expect_right(Case(example_text("09"), {special, b}));
}

TEST(Staged, KeepWhatStandsAroundAProduct) {
    const Tensor a = integers({3, 37, 40}, 1), b = integers({3, 40, 35}, 2), c = integers({35}, 3);
    // A batch, names, bounds that begin elsewhere, a second sum, a choice.
    for (const char* text : {
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 0.0\n  for k in 0..depth: s += a[p, i, k] * b[p, k, j]\n"
             "  out[p, i, j] = s\n}",
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 1.0\n  for k in 1..38:\n    let l = k + 1\n    let x = a[p, i, l]\n"
             "    s += x * b[p, l, j] + b[p, k, j]\n  out[p, i, j] = s * 2.0\n}",
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 0.0\n  var t = 5.0\n  for k in 0..depth:\n"
             "    s += a[p, i, k] * b[p, k, j]\n    t = max(t, b[p, k, j])\n"
             "  out[p, i, j] = select(s > 0.0, s, t)\n}",
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 0.0\n  for k in 0..depth:\n"
             "    s += select(k > i, a[p, i, k], b[p, k, j])\n  out[p, i, j] = s\n}",
         }) {
        SCOPED_TRACE(text);
        expect_right(Case(text, {a, b}));
    }
    const Case biased(
        "compute(a, b, c) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[i, k] * b[k, j]\n  out[i, j] = s + c[j]\n}",
        {integers({37, 40}, 1), integers({40, 35}, 2), c});
    EXPECT_TRUE(is_staged(chosen(biased)));
    expect_right(biased);
    expect_right(Case(kByRows, {integers({37, 40}, 1), integers({35, 40}, 2)}));
}

/// Steps that 32 lanes of a GPU take for what they ask of the group's memory at once.
TEST(Staged, AsksEachBankOfTheGroupsMemoryForFewWords) {
    const auto steps = [](const Case& c) {
        const Plan made = plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
        const auto run = cpu_test::run_on_lanes(c, made, cpu_test::functions_of(made), true);
        EXPECT_EQ(run.mistake, "");
        EXPECT_TRUE(run.result && cpu_test::same_numbers(*run.result, *c.interpreted()));
        const lir::Function function = cpu_test::functions_of(made)[0];
        EXPECT_EQ(std::ranges::count(function.insts, lir::Op::Barrier, &lir::Inst::op), 4)
            << "copying waits for nobody";
        return run.bank_steps;
    };
    EXPECT_EQ(steps(product(64, 64, 64)), 1u);
    const char* const turned =
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[k, i] * b[k, j]\n  out[i, j] = s\n}";
    EXPECT_EQ(steps(Case(turned, {integers({64, 64}, 1), integers({64, 64}, 2)})), 1u);
    EXPECT_EQ(steps(Case(kByRows, {integers({64, 64}, 1), integers({64, 64}, 2)})), 2u)
        << "16 lanes read one element of each row: 8 if rows were as long as what they hold";
}

/// Lanes read for others, also for those that a condition leaves out.
TEST(Staged, LeaveOutWhatOnlyAConditionKeepsInBounds) {
    const Case c(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = a[i, 0]\n"
        "  if i + 7 < m:\n    for k in 0..depth: s += a[i + 7, k] * b[k, j]\n  out[i, j] = s\n}",
        {integers({37, 40}, 1), integers({40, 35}, 2)});
    const ir::Facts facts = c.facts();
    ir::Kernel prepared = prepare(c.kernel(), facts, Numerics::Strict);
    Tiling tiling;
    for (std::size_t s = 0; s < prepared.symbols.size(); ++s) {
        const auto add = [&](const char* name, Level level, std::uint16_t factor) {
            if (prepared.symbols[s].name != name) return;
            tiling.splits.push_back({ir::SymbolId(s), level, factor});
        };
        add("i", Level::Grid, 1);
        add("j", Level::Grid, 1);
        add("i", Level::Rows, 4);
        add("j", Level::Vector, 16);
        add("k", Level::Stage, 16);
    }
    ASSERT_EQ(legal(prepared, vulkan::kGroups, tiling), "");
    const Plan plan = lower(std::move(prepared), facts, vulkan::kGroups, tiling);
    std::set<std::string> arrays;
    for (const lir::Buffer& buffer : plan.stages[0].function.buffers) arrays.insert(buffer.name);
    EXPECT_EQ(arrays.count("a.stage"), 0u);
    EXPECT_EQ(arrays.count("b.stage"), 1u);
    const auto run = cpu_test::run_on_lanes(c, plan, cpu_test::functions_of(plan));
    EXPECT_EQ(run.mistake, "");
    ASSERT_TRUE(run.result);
    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
}

TEST(Staged, ReadByIndicesThatRowsAndLanesRead) {
    const auto indices = [](std::int64_t n, std::int64_t below) {
        Tensor all({n}, DType::Int32);
        for (std::int64_t i = 0; i < n; ++i) all.data<std::int32_t>()[i] = int(i * 7 % below);
        return all;
    };
    const Tensor rows = indices(37, 50), columns = indices(35, 35);
    const Case embedded(
        "compute(ids, table, w) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += table[ids[i], k] * w[k, j]\n  out[i, j] = s\n}",
        {rows, integers({50, 40}, 1), integers({40, 35}, 2)});
    EXPECT_TRUE(is_staged(chosen(embedded)));
    expect_right(embedded);
    const Case chosen_columns(
        "compute(perm, a, w) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[i, k] * w[k, perm[j]]\n  out[i, j] = s\n}",
        {columns, integers({37, 40}, 1), integers({40, 35}, 2)});
    expect_right(chosen_columns);
}

/// Drivers that cut loops off are asked whether they did where that is not seen to be impossible.
TEST(Staged, PointsOfProductsOfAnySizeHaveFewIterations) {
    for (const auto& [m, k, n] : {std::tuple{64, 48, 64}, {70, 33, 19}, {100, 60, 99}}) {
        for (Target target : {vulkan::kGroups, vulkan::kInvocations}) {
            const Case c = product(m, k, n);
            for (const bool is_small : {false, true}) {
                target.is_small = is_small;
                const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target);
                EXPECT_EQ(plan.is_small, is_small);
                const ReadyLaunch ready = c.ready(image_of(plan, {}));
                const auto bounds =
                    lir::bounds_of(plan.stages[0].as_lowered(), ready.stages[0].words);
                EXPECT_GE(bounds.iterations, std::uint64_t(k));
                EXPECT_LT(bounds.iterations, 65536u) << m << ", lanes " << target.lanes;
            }
        }
    }
}

/// A launch is divided into submissions by it.
TEST(Staged, PointsOfProductsOfWholeTilesHaveTheInstructionsOfTheirSums) {
    const Case c = product(128, 128, 128);
    const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kInvocations);
    const ReadyLaunch ready = c.ready(image_of(plan, {}));
    const auto bounds = lir::bounds_of(plan.stages[0].function, ready.stages[0].words);
    const auto of_a_product =
        double(bounds.instructions) * double(ready.stages[0].points) / (128.0 * 128 * 128);
    // Two reads and two writes of registers, a product and a sum, and a part of what tiles share.
    EXPECT_GE(of_a_product, 4);
    EXPECT_LE(of_a_product, 8);
}

/// The dim is the least of two extents, so that what is below it is in both.
TEST(Staged, ReadWithoutChecksWhatADimOfTwoExtentsBounds) {
    const Case c(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 1..depth: s += a[i, k] * b[k, j]\n  out[i, j] = s\n}",
        {integers({37, 40}, 1), integers({43, 35}, 2)});
    const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
    std::set<std::string> arrays;
    for (const lir::Buffer& buffer : plan.stages[0].function.buffers) arrays.insert(buffer.name);
    EXPECT_EQ(arrays.count("a.stage") + arrays.count("b.stage"), 2u);
    EXPECT_TRUE(std::ranges::none_of(plan.stages[0].function.insts,
                                     [](const lir::Inst& i) { return i.op == lir::Op::Assert; }));
    expect_right(c);
    // Not what is beside it.
    const Case beside(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 1..depth: s += a[i, k] * b[k - 1, j]\n  out[i, j] = s\n}",
        {integers({37, 40}, 1), integers({43, 35}, 2)});
    expect_right(beside);
}

TEST(Staged, ReadInSteps) {
    // The loop runs the other way round, by steps, and with a stride.
    const Case c(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..20: s += a[i, 2 * k + 1] * b[39 - k, j]\n  out[i, j] = s\n}",
        {integers({37, 41}, 1), integers({41, 35}, 2)});
    EXPECT_TRUE(is_staged(chosen(c)));
    expect_right(c);
}

TEST(Staged, RandomTilingsOfProductsAddUpSmallIntegersExactly) {
    std::mt19937 engine(3);
    int staged = 0;
    for (int n = 0; n < 25; ++n) {
        const Case c = product(1 + engine() % 50, 1 + engine() % 60, 1 + engine() % 70);
        const ir::Facts facts = c.facts();
        ir::Kernel prepared = prepare(c.kernel(), facts, Numerics::Strict);
        const Tiling tiling =
            cpu_test::random_tiling(prepared, vulkan::kGroups, Numerics::Strict, engine);
        SCOPED_TRACE(to_string(prepared, tiling));
        staged += is_staged(tiling);
        const Plan plan = lower(std::move(prepared), facts, vulkan::kGroups, tiling);
        const auto run = cpu_test::run_on_lanes(c, plan, cpu_test::functions_of(plan));
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
    }
    EXPECT_GT(staged, 0);
}

}  // namespace
}  // namespace quern::schedule
