// Products whose sums subgroups take as products of matrices, run lane by lane.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>

#include "tests/conformance/operands.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/random_tiling.h"
#include "tests/sanitized.h"

namespace quern::schedule {
namespace matrices_test {

using cpu_test::Case;

/// As drivers have them: Mesa's llvmpipe, most GPUs, and one that is no square.
struct Device {
    lir::Atom atom;
    std::uint32_t subgroup;
};
constexpr Device kDevices[] = {
    {{8, 8, 8}, 8}, {{16, 16, 16}, 32}, {{16, 16, 16}, 64}, {{16, 8, 16}, 32}, {{8, 16, 16}, 16}};

Target target_of(const Device& device) {
    Target target = vulkan::kGroups;
    target.atoms = {device.atom};
    target.subgroup = device.subgroup;
    return target;
}

/// Their sums are exact in any order.
Tensor integers(const Shape& shape, std::uint64_t seed, DType dtype = DType::Float16) {
    return uniform(shape, seed, -4, 4).to(DType::Int32).to(dtype);
}

Case product(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype = DType::Float16) {
    return Case(example_text("09"), {integers({m, k}, 1, dtype), integers({k, n}, 2, dtype)});
}

Tiling chosen(const Case& c, const Target& target, Numerics numerics = Numerics::Strict) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
    return choose(prepared, c.facts(), numerics, target);
}

bool has_matrices(const Tiling& tiling) {
    return std::ranges::any_of(tiling.splits,
                               [](const Split& split) { return split.level == Level::Matrix; });
}

bool multiplies_matrices(const lir::Function& function) {
    return std::ranges::any_of(function.blocks, [&](const auto& block) {
        return std::ranges::any_of(
            block, [&](lir::ValueId id) { return function[id].op == lir::Op::MatrixMultiply; });
    });
}

/// The interpreter's sums on each device. `multiplies`: the code has matrices.
void expect_right(const Case& c, bool multiplies = true) {
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected);
    for (const Device& device : std::span(kDevices).first(kSanitized ? 2 : std::size(kDevices))) {
        SCOPED_TRACE(std::to_string(device.atom.rows) + " rows, subgroups of " +
                     std::to_string(device.subgroup));
        const Plan plan =
            schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target_of(device));
        const auto functions = cpu_test::functions_of(plan, device.subgroup);
        for (const lir::Function& function : functions) {
            EXPECT_EQ(lir::verify(function), std::vector<std::string>());
        }
        EXPECT_EQ(multiplies_matrices(functions.at(0)), multiplies);
        const cpu_test::LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected));
    }
}

TEST(Matrices, AreWhatSubgroupsMultiplyWhereTheDtypesAreTheAtoms) {
    const Target target = target_of(kDevices[1]);
    const Case c = product(128, 128, 128);
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
    EXPECT_EQ(to_string(prepared, chosen(c, target)),
              "i: grid, rows 8, unroll 4; j: vector 16, grid, unroll 4; "
              "k: stage 16, matrices 16 x 16 x 16");
    EXPECT_FALSE(has_matrices(chosen(c, target, Numerics::Reproducible))) << "sums are trees";
    EXPECT_FALSE(has_matrices(chosen(c, vulkan::kGroups))) << "it has no atoms";
    for (const DType dtype : {DType::Float32, DType::BFloat16, DType::Int8}) {
        EXPECT_FALSE(has_matrices(chosen(product(128, 128, 128, dtype), target)))
            << to_string(dtype);
    }
    const Case more(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[i, k] * b[k, j] + b[k, j]\n  out[i, j] = s\n}",
        {integers({128, 128}, 1), integers({128, 128}, 2)});
    EXPECT_FALSE(has_matrices(chosen(more, target))) << "more than products";
}

TEST(Matrices, OfProductsOfAnySizeHaveTheInterpretersSums) {
    for (const auto& [m, k, n] :
         {std::tuple{32, 16, 64}, {128, 16, 128}, {33, 17, 65}, {70, 33, 130}, {64, 100, 127}}) {
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n));
        expect_right(product(m, k, n));
    }
    expect_right(product(5, 64, 3));
    expect_right(product(64, 1, 64), false);
    expect_right(product(9, 0, 9));
}

TEST(Matrices, ReadOperandsOfAnyLayout) {
    const Tensor a = integers({37, 21}, 1), b = integers({21, 67}, 2);
    for (const Tensor& x : {a, transposed_in_memory(a), sliced_from_larger(a)}) {
        for (const Tensor& y : {b, transposed_in_memory(b), sliced_from_larger(b)}) {
            expect_right(Case(example_text("09"), {x, y}));
        }
    }
    // The second operand by rows, as layers have their weights, and the first by columns.
    const Tensor c = integers({67, 21}, 3), d = integers({21, 37}, 4);
    const auto text = [](const std::string& product) {
        return "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
               "  for k in 0..depth: s += " +
               product + "\n  out[i, j] = s\n}";
    };
    expect_right(Case(text("a[i, k] * b[j, k]"), {a, c}));
    expect_right(Case(text("a[k, i] * b[k, j]"), {d, b}));
    expect_right(Case(text("b[j, k] * a[k, i]"), {d, c}));
}

TEST(Matrices, KeepWhatStandsAroundAProduct) {
    const Tensor a = integers({3, 37, 40}, 1), b = integers({3, 40, 67}, 2);
    for (const char* text : {
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 0.0\n  for k in 0..depth: s += a[p, i, k] * b[p, k, j]\n"
             "  out[p, i, j] = s\n}",
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 3.0\n  for k in 1..depth: s += a[p, i, k] * b[p, k, j]\n"
             "  out[p, i, j] = relu(s) + b[p, 0, j]\n}",
             "compute(a, b) {\n@kernel custom\nfor p in 0..batch, i in 0..m, j in 0..n:\n"
             "  var s = 0.0\n  for k in 0..depth: s += a[p, i, k] * b[p, k, j]\n"
             "  for k in 0..depth: s += a[p, i, k] * b[p, k, j]\n  out[p, i, j] = s\n}",
         }) {
        SCOPED_TRACE(text);
        expect_right(Case(text, {a, b}));
    }
}

TEST(Matrices, HaveNoRoomWhereOtherArraysHaveIt) {
    const Case c = product(64, 48, 64);
    const Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target_of(kDevices[1]));
    lir::Function function = schedule::for_lanes(plan, kDevices[1].subgroup).at(0);
    EXPECT_TRUE(lir::has_room_for_matrices(function));
    for (lir::Buffer& buffer : function.buffers) {
        if (buffer.name == "sum.matrices") buffer.elements = 0;
    }
    EXPECT_FALSE(lir::has_room_for_matrices(function));
    EXPECT_NE(lir::verify(function), std::vector<std::string>());
}

TEST(Matrices, KeepInfinitiesAndNaN) {
    Tensor a = integers({64, 32}, 1, DType::Float32), b = integers({32, 64}, 2);
    a.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    a.data<float>()[70] = std::numeric_limits<float>::infinity();
    a.data<float>()[100] = -0.0F;
    expect_right(Case(example_text("09"), {a.to(DType::Float16), b}));
}

TEST(Matrices, AreRefusedWithAReason) {
    const Case c = product(128, 128, 128);
    const Target target = target_of(kDevices[1]);
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
    const Tiling tiling = choose(prepared, c.facts(), Numerics::Strict, target);
    ASSERT_EQ(legal(prepared, target, tiling), "");
    const auto why = [&](const auto& change) {
        Tiling other = tiling;
        Target device = target;
        change(other, device);
        return legal(prepared, device, other);
    };
    const auto split = [](Tiling& t, Level level) -> Split& {
        return *std::ranges::find(t.splits, level, &Split::level);
    };
    EXPECT_EQ(why([](Tiling&, Target& d) { d.atoms.clear(); }),
              "k: the processor has no such matrices");
    EXPECT_EQ(why([](Tiling& t, Target&) {
                  std::erase_if(t.splits, [](const Split& s) { return s.level == Level::Stage; });
              }),
              "k: what it reads is not staged");
    EXPECT_EQ(why([&](Tiling& t, Target&) { split(t, Level::Matrix).factor = 8; }),
              "k: matrices of 16 iterations, of 16 that are staged");
    EXPECT_EQ(why([](Tiling&, Target& d) { d.subgroup = 256; }), "k: fewer lanes than a subgroup");
    EXPECT_EQ(why([&](Tiling& t, Target&) { split(t, Level::Unroll).factor = 8; }),
              "k: 20480 bytes of a work-group, 12288 at most");
}

/// Rows of lanes inside of a point, for tiles that are whole and cut off.
TEST(Matrices, AreOfTilesToo) {
    for (const std::int64_t length : {70, 128}) {
        const Shape shape{1, 1, length, 48};
        const auto some = [&](std::uint64_t seed) {
            return uniform(shape, seed, -1, 1, DType::Float16);
        };
        const Case c(example_text("14"), {some(1), some(2), some(3)});
        for (const Device& device : std::span(kDevices).first(2)) {
            const Plan plan =
                schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target_of(device));
            const auto functions = cpu_test::functions_of(plan, device.subgroup);
            EXPECT_TRUE(multiplies_matrices(functions.at(0)));
            EXPECT_TRUE(lir::has_room_for_matrices(functions[0]));
            if (length != 70) continue;
            const cpu_test::LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
            EXPECT_EQ(run.mistake, "");
            ASSERT_TRUE(run.result);
            // What is added up in another order may round to the next float16, of which one is
            // 2^-11.
            cpu_test::expect_near(*run.result, *c.interpreted(), 0x1p-11, 1);
        }
    }
}

TEST(Matrices, ByRandomTilingsAddUpSmallIntegersExactly) {
    std::mt19937 engine(5);
    int multiplied = 0;
    // Such as any rows and copies have some of.
    constexpr Device small[] = {{{2, 8, 4}, 4}, {{2, 16, 8}, 16}, {{4, 4, 2}, 8}};
    for (int n = 0; n < (kSanitized ? 8 : 40); ++n) {
        const Case c = product(1 + engine() % 90, 1 + engine() % 60, 1 + engine() % 150);
        const Device& device = small[engine() % std::size(small)];
        const Target target = target_of(device);
        ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
        // Few have rows, a stage and matrices.
        Tiling tiling;
        for (int draw = 0; draw < 300 && !has_matrices(tiling); ++draw) {
            tiling = cpu_test::random_tiling(prepared, target, Numerics::Strict, engine);
        }
        SCOPED_TRACE(to_string(prepared, tiling));
        const Plan plan = lower(std::move(prepared), c.facts(), target, tiling);
        const auto functions = cpu_test::functions_of(plan, device.subgroup);
        multiplied += multiplies_matrices(functions.at(0));
        const auto run = cpu_test::run_on_lanes(c, plan, functions);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
    }
    EXPECT_GT(multiplied, kSanitized ? 0 : 4);
}

/// Of a product of whole tiles by matrices: what its code gives after a change.
class MatrixMutants : public testing::TestWithParam<Device> {
protected:
    /// Changes an instruction, in its block, or says that there is nothing to change.
    using Change = std::function<bool(lir::Function&, std::vector<lir::ValueId>&, std::size_t)>;

    struct Count {
        int made = 0;
        int caught = 0;
        int mistakes = 0;
    };

    Count count(const Change& change) const {
        Count all;
        const lir::Function& f = functions_[0];
        for (std::size_t b = 0; b < f.blocks.size(); ++b) {
            for (std::size_t n = 0; n < f.blocks[b].size(); ++n) {
                std::vector<lir::Function> mutant = functions_;
                if (!change(mutant[0], mutant[0].blocks[b], n)) continue;
                const cpu_test::LanesRun run = cpu_test::run_on_lanes(case_, plan_, mutant);
                ++all.made;
                all.mistakes += !run.mistake.empty();
                all.caught += !run.mistake.empty() || !run.result ||
                              !cpu_test::same_numbers(*run.result, expected_);
            }
        }
        return all;
    }

    /// Of instructions of one kind.
    Count count(lir::Op op, const std::function<void(lir::Function&, lir::Inst&)>& change) const {
        return count([&](lir::Function& f, std::vector<lir::ValueId>& block, std::size_t n) {
            if (f[block[n]].op != op) return false;
            lir::Inst changed = f[block[n]];
            change(f, changed);
            f.insts[std::uint32_t(block[n])] = changed;
            return true;
        });
    }

    static void expect_all_caught(const Count& count) {
        EXPECT_GT(count.made, 0);
        EXPECT_EQ(count.caught, count.made);
    }

    /// Of the loops that are whole tiles: what is left has none.
    Case case_ = product(64, 48, 64);
    Plan plan_ = plan(case_.kernel(), case_.facts(), Numerics::Strict, target_of(GetParam()));
    std::vector<lir::Function> functions_ = cpu_test::functions_of(plan_, GetParam().subgroup);
    Tensor expected_ = *case_.interpreted();
};

INSTANTIATE_TEST_SUITE_P(Devices, MatrixMutants, testing::ValuesIn(kDevices), [](const auto& info) {
    const lir::Atom& a = info.param.atom;
    return "Of" + std::to_string(a.rows) + "x" + std::to_string(a.columns) + "By" +
           std::to_string(info.param.subgroup);
});

TEST_P(MatrixMutants, ABarrierThatIsGoneIsARace) {
    const Count barriers =
        count([](lir::Function& f, std::vector<lir::ValueId>& block, std::size_t n) {
            if (f[block[n]].op != lir::Op::Barrier) return false;
            block.erase(block.begin() + std::ptrdiff_t(n));
            return true;
        });
    // Before a tile is copied, before it is multiplied, and before lanes take their sums.
    EXPECT_GE(barriers.mistakes, 3);
    EXPECT_EQ(barriers.mistakes, barriers.caught) << "none is missed that changes the result";
}

TEST_P(MatrixMutants, WrongPlacesInMemoryAreCaught) {
    using lir::Op;
    expect_all_caught(count(Op::MatrixLoad, [](auto&, auto& i) { i.is_turned = !i.is_turned; }));
    expect_all_caught(count(Op::MatrixLoad, [](auto&, auto& i) { i.bits /= 2; }));
    expect_all_caught(count(Op::MatrixStore, [](auto&, auto& i) { i.bits /= 2; }));
    expect_all_caught(count(Op::MatrixStore, [](auto&, auto& i) { i.bits *= 2; }));
}

TEST_P(MatrixMutants, OtherOperandsAreCaught) {
    using lir::Op;
    // A matrix of another place, where its subgroup reads several.
    const auto other = [](const lir::Function& f, lir::ValueId load) {
        for (std::size_t n = 0; n < f.insts.size(); ++n) {
            const lir::Inst& i = f.insts[n];
            const bool is_like = i.op == Op::MatrixLoad && i.type == f[load].type;
            if (is_like && i.a != f[load].a) return i.a;
        }
        return f[load].b;
    };
    const Count moved =
        count([&](lir::Function& f, std::vector<lir::ValueId>& block, std::size_t n) {
            if (f[block[n]].op != Op::MatrixLoad) return false;
            const lir::ValueId place = other(f, block[n]);
            const auto own = std::ranges::find(block, place);
            if (!exists(place) || own >= block.begin() + std::ptrdiff_t(n)) return false;
            f.insts[std::uint32_t(block[n])].a = place;
            return true;
        });
    EXPECT_EQ(moved.caught, moved.made);
    // The sum begins anew.
    expect_all_caught(count([](lir::Function& f, std::vector<lir::ValueId>& block, std::size_t n) {
        if (f[block[n]].op != Op::MatrixMultiply) return false;
        const auto zero = std::ranges::find(f.insts, Op::MatrixFill, &lir::Inst::op);
        f.insts[std::uint32_t(block[n])].c = lir::ValueId(zero - f.insts.begin());
        return true;
    }));
}

TEST_P(MatrixMutants, LanesOfASubgroupThatDisagreeAreCaught) {
    // The number of the lane where that of the subgroup should be.
    const Count lanes =
        count([](lir::Function& f, std::vector<lir::ValueId>& block, std::size_t n) {
            const lir::Inst i = f[block[n]];
            if (i.op != lir::Op::MatrixLoad && i.op != lir::Op::MatrixStore) return false;
            f.insts.push_back({.op = lir::Op::Lane, .type = f[i.a].type});
            const auto lane = lir::ValueId(f.insts.size() - 1);
            f.insts.push_back({.op = lir::Op::Add, .type = f[i.a].type, .a = i.a, .b = lane});
            const auto sum = lir::ValueId(f.insts.size() - 1);
            f.insts[std::uint32_t(block[n])].a = sum;
            block.insert(block.begin() + std::ptrdiff_t(n), {lane, sum});
            return true;
        });
    EXPECT_GT(lanes.made, 0);
    EXPECT_EQ(lanes.mistakes, lanes.made);
}

}  // namespace matrices_test
}  // namespace quern::schedule
