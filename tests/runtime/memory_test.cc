#include "quern/memory.h"

#include <gtest/gtest.h>

#include "quern/kernel.h"

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
