// SPIR-V as words. That modules are valid is checked wherever they are loaded, but in releases.

#include <gtest/gtest.h>

#ifdef QUERN_HAS_SPIRV
#include <set>
#include <string>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/hazards.h"
#include "quern/lir/builder.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::vulkan {
namespace {

using cpu_test::Case;

constexpr schedule::Target kTarget{.lanes = 16, .has_fma = false, .registers = 8};

std::vector<std::vector<std::uint32_t>> modules(const Case& c) {
    std::vector<std::vector<std::uint32_t>> all;
    const auto plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, kTarget);
    for (const schedule::Stage& stage : plan.stages) all.push_back(emit(stage.function, {}, {}));
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

int barriers(const Case& c) {
    constexpr std::uint32_t kControlBarrier = 224, kHeader = 5;
    int count = 0;
    for (const auto& module : modules(c)) {
        for (std::size_t at = kHeader; at < module.size(); at += module[at] >> 16) {
            count += (module[at] & 0xffff) == kControlBarrier;
        }
    }
    return count;
}

TEST(Spirv, TheSameKernelGivesTheSameWords) {
    for (const char* number : {"01", "04", "08"}) {
        const Case a(example_text(number), {uniform({100}, 1)});
        const Case b(example_text(number), {uniform({100}, 2)});
        EXPECT_EQ(modules(a), modules(b)) << number;
    }
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

TEST(Spirv, AsksForNoIntegersThatTheDeviceLacks) {
    constexpr std::uint32_t kInt64 = 11, kInt16 = 22, kInt8 = 39;
    constexpr std::uint32_t kStorage16 = 4433, kStorage8 = 4448;
    for (const DType dtype : {DType::Int8, DType::UInt16, DType::Float16}) {
        const Case c(example_text("01"), {uniform({8}, 1, 0, 2, dtype)});
        const schedule::Plan plan =
            schedule::plan(c.kernel(), c.facts(), Numerics::Strict, {.lanes = 1, .has_fma = false});
        const auto asked =
            capabilities(emit(plan.stages[0].function, {}, {.has_8 = false, .has_16 = false}));
        for (const std::uint32_t narrow : {kInt16, kInt8, kStorage16, kStorage8}) {
            EXPECT_EQ(asked.count(narrow), 0u) << to_string(dtype) << " " << narrow;
        }
        EXPECT_EQ(asked.count(kInt64), 1u) << to_string(dtype);
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

TEST(Spirv, LanesMeetWhereOneReadsWhatAnotherHas) {
    EXPECT_GT(barriers(Case(example_text("07"), {uniform({3, 40}, 1)})), 0);
    EXPECT_GT(barriers(Case(example_text("15"), {uniform({40}, 1)})), 0);
}

/// The memory instructions of a function, in order.
std::vector<lir::ValueId> accesses(const lir::Function& function) {
    std::vector<lir::ValueId> all;
    for (std::uint32_t n = 0; n < function.insts.size(); ++n) {
        const auto id = lir::ValueId(n);
        if (lir::class_of(function[id].op) == lir::OpClass::Memory) all.push_back(id);
    }
    return all;
}

/// Whether lanes meet before each access of a function without loops.
std::vector<bool> meetings(const lir::Function& function) {
    Hazards hazards(function);
    std::vector<bool> all;
    for (const lir::ValueId id : accesses(function)) all.push_back(hazards.before_access(id));
    return all;
}

/// What one array of a group gets: 's' and 'l' store and load 16 lanes, 'S' and 'L' one element,
/// 'a' begins another array.
lir::Function array_uses(const std::string& uses) {
    lir::Builder b("f");
    const auto array = b.buffer("t", DType::Float32, lir::Space::Lane, true);
    const auto other = b.buffer("u", DType::Float32, lir::Space::Lane, true);
    const auto one = b.constant(DType::Float32, 0);
    for (const char use : uses) {
        if (use == 'l' || use == 'L') b.load(array, b.integer(0), use == 'l' ? 16 : 1);
        if (use == 's') b.store(array, b.integer(0), b.splat(one, 16));
        if (use == 'S') b.store(array, b.integer(0), one);
        if (use == 'a') b.alloc(other, b.integer(16));
    }
    return b.take();
}

TEST(Hazards, LanesMeetBetweenAWriteAndWhatFollowsIt) {
    using Meetings = std::vector<bool>;
    EXPECT_EQ(meetings(array_uses("slL")), (Meetings{false, true, false}));
    EXPECT_EQ(meetings(array_uses("sls")), (Meetings{false, true, true}));
    EXPECT_EQ(meetings(array_uses("ls")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("ss")), (Meetings{false, true})) << "other lanes, perhaps";
    EXPECT_EQ(meetings(array_uses("SS")), (Meetings{false, false})) << "one lane, in order";
    EXPECT_EQ(meetings(array_uses("Ss")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("sa")), (Meetings{false, true})) << "the same memory, perhaps";
    EXPECT_EQ(meetings(array_uses("ll")), (Meetings{false, false})) << "nobody writes it";
}

/// for: uses.
lir::Function in_a_loop(const std::string& before, const std::string& inside) {
    lir::Builder b("f");
    const auto array = b.buffer("t", DType::Float32, lir::Space::Lane, true);
    const auto vector = b.splat(b.constant(DType::Float32, 0), 16);
    const auto add = [&](const std::string& uses) {
        for (const char use : uses) {
            if (use == 'l') b.load(array, b.integer(0), 16);
            if (use == 's') b.store(array, b.integer(0), vector);
        }
    };
    add(before);
    b.begin_for(b.integer(0), b.integer(4), 1);
    add(inside);
    b.end_for();
    return b.take();
}

TEST(Hazards, ALoopCountsWhatItsOtherIterationsTouch) {
    const auto meets = [](const lir::Function& function, std::size_t before) {
        Hazards hazards(function);
        const auto all = accesses(function);
        std::vector<bool> result;
        for (std::size_t n = 0; n < before; ++n) hazards.before_access(all[n]);
        for (const lir::Inst& i : function.insts) {
            if (i.op == lir::Op::For) result.push_back(hazards.before_loop(i.body));
        }
        for (std::size_t n = before; n < all.size(); ++n) {
            result.push_back(hazards.before_access(all[n]));
        }
        return result;
    };
    using Meetings = std::vector<bool>;
    EXPECT_EQ(meets(in_a_loop("", "s"), 0), (Meetings{false, false})) << "elements of its own";
    EXPECT_EQ(meets(in_a_loop("s", "l"), 1), (Meetings{true, false})) << "once, before it";
    EXPECT_EQ(meets(in_a_loop("s", "s"), 1), (Meetings{true, false}));
    EXPECT_EQ(meets(in_a_loop("l", "s"), 1), (Meetings{true, false}));
    EXPECT_EQ(meets(in_a_loop("", "ls"), 0), (Meetings{false, true, true})) << "every iteration";
}

}  // namespace
}  // namespace quern::vulkan
#else
TEST(Spirv, IsNotMadeHere) { GTEST_SKIP() << "spirv.hpp11 or volk.h is not here"; }
#endif
