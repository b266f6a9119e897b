// Code for the lanes of work-groups in vectors of this processor.

#include "quern/lir/vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpu/compiled_run.h"
#include "tests/lir/mutants.h"
#include "tests/schedule/examples.h"

namespace quern::lir {
namespace {

using cpu_test::plan_of_lanes;
using cpu_test::run_on_lanes;
using cpu_test::same_numbers;
using cpu_test::with_functions;

cpu::Simd best_level() { return cpu_test::levels_here().back(); }

using InVectors = cpu_test::Compiled;

TEST_F(InVectors, EveryExampleHasTheInterpretersBits) {
    for (std::size_t n = 0; n < std::size(schedule::kRows); n += kSanitized ? 6 : 1) {
        const schedule::Row& row = schedule::kRows[n];
        const Case c = schedule::case_of(row);
        const Tensor expected = *c.interpreted();
        const std::uint32_t subgroup = n % 2 == 0 ? 1 : 16;
        SCOPED_TRACE(std::string(row.number) + " by " + std::to_string(subgroup));
        const auto plan = plan_of_lanes(c, Numerics::Reproducible, vulkan::kGroups, subgroup);
        const auto result = c.compiled(plan, best_level(), true);
        ASSERT_TRUE(result.has_value()) << "a race";
        EXPECT_TRUE(same_numbers(*result, expected));
    }
}

TEST_F(InVectors, NothingIsWatchedWhereNobodyAsks) {
    const Case c(example_text("15"), {uniform({70, 80}, 1)});
    const auto plan = plan_of_lanes(c, Numerics::Reproducible, vulkan::kGroups, 4);
    EXPECT_TRUE(same_numbers(*c.compiled(plan, best_level()), *c.interpreted()));
}

TEST_F(InVectors, NumbersOf32BitsHaveThemToo) {
    const Shape shape{1, 2, 70, 8};
    const Case c(example_text("14"), {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
    schedule::Target target = vulkan::kGroups;
    target.native.int64 = target.native.float64 = false;
    target.native.int8 = target.native.int16 = false;
    const auto plan = plan_of_lanes(c, Numerics::Reproducible, target, 16);
    const auto result = c.compiled(plan, best_level(), true);
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(same_numbers(*result, *c.interpreted()));
}

class MutantsInVectors : public Mutants {
protected:
    /// LLVM takes up to seconds for each.
    static constexpr int kTried = kSanitized ? 1 : 2;

    void SetUp() override {
        if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    }

    /// None if it fails.
    std::optional<Tensor> watched(std::vector<Function> functions) const {
        const schedule::Plan plan =
            with_functions(plan_, std::move(functions), vulkan::kGroups.native);
        return case_.compiled(plan, best_level(), true);
    }
};

INSTANTIATE_TEST_SUITE_P(Kernels, MutantsInVectors,
                         testing::Combine(testing::ValuesIn(kKernels), testing::Values(4u)),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param).name);
                         });

/// The array of the group that a mistake of the executor is in: "%7 (store): lane ...".
bool is_in_group(const Function& function, const std::string& mistake) {
    const Inst& i = function.insts[std::stoul(mistake.substr(1))];
    return function.buffers[i.buffer].elements > 0;
}

/// What lies in global memory and in arrays that an Alloc makes the executor watches alone.
TEST_P(MutantsInVectors, ABarrierThatIsGoneFailsWhereTheExecutorFindsARace) {
    const auto whole = watched(functions_);
    ASSERT_TRUE(whole.has_value());
    EXPECT_TRUE(same_numbers(*whole, expected_));
    int tried = 0, failed = 0;
    for (std::size_t f = 0; f < functions_.size(); ++f) {
        for (BlockId block = 0; block < functions_[f].blocks.size(); ++block) {
            for (std::size_t n = 0; n < functions_[f].blocks[block].size(); ++n) {
                std::vector<Function> mutant = functions_;
                if (!without_barrier(mutant[f], block, n) || ++tried > kTried) continue;
                const std::string mistake = run(mutant).mistake;
                const bool fails = !watched(mutant).has_value();
                failed += fails;
                if (mistake.empty()) {
                    EXPECT_FALSE(fails);
                } else if (is_in_group(mutant[f], mistake)) {
                    EXPECT_TRUE(fails) << mistake;
                }
            }
        }
    }
    if (kernel().needs_all_barriers) {
        EXPECT_EQ(failed, std::min(tried, kTried));
    }
}

/// One store by each lane.
Case reversed_by_16() {
    const std::string text = std::regex_replace(
        std::regex_replace(std::string(kReversed), std::regex("40"), "16"), std::regex("39"), "15");
    return Case(text, {uniform({5, 16}, 1)});
}

/// With a barrier behind it, so that nothing but the store itself is wrong.
TEST_F(InVectors, AStoreOfSeveralLanesToOneElementFails) {
    const Case c = reversed_by_16();
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    std::vector<Function> functions = cpu_test::functions_of(plan);
    Function& f = functions[0];
    bool is_made = false;
    for (BlockId block = 0; block < f.blocks.size() && !is_made; ++block) {
        for (std::size_t n = 0; n < f.blocks[block].size() && !is_made; ++n) {
            const Inst store = at(f, block, n);
            if (store.op != Op::Store || f.buffers[store.buffer].elements == 0) continue;
            f.insts.push_back({.op = Op::Constant, .type = f[store.a].type, .bits = 3});
            const auto place = ValueId(f.insts.size() - 1);
            at(f, block, n).a = place;
            auto& insts = f.blocks[block];
            insts.insert(insts.begin() + std::ptrdiff_t(n), place);
            is_made = true;
        }
    }
    ASSERT_TRUE(is_made);
    const auto with = with_functions(plan, functions, vulkan::kGroups.native);
    EXPECT_FALSE(c.compiled(with, best_level(), true).has_value());
}

/// Behind a barrier each lane reads an element, and every second lane writes the one it has read.
/// `shift`: 1 where neighbours read the same.
void read_and_write(Function& f, std::uint64_t shift, std::uint64_t writers) {
    for (BlockId block = 0; block < f.blocks.size(); ++block) {
        for (std::size_t n = 0; n < f.blocks[block].size(); ++n) {
            const Inst load = at(f, block, n);
            if (load.op != Op::Load || f.buffers[load.buffer].elements == 0) continue;
            auto where = std::ptrdiff_t(n);
            const auto insert = [&](const Inst& inst) {
                f.insts.push_back(inst);
                const auto id = ValueId(f.insts.size() - 1);
                f.blocks[block].insert(f.blocks[block].begin() + ++where, id);
                return id;
            };
            const Type index{DType::Int32, 1}, truth{DType::Bool, 1};
            const auto constant = [&](std::uint64_t bits) {
                return insert({.op = Op::Constant, .type = index, .bits = bits});
            };
            const auto binary = [&](Op op, Type type, ValueId a, ValueId b) {
                return insert({.op = op, .type = type, .a = a, .b = b});
            };
            insert({.op = Op::Barrier, .spaces = Spaces::Group, .type = truth});
            const ValueId lane = insert({.op = Op::Lane, .type = index});
            const ValueId place = binary(Op::ShiftRight, index, lane, constant(shift));
            const ValueId read =
                insert({.op = Op::Load, .type = load.type, .buffer = load.buffer, .a = place});
            const ValueId half = binary(Op::And, index, lane, constant(1));
            const ValueId writes = binary(Op::Equal, truth, half, constant(writers));
            insert({.op = Op::Store,
                    .type = load.type,
                    .buffer = load.buffer,
                    .a = place,
                    .b = read,
                    .c = writes});
            return;
        }
    }
    FAIL() << "no array of the group is read";
}

TEST_F(InVectors, AStoreToWhatAnotherLaneReadTooFails) {
    const Case c = reversed_by_16();
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    for (const std::uint64_t shift : {0, 1}) {
        for (const std::uint64_t writers : {0, 1}) {
            std::vector<Function> functions = cpu_test::functions_of(plan);
            read_and_write(functions[0], shift, writers);
            const auto with = with_functions(plan, functions, vulkan::kGroups.native);
            const bool ends_well = c.compiled(with, best_level(), true).has_value();
            EXPECT_EQ(ends_well, shift == 0) << writers;
            EXPECT_EQ(run_on_lanes(c, plan, functions).mistake.empty(), shift == 0) << writers;
        }
    }
}

TEST_F(InVectors, ABarrierThatSomeLanesReachFails) {
    const Case c(example_text("07"), {uniform({3, 40}, 1)});
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    std::vector<Function> functions = cpu_test::functions_of(plan);
    Function& f = functions[0];
    int made = 0;
    for (BlockId block = 0; block < f.blocks.size() && made == 0; ++block) {
        for (std::size_t n = 0; n < f.blocks[block].size() && made == 0; ++n) {
            if (at(f, block, n).op != Op::Barrier) continue;
            const ValueId barrier = f.blocks[block][n];
            const auto append = [&](const Inst& inst) {
                f.insts.push_back(inst);
                return ValueId(f.insts.size() - 1);
            };
            const Type index{DType::Int32, 1}, truth{DType::Bool, 1};
            const ValueId lane = append({.op = Op::Lane, .type = index});
            const ValueId two = append({.op = Op::Constant, .type = index, .bits = 2});
            const ValueId some = append({.op = Op::Less, .type = truth, .a = lane, .b = two});
            const auto body = BlockId(f.blocks.size());
            const ValueId branch = append({.op = Op::If, .type = truth, .a = some, .body = body});
            f.blocks.push_back({barrier});
            auto& insts = f.blocks[block];
            insts[n] = branch;
            insts.insert(insts.begin() + std::ptrdiff_t(n), {lane, two, some});
            ++made;
        }
    }
    ASSERT_EQ(made, 1);
    const auto with = with_functions(plan, functions, vulkan::kGroups.native);
    EXPECT_FALSE(c.compiled(with, best_level(), true).has_value());
}

}  // namespace
}  // namespace quern::lir
