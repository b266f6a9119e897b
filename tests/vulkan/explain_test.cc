// What `explain` says of devices with Vulkan: the schedule and the work-groups.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quern/frontend/bound.h"
#include "quern/kernel.h"
#include "tests/conformance/operands.h"
#include "tests/vulkan/on_device.h"

namespace quern {
namespace {

class ExplainVulkan : public OnDevice {
protected:
    static std::string explained(const char* number, const std::vector<Tensor>& operands) {
        return example(number).on(device()).explain(operands);
    }

    static bool has_line(const std::string& text, const std::string& line) {
        return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, ExplainVulkan, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(ExplainVulkan, SaysHowLoopsRunAndWhatAWorkGroupIs) {
    const std::string product = explained("09", {uniform({64, 64}, 1), uniform({64, 64}, 2)});
    EXPECT_TRUE(has_line(product, "schedule    i: grid, unroll 8; j: grid, unroll 8; k: serial"))
        << product;
    EXPECT_TRUE(has_line(product, "work-groups 64 invocations, a point each")) << product;
    const std::string stages = explained("04", {uniform({100000}, 1)});
    EXPECT_TRUE(has_line(stages, "work-groups stage 1: 64 invocations, a point each")) << stages;
    EXPECT_TRUE(has_line(stages, "            stage 2: 64 invocations, a point each")) << stages;
}

TEST_P(ExplainVulkan, SaysWhyADeviceDoesNotRunTheKernel) {
    const Kernel kernel(
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  out[i] = x[i]\n"
        "  if i > 4: out[i] = out[i] + out[(i * 3 + 1) % n]\n}");
    const std::vector<Tensor> operands = {uniform({8}, 1)};
    const std::string text = kernel.on(device()).explain(operands);
    EXPECT_NE(text.find("\nschedule    none: the device " + device().id() + " does not run points"),
              std::string::npos)
        << text;
}

TEST_P(ExplainVulkan, SaysThatFloat64IsNotTheDevices) {
    const std::string text = explained("01", {uniform({8}, 1, -1, 1, DType::Float64)});
    const bool is_soft = cpu_test::vulkan_devices()[GetParam()].is_swiftshader;
    EXPECT_TRUE(has_line(text, std::string("work-groups 64 invocations, a point each") +
                                   (is_soft ? "; float64 as integers" : "")))
        << text;
}

TEST_P(ExplainVulkan, CountsWhatLanesShareAndHowOftenTheyMeet) {
    const cpu_test::Case c(example_text("07"), {uniform({3, 40}, 1)});
    frontend::VulkanKernels kernels;
    const auto find = [&](vulkan::PointsAre points) {
        return kernels.find(device(), c.kernel(), c.facts(), Numerics::Reproducible, {points});
    };
    const auto code = find(vulkan::PointsAre::GroupsByMemory);
    // Sums of 16 lanes go through an array with two values of a lane, and each row begins anew.
    ASSERT_EQ(code->groups.size(), 1u);
    EXPECT_EQ(code->groups[0], (vulkan::Groups{16, true, 1, 1, 128, 2}));
    EXPECT_EQ(to_string(code->groups[0]), "16 lanes, one point; 128 bytes shared, 2 barriers");
    const vulkan::Groups together = find(vulkan::PointsAre::Groups)->groups.at(0);
    EXPECT_GT(together.subgroup, 1u) << "both drivers of CI exchange values";
    EXPECT_NE(to_string(together).find(" in subgroups of "), std::string::npos);
    EXPECT_EQ(to_string(vulkan::Groups{16, true, 1, 16, 0, 0}),
              "16 lanes in subgroups of 16, one point; 0 bytes shared, 0 barriers");
    const cpu_test::Case each(example_text("01"), {uniform({40}, 1)});
    const auto of_each = kernels.find(device(), each.kernel(), each.facts(), Numerics::Strict,
                                      {vulkan::PointsAre::Groups});
    EXPECT_EQ(to_string(of_each->groups.at(0)), "64 invocations, 16 lanes of each of 4 points");
}

TEST_P(ExplainVulkan, GroupsHaveMoreThanTheLeastMemoryWhereTheDeviceHasMore) {
    // 20,000 bytes, of which every device has 16,384 and both drivers of CI 32,768.
    const cpu_test::Case c(
        "compute(x) {\n@kernel custom\nfor b in 0..batch:\n  shared var t[5000]: f32\n"
        "  for i in 0..5000: t[i] = exp(x[b, i])\n  barrier()\n"
        "  for i in 0..5000: out[b, i] = t[4999 - i]\n}",
        {uniform({3, 5000}, 1)});
    frontend::VulkanKernels kernels;
    const auto code = kernels.find(device(), c.kernel(), c.facts(), Numerics::Reproducible,
                                   {vulkan::PointsAre::Groups});
    EXPECT_EQ(code->groups.at(0).shared_bytes, 20000u);
    const auto expected = c.interpreted();
    const auto got = c.on_vulkan(device(), Numerics::Reproducible, vulkan::PointsAre::Groups);
    ASSERT_TRUE(expected && got);
    EXPECT_TRUE(cpu_test::same_normal_numbers(*got, *expected));
}

}  // namespace
}  // namespace quern
