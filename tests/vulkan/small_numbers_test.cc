// Code that takes for granted that a launch's numbers are small, and launches whose are not.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "quern/backend/common/image_of.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/frontend/bound.h"
#include "quern/runtime/compiled.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern {
namespace {

using cpu_test::Case;

/// Parameters of every kind: dims, extents, strides, a scalar, two axes of a grid.
Case of_all_kinds() {
    return Case(
        "compute(x, y) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n"
        "  out[i, j] = x[i, j] * s + y[j + 1]\n}",
        {transposed_in_memory(uniform({30, 40}, 1)), uniform({41}, 2)}, {{"s", 2.5}});
}

TEST(SmallNumbers, AreThoseThatCodeTakesForGranted) {
    const Case c = of_all_kinds();
    const KernelImage image =
        image_of(schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kInvocations), {});
    const ReadyLaunch ready = c.ready(image);
    EXPECT_TRUE(has_small_numbers(image, ready));
    const auto are_small = [&](const std::function<void(ReadyLaunch&)>& change) {
        ReadyLaunch other = ready;
        change(other);
        return has_small_numbers(image, other);
    };
    constexpr std::uint64_t k30 = std::uint64_t{1} << 30;
    const auto with = [&](lir::ParameterKind kind, std::uint64_t word) {
        bool is_there = false;
        const bool is_small = are_small([&](ReadyLaunch& other) {
            for (std::size_t p = 0; p < image.stages[0].parameters.size(); ++p) {
                if (image.stages[0].parameters[p].kind != kind) continue;
                other.stages[0].words[p] = word;
                is_there = true;
                return;
            }
        });
        EXPECT_TRUE(is_there);
        return is_small;
    };
    using Kind = lir::ParameterKind;
    EXPECT_TRUE(with(Kind::Dim, k30 - 1));
    EXPECT_FALSE(with(Kind::Dim, k30));
    EXPECT_FALSE(with(Kind::Dim, std::uint64_t(-1)));
    EXPECT_TRUE(with(Kind::Stride, 2 * k30 - 1));
    EXPECT_FALSE(with(Kind::Stride, 2 * k30));
    EXPECT_TRUE(with(Kind::Stride, std::uint64_t(-1)));
    EXPECT_FALSE(with(Kind::Stride, std::uint64_t(-std::int64_t(2 * k30) - 1)));
    EXPECT_TRUE(with(Kind::Block, 1024));
    EXPECT_FALSE(with(Kind::Block, k30));
    EXPECT_TRUE(are_small([](ReadyLaunch& other) { other.stages[0].points = 1 << 10; }));
    EXPECT_FALSE(are_small([](ReadyLaunch& other) { other.stages[0].points = 1 << 30; }));
    EXPECT_FALSE(are_small([](ReadyLaunch& other) { other.local = 2 * k30; }));
    EXPECT_FALSE(are_small([](ReadyLaunch& other) { other.shared.push_back(2 * k30); }));
}

/// A dim that an operand without elements has, used as a number.
TEST(SmallNumbers, AreNotWhatALaunchOfLargeOnesIsCutTo) {
    if (cpu_test::vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const auto text =
        "compute(none: [m, 0], y) {\n@kernel custom\nfor i in 0..n: out[i] = y[i] * m\n}";
    const Tensor y = Tensor::from<float>({3}, std::vector<float>{1, 2, 3});
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        const Kernel kernel = Kernel(text).on(vulkan.device);
        for (const std::int64_t m :
             {std::int64_t{5}, std::int64_t{1} << 33, std::int64_t{6}, std::int64_t{1} << 31}) {
            const Tensor none({m, 0}, DType::Float32);
            EXPECT_EQ(kernel(none, y).values(),
                      (std::vector<double>{double(m), 2 * double(m), 3 * double(m)}))
                << vulkan.device.id() << ", " << m;
        }
    }
}

TEST(SmallNumbers, OfSomeLaunchesAreCodeOfTheirOwn) {
    const Case c = of_all_kinds();
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        frontend::VulkanKernels kernels;
        const auto find = [&](bool may_be_small) {
            return kernels.find(vulkan.device, c.kernel(), c.facts(), Numerics::Strict,
                                {.may_be_small = may_be_small});
        };
        EXPECT_TRUE(find(true)->is_small);
        EXPECT_FALSE(find(false)->is_small);
        EXPECT_EQ(find(true), find(true));
        for (const bool may_be_small : {true, false}) {
            const auto got = c.on_vulkan(vulkan.device, Numerics::Strict, vulkan::PointsAre::Chosen,
                                         may_be_small);
            ASSERT_TRUE(got);
            EXPECT_TRUE(cpu_test::same_numbers(*got, *c.interpreted()));
        }
    }
}

}  // namespace
}  // namespace quern
