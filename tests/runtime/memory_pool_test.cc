#include "quern/memory_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "quern/async.h"
#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "tests/address_space.h"
#include "tests/during_launch.h"
#include "tests/sanitized.h"

namespace quern {
namespace memory_pool_test {

constexpr std::size_t kMiB = 1 << 20;

template <class F>
std::string message_of(F f) {
    try {
        f();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

bool says(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

TEST(MemoryPools, GiveNoMoreThanTheirSize) {
    MemoryPool pool(Device("interpreter"), 4 * kMiB);
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) tensors.push_back(pool.allocate({512, 512}));
    EXPECT_EQ(pool.counters().live, 4 * kMiB);
    EXPECT_EQ(pool.counters().free, 0u);
    const std::string message = message_of([&] { pool.allocate({1}); });
    EXPECT_TRUE(says(message, "E0613")) << message;
    EXPECT_TRUE(says(message, "room for 4 bytes, got 0 free, the largest block 0")) << message;
    tensors.erase(tensors.begin() + 1);
    EXPECT_TRUE(says(message_of([&] {
                         pool.allocate({1024, 512});
                     }),
                     "room for 2097152 bytes, got 1048576 free, the largest block 1048576"));
    try {
        pool.allocate({1024, 512});
        ADD_FAILURE() << "2 MiB of 1";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.requested(), 2 * kMiB);
        EXPECT_EQ(error.free(), kMiB);
        EXPECT_EQ(error.largest_block(), kMiB);
    }
    EXPECT_EQ(pool.allocate({512, 512}).bytes(), kMiB);
    EXPECT_THROW(pool.allocate({-1}), ShapeError);
    EXPECT_THROW(pool.allocate({std::int64_t(1) << 61, 8}), ShapeError);
    EXPECT_THROW(MemoryPool(Device("interpreter"), 0), ValueError);
    EXPECT_THROW(MemoryPool(Device("interpreter"), SIZE_MAX / 2), OutOfMemory);
}

/// Whether every bit is 1.
bool is_unset(const Tensor& tensor) {
    const auto* const bytes = static_cast<const unsigned char*>(tensor.data());
    return std::all_of(bytes, bytes + tensor.bytes(), [](unsigned char b) { return b == 0xFF; });
}

TEST(UnsetMemory, HasEveryBitWhereTheEnvironmentAsksForItWhoeverHadItBefore) {
    const char* fill = std::getenv("QUERN_FILL");
    if (!fill || std::string(fill) != "nan") GTEST_SKIP() << "QUERN_FILL is not nan";
    const Device device("interpreter");
    for (const DType dtype : {DType::Float32, DType::Float16, DType::Int64, DType::Bool}) {
        SCOPED_TRACE(to_string(dtype));
        for (const std::int64_t count : {1, 1000, 300000}) {
            EXPECT_TRUE(is_unset(Tensor::empty({count}, dtype, device)));
            EXPECT_TRUE(is_unset(Tensor::pinned({count % 3000}, dtype, device)));
            EXPECT_FALSE(is_unset(Tensor({count}, dtype, device))) << "what is zero stays so";
        }
        MemoryPool pool(device, kMiB);
        for (int round = 0; round < 2; ++round) {
            Tensor tensor = pool.allocate({1000}, dtype);
            EXPECT_TRUE(is_unset(tensor));
            std::memset(tensor.data(), round, tensor.bytes());
            pool.free(tensor);
        }
        Tensor kept = pool.allocate({1000}, dtype);
        std::memset(kept.data(), 0, kept.bytes());
        pool.reset();
        EXPECT_TRUE(is_unset(pool.allocate({1000}, dtype)));
    }
}

TEST(MemoryPools, GiveAlignedTensorsOfEveryDtypeThatMayBeEmpty) {
    MemoryPool pool(Device("interpreter"), kMiB);
    std::vector<Tensor> tensors;
    for (const DType dtype : {DType::Bool, DType::Int8, DType::Float16, DType::Float32,
                              DType::Float64, DType::UInt64, DType::Float8E4M3}) {
        for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{257}, Shape{3, 5}}) {
            tensors.push_back(pool.allocate(shape, dtype));
            EXPECT_EQ(tensors.back().shape(), shape);
            EXPECT_EQ(tensors.back().dtype(), dtype);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors.back().data()) % 256, 0u);
        }
    }
}

TEST(MemoryPools, AreOnePoolWithWhatTheyWereMovedTo) {
    MemoryPool pool(Device("cpu"), 1024);
    MemoryPool moved = std::move(pool);
    EXPECT_EQ(pool, moved);
    EXPECT_TRUE(moved.owns(pool.allocate({4})));
}

TEST(MemoryPools, TakeMemoryBackOnce) {
    MemoryPool pool(Device("interpreter"), kMiB), other(Device("interpreter"), kMiB);
    const Tensor a = pool.allocate({4}), b = pool.allocate({4});
    const Tensor view = a.slice(0, 1, 3);
    EXPECT_TRUE(a.is_alive());
    EXPECT_TRUE(says(message_of([&] { other.free(a); }), "E0616"));
    EXPECT_TRUE(says(message_of([&] { pool.free(Tensor({4})); }), "E0616"));
    pool.free(a);
    EXPECT_FALSE(a.is_alive());
    EXPECT_FALSE(view.is_alive());
    EXPECT_TRUE(b.is_alive());
    EXPECT_TRUE(says(message_of([&] { pool.free(a); }), "E0615"));
    EXPECT_TRUE(says(message_of([&] { pool.free(view); }), "E0615"));
    pool.reset();
    EXPECT_FALSE(b.is_alive());
    EXPECT_TRUE(says(message_of([&] { pool.free(b); }), "E0615"));
    EXPECT_EQ(pool.counters().live, 0u);
    EXPECT_EQ(pool.counters().largest, kMiB);
    EXPECT_EQ(pool.allocate({512, 512}).bytes(), kMiB) << "all of it is there again";
}

TEST(MemoryPools, KernelsRefuseTensorsWithoutMemory) {
    MemoryPool pool(Device("interpreter"), kMiB);
    const Tensor x = pool.allocate({4});
    for (const DeviceInfo& info : devices()) {
        const Kernel kernel =
            Kernel("compute(x) { @kernel elementwise; for i in 0..len { out[i] = x[i] } }")
                .on(Device(info.id));
        MemoryPool each(Device(info.id), kMiB);
        const Tensor y = each.allocate({4});
        EXPECT_EQ(kernel(y).shape(), Shape{4});
        each.free(y);
        EXPECT_TRUE(says(message_of([&] { kernel(y); }), "E0614")) << info.id;
        EXPECT_TRUE(says(message_of([&] { kernel.async()(y).get(); }), "E0614")) << info.id;
        EXPECT_EQ(kernel(x).shape(), Shape{4});
    }
}

/// Runs for tens of milliseconds on every device.
const char* const kLong = R"(compute(x) {
    @kernel custom
    for i in 0..n:
        var state = x[i]
        for k in 0..3000000:
            state = state * 0.5 + x[i]
        out[i] = state
})";

TEST(MemoryPools, HandMemoryOutAgainWhenTheWorkThatReadsItHasEnded) {
    for (const DeviceInfo& info : devices()) {
        SCOPED_TRACE(info.id);
        // Its loops are longer than llvmpipe's may be.
        if (info.type == "vulkan") continue;
        const Kernel kernel = Kernel(kLong).on(Device(info.id));
        for (const bool resets : {false, true}) {
            MemoryPool pool(Device(info.id), 256);
            Tensor x = pool.allocate({4});
            for (int i = 0; i < 4; ++i) x.data<float>()[i] = 1;
            const Future<Tensor> first = kernel.async()(x), second = kernel.async()(x);
            if (resets) {
                pool.reset();
            } else {
                pool.free(x);
            }
            EXPECT_FALSE(x.is_alive());
            if (!first.is_ready() || !second.is_ready()) {
                EXPECT_TRUE(says(message_of([&] { pool.allocate({4}); }), "E0613"));
            }
            EXPECT_TRUE(says(message_of([&] { kernel.async()(x).get(); }), "E0614"));
            EXPECT_TRUE(says(message_of([&] { pool.free(x); }), "E0615"));
            EXPECT_EQ(first.get().values(), (std::vector<double>{2, 2, 2, 2}));
            EXPECT_EQ(second.get().values(), (std::vector<double>{2, 2, 2, 2}));
            EXPECT_EQ(pool.counters().live, 0u);
            EXPECT_EQ(pool.allocate({64}).bytes(), 256u);
        }
    }
}

TEST(MemoryPools, HandMemoryOutAgainWhenTheLaunchThatUsesItHasEnded) {
    constexpr std::int64_t kMany = 1 << 16;
    for (const DeviceInfo& info : devices()) {
        SCOPED_TRACE(info.id);
        if (info.type == "vulkan") continue;
        const Device device(info.id);
        const Kernel kernel =
            Kernel("compute(x) { @kernel elementwise; for i in 0..len: out[i] = x[i] * 2.0 }")
                .on(device);
        const std::vector<double> expected(kMany, 2);
        const auto expect_held = [&](const auto& launch) {
            MemoryPool pool(device, kMany * 4);
            Tensor x = pool.allocate({kMany});
            std::fill_n(x.data<float>(), kMany, 1.0f);
            const auto free = [&] {
                pool.free(x);
                EXPECT_TRUE(says(message_of([&] { pool.allocate({kMany}); }), "E0613"));
            };
            const DuringLaunch during(free);
            EXPECT_EQ(launch(x).values(), expected);
            EXPECT_TRUE(during.has_happened());
            EXPECT_EQ(pool.allocate({kMany}).bytes(), std::size_t(kMany * 4));
        };
        for (int again = 0; again < 2; ++again) {
            expect_held([&](const Tensor& x) { return kernel(x); });
            expect_held([&](const Tensor& x) { return kernel.run(std::vector{x}); });
            expect_held([&](const Tensor& x) { return kernel.async()(x).get(); });
            expect_held([&](const Tensor& x) {
                Tensor result({kMany}, DType::Float32, device);
                kernel.into(result, x);
                return result;
            });
        }
        // Of the result too.
        MemoryPool pool(device, kMany * 4);
        Tensor result = pool.allocate({kMany});
        const Tensor x({kMany}, DType::Float32, device);
        const DuringLaunch during([&] {
            pool.free(result);
            EXPECT_TRUE(says(message_of([&] { pool.allocate({kMany}); }), "E0613"));
        });
        kernel.into(result, x);
        EXPECT_TRUE(during.has_happened());
    }
}

TEST(MemoryPools, AreResetWhileOthersAllocate) {
    MemoryPool pool(Device("interpreter"), 16 * kMiB);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 40000; ++i) pool.allocate({64});
        });
    }
    for (int i = 0; i < 40000; ++i) pool.reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.counters().live, 0u);
}

TEST(MemoryPools, GiveMemoryBackAfterWorkThatFails) {
    const Kernel kernel("compute(x, at) { @kernel custom; for i in 0..n { out[i] = x[at[i]] } }");
    MemoryPool pool(Device(), 512);
    Tensor x = pool.allocate({4});
    for (int i = 0; i < 4; ++i) x.data<float>()[i] = 1;
    const Tensor at = Tensor::from<std::int64_t>({1}, {9});
    const Future<Tensor> failing = kernel.async()(x, at);
    pool.free(x);
    EXPECT_TRUE(says(message_of([&] { failing.get(); }), "E0507"));
    EXPECT_EQ(pool.counters().live, 0u);
}

TEST(MemoryPools, LiveAsLongAsTheirTensors) {
    Tensor x;
    {
        MemoryPool pool(Device("interpreter"), kMiB);
        x = pool.allocate({4});
    }
    for (int i = 0; i < 4; ++i) x.data<float>()[i] = float(i);
    EXPECT_EQ(x.values(), (std::vector<double>{0, 1, 2, 3}));
}

#ifdef __linux__
/// 0 if what tensors' pool keeps for later makes room for a pool where the system has none, and a
/// larger one is told what there is.
int ask_beyond_the_system() {
    static_cast<void>(Tensor({64 << 20}, DType::Int8, Device("interpreter")));
    if (memory_counters().held < 64 * kMiB) return 1;
    leave_addresses(32 * kMiB);
    const std::string message =
        message_of([] { MemoryPool(Device("interpreter"), std::size_t{1} << 40); });
    if (!says(message, "[memory_pool] expected room for 1099511627776 bytes")) return 2;
    if (!says(message, " bytes are free, ") || !says(message, " in one block")) return 3;
    static_cast<void>(Tensor({64 << 20}, DType::Int8, Device("interpreter")));
    return message_of([] { MemoryPool(Device("interpreter"), 64 * kMiB); }) == "no error" ? 0 : 4;
}

TEST(MemoryPools, TakeWhatTensorsKeepForLaterWhereTheSystemHasNoMore) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer has no limit of addresses";
    // In a process of its own: there is no way back to more.
    EXPECT_EXIT(std::_Exit(ask_beyond_the_system()), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(MemoryPools, ServeManyThreads) {
    MemoryPool pool(Device("interpreter"), 16 * kMiB);
    std::vector<std::thread> threads;
    std::atomic<int> refused{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random{std::uint32_t(t)};
            std::vector<Tensor> held;
            for (int i = 0; i < 2000; ++i) {
                try {
                    held.push_back(pool.allocate({std::int64_t(random() % 100000)}));
                } catch (const OutOfMemory&) {
                    ++refused;
                }
                if (random() % 3 != 0 || held.empty()) continue;
                const std::size_t which = random() % held.size();
                if (random() % 2 == 0) pool.free(held[which]);
                held.erase(held.begin() + std::ptrdiff_t(which));
                if (held.size() > 30) held.clear();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.counters().live, 0u);
    EXPECT_EQ(pool.counters().largest, 16 * kMiB);
}

TEST(MemoryPools, StayWholeWhereARequestIsTooLarge) {
    MemoryPool pool(Device("interpreter"), std::size_t{100} << 20);
    EXPECT_THROW(pool.allocate({(101 << 20) / 4}), OutOfMemory);
    const Tensor small = pool.allocate({256});
    const Tensor large = pool.allocate({(90 << 20) / 4});
    EXPECT_EQ(large.bytes(), std::size_t{90} << 20);
}

}  // namespace memory_pool_test
}  // namespace quern
