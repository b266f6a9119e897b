#include "quern/support/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "quern/error.h"
#include "tests/sanitized.h"
#include "tests/tensor_test.h"

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

std::atomic<std::int64_t> covered{0};
void cover(std::int64_t begin, std::int64_t end) { covered += end - begin; }

TEST(ParallelFor, TakesPlainFunctionsToo) {
    EXPECT_TRUE(parallel_for(100, 3, cover));
    EXPECT_EQ(covered, 100);
}

TEST(ParallelFor, HasThreadsOfItsOwnInAChildOfFork) {
    if (kSanitized) GTEST_SKIP() << "the thread sanitizer ends a child that begins threads";
    parallel_for(2, 2, [](std::int64_t, std::int64_t) {});
    EXPECT_EXIT(
        {
            // More than the parent had, each of which waits for the others.
            std::atomic<int> arrived{0};
            parallel_for(4, 4, [&](std::int64_t, std::int64_t) {
                ++arrived;
                while (arrived < 4) std::this_thread::yield();
            });
            std::_Exit(arrived == 4 ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST(Threads, AreAsManyAsSetOrAsTheHardwareHas) {
    EXPECT_EQ(num_threads(), hardware_threads());
    set_num_threads(3);
    EXPECT_EQ(num_threads(), 3);
    EXPECT_THROWS(ValueError, "[set_num_threads] expected threads >= 0, got -1",
                  set_num_threads(-1));
    EXPECT_EQ(num_threads(), 3);
    set_num_threads(0);
    EXPECT_EQ(num_threads(), hardware_threads());
}

/// A pool as a program may have it: its own threads for every call.
class OwnThreads : public ThreadPool {
public:
    void run(int count, void (*task)(void* context, int i), void* context) noexcept override {
        ++calls;
        std::vector<std::thread> threads;
        for (int i = 0; i < count; ++i) {
            threads.emplace_back([=, this] {
                task(context, i);
                ++tasks;
            });
        }
        for (std::thread& each : threads) each.join();
    }

    std::atomic<int> calls{0};
    std::atomic<int> tasks{0};
};

/// As a pool with no thread to spare: the caller does one task after the other.
class OnlyTheCaller : public ThreadPool {
public:
    void run(int count, void (*task)(void* context, int i), void* context) noexcept override {
        for (int i = 0; i < count; ++i) task(context, i);
    }
};

/// Against its contract.
class DoesNothing : public ThreadPool {
public:
    void run(int, void (*)(void* context, int i), void*) noexcept override {}
};

class SharedPool : public ::testing::Test {
protected:
    void TearDown() override { set_thread_pool(nullptr); }

    static void expect_each_index_once() {
        for (const std::int64_t count : {1, 2, 7, 12345}) {
            std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
            EXPECT_TRUE(parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) ++visits[std::size_t(i)];
            }));
            for (const auto& each : visits) EXPECT_EQ(each, 1) << count;
        }
    }
};

TEST_F(SharedPool, DoesWhatOwnThreadsDo) {
    OwnThreads own;
    OnlyTheCaller caller;
    DoesNothing nothing;
    for (ThreadPool* pool : {static_cast<ThreadPool*>(&own), static_cast<ThreadPool*>(&caller),
                             static_cast<ThreadPool*>(&nothing)}) {
        set_thread_pool(pool);
        expect_each_index_once();
    }
    EXPECT_EQ(own.calls, 3) << "a range of one is the caller's";
    EXPECT_EQ(own.tasks, 8);
}

TEST_F(SharedPool, IsLeftAgain) {
    OwnThreads own;
    set_thread_pool(&own);
    set_thread_pool(nullptr);
    expect_each_index_once();
    EXPECT_EQ(own.calls, 0);
}

TEST_F(SharedPool, PassesOnWhatABodyThrows) {
    OwnThreads own;
    set_thread_pool(&own);
    EXPECT_THROW(parallel_for(100, 4,
                              [](std::int64_t begin, std::int64_t) {
                                  if (begin == 0) throw std::runtime_error("first");
                              }),
                 std::runtime_error);
    EXPECT_FALSE(parallel_for(100, 4, [](std::int64_t, std::int64_t) { return false; }));
}

TEST_F(SharedPool, IsCalledFromSeveralThreadsAndNotFromWithinABody) {
    OwnThreads own;
    set_thread_pool(&own);
    std::atomic<int> sum{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
        callers.emplace_back([&] {
            parallel_for(10, 2, [&](std::int64_t begin, std::int64_t end) {
                parallel_for((end - begin) * 100, 2,
                             [&](std::int64_t b, std::int64_t e) { sum += int(e - b); });
            });
        });
    }
    for (std::thread& each : callers) each.join();
    EXPECT_EQ(sum, 4000);
    EXPECT_EQ(own.calls, 4);
}

}  // namespace
}  // namespace quern
