// SPIR-V as words. That modules are valid is checked wherever they are loaded, but in releases.

#include <gtest/gtest.h>

#ifdef QUERN_HAS_SPIRV
#include <map>
#include <set>
#include <string>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/limits.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/backend/vulkan/validate.h"
#include "quern/lir/lanes.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"
#include "tests/schedule/examples.h"

namespace quern::vulkan {
namespace {

using cpu_test::Case;

/// Of a device with these integers and float64.
std::vector<std::uint32_t> module_of(const lir::Function& function, const Integers& integers,
                                     BuffersAre buffers) {
    return emit(lir::legalise(function, native_of(integers, true)), {}, integers, buffers);
}

std::vector<std::vector<std::uint32_t>> modules(const Case& c, std::uint32_t subgroup = 1,
                                                BuffersAre buffers = BuffersAre::Addressed,
                                                const schedule::Target& target = kGroups) {
    std::vector<std::vector<std::uint32_t>> all;
    const auto plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target);
    for (const schedule::Stage& stage : plan.stages) {
        all.push_back(module_of(lir::for_lanes(stage.function, subgroup), {}, buffers));
    }
    return all;
}

std::set<std::uint32_t> capabilities(const std::vector<std::uint32_t>& module) {
    std::set<std::uint32_t> found;
    constexpr std::uint32_t kCapability = 17, kHeader = 5;
    for (std::size_t at = kHeader; (module[at] & 0xffff) == kCapability; at += module[at] >> 16) {
        found.insert(module[at + 1]);
    }
    return found;
}

int count(std::uint32_t instruction, const std::vector<std::uint32_t>& module) {
    constexpr std::uint32_t kHeader = 5;
    int count = 0;
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        count += (module[at] & 0xffff) == instruction;
    }
    return count;
}

int count(std::uint32_t instruction, const Case& c, std::uint32_t subgroup = 1) {
    int all = 0;
    for (const auto& module : modules(c, subgroup)) all += count(instruction, module);
    return all;
}

constexpr std::uint32_t kBarrier = 224, kExchange = 345;

TEST(Spirv, TheSameKernelGivesTheSameWords) {
    const auto words = [](const Case& c) {
        std::vector<std::vector<std::vector<std::uint32_t>>> all;
        for (const BuffersAre buffers : {BuffersAre::Addressed, BuffersAre::Bound}) {
            all.push_back(modules(c, 1, buffers));
            all.push_back(modules(c, 32, buffers));
            all.push_back(modules(c, 1, buffers, kInvocations));
        }
        return all;
    };
    for (const schedule::Row& row : schedule::kRows) {
        const Case a = schedule::case_of(row);
        const auto first = words(a);
        // Where things lie in memory decides nothing: what is kept moves what comes.
        const Case b = schedule::case_of(row);
        EXPECT_EQ(words(b), first) << row.number;
    }
}

/// Elements are cut out of words, which every device has.
TEST(Spirv, PacketsAreOneLoadAndAskForNothing) {
    constexpr std::uint32_t kLoad = 61, kStore = 62, kInt8 = 39, kStorage8 = 4448;
    const std::string text = "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\n}";
    const auto of = [&](std::int64_t size) { return Case(text, {Tensor({size}, DType::UInt8)}); };
    EXPECT_LE(count(kLoad, of(1024)), count(kLoad, of(60))) << "eight as one";
    EXPECT_LE(count(kStore, of(1024)), count(kStore, of(60)));
    const schedule::Plan plan =
        schedule::plan(of(1024).kernel(), of(1024).facts(), Numerics::Strict, kGroups);
    const auto asked =
        capabilities(module_of(lir::for_lanes(plan.stages[0].function),
                               {.has_8 = false, .has_16 = false}, BuffersAre::Bound));
    EXPECT_EQ(asked.count(kInt8) + asked.count(kStorage8), 0u);
}

TEST(Spirv, AsksOnlyForWhatTheKernelUses) {
    constexpr std::uint32_t kFloat64 = 10, kInt16 = 22, kInt8 = 39;
    const auto of = [](DType dtype) {
        return capabilities(modules(Case(example_text("01"), {uniform({8}, 1, -2, 2, dtype)}))[0]);
    };
    for (const std::uint32_t extra : {kFloat64, kInt16, kInt8}) {
        EXPECT_EQ(of(DType::Float32).count(extra), 0u);
    }
    EXPECT_EQ(of(DType::Float64).count(kFloat64), 1u);
    EXPECT_EQ(of(DType::Float16).count(kInt16), 1u);
}

bool has(const std::vector<std::uint32_t>& module, std::uint32_t instruction) {
    constexpr std::uint32_t kHeader = 5;
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        if ((module[at] & 0xffff) == instruction) return true;
    }
    return false;
}

/// How many such instructions give a number of that type.
int typed(const std::vector<std::uint32_t>& module, std::uint32_t op, std::uint32_t type,
          std::uint32_t bits) {
    constexpr std::uint32_t kHeader = 5;
    std::set<std::uint32_t> types;
    int found = 0;
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        const std::uint32_t instruction = module[at] & 0xffff;
        if (instruction == type && module[at + 2] == bits) types.insert(module[at + 1]);
        if (instruction == op) found += int(types.count(module[at + 1]));
    }
    return found;
}

TEST(Spirv, Float16IsTheDevicesOwnWhereItHasIt) {
    constexpr std::uint32_t kHalf = 9, kRoundsEven = 4467, kConvert = 115;
    const auto of = [](const std::string& result, bool has_float16) {
        const Case c(
            "compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = " + result + "\n}",
            {uniform({8}, 1, -2, 2, DType::Float16), uniform({8}, 2, -2, 2, DType::Float16)});
        const schedule::Plan plan =
            schedule::plan(c.kernel(), c.facts(), Numerics::Strict, kInvocations);
        const Integers integers;
        const FloatControls controls{.rounds_even16 = true, .has_float16 = has_float16};
        return emit(lir::legalise(plan.stages[0].function, native_of(integers, true, has_float16)),
                    controls, integers, BuffersAre::Addressed);
    };
    for (const std::string result :
         {"x[i] + y[i]", "x[i] * y[i] - x[i]", "x[i] / y[i]", "f32(x[i])"}) {
        SCOPED_TRACE(result);
        const auto with = of(result, true), without = of(result, false);
        EXPECT_EQ(capabilities(with).count(kHalf), 1u);
        EXPECT_EQ(capabilities(with).count(kRoundsEven), 1u);
        EXPECT_EQ(capabilities(without).count(kHalf), 0u);
        EXPECT_EQ(capabilities(without).count(kRoundsEven), 1u) << "float64 may belong to it";
        EXPECT_LT(with.size(), without.size());
        EXPECT_TRUE(has(with, kConvert));
        EXPECT_FALSE(has(without, kConvert));
    }
    EXPECT_EQ(capabilities(of("x[i]", true)).count(kHalf), 0u) << "nothing is computed";
    constexpr std::uint32_t kFloatType = 22, kAdd = 129, kDivide = 136;
    const auto in_halves = [&](const std::string& result, std::uint32_t op) {
        return typed(of(result, true), op, kFloatType, 16);
    };
    EXPECT_EQ(in_halves("x[i] + y[i]", kAdd), 1);
    EXPECT_EQ(in_halves("x[i] + y[i] + x[i]", kAdd), 2);
    EXPECT_EQ(in_halves("f16(f32(x[i]) + 0.1)", kAdd), 0) << "of a float32";
    EXPECT_EQ(in_halves("x[i] / y[i]", kDivide), 0) << "Vulkan lets it be off";
}

TEST(Spirv, OfNarrowElementsThatAreWidenedTheGroupsMemoryHasWords) {
    lir::Function function;
    function.lanes = 16;
    function.buffers = {{"halves", DType::Float16, lir::Space::Group, true, 32},
                        {"bytes", DType::Int8, lir::Space::Group, true, 32},
                        {"floats", DType::Float32, lir::Space::Group, true, 32}};
    EXPECT_EQ(groups_of(function, {}).shared_bytes, 32u * (2 + 1 + 4));
    EXPECT_EQ(groups_of(function, {.has_8 = false}).shared_bytes, 32u * (2 + 4 + 4));
    EXPECT_EQ(groups_of(function, {.has_16 = false}).shared_bytes, 32u * (4 + 1 + 4));
}

TEST(Spirv, AsksForNoIntegersThatTheDeviceLacks) {
    constexpr std::uint32_t kInt64 = 11, kInt16 = 22, kInt8 = 39;
    constexpr std::uint32_t kStorage16 = 4433, kStorage8 = 4448;
    for (const DType dtype : {DType::Int8, DType::UInt16, DType::Float16}) {
        const Case c(example_text("01"), {uniform({8}, 1, 0, 2, dtype)});
        const schedule::Plan plan =
            schedule::plan(c.kernel(), c.facts(), Numerics::Strict, kInvocations);
        const auto asked = capabilities(module_of(
            plan.stages[0].function, {.has_8 = false, .has_16 = false}, BuffersAre::Addressed));
        for (const std::uint32_t narrow : {kInt16, kInt8, kStorage16, kStorage8}) {
            EXPECT_EQ(asked.count(narrow), 0u) << to_string(dtype) << " " << narrow;
        }
        EXPECT_EQ(asked.count(kInt64), 1u) << to_string(dtype);
    }
}

/// What follows a decoration in each of its instructions.
std::multiset<std::uint32_t> decorated(const std::vector<std::uint32_t>& module,
                                       std::uint32_t decoration) {
    constexpr std::uint32_t kHeader = 5, kDecorate = 71;
    std::multiset<std::uint32_t> found;
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        if ((module[at] & 0xffff) != kDecorate || module[at + 2] != decoration) continue;
        found.insert((module[at] >> 16) > 3 ? module[at + 3] : 0);
    }
    return found;
}

TEST(Spirv, BoundBuffersAskForNothingOfAddressesAndAreWhatTheStageUses) {
    constexpr std::uint32_t kAddresses = 5347, kMemoryModel = 5345;
    constexpr std::uint32_t kAliased = 20, kCoherent = 23, kNonWritable = 24, kBinding = 33;
    using All = std::multiset<std::uint32_t>;
    // A table, an operand, the result.
    const auto each = modules(Case(example_text("01"), {uniform({60}, 1)}), 1, BuffersAre::Bound);
    const std::set<std::uint32_t> asked = capabilities(each[0]);
    EXPECT_EQ(asked.count(kAddresses) + asked.count(kMemoryModel), 0u);
    const All bindings = decorated(each[0], kBinding);
    EXPECT_EQ(std::set(bindings.begin(), bindings.end()), (std::set<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(decorated(each[0], kCoherent).size(), 1u) << "the result";
    EXPECT_EQ(decorated(each[0], kAliased).size(), 1u);
    EXPECT_EQ(decorated(each[0], kNonWritable).size() + 1, bindings.size());
    for (const auto& module :
         modules(Case(example_text("01"), {uniform({60}, 1)}), 1, BuffersAre::Addressed)) {
        EXPECT_EQ(decorated(module, kBinding), All{});
    }
    // The second stage of this kernel reads what the first wrote, and nothing else.
    const auto stages =
        modules(Case(example_text("08"), {uniform({5000}, 1)}), 1, BuffersAre::Bound);
    ASSERT_EQ(stages.size(), 3u);
    EXPECT_EQ(decorated(stages[1], kBinding).count(3), 0u);
    for (const auto& module : stages) {
        const All all = decorated(module, kBinding);
        const std::set<std::uint32_t> each_once(all.begin(), all.end());
        EXPECT_EQ(*each_once.rbegin() + 1, each_once.size()) << "one behind the other";
    }
}

TEST(Spirv, AsksForMatricesWhereSubgroupsMultiplyThem) {
    constexpr std::uint32_t kFloat16 = 9, kMatrices = 6022, kExtension = 10, kMultiply = 4459;
    const Case c(example_text("09"), {uniform({64, 64}, 1, -2, 2, DType::Float16),
                                      uniform({64, 64}, 2, -2, 2, DType::Float16)});
    schedule::Target target = kGroups;
    target.subgroup = 8;
    const auto without = modules(c, 8, BuffersAre::Addressed, target)[0];
    target.atoms = {{8, 8, 8}};
    const auto with = modules(c, 8, BuffersAre::Addressed, target)[0];
    EXPECT_EQ(with, modules(c, 8, BuffersAre::Addressed, target)[0]);
    for (const auto& [module, is_asked] : {std::pair(with, true), std::pair(without, false)}) {
        EXPECT_EQ(capabilities(module).count(kMatrices), is_asked);
        EXPECT_EQ(capabilities(module).count(kFloat16), is_asked);
        EXPECT_EQ(has(module, kExtension), is_asked);
        EXPECT_EQ(has(module, kMultiply), is_asked);
    }
}

TEST(Spirv, BeginsAsAModuleAndEveryInstructionEndsWhereTheNextBegins) {
    for (const auto& module : modules(Case(example_text("08"), {uniform({5000}, 1)}))) {
        ASSERT_GT(module.size(), 5u);
        EXPECT_EQ(module[0], 0x07230203u);
        std::size_t at = 5;
        while (at < module.size()) {
            ASSERT_GT(module[at] >> 16, 0u);
            at += module[at] >> 16;
        }
        EXPECT_EQ(at, module.size());
    }
}

TEST(Spirv, AModuleThatIsBrokenIsFoundBeforeADriverSeesIt) {
    if (!validates()) GTEST_SKIP() << "SPIRV-Tools were not here";
    constexpr std::uint32_t kHeader = 5, kCapability = 17, kFloatAdd = 129, kIntegerAdd = 128;
    const auto module =
        modules(Case("compute(x) {\n@kernel custom\n"
                     "for i in 0..n: out[i] = x[i] + 0.5\n}",
                     {uniform({100}, 1)}))[0];
    EXPECT_EQ(invalid(module, false), "");
    const auto broken = [&](std::uint32_t op, std::uint32_t becomes) {
        std::vector<std::uint32_t> other = module;
        for (std::size_t at = kHeader; at < other.size(); at += other[at] >> 16) {
            if ((other[at] & 0xffff) != op) continue;
            other[at] = (other[at] & 0xffff0000u) | becomes;
            return invalid(other, false);
        }
        return std::string("no such instruction");
    };
    EXPECT_EQ(broken(kFloatAdd, kIntegerAdd).find("spirv-val: "), 0u) << "floats as integers";
    constexpr std::uint32_t kNothing = 0;
    EXPECT_EQ(broken(kCapability, kNothing).find("spirv-val: "), 0u) << "a capability less";
    std::vector<std::uint32_t> shorter(module.begin(), module.end() - 1);
    EXPECT_EQ(invalid(shorter, false).find("spirv-val: "), 0u);
}

TEST(Spirv, ModulesOfMoreResultsThanSpirvHasAreNoDrivers) {
    const auto with_bound = [](std::uint32_t bound) {
        return std::vector<std::uint32_t>{0x07230203, 0x10500, 0, bound, 0};
    };
    const lir::Function empty;
    EXPECT_EQ(too_long(empty, with_bound(4194303), false), "");
    EXPECT_EQ(too_long(empty, with_bound(4194304), false),
              "code whose results have the bound 4194304: drivers are given up to 4194303");
}

TEST(Spirv, InvocationsThatFailStoreTheSameWordAtomically) {
    const Tensor x = uniform({8}, 1), at = random_tensor({5}, DType::Int32, 2);
    const Case c("compute(x, at) {\n@kernel custom\nfor i in 0..n: out[i] = x[at[i]]\n}", {x, at});
    for (const BuffersAre buffers : {BuffersAre::Addressed, BuffersAre::Bound}) {
        constexpr std::uint32_t kAtomicStore = 228;
        const auto all = modules(c, 1, buffers, kInvocations);
        ASSERT_EQ(all.size(), 1u);
        EXPECT_GE(count(kAtomicStore, all[0]), 1);
    }
}

TEST(Spirv, LanesMeetWhereOneReadsWhatAnotherHas) {
    EXPECT_GT(count(kBarrier, Case(example_text("07"), {uniform({3, 40}, 1)})), 0);
    EXPECT_GT(count(kBarrier, Case(example_text("15"), {uniform({40}, 1)})), 0);
}

/// The constants that a barrier has: whose it is, of whose memory, and what it orders.
std::set<std::vector<std::uint32_t>> barriers(const std::vector<std::uint32_t>& module) {
    constexpr std::uint32_t kHeader = 5, kConstant = 43;
    std::map<std::uint32_t, std::uint32_t> constants;
    std::set<std::vector<std::uint32_t>> found;
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        const std::uint32_t op = module[at] & 0xffff;
        if (op == kConstant) constants[module[at + 2]] = module[at + 3];
        if (op == kBarrier) {
            found.insert({constants.at(module[at + 1]), constants.at(module[at + 2]),
                          constants.at(module[at + 3])});
        }
    }
    return found;
}

TEST(Spirv, BarriersHaveTheScopeAndTheMemoryThatTheyStandFor) {
    constexpr std::uint32_t kWorkgroup = 2, kSubgroup = 3;
    constexpr std::uint32_t kAcquireRelease = 0x8, kUniform = 0x40, kShared = 0x100;
    constexpr std::uint32_t kAvailableAndVisible = 0x2000 | 0x4000;
    const Case c(
        "compute(x) {\n@kernel custom\nfor b in 0..rows:\n  shared var t[40]: float32\n"
        "  for i in 0..40: t[i] = exp(x[b, i])\n  barrier()\n"
        "  for i in 0..40: out[b, i] = t[39 - i]\n}",
        {uniform({5, 40}, 1)});
    const schedule::Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, kGroups);
    using All = std::set<std::vector<std::uint32_t>>;
    const auto of = [&](std::uint32_t subgroup, std::uint32_t bytes, BuffersAre buffers) {
        return barriers(
            module_of(lir::for_lanes(plan.stages[0].function, subgroup, bytes), {}, buffers));
    };
    constexpr std::uint32_t kOrdered = kAcquireRelease | kAvailableAndVisible;
    EXPECT_EQ(of(1, lir::kGroupBytes, BuffersAre::Addressed),
              (All{{kWorkgroup, kWorkgroup, kOrdered | kShared}}));
    EXPECT_EQ(of(16, lir::kGroupBytes, BuffersAre::Addressed),
              (All{{kSubgroup, kSubgroup, kOrdered | kShared}}));
    EXPECT_EQ(of(1, 0, BuffersAre::Addressed),
              (All{{kWorkgroup, kWorkgroup, kOrdered | kUniform}}));
    EXPECT_EQ(of(1, lir::kGroupBytes, BuffersAre::Bound),
              (All{{kWorkgroup, kWorkgroup, kAcquireRelease | kShared}}));
    EXPECT_EQ(of(16, 0, BuffersAre::Bound),
              (All{{kSubgroup, kSubgroup, kAcquireRelease | kUniform}}));
}

TEST(Spirv, LanesOfASubgroupNeitherMeetNorShareMemory) {
    constexpr std::uint32_t kShuffle = 65;
    const Case sums(example_text("07"), {uniform({3, 40}, 1)});
    EXPECT_EQ(count(kExchange, sums), 0);
    EXPECT_EQ(capabilities(modules(sums)[0]).count(kShuffle), 0u);
    // A sum of 16 lanes takes 4 exchanges, 2 of them between lanes of one subgroup of 4.
    EXPECT_EQ(count(kBarrier, sums, 16), 0);
    EXPECT_EQ(count(kExchange, sums, 16), 4);
    EXPECT_EQ(count(kExchange, sums, 64), 4);
    EXPECT_EQ(count(kBarrier, sums, 4), count(kBarrier, sums));
    EXPECT_EQ(count(kExchange, sums, 4), 2);
    EXPECT_EQ(capabilities(modules(sums, 16)[0]).count(kShuffle), 1u);
    const Case doubles(example_text("07"), {uniform({3, 40}, 1, -2, 2, DType::Float64)});
    EXPECT_EQ(count(kExchange, doubles, 16), 8) << "two words of 32 bits each";
    EXPECT_EQ(count(kBarrier, doubles, 16), 0);
}

/// LocalSize of the first stage's module.
std::uint32_t invocations(const Case& c, std::uint32_t subgroup = 1) {
    constexpr std::uint32_t kHeader = 5, kExecutionMode = 16, kLocalSize = 17;
    const auto module = modules(c, subgroup)[0];
    for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
        if ((module[at] & 0xffff) == kExecutionMode && module[at + 2] == kLocalSize) {
            return module[at + 3];
        }
    }
    return 0;
}

TEST(Spirv, PointsWhoseLanesAreIndependentShareAGroup) {
    EXPECT_EQ(invocations(Case(example_text("01"), {uniform({100}, 1)})), 64u);
    EXPECT_EQ(invocations(Case(example_text("03"), {uniform({9, 20}, 1), uniform({20}, 2)})), 64u);
    const Case product(example_text("09"), {uniform({9, 20}, 1), uniform({20, 40}, 2)});
    EXPECT_EQ(invocations(product), 128u) << "8 rows of lanes share what they read";
    const Case sums(example_text("07"), {uniform({3, 40}, 1)});
    EXPECT_EQ(invocations(sums), 16u) << "lanes meet";
    EXPECT_EQ(invocations(sums, 16), 16u) << "lanes exchange values";
    // Drivers that run lanes one after the other would not show points that use one array.
    const Case reproducible(example_text("09"), {uniform({9, 20}, 1), uniform({20, 40}, 2)});
    const schedule::Plan plan = schedule::plan(reproducible.kernel(), reproducible.facts(),
                                               Numerics::Reproducible, kGroups);
    const lir::Function function = lir::for_lanes(plan.stages[0].function);
    EXPECT_TRUE(std::ranges::any_of(function.buffers,
                                    [](const lir::Buffer& buffer) { return buffer.elements > 0; }));
    EXPECT_EQ(std::ranges::count(function.insts, lir::Op::Barrier, &lir::Inst::op), 0);
    EXPECT_EQ(points_of_group(function), 1u) << "they have arrays of their own";
}

TEST(Spirv, OneSubmissionDoesWholeGroupsOfPoints) {
    EXPECT_EQ(points_at_once(1000, 1, 64), 960u);
    EXPECT_EQ(points_at_once(1000, 0, 64), 960u);
    EXPECT_EQ(points_at_once(1000, 15, 64), 64u);
    EXPECT_EQ(points_at_once(1000, 16, 64), 64u) << "one group at least";
    EXPECT_EQ(points_at_once(1000, 7, 1), 142u);
    EXPECT_EQ(points_at_once(1000, ~std::uint64_t{0}, 1), 1u);
}

}  // namespace
}  // namespace quern::vulkan
#else
TEST(Spirv, IsNotMadeHere) { GTEST_SKIP() << "spirv.hpp11 or volk.h is not here"; }
#endif
