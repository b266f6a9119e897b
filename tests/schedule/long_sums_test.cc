// Sums that one lane takes alone, in blocks: how near they are, and that no element is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/lanes_run.h"

namespace quern::schedule {
namespace long_sums_test {

using cpu_test::Case;

const std::string kSumsOfRows =
    "compute(x) {\n@kernel custom\nfor i in 0..rows:\n  var s = 0.0\n"
    "  for j in 0..n: s += x[i, j]\n  out[i] = s\n}";

/// Two sums in one loop, one of them under a condition, and a loop inside of a loop.
const std::string kTwoSums =
    "compute(x) {\n@kernel custom\nfor i in 0..rows:\n  var s = 1.0\n  var t = 2.0\n"
    "  for j in 0..n:\n    s += x[i, j]\n    if x[i, j] > 0.0: t += x[i, j]\n"
    "  var u = 3.0\n  for j in 0..n:\n    for k in 0..3: u += x[i, j] * (k + 1)\n"
    "  out[i] = s * 4.0 + t - u\n}";

/// Numbers whose sums are exact in any order.
Tensor integers(const Shape& shape, DType dtype) {
    return uniform(shape, 1, -4, 4).to(DType::Int32).to(dtype);
}

TEST(LongSums, HaveEveryElementOnceAtTheEndsOfBlocks) {
    for (const std::string& text : {kSumsOfRows, kTwoSums}) {
        for (const DType dtype : {DType::Float32, DType::Float64}) {
            for (const std::int64_t n : {0, 1, 255, 256, 257, 511, 512, 513, 1000}) {
                SCOPED_TRACE(std::string(to_string(dtype)) + ", " + std::to_string(n));
                const Case c(text, {integers({3, n}, dtype)});
                const auto expected = c.interpreted();
                ASSERT_TRUE(expected);
                for (const Numerics numerics : {Numerics::Strict, Numerics::Fast}) {
                    const auto run = cpu_test::run_on_lanes(c, numerics, vulkan::kInvocations);
                    EXPECT_EQ(run.mistake, "");
                    ASSERT_TRUE(run.result);
                    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected));
                }
            }
        }
    }
}

TEST(LongSums, KeepNanAndInfinities) {
    Tensor x = integers({4, 700}, DType::Float32);
    x.data<float>()[700 + 300] = NAN;
    x.data<float>()[1400 + 10] = INFINITY;
    x.data<float>()[2100 + 10] = INFINITY;
    x.data<float>()[2100 + 600] = -INFINITY;
    const Case c(kSumsOfRows, {x});
    const auto run = cpu_test::run_on_lanes(c, Numerics::Strict, vulkan::kInvocations);
    ASSERT_TRUE(run.result);
    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
}

/// One after the other they would be 5.8e-4 off: neighbours are rounded the same way.
TEST(LongSums, OfSixtyThousandAreWithinTheToleranceWhereALaneHasThemAll) {
    Tensor x({2, 60000});
    for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<float>()[i] = 0.1f;
    const Case c(kSumsOfRows, {x});
    const double exact = 60000 * double(0.1f);
    const auto expect_near = [&](const std::optional<Tensor>& got) {
        ASSERT_TRUE(got);
        for (const double sum : got->values()) EXPECT_NEAR(sum, exact, 1e-5 * exact);
    };
    expect_near(cpu_test::run_on_lanes(c, Numerics::Strict, vulkan::kInvocations).result);
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        SCOPED_TRACE(vulkan.device.id());
        expect_near(c.on_vulkan(vulkan.device, Numerics::Strict));
    }
    if (!cpu::plugin_path().empty()) expect_near(c.compiled(Numerics::Strict, cpu::Simd::Scalar));
}

TEST(LongSums, OfProductsInTilesOfWorkGroupsAreWithinTheToleranceToo) {
    constexpr std::int64_t kDepth = 20000;
    Tensor a({16, kDepth}), b({kDepth, 16});
    for (Tensor* x : {&a, &b}) std::fill_n(x->data<float>(), x->element_count(), 0.1f);
    const Case c(
        "compute(a, b) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n  var s = 0.0\n"
        "  for k in 0..depth: s += a[i, k] * b[k, j]\n  out[i, j] = s\n}",
        {a, b});
    const auto plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, vulkan::kGroups);
    ASSERT_TRUE(std::ranges::any_of(plan.tiling.splits, [](const schedule::Split& split) {
        return split.level == schedule::Level::Stage;
    }));
    const double exact = kDepth * double(0.1f) * double(0.1f);
    const auto run = cpu_test::run_on_lanes(c, Numerics::Strict, vulkan::kGroups);
    EXPECT_EQ(run.mistake, "");
    ASSERT_TRUE(run.result);
    for (const double sum : run.result->values()) EXPECT_NEAR(sum, exact, 1e-5 * exact);
}

}  // namespace long_sums_test
}  // namespace quern::schedule
