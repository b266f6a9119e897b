// Launches on a device "vulkan:N" that go on while the host does: what is read, written and freed
// meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/runtime/storage.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/stream.h"
#include "tests/vulkan/on_device.h"

namespace quern {
namespace {

using cpu_test::same_numbers;

/// Long enough for the host to be there before the device.
constexpr std::int64_t kLong = 1 << 20;

class InFlight : public OnDevice {
protected:
    static Tensor on_device(std::int64_t count, float value) {
        Tensor tensor = Tensor::empty({count}, DType::Float32, device());
        std::fill_n(tensor.data<float>(), count, value);
        return tensor;
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, InFlight, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(InFlight, AResultIsReadOnceItIsThere) {
    const Kernel kernel = slow();
    EXPECT_TRUE(is_all(kernel(on_device(kLong, 3)), 3));
    const Tensor view = kernel(on_device(kLong, 4)).slice(0, 5, kLong, 7);
    EXPECT_EQ(view.values().back(), 4);
    EXPECT_EQ(kernel(on_device(kLong, 5)).to(Device("interpreter")).values().back(), 5);
}

TEST_P(InFlight, ManyLaunchesOneAfterAnother) {
    const Kernel next = each("x", "x[i] + 1.0");
    Tensor x = on_device(1000, 0);
    for (int i = 0; i < 300; ++i) x = next(x);
    EXPECT_TRUE(is_all(x, 300));
}

TEST_P(InFlight, MemoryOfATensorThatIsGoneIsNotUsedTooEarly) {
    const Kernel kernel = slow();
    kernel(on_device(kLong, 0));
    for (int i = 0; i < 5; ++i) {
        Tensor x = on_device(kLong, 1);
        const Tensor y = kernel(kernel(x));
        x = Tensor();
        std::vector<Tensor> others;
        for (int k = 0; k < 4; ++k) others.push_back(on_device(kLong, 9));
        EXPECT_TRUE(is_all(y, 1)) << i;
        for (const Tensor& other : others) EXPECT_TRUE(is_all(other, 9)) << i;
    }
}

TEST_P(InFlight, AResultThatNobodyReadsHarmsNoOther) {
    const Kernel kernel = slow();
    for (int i = 0; i < 5; ++i) {
        kernel(on_device(kLong, 1));
        Tensor other = on_device(kLong, 9);
        synchronize(device());
        EXPECT_TRUE(is_all(other, 9)) << i;
    }
}

TEST_P(InFlight, OperandsOfTheHostMayChangeOnceTheyWereGiven) {
    const Kernel kernel = slow();
    Tensor x({kLong}, DType::Float32, Device("interpreter"));
    std::vector<Tensor> results;
    for (int i = 0; i < 4; ++i) {
        std::fill_n(x.data<float>(), kLong, float(i));
        results.push_back(kernel(x));
    }
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_all(results[std::size_t(i)], float(i))) << i;
}

TEST_P(InFlight, AnOperandIsWrittenAfterTheLaunchesThatReadIt) {
    const Kernel kernel = slow();
    Tensor x = on_device(kLong, 0);
    for (int i = 1; i < 5; ++i) {
        const Tensor y = kernel(kernel(x)), z = kernel(x);
        std::fill_n(x.data<float>(), kLong, float(i));
        EXPECT_TRUE(is_all(z, float(i - 1))) << i;
        EXPECT_TRUE(is_all(y, float(i - 1))) << i;
    }
}

TEST_P(InFlight, OtherDevicesTakeItAsAnOperand) {
    const Kernel kernel = slow();
    for (const DeviceInfo& other : devices()) {
        if (other.id == "interpreter") continue;
        const Kernel on_other = kernel.on(Device(other.id));
        EXPECT_TRUE(is_all(kernel(on_other(kernel(on_device(kLong, 2)))), 2)) << other.id;
    }
}

TEST_P(InFlight, AFailureIsThrownWhereItWasLaunchedAndOthersGoOn) {
    const Kernel kernel = slow();
    const Kernel quotient = each("x, y", "x[i] % y[i]");
    const Tensor before = kernel(on_device(kLong, 6));
    const Tensor one = Tensor::from<std::int64_t>({2}, {7, 8});
    EXPECT_THROW(quotient(one, Tensor::from<std::int64_t>({2}, {2, 0})), KernelError);
    const Tensor after = kernel(before);
    EXPECT_TRUE(is_all(after, 6));
    EXPECT_TRUE(is_all(before, 6));
}

TEST_P(InFlight, WorkOnAThreadEndsWhenItsLaunchesHave) {
    if (!vulkan::is_memory_seen(GetParam())) GTEST_SKIP() << "its memory is not seen";
    const Kernel kernel = slow();
    const Tensor x = on_device(kLong, 3);
    kernel(x);
    const auto last = [](const Tensor& tensor) {
        // Without waiting for the device.
        return static_cast<const float*>(quern::InFlight::address(tensor, GetParam()))[kLong - 1];
    };
    const auto many = [&] {
        Tensor y = x;
        for (int i = 0; i < 4; ++i) y = kernel(y);
        return y;
    };
    EXPECT_EQ(last(run_async<Tensor>(many).get()), 3);
    Stream stream;
    Tensor y;
    const Future<int> inner = stream.run([&] {
        // The work of another, which may be done on the same thread.
        const Future<Tensor> waited = run_async<Tensor>(many);
        y = many();
        return last(waited.get()) == 3 ? 1 : 0;
    });
    stream.record().wait();
    EXPECT_EQ(last(y), 3);
    EXPECT_EQ(inner.get(), 1);
}

TEST_P(InFlight, TheCpuAndTheDeviceWorkAtTheSameTime) {
    const Kernel kernel = slow();
    const Tensor x = on_device(kLong, 3), one = Tensor::from<float>({1}, {2});
    const Kernel host = Kernel(
                            "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var s = 0.0\n"
                            "  for k in 0..steps: s = s * 0.5 + x[i]\n  out[i] = s\n}")
                            .on(Device("cpu"));
    const auto on_host = [&](int steps) { return host(one, arg("steps", steps)); };
    const auto on_device = [&](int launches) {
        Tensor y = x;
        for (int i = 0; i < launches; ++i) y = kernel(y);
        return y;
    };
    const int many = cpu_test::vulkan_devices()[GetParam()].is_swiftshader ? 40 : 200;
    // Both compiled. Then what is short on one ends while what is long on the other goes on.
    on_host(1), on_device(1);
    for (const bool is_long_here : {false, true}) {
        Stream here, there;
        const Future<Tensor> hosts =
            here.run([&] { return on_host(is_long_here ? 300'000'000 : 100); });
        const Future<Tensor> devices =
            there.run([&] { return on_device(is_long_here ? 1 : many); });
        const Event end_here = here.record(), end_there = there.record();
        (is_long_here ? end_there : end_here).wait();
        EXPECT_FALSE((is_long_here ? end_here : end_there).has_happened());
        EXPECT_EQ(hosts.get().values()[0], 4);
        EXPECT_TRUE(is_all(devices.get(), 3));
    }
}

TEST_P(InFlight, ThreadsLaunchAtTheSameTime) {
    const Kernel sum = each("x, y", "x[i] + y[i]");
    const Tensor shared = on_device(5000, 1);
    std::vector<int> is_right(4, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < is_right.size(); ++t) {
        threads.emplace_back([&, t] {
            Tensor x = on_device(5000, float(t));
            for (int i = 0; i < 50; ++i) {
                x = sum(x, shared);
                if (i % 20 == 7) x = x.clone();
            }
            is_right[t] = is_all(x, float(t) + 50);
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(is_right, std::vector<int>(is_right.size(), 1));
}

}  // namespace
}  // namespace quern
