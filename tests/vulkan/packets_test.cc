// Loads and stores of several neighbours by a lane, on devices "vulkan:N".

#include <gtest/gtest.h>

#include <string>

#include "tests/cpu/compiled_run.h"
#include "tests/vulkan/on_device.h"

namespace quern {
namespace {

using cpu_test::Case;

class VulkanPackets : public OnDevice {
protected:
    static const cpu_test::VulkanDevice& vulkan() { return cpu_test::vulkan_devices()[GetParam()]; }

    static void expect_right(const Case& c) {
        const std::optional<Tensor> expected = c.interpreted();
        ASSERT_TRUE(expected);
        const std::optional<Tensor> got =
            c.on_vulkan(device(), Numerics::Strict, vulkan::PointsAre::Groups);
        ASSERT_TRUE(got);
        EXPECT_TRUE(vulkan().gives(*got, *expected)) << to_string(*got);
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanPackets, testing::Values(std::size_t{0}, std::size_t{1}));

std::string custom(const std::string& operands, const std::string& body) {
    return "compute(" + operands + ") {\n@kernel custom\n" + body + "\n}";
}

Tensor elements(std::int64_t size, DType dtype, std::uint64_t seed) {
    return is_floating(dtype) ? uniform({size}, seed, -9, 9, dtype)
                              : random_tensor({size}, dtype, seed);
}

TEST_P(VulkanPackets, GiveTheInterpretersBitsForEveryDtype) {
    for (const DType dtype :
         {DType::Bool, DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
          DType::UInt32, DType::Float16, DType::BFloat16, DType::Float32}) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor x = elements(307, dtype, 1), y = elements(307, dtype, 2);
        expect_right(Case(custom("x", "for i in 0..n: out[i] = x[i]"), {x}));
        expect_right(Case(custom("x, y", "for i in 0..n: out[i] = select(x[i] < y[i], y[i], x[i])"),
                          {x, y}));
    }
}

/// Elements of a tensor that is there already lie where they lie; of one that is elsewhere the
/// device has a copy.
TEST_P(VulkanPackets, AreLoadedFromWhereverTensorsBegin) {
    const std::string add = custom("x, y", "for i in 0..n: out[i] = x[i] + y[i]");
    for (const DType dtype : {DType::Float32, DType::Float16, DType::UInt8}) {
        const Tensor far = elements(300, dtype, 1), whole = elements(264, dtype, 2);
        const Tensor near = far.to(device());
        for (const std::int64_t from : {0, 1, 2, 4, 8, 16, 17}) {
            SCOPED_TRACE(std::string(to_string(dtype)) + " from " + std::to_string(from));
            expect_right(Case(add, {near.slice(0, from, from + 264), whole}));
            expect_right(Case(add, {far.slice(0, from, from + 264), whole}));
        }
    }
}

/// Processors load packets from any address alike; GPUs do not.
TEST_P(VulkanPackets, AreOfTensorsThatBeginAtMultiplesOnTheDevice) {
    constexpr int kPacket = 4;
    const std::string copy = custom("x", "for i in 0..n: out[i] = x[i]");
    const auto aligned = [&](const Tensor& x, const Tensor& result) {
        const auto placed = frontend::place_on_vulkan(Case(copy, {x}).launch(), device(), result);
        return std::pair(placed.facts.operands[0].aligned_log2 >= kPacket,
                         placed.facts.operands[1].aligned_log2 >= kPacket);
    };
    const Tensor far = elements(308, DType::Float32, 1), near = far.to(device());
    const Tensor result({300}, DType::Float32, device()), longer({304}, DType::Float32, device());
    for (const std::int64_t from : {0, 1, 2, 3, 4, 8}) {
        SCOPED_TRACE(from);
        const bool is_multiple = from % 4 == 0;
        EXPECT_EQ(aligned(near.slice(0, from, from + 300), result), std::pair(is_multiple, true));
        EXPECT_EQ(aligned(far.slice(0, from, from + 300), result), std::pair(true, true));
        EXPECT_EQ(aligned(far, Tensor({300})), std::pair(true, true));
        if (from > 4) continue;
        EXPECT_EQ(aligned(far, longer.slice(0, from, from + 300)), std::pair(true, is_multiple));
    }
}

TEST_P(VulkanPackets, AddUpRows) {
    for (const DType dtype : {DType::Float32, DType::Float16, DType::Int8}) {
        const Tensor x = uniform({3, 512}, 3, -4, 4).to(DType::Int32).to(dtype);
        expect_right(Case(custom("x",
                                 "for i in 0..r:\n  var s = 0.0\n"
                                 "  for j in 0..c: s += x[i, j]\n  out[i] = s"),
                          {x}));
    }
}

}  // namespace
}  // namespace quern
