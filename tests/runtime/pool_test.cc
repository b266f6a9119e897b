#include "quern/runtime/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "quern/tensor.h"

namespace quern {
namespace pool_test {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Counts what it has given, and gives at most `room`.
class CountingHeap final : public Heap {
public:
    explicit CountingHeap(std::size_t room) : room_(room) {}
    ~CountingHeap() override { EXPECT_EQ(given_, 0u); }

    std::byte* take(std::size_t bytes) noexcept override {
        if (given_ + bytes > room_) return nullptr;
        std::byte* const memory = host_heap().take(bytes);
        given_ += bytes;
        return memory;
    }

    void give_back(std::byte* memory, std::size_t bytes) noexcept override {
        given_ -= bytes;
        host_heap().give_back(memory, bytes);
    }

    std::size_t given() const { return given_; }

private:
    std::size_t room_;
    std::size_t given_ = 0;
};

TEST(Pools, GiveBlocksThatAreAlignedAndDoNotOverlap) {
    CountingHeap heap(512 * kMiB);
    Pool pool(heap);
    std::mt19937_64 random(1);
    std::map<std::byte*, Pool::Block*> live;
    std::size_t bytes = 0, peak = 0;
    for (int round = 0; round < 20000; ++round) {
        if (random() % 5 < 3 && bytes < 200 * kMiB) {
            const std::size_t size = random() >> (64 - 1 - random() % 22);
            Pool::Block* const block = pool.allocate(size);
            ASSERT_NE(block, nullptr);
            ASSERT_GE(block->size(), size);
            ASSERT_LT(block->size(), size + 2 * Pool::kAlignment);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % Pool::kAlignment, 0u);
            const auto after = live.lower_bound(block->data());
            if (after != live.end()) {
                ASSERT_LE(block->data() + block->size(), after->first);
            }
            if (after != live.begin()) {
                const auto before = std::prev(after);
                ASSERT_LE(before->first + before->second->size(), block->data());
            }
            live[block->data()] = block;
            bytes += block->size();
            peak = std::max(peak, bytes);
        } else if (!live.empty()) {
            const auto any = std::next(live.begin(), std::ptrdiff_t(random() % live.size()));
            bytes -= any->second->size();
            pool.free(any->second);
            live.erase(any);
        }
        ASSERT_EQ(pool.counters().live, bytes);
    }
    EXPECT_EQ(pool.counters().peak, peak);
    EXPECT_EQ(pool.counters().held, heap.given());
    // What lies free between blocks stays bounded.
    EXPECT_LT(pool.counters().held, 2 * peak + 64 * kMiB);
    for (const auto& [data, block] : live) pool.free(block);
    pool.trim();
    EXPECT_EQ(heap.given(), 0u);
}

TEST(Pools, JoinFreeBlocksInAnyOrderOfFreeing) {
    std::vector<int> order = {0, 1, 2, 3};
    do {
        CountingHeap heap(64 * kMiB);
        Pool pool(heap, 32 * kMiB);
        std::vector<Pool::Block*> blocks;
        for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(8 * kMiB));
        EXPECT_EQ(pool.allocate(1), nullptr);
        for (const int i : order) pool.free(blocks[std::size_t(i)]);
        EXPECT_EQ(pool.counters().largest, 32 * kMiB);
        Pool::Block* const all = pool.allocate(32 * kMiB);
        ASSERT_NE(all, nullptr);
        pool.free(all);
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Pools, GiveIdleSlabsBackBeforeTheyRefuse) {
    CountingHeap heap(100 * kMiB);
    Pool pool(heap);
    std::vector<Pool::Block*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(pool.allocate(32 * kMiB));
    for (Pool::Block* block : blocks) pool.free(block);
    EXPECT_EQ(heap.given(), 96 * kMiB);
    Pool::Block* const large = pool.allocate(90 * kMiB);
    ASSERT_NE(large, nullptr);
    EXPECT_EQ(pool.allocate(32 * kMiB), nullptr);
    pool.free(large);
}

TEST(Pools, TakeNoMoreThanTheirCap) {
    CountingHeap heap(512 * kMiB);
    Pool pool(heap, 40 * kMiB);
    Pool::Block* const first = pool.allocate(20 * kMiB);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(pool.allocate(21 * kMiB), nullptr);
    Pool::Block* const second = pool.allocate(8 * kMiB);
    ASSERT_NE(second, nullptr);
    EXPECT_LE(heap.given(), 40 * kMiB);
    pool.free(first);
    pool.free(second);
    Pool::Block* const all = pool.allocate(40 * kMiB);
    ASSERT_NE(all, nullptr) << "a cap that is free again is whole";
    pool.free(all);
    EXPECT_EQ(pool.allocate(std::numeric_limits<std::size_t>::max()), nullptr);
}

TEST(Pools, KeepNoMoreIdleThanTheyAreTold) {
    CountingHeap heap(512 * kMiB);
    Pool pool(heap, 512 * kMiB, 64 * kMiB);
    std::vector<Pool::Block*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(32 * kMiB));
    for (Pool::Block* block : blocks) pool.free(block);
    EXPECT_EQ(heap.given(), 64 * kMiB);
}

TEST(Pools, KnowWhichBlocksNobodyWrote) {
    CountingHeap heap(64 * kMiB);
    Pool pool(heap);
    Pool::Block* const first = pool.allocate(kMiB);
    Pool::Block* const second = pool.allocate(kMiB);
    EXPECT_TRUE(first->is_zero());
    EXPECT_TRUE(second->is_zero());
    EXPECT_EQ(std::count(first->data(), first->data() + kMiB, std::byte{0}), std::ptrdiff_t(kMiB));
    pool.free(first);
    Pool::Block* const again = pool.allocate(kMiB);
    EXPECT_FALSE(again->is_zero());
    pool.free(again);
    pool.free(second);
    Pool::Block* const joined = pool.allocate(2 * kMiB);
    EXPECT_FALSE(joined->is_zero());
    pool.free(joined);
}

TEST(Pools, AreUsedFromSeveralThreads) {
    CountingHeap heap(512 * kMiB);
    Pool pool(heap);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&pool, t] {
            std::mt19937 random(t);
            std::vector<Pool::Block*> blocks;
            for (int round = 0; round < 2000; ++round) {
                if (blocks.size() < 20) {
                    Pool::Block* const block = pool.allocate(random() % 100000 + 1);
                    std::memset(block->data(), int(t), block->size());
                    blocks.push_back(block);
                } else {
                    Pool::Block* const block = blocks[random() % blocks.size()];
                    for (std::size_t i = 0; i < block->size(); i += 997) {
                        ASSERT_EQ(block->data()[i], std::byte(t));
                    }
                    pool.free(block);
                    std::erase(blocks, block);
                }
            }
            for (Pool::Block* block : blocks) pool.free(block);
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.counters().live, 0u);
}

TEST(Pools, KeepTheLimitThatTheyAreGivenLater) {
    CountingHeap heap(512 * kMiB);
    Pool pool(heap);
    Pool::Block* const block = pool.allocate(40 * kMiB);
    Pool::Block* const idle = pool.allocate(40 * kMiB);
    pool.free(idle);
    pool.set_cap(32 * kMiB);
    EXPECT_EQ(pool.counters().cap, 32 * kMiB);
    EXPECT_EQ(pool.counters().live, 40 * kMiB) << "what is in use stays";
    EXPECT_LE(heap.given(), 64 * kMiB) << "what nothing uses does not";
    EXPECT_EQ(pool.allocate(64 * kMiB), nullptr);
    pool.free(block);
    EXPECT_EQ(pool.allocate(33 * kMiB), nullptr);
    Pool::Block* const within = pool.allocate(31 * kMiB);
    ASSERT_NE(within, nullptr);
    EXPECT_LE(heap.given(), 32 * kMiB);
    pool.set_cap(64 * kMiB);
    Pool::Block* const more = pool.allocate(20 * kMiB);
    EXPECT_NE(more, nullptr);
    pool.free(more);
    pool.free(within);
}

TEST(PooledTensors, AreZeroAlsoInMemoryThatWasWritten) {
    const Shape shape{1 << 18};
    for (int round = 0; round < 3; ++round) {
        Tensor tensor(shape);
        const float* values = tensor.data<float>();
        EXPECT_EQ(std::count(values, values + (1 << 18), 0.0f), 1 << 18);
        std::fill_n(tensor.data<float>(), 1 << 18, 3.0f);
    }
}

TEST(PooledTensors, AreCounted) {
    const std::size_t before = host_pool().counters().live;
    {
        const Tensor tensor({1 << 20});
        EXPECT_EQ(host_pool().counters().live, before + 4 * kMiB);
    }
    EXPECT_EQ(host_pool().counters().live, before);
    const Tensor small({16});
    EXPECT_EQ(host_pool().counters().live, before);
}

}  // namespace pool_test
}  // namespace quern
