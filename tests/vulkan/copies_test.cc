// What launches copy between the memories of devices: counted, and E0602 where copies are refused.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "quern/async.h"
#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/runtime/vulkan_plugin.h"
#include "tests/script/script_helpers.h"
#include "tests/vulkan/on_device.h"

namespace quern {
namespace {

const Device kHost("interpreter");

/// The bytes that it copies.
template <class Work>
std::uint64_t copied_by(const Work& work) {
    const std::uint64_t before = memory_counters().copied;
    work();
    return memory_counters().copied - before;
}

class Copies : public OnDevice {
protected:
    static Kernel kernel(const std::string& operands, const std::string& value,
                         bool is_pedantic = false, const std::string& decorator = {}) {
        return Kernel("compute(" + operands + ") {\n@kernel custom\n" + decorator +
                          "for i in 0..n: out[i] = " + value + "\n}",
                      {.file = {}, .pedantic = is_pedantic})
            .on(device());
    }

    static Tensor count_up(const Device& device) {
        return Tensor::from<float>({4}, {0, 1, 2, 3}).to(device);
    }

    /// "E0602 at 1:9", or what came instead.
    template <class Launch>
    static std::string refusal_of(const Launch& launch) {
        try {
            launch();
        } catch (const KernelError& error) {
            const Diagnostic& d = error.diagnostics().at(0);
            return d.code + " at " + std::to_string(d.line) + ":" + std::to_string(d.column) +
                   ": " + d.message;
        }
        return "nothing";
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, Copies, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(Copies, Check93_AnOperandInAnotherMemoryIsCopiedOnceForItsLaunchAndCounted) {
    const Tensor x = count_up(kHost), y = count_up(kHost), there = count_up(device());
    const Kernel sum = kernel("x, y", "x[i] + y[i]");
    Tensor result;
    EXPECT_EQ(copied_by([&] { result = sum(x, y); }), 32u);
    EXPECT_EQ(result.values(), (std::vector<double>{0, 2, 4, 6}));
    EXPECT_EQ(copied_by([&] { result = sum(x, there); }), 16u);
    EXPECT_EQ(result.values(), (std::vector<double>{0, 2, 4, 6}));
    EXPECT_EQ(copied_by([&] { result = sum(x, x); }), 16u);
    EXPECT_EQ(result.values(), (std::vector<double>{0, 2, 4, 6}));
    EXPECT_EQ(copied_by([&] { result = sum(x.slice(0, 0, 2), x.slice(0, 2, 4)); }), 16u);
    EXPECT_EQ(result.values(), (std::vector<double>{2, 4}));
}

TEST_P(Copies, AChainOnTheDeviceCopiesNothing) {
    const Kernel next = kernel("x", "x[i] + 1.0");
    Tensor x = count_up(device());
    EXPECT_EQ(copied_by([&] {
                  for (int i = 0; i < 10; ++i) x = next(x);
                  EXPECT_EQ(x.values(), (std::vector<double>{10, 11, 12, 13}));
              }),
              0u);
}

TEST_P(Copies, ToAnotherMemoryIsCountedAndWithinOneIsNone) {
    Tensor x = count_up(kHost);
    EXPECT_EQ(copied_by([&] { x = x.to(device()); }), 16u);
    EXPECT_EQ(copied_by([&] { x = x.to(device()); }), 0u);
    EXPECT_EQ(copied_by([&] { x = x.to(kHost); }), 16u);
    EXPECT_EQ(copied_by([&] { x = x.to(Device("auto")).clone(); }), 0u);
}

TEST_P(Copies, ALaunchOfTheHostReadsADevicesMemoryWithoutACopy) {
    const Tensor x = count_up(device());
    const Kernel twice = kernel("x", "x[i] * 2.0", true);
    for (const char* id : {"auto", "interpreter"}) {
        Tensor result;
        EXPECT_EQ(copied_by([&] { result = twice.on(Device(id))(x); }), 0u) << id;
        EXPECT_EQ(result.values(), (std::vector<double>{0, 2, 4, 6})) << id;
    }
}

TEST_P(Copies, Check93_PedanticTheyAreE0602AtTheOperandAndNothingIsCopied) {
    const Kernel sum = kernel("x, y", "x[i] + y[i]", true);
    const Tensor x = count_up(kHost), there = count_up(device());
    const std::string id = device().id();
    EXPECT_EQ(copied_by([&] {
                  EXPECT_EQ(refusal_of([&] { sum(x, there); }),
                            "E0602 at 1:9: expected 'x' in the memory of " + id +
                                ", got it in that of interpreter");
                  EXPECT_EQ(refusal_of([&] { sum(there, x); }),
                            "E0602 at 1:12: expected 'y' in the memory of " + id +
                                ", got it in that of interpreter");
                  // At the call, not where somebody waits.
                  EXPECT_EQ(refusal_of([&] { static_cast<void>(sum.async()(there, x)); }),
                            "E0602 at 1:12: expected 'y' in the memory of " + id +
                                ", got it in that of interpreter");
                  EXPECT_EQ(sum(there, there).values(), (std::vector<double>{0, 2, 4, 6}));
              }),
              0u);
    for (const cpu_test::VulkanDevice& other : cpu_test::vulkan_devices()) {
        if (other.device == device()) continue;
        EXPECT_EQ(refusal_of([&] { sum(there, count_up(other.device)); }),
                  "E0602 at 1:12: expected 'y' in the memory of " + id + ", got it in that of " +
                      other.device.id());
    }
}

TEST_P(Copies, PedanticMemoryThatTheProgramGaveIsNotTheDevices) {
    const Device before;
    set_default_device(device().id());
    float own[] = {1, 2, 3, 4};
    const Tensor x = Tensor::adopt(own, {4}, DType::Float32);
    set_default_device(before.id());
    const Kernel twice = kernel("x", "x[i] * 2.0", true);
    EXPECT_EQ(refusal_of([&] { twice(x); }), "E0602 at 1:9: expected 'x' in the memory of " +
                                                 device().id() + ", got it in that of the program");
    EXPECT_EQ(twice(x.clone()).values(), (std::vector<double>{2, 4, 6, 8}));
}

TEST_P(Copies, MemoryThatTheProgramGaveIsCopiedThereOnce) {
    const Device before;
    set_default_device(device().id());
    float own[] = {1, 2, 3, 4};
    const Tensor x = Tensor::adopt(own, {4}, DType::Float32);
    const Tensor there = x.to(device());
    set_default_device(before.id());
    EXPECT_FALSE(there.shares_storage_with(x));
    EXPECT_TRUE(there.to(device()).shares_storage_with(there));
    EXPECT_TRUE(x.to(Device("interpreter")).shares_storage_with(x)) << "it is the host's";
    EXPECT_EQ(kernel("x", "x[i] * 2.0", true)(there).values(), (std::vector<double>{2, 4, 6, 8}));
}

TEST_P(Copies, PedanticRowMajorCopiesOnTheDeviceAreNone) {
    const Kernel flat = Kernel(
                            "compute(x) {\n@kernel elementwise\nfor i in 0..len: "
                            "out[i] = x[i] * 2.0\n}",
                            {.file = {}, .pedantic = true})
                            .on(device());
    const Tensor x = count_up(device()).reshape({2, 2}).permute({1, 0});
    EXPECT_EQ(flat(x).values(), (std::vector<double>{0, 4, 2, 6}));
    // What is not the device's is not let through by the copy.
    const Device before;
    set_default_device(device().id());
    float own[] = {0, 1, 2, 3};
    const Tensor adopted = Tensor::adopt(own, {2, 2}, DType::Float32).permute({1, 0});
    set_default_device(before.id());
    EXPECT_EQ(refusal_of([&] { flat(adopted); }).substr(0, 5), "E0602");
}

TEST_P(Copies, PedanticARefusalDoesNotWaitForTheResult) {
    script::RunOptions pedantic;
    pedantic.pedantic = true;
    EXPECT_EQ(script::error_of("pipeline p(x: tensor) -> tensor:\n"
                               "    let unused = compute(x) {\n"
                               "        @kernel elementwise\n"
                               "        @device(\"" +
                                   device().id() +
                                   "\")\n"
                                   "        for i in 0..len: out[i] = x[i] * 2.0\n"
                                   "    }\n"
                                   "    return x\n"
                                   "let x = allocate(shape=[4], device=\"interpreter\")\n"
                                   "let r = p(x)\n",
                               {}, pedantic),
              "E0602 at 2:26");
}

TEST_P(Copies, PedanticWorkOnSeveralDevicesAsksForThem) {
    if (!vulkan::is_memory_seen(GetParam())) {
        GTEST_SKIP() << "the host does not see the memory of " << device().id();
    }
    const Tensor x = count_up(kHost);
    const auto spread = [](const std::string& list) {
        return Kernel("compute(x) @device([" + list +
                          "]) @parallel(data) {\n@kernel custom\nfor i in 0..n: "
                          "out[i] = x[i] * 2.0\n}",
                      {.file = {}, .pedantic = true});
    };
    const std::string own = "\"" + device().id() + "\"";
    const auto doubled = [&](const std::string& list) {
        EXPECT_EQ(spread(list)(x).values(), (std::vector<double>{0, 2, 4, 6}));
    };
    // The operand, and the result where the first device is another.
    EXPECT_EQ(copied_by([&] { doubled("\"interpreter\", " + own); }), 32u);
    EXPECT_EQ(copied_by([&] { doubled(own + ", \"interpreter\""); }), 16u);
    // The operand, and a part of the result there and back.
    const Kernel sum("compute(x) @device([\"interpreter\", \"" + device().id() +
                         "\"]) @parallel(data) {\n@kernel reduce(+)\nfor i in 0..n: "
                         "yield x[i]\n}",
                     {.file = {}, .pedantic = true});
    EXPECT_EQ(copied_by([&] { EXPECT_EQ(sum(x).item(), 6); }), 24u);
}

}  // namespace
}  // namespace quern
