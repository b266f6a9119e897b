#include "quern/memory.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

#include "quern/kernel.h"
#include "quern/memory_pool.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/pinned.h"
#include "tests/address_space.h"
#include "tests/sanitized.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(MemoryCounters, FollowTensors) {
    const MemoryCounters before = memory_counters();
    {
        const Tensor x({1 << 18});
        EXPECT_EQ(memory_counters().live, before.live + kMiB);
        EXPECT_EQ(memory_counters().allocations, before.allocations + 1);
        EXPECT_GE(memory_counters().held, memory_counters().live);
    }
    EXPECT_EQ(memory_counters().live, before.live);
    EXPECT_GE(memory_counters().peak, before.live + kMiB);
    reset_peak_memory();
    EXPECT_EQ(memory_counters().peak, before.live);
    trim_memory();
    EXPECT_LE(memory_counters().held, before.held + kMiB);
}

TEST(MemoryCounters, OfADeviceCpuAreThoseOfTheProcess) {
    const Tensor x({1 << 18}, DType::Float32, Device("interpreter"));
    for (const char* id : {"cpu", "cpu:3", "interpreter"}) {
        EXPECT_EQ(memory_counters(Device(id)).live, memory_counters().live) << id;
    }
}

TEST(MemoryLimit, IsNamedByWhatItRefuses) {
    trim_memory();
    const Device device("interpreter");
    const std::size_t limit = memory_counters().held + 8 * kMiB;
    const std::size_t none = memory_counters().limit;
    EXPECT_EQ(none, std::numeric_limits<std::size_t>::max());
    set_memory_limit(device, limit);
    EXPECT_EQ(memory_counters().limit, limit);
    Tensor kept({1 << 20}, DType::Float32, device);
    try {
        Tensor({16 << 20}, DType::Float32, device);
        ADD_FAILURE() << "64 MiB of 8";
    } catch (const OutOfMemory& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("expected room for 67108864 bytes"), std::string::npos) << what;
        EXPECT_NE(what.find("the limit is " + std::to_string(limit)), std::string::npos) << what;
        EXPECT_EQ(error.requested(), 67108864u);
        const auto counters = memory_counters(device);
        EXPECT_EQ(error.free(), (limit - counters.live) / 256 * 256);
        EXPECT_LE(error.largest_block().value(), error.free().value());
        EXPECT_EQ(what.find("from the system"), std::string::npos) << what;
        const auto largest = std::int64_t(error.largest_block().value());
        EXPECT_THROW(Tensor({largest + 1}, DType::UInt8, device), OutOfMemory);
        EXPECT_EQ(Tensor({largest}, DType::UInt8, device).bytes(), std::size_t(largest));
        EXPECT_NE(what.find("; " + std::to_string(*error.free()) + " bytes are free, " +
                            std::to_string(*error.largest_block()) + " in one block"),
                  std::string::npos)
            << what;
    }
    EXPECT_EQ(MemoryPool(device, 64 * kMiB).counters().size, 64 * kMiB) << "has its own limit";
    const Kernel outer(
        "compute(x) {\n@kernel custom\nfor i in 0..n, j in 0..n: out[i, j] = x[i] + x[j]\n}");
    const Tensor x({4096}, DType::Float32, device);
    EXPECT_THROW(static_cast<void>(outer.on(device).run(std::vector{x}, {})), OutOfMemory);
    set_memory_limit(device, none);
    EXPECT_EQ(Tensor({16 << 20}, DType::Float32, device).bytes(), std::size_t{64} << 20);
    EXPECT_EQ(outer.on(device).run(std::vector{x}, {}).shape(), (Shape{4096, 4096}));
    EXPECT_EQ(memory_counters(device).limit, none);
}

TEST(MemoryLimit, HoldsForWhatThePoolHasAlready) {
    const Device device("interpreter");
    const std::size_t none = memory_counters().limit;
    Tensor kept({1 << 15}, DType::Float32, device);
    EXPECT_GE(memory_counters().held - memory_counters().live, 16 * kMiB) << "of a slab";
    const std::size_t limit = memory_counters().live + kMiB;
    set_memory_limit(device, limit);
    EXPECT_THROW(Tensor({4 << 20}, DType::Float32, device), OutOfMemory);
    EXPECT_EQ(Tensor({1 << 17}, DType::Float32, device).bytes(), kMiB / 2);
    set_memory_limit(device, 0);
    EXPECT_THROW(Tensor({1 << 17}, DType::Float32, device), OutOfMemory);
    set_memory_limit(device, none);
    EXPECT_EQ(Tensor({4 << 20}, DType::Float32, device).bytes(), 16 * kMiB);
}

TEST(PinnedMemory, IsTheHostsAndCountedWhileItIsHeld) {
    const std::size_t before = memory_counters().pinned;
    const std::size_t live = memory_counters().live;
    {
        const Tensor x = Tensor::pinned({3, 1000}, DType::Int16, Device("interpreter"));
        EXPECT_TRUE(x.is_pinned());
        EXPECT_TRUE(x.slice(0, 1, 2).is_pinned()) << "a view of it";
        EXPECT_FALSE(x.clone().is_pinned());
        EXPECT_EQ(x.shape(), (Shape{3, 1000}));
        EXPECT_EQ(memory_counters().pinned, before + 6000);
        EXPECT_EQ(memory_counters().live, live) << "not of the pool";
    }
    EXPECT_EQ(memory_counters().pinned, before);
    EXPECT_FALSE(Tensor({2}).is_pinned());
    EXPECT_TRUE(Tensor::pinned({0}, DType::Float32, Device("interpreter")).is_pinned());
}

#ifdef __linux__
/// What /proc says of the mapping that an address is in, in KiB.
int locked_kib(const void* address) {
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    bool is_here = false;
    while (std::getline(maps, line)) {
        unsigned long begin = 0, end = 0;
        int kib = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
            const auto at = reinterpret_cast<std::uintptr_t>(address);
            is_here = begin <= at && at < end;
        } else if (is_here && std::sscanf(line.c_str(), "Locked: %d kB", &kib) == 1) {
            return kib;
        }
    }
    return -1;
}

TEST(PinnedMemory, IsLockedForTheSystem) {
    if (kSanitized) GTEST_SKIP() << "sanitizers let mlock() do nothing";
    if (pinned_limit().value_or(1 << 20) < 1 << 20) GTEST_SKIP() << "fewer than 1 MiB are allowed";
    const Tensor x = Tensor::pinned({1 << 18}, DType::Float32, Device("interpreter"));
    const Tensor y({1 << 18}, DType::Float32, Device("interpreter"));
    EXPECT_GE(locked_kib(x.data()), 1024);
    EXPECT_EQ(locked_kib(y.data()), 0);
}

/// 0 if memory that tensors' pool keeps for later is given back where pinned memory needs it.
int pin_what_is_kept() {
    trim_memory();
    const std::size_t before = memory_counters().held;
    // Of no slab that has something of others, which would stay.
    static_cast<void>(Tensor({64 << 20}, DType::Int8, Device("interpreter")));
    if (memory_counters().held < before + (64 << 20)) return 1;
    leave_addresses(2 << 20);
    return Tensor::pinned({4 << 20}, DType::Int8, Device("interpreter")).is_pinned() ? 0 : 2;
}

/// 0 if addresses that end are not taken for the limit of what may be pinned.
int pin_without_addresses() {
    trim_memory();
    leave_addresses(2 << 20);
    try {
        Tensor::pinned({4 << 20}, DType::Int8, Device("interpreter"));
    } catch (const OutOfMemory& error) {
        const std::string what = error.what();
        const bool is_limit = what.find("RLIMIT_MEMLOCK") != std::string::npos;
        return what.find("expected room for 4194304 bytes") == std::string::npos || is_limit;
    }
    return 2;
}

TEST(PinnedMemory, TakesWhatTensorsKeepForLaterWhereTheSystemHasNoMore) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer has no limit of addresses";
    if (pinned_limit().value_or(4 << 20) < 4 << 20) GTEST_SKIP() << "4 MiB are not allowed";
    EXPECT_EXIT(std::_Exit(pin_what_is_kept()), ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(std::_Exit(pin_without_addresses()), ::testing::ExitedWithCode(0), "");
}

/// 0 if the process may hold 1 MiB and is told so when it asks for 4.
int ask_for_too_much() {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
    // A privileged process has no limit.
    if (::getuid() == 0 && ::setuid(65534) != 0) return 2;
    const Tensor fits = Tensor::pinned({1 << 16}, DType::Float32, Device("interpreter"));
    try {
        Tensor::pinned({1 << 20}, DType::Float32, Device("interpreter"));
    } catch (const OutOfMemory& error) {
        const std::string expected =
            "[pinned] expected room for 4194304 bytes that stay where they are, got none from the "
            "system; the process may hold 1048576 (RLIMIT_MEMLOCK) and holds 262144; 786432 bytes "
            "are free, 786432 in one block";
        const bool has_numbers = error.requested() == 4194304u && error.free() == 786432u &&
                                 error.largest_block() == 786432u;
        return error.what() == expected && has_numbers ? 0 : 1;
    }
    return 3;
}

TEST(PinnedMemory, BeyondTheLimitOfTheProcessIsRefusedWithTheLimit) {
    if (kSanitized) GTEST_SKIP() << "sanitizers let mlock() do nothing";
    if (pinned_limit().value_or(1 << 20) < 1 << 20) GTEST_SKIP() << "fewer than 1 MiB are allowed";
    // In a process of its own: there is no way back to more.
    EXPECT_EXIT(std::_Exit(ask_for_too_much()), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(PinnedMemory, IsRefusedForDevicesWithMemoryOfTheirOwn) {
    for (const DeviceInfo& info : devices()) {
        if (has_host_memory(info.id)) continue;
        EXPECT_THROWS(DeviceError, "E0612", Tensor::pinned({4}, DType::Float32, Device(info.id)));
    }
}

TEST(MemoryCounters, ShowThatFlashAttentionTakesNoMoreMemoryForLongerSequences) {
    const Kernel kernel(R"(compute(Q, K, V) {
    @kernel flash_attention
    @tile(block_q=64, block_kv=64)
    for q in 0..seq step block_q:
        var m = -inf
        var l = 0.0
        var o = zeros(block_q, width)
        for kv in 0..seq step block_kv:
            let S = Q[q:q+block_q] @ transpose(K[kv:kv+block_kv])
            let m_new = max(m, row_max(S))
            l = exp(m - m_new) * l + row_sum(exp(S - m_new))
            o = exp(m - m_new) * o + exp(S - m_new) @ V[kv:kv+block_kv]
            m = m_new
        out[q:q+block_q] = o / l
})");
    const auto extra = [&](std::int64_t seq) {
        const Tensor x({seq, 64});
        kernel(x, x, x);  // Threads keep arrays that they have taken once.
        reset_peak_memory();
        const std::size_t before = memory_counters().live;
        const Tensor result = kernel(x, x, x);
        return memory_counters().peak - before - result.bytes();
    };
    // A matrix of seq by seq numbers would take 1 and 16 MiB.
    EXPECT_LE(extra(512), kMiB / 4);
    EXPECT_LE(extra(2048), extra(512) + kMiB / 4);
}

}  // namespace
}  // namespace quern
