// SPIR-V as words. That modules are valid is checked wherever they are loaded, but in releases.

#include <gtest/gtest.h>

#ifdef QUERN_HAS_SPIRV
#include <set>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::vulkan {
namespace {

using cpu_test::Case;

constexpr schedule::Target kTarget{.lanes = 1, .has_fma = false, .registers = 16};

std::vector<std::vector<std::uint32_t>> modules(const Case& c) {
    std::vector<std::vector<std::uint32_t>> all;
    const auto plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, kTarget);
    for (const schedule::Stage& stage : plan.stages) all.push_back(emit(stage.function, {}));
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

}  // namespace
}  // namespace quern::vulkan
#else
TEST(Spirv, IsNotMadeHere) { GTEST_SKIP() << "spirv.hpp11 or volk.h is not here"; }
#endif
