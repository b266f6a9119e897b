// Memory pools of a program in the memory of a device "vulkan:N".

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/memory_pool.h"
#include "tests/vulkan/on_device.h"

namespace quern {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class DevicePools : public OnDevice {};

INSTANTIATE_TEST_SUITE_P(Drivers, DevicePools, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(DevicePools, AreOfTheDevicesMemoryWhichLaunchesCopyNothingTo) {
    const std::size_t before = memory_counters(device()).live;
    MemoryPool pool(device(), 4 * kMiB);
    EXPECT_EQ(memory_counters(device()).live, before + 4 * kMiB);
    Tensor x = pool.allocate({1000});
    Tensor y = pool.allocate({1000});
    std::fill_n(x.data<float>(), 1000, 3.0f);
    std::fill_n(y.data<float>(), 1000, 4.0f);
    const std::uint64_t copied = memory_counters().copied;
    const Tensor sum = each("x, y", "x[i] + y[i]")(x, y);
    EXPECT_EQ(memory_counters().copied, copied);
    EXPECT_TRUE(is_all(sum, 7));
    // What stands beside it in the pool is its own.
    EXPECT_TRUE(is_all(each("x, y", "x[i] - y[i]")(x.slice(0, 10, 20), y.slice(0, 500, 510)), -1));
    EXPECT_TRUE(is_all(x, 3) && is_all(y, 4));
}

TEST_P(DevicePools, GiveNoMoreThanTheirSizeAndItBack) {
    const std::size_t before = memory_counters(device()).live;
    {
        MemoryPool pool(device(), kMiB);
        const Tensor all = pool.allocate({512, 512});
        EXPECT_THROW(pool.allocate({1}), OutOfMemory);
        EXPECT_EQ(pool.counters().free, 0u);
        pool.free(all);
        EXPECT_THROW(each("x", "x[i]")(all.reshape({512 * 512})), ValueError);
        EXPECT_EQ(pool.allocate({256, 1024}).bytes(), kMiB);
    }
    EXPECT_EQ(memory_counters(device()).live, before);
    try {
        MemoryPool(device(), SIZE_MAX / 2);
        ADD_FAILURE() << "no device has so much";
    } catch (const OutOfMemory& error) {
        EXPECT_NE(std::string(error.what()).find(device().id()), std::string::npos) << error.what();
    }
}

TEST_P(DevicePools, GiveTensorsOfSeveralAllocationsOfTheDevice) {
    const std::size_t before = memory_counters(device()).live;
    {
        MemoryPool pool(device(), kMiB);
        // What does not fit has the pool give back the one that it began with.
        EXPECT_THROW(pool.allocate({2 * kMiB}), OutOfMemory);
        Tensor x = pool.allocate({1 << 17}), y = pool.allocate({1 << 17});
        std::fill_n(x.data<float>(), 1 << 17, 5.0f);
        std::fill_n(y.data<float>(), 1 << 17, 6.0f);
        EXPECT_TRUE(is_all(each("x, y", "y[i] - x[i]")(x, y), 1));
    }
    EXPECT_EQ(memory_counters(device()).live, before);
}

TEST_P(DevicePools, HandMemoryOutAgainWhileLaunchesReadItAndTheHostWaitsForThem) {
    constexpr std::int64_t kLong = 1 << 18;
    const Kernel kernel = slow(), next = each("x", "x[i] + 1.0");
    MemoryPool pool(device(), kLong * sizeof(float));
    for (int round = 0; round < 6; ++round) {
        Tensor x = pool.allocate({kLong});
        std::fill_n(x.data<float>(), kLong, float(round));
        const Tensor first = kernel(x);
        pool.free(x);
        // The same memory, written while the launch may still read it.
        Tensor again = pool.allocate({kLong});
        std::fill_n(again.data<float>(), kLong, 100.0f);
        EXPECT_TRUE(is_all(next(again), 101)) << round;
        EXPECT_TRUE(is_all(first, float(round))) << round;
        pool.reset();
        EXPECT_EQ(pool.counters().live, 0u);
    }
}

}  // namespace
}  // namespace quern
