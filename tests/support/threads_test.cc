#include "quern/support/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace quern {
namespace {

TEST(ParallelFor, CoversEachIndexOnce) {
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000, 12345}) {
        for (const int threads : {0, 1, 2, 3, 8}) {
            std::vector<int> visits(static_cast<std::size_t>(count));
            EXPECT_TRUE(parallel_for(count, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) ++visits[i];
            }));
            EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << count << " " << threads;
        }
    }
}

TEST(ParallelFor, CallsNothingForNoIndices) {
    const auto never = [](std::int64_t, std::int64_t) { FAIL(); };
    EXPECT_TRUE(parallel_for(0, 4, never));
    EXPECT_TRUE(parallel_for(-1, 4, never));
}

TEST(ParallelFor, WithOneThreadIsOneCallOnTheCaller) {
    int calls = 0;
    parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin, 0);
        EXPECT_EQ(end, 1000);
        ++calls;
    });
    EXPECT_EQ(calls, 1);
}

TEST(ParallelFor, UsesSeveralThreadsAtATime) {
    // Each range waits for the other: with one thread this would never end.
    // Again and again, because a thread that is new finds its work without being woken.
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> arrived{0};
        parallel_for(2, 2, [&](std::int64_t, std::int64_t) {
            ++arrived;
            while (arrived < 2) std::this_thread::yield();
        });
        EXPECT_EQ(arrived, 2);
    }
}

TEST(ParallelFor, NeverUsesMoreThreadsThanAsked) {
    std::atomic<int> inside{0}, most{0};
    parallel_for(200, 8, [](std::int64_t, std::int64_t) {});
    parallel_for(2000, 2, [&](std::int64_t, std::int64_t) {
        const int now = ++inside;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        for (int i = 0; i < 100; ++i) std::this_thread::yield();
        --inside;
    });
    EXPECT_LE(most, 2);
}

TEST(ParallelFor, RunsNestedCallsInline) {
    std::atomic<int> calls{0};
    parallel_for(4, 4, [&](std::int64_t, std::int64_t) {
        const std::thread::id outer = std::this_thread::get_id();
        parallel_for(100, 4, [&](std::int64_t begin, std::int64_t end) {
            EXPECT_EQ(std::this_thread::get_id(), outer);
            EXPECT_EQ(end - begin, 100);
            ++calls;
        });
    });
    EXPECT_EQ(calls, 4);
    std::atomic<int> ranges{0};
    parallel_for(100, 4, [&](std::int64_t, std::int64_t) { ++ranges; });
    EXPECT_GT(ranges, 1) << "a call after a nested one is no longer nested";
}

TEST(ParallelFor, StopsWhenABodyFails) {
    std::atomic<std::int64_t> visited{0};
    const auto fail_at_once = [&](std::int64_t begin, std::int64_t end) {
        visited += end - begin;
        return false;
    };
    EXPECT_FALSE(parallel_for(1'000'000, 4, fail_at_once));
    EXPECT_LT(visited, 500'000);
    EXPECT_FALSE(parallel_for(10, 1, fail_at_once));
    EXPECT_TRUE(parallel_for(10, 2, [](std::int64_t, std::int64_t) { return true; }));
}

TEST(ParallelFor, ThrowsWhatABodyThrowsAndWorksOn) {
    const auto throws = [](std::int64_t, std::int64_t end) {
        if (end == 1000) throw std::runtime_error("the last range");
    };
    for (const int threads : {1, 4}) {
        EXPECT_THROW(parallel_for(1000, threads, throws), std::runtime_error);
        std::atomic<std::int64_t> sum{0};
        parallel_for(1000, threads, [&](std::int64_t b, std::int64_t e) { sum += e - b; });
        EXPECT_EQ(sum, 1000);
    }
}

TEST(ParallelFor, MayBeCalledFromSeveralThreads) {
    std::vector<std::thread> callers;
    std::atomic<std::int64_t> sum{0};
    for (int t = 0; t < 4; ++t) {
        callers.emplace_back([&] {
            for (int round = 0; round < 50; ++round) {
                parallel_for(500, 3, [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) sum += i;
                });
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(sum, 4ll * 50 * 500 * 499 / 2);
}

TEST(ParallelFor, HandsResultsOfItsThreadsToTheCaller) {
    // Plain writes, read by the caller: the thread sanitizer sees whether the end synchronises.
    for (int round = 0; round < 200; ++round) {
        std::vector<std::int64_t> squares(64);
        parallel_for(64, 4, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) squares[i] = i * i;
        });
        for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(squares[i], i * i);
    }
}

TEST(HardwareThreads, AreAtLeastOne) { EXPECT_GE(hardware_threads(), 1); }

}  // namespace
}  // namespace quern
