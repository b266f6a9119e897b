#include "quern/future.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "quern/error.h"
#include "quern/stream.h"
#include "quern/threads.h"
#include "tests/sanitized.h"

#if defined(__cpp_impl_coroutine)
#include <coroutine>
#endif

namespace quern {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

/// Work that goes on until the gate is open.
struct Gate {
    std::promise<void> promise;
    std::shared_future<void> opened = promise.get_future().share();

    void open() { promise.set_value(); }

    template <class T>
    Future<T> after(T value) {
        return run_async<T>([opened = opened, value] {
            opened.wait();
            return value;
        });
    }
};

template <class T>
Future<T> failing(const std::string& message) {
    return run_async<T>([message]() -> T { throw std::runtime_error(message); });
}

template <class F>
std::string message_of(F f) {
    try {
        f();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "no error";
}

TEST(Futures, GiveTheirResultAnyNumberOfTimes) {
    const Future<std::string> future = run_async<std::string>([] { return std::string("done"); });
    const Future<std::string> copy = future;
    EXPECT_EQ(future.get(), "done");
    EXPECT_EQ(future.get(), "done");
    EXPECT_EQ(copy.get(), "done");
    EXPECT_TRUE(copy.is_ready());
    EXPECT_TRUE(copy == future);
    EXPECT_EQ(run_async<int>([] { return 7; }).get(), 7);
    EXPECT_EQ(ready_future(8).get(), 8);
}

TEST(Futures, TakeWorkThatCanOnlyBeMoved) {
    auto three = std::make_unique<int>(3), four = std::make_unique<int>(4);
    EXPECT_EQ(run_async<int>([p = std::move(three)] { return *p; }).get(), 3);
    Stream stream;
    EXPECT_EQ(stream.run([p = std::move(four)] { return *p; }).get(), 4);
}

TEST(Futures, ThrowTheErrorOfTheirWorkEachTime) {
    const auto future = failing<int>("broken");
    EXPECT_EQ(message_of([&] { future.get(); }), "broken");
    EXPECT_EQ(message_of([&] { future.get(); }), "broken");
    future.wait();
    EXPECT_TRUE(future.is_ready());
}

TEST(Futures, OfNoWorkAreRefused) {
    const Future<int> future;
    EXPECT_FALSE(future.is_valid());
    EXPECT_THROW(future.get(), ValueError);
    EXPECT_THROW(future.wait(), ValueError);
    EXPECT_THROW(when_all(std::vector{future, ready_future(1)}), ValueError);
    EXPECT_THROW(when_any(std::vector{future, ready_future(1)}), ValueError);
}

TEST(Futures, AreWaitedForSomeTime) {
    Gate gate;
    const auto future = gate.after(3);
    EXPECT_FALSE(future.is_ready());
    EXPECT_FALSE(future.wait_for(milliseconds(1)));
    EXPECT_FALSE(future.wait_for(milliseconds(-5)));
    gate.open();
    EXPECT_TRUE(future.wait_for(std::chrono::duration<double>(INFINITY)));
    EXPECT_TRUE(future.wait_for(hours(1)));
    EXPECT_TRUE(future.wait_for(milliseconds(0)));
    EXPECT_EQ(future.get(), 3);
}

TEST(Futures, ReleaseWhatTheirWorkHeldBeforeTheyAreReady) {
    const auto held = std::make_shared<int>(5);
    const auto future = run_async<int>([held] { return *held; });
    future.wait();
    EXPECT_EQ(held.use_count(), 1);
}

TEST(Futures, AloneHoldTheResultOfWorkThatHasEnded) {
    const auto result = std::make_shared<int>(5);
    Stream stream;
    for (int i = 0; i < 1000; ++i) {
        run_async<std::shared_ptr<int>>([result] { return result; }).get();
        ASSERT_EQ(result.use_count(), 1) << "the thread that did it may not have gone on";
        stream.run([result] { return result; }).get();
        ASSERT_EQ(result.use_count(), 1) << "nor does a stream wait for it";
    }
    const Event event = stream.record();
    event.wait();
    Gate gate;
    const auto slow = run_async<std::shared_ptr<int>>([opened = gate.opened] {
        opened.wait();
        return std::make_shared<int>(1);
    });
    const auto any = [&] { return when_any(std::vector{slow, ready_future(result)}); };
    EXPECT_EQ(*any().get().first, 5);
    EXPECT_EQ(result.use_count(), 1) << "nor a loser that goes on";
    gate.open();
}

TEST(WhenAll, KeepsTheOrderOfItsFutures) {
    Gate first, second;
    const auto all = when_all(std::vector{first.after(1), second.after(2), ready_future(3)});
    second.open();
    EXPECT_FALSE(all.wait_for(milliseconds(1)));
    first.open();
    EXPECT_EQ(all.get(), (std::vector<int>{1, 2, 3}));
}

TEST(WhenAll, WaitsForAllAndThrowsTheFirstErrorInOrder) {
    Gate gate;
    const auto slow = run_async<int>([opened = gate.opened]() -> int {
        opened.wait();
        throw std::runtime_error("first");
    });
    const auto all = when_all(std::vector{ready_future(0), slow, failing<int>("second")});
    EXPECT_FALSE(all.wait_for(milliseconds(1)));
    gate.open();
    EXPECT_EQ(message_of([&] { all.get(); }), "first");
}

TEST(WhenAny, GivesOneThatIsThere) {
    Gate gate;
    const auto any = when_any(std::vector{gate.after(1), ready_future(2)});
    EXPECT_EQ(any.get(), std::pair(2, std::size_t{1}));
    gate.open();
}

TEST(WhenAny, IsDoneByAFutureThatFailed) {
    Gate gate;
    const auto any = when_any(std::vector{gate.after(4), failing<int>("a")});
    EXPECT_EQ(message_of([&] { any.get(); }), "a");
    EXPECT_EQ(message_of([&] { any.get(); }), "a") << "again";
    gate.open();
    const Future<int> bad = failing<int>("b"), good = ready_future(5);
    bad.wait_for(milliseconds(10000));
    EXPECT_EQ(message_of([&] { when_any(std::vector{bad, good}).get(); }), "b");
    EXPECT_EQ(when_any(std::vector{good, bad}).get(), std::pair(5, std::size_t{0}));
}

TEST(WhenAllAndAny, RefuseAnEmptyList) {
    EXPECT_NE(message_of([] { when_all(std::vector<Future<int>>()); }).find("E0631"),
              std::string::npos);
    EXPECT_NE(message_of([] { when_any(std::vector<Future<int>>()); }).find("E0631"),
              std::string::npos);
}

int depth(int n) {
    return n == 0 ? 0 : 1 + run_async<int>([n] { return depth(n - 1); }).get();
}

TEST(Futures, MayWaitForEachOtherDeeperThanThereAreThreads) { EXPECT_EQ(depth(100), 100); }

TEST(FuturesDeathTest, WorkMayEndTheProgram) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            run_async<int>([]() -> int { std::exit(4); }).wait();
            std::abort();
        },
        ::testing::ExitedWithCode(4), "");
}

TEST(Futures, OfManyProducersReachManyConsumers) {
    constexpr int kThreads = 8, kPairs = 500;
    std::vector<std::thread> threads;
    std::atomic<std::int64_t> sum{0};
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&sum, t] {
            std::mt19937 random{std::uint32_t(t)};
            std::vector<Future<int>> some;
            for (int i = 0; i < kPairs; ++i) {
                const auto produced = run_async<int>([i] { return i; });
                some.push_back(run_async<int>([produced] { return produced.get() + 1; }));
                if (random() % 5 != 0) continue;
                if (random() % 2 == 0) when_any(some).get();
                for (const int v : when_all(some).get()) sum += v;
                some.clear();
            }
            for (const auto& rest : some) sum += rest.get();
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sum, std::int64_t(kThreads) * kPairs * (kPairs + 1) / 2);
}

TEST(FuturesDeathTest, AProgramThatEndsWaitsForItsWork) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            run_async<int>([] {
                std::this_thread::sleep_for(milliseconds(50));
                return std::fprintf(stderr, "the work is done\n");
            });
            std::exit(3);
        },
        ::testing::ExitedWithCode(3), "the work is done");
}

TEST(Futures, HaveThreadsOfTheirOwnInAChildOfFork) {
    if (kSanitized) GTEST_SKIP() << "the thread sanitizer ends a child that begins threads";
    EXPECT_EQ(run_async<int>([] { return 1; }).get(), 1);
    EXPECT_EXIT(
        {
            const int got = run_async<int>([] { return 2; }).get();
            std::exit(got == 2 ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
    // What goes on in the parent is not waited for.
    Gate gate;
    const Future<int> waiting = gate.after(1);
    EXPECT_EXIT(std::exit(run_async<int>([] { return 0; }).get()), ::testing::ExitedWithCode(0),
                "");
    gate.open();
    EXPECT_EQ(waiting.get(), 1);
}

#if defined(__cpp_impl_coroutine)
/// A coroutine that nobody waits for.
struct Detached {
    struct promise_type {
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
};

Detached add(Future<int> a, Future<int> b, std::promise<std::string>& result) {
    std::string text;
    try {
        text = std::to_string(co_await a + co_await b);
    } catch (const std::runtime_error& error) {
        text = error.what();
    }
    result.set_value(text);
}

TEST(Futures, AreAwaitedByCoroutines) {
    Gate gate;
    std::promise<std::string> sum, error;
    add(gate.after(1), ready_future(2), sum);
    gate.open();
    EXPECT_EQ(sum.get_future().get(), "3");
    add(ready_future(1), failing<int>("broken"), error);
    EXPECT_EQ(error.get_future().get(), "broken");
}

Detached synchronize_after(Future<int> future, Stream stream, std::promise<bool>& is_done) {
    co_await future;
    stream.synchronize();
    is_done.set_value(true);
}

TEST(Futures, AreAwaitedByCoroutinesThatWaitForWhatFollowsTheSameWork) {
    Gate gate;
    Stream stream;
    const Future<int> first = stream.run([opened = gate.opened] {
        opened.wait();
        return 1;
    });
    std::promise<bool> is_done;
    synchronize_after(first, stream, is_done);
    const Future<int> behind = stream.run([] { return 2; });
    gate.open();
    EXPECT_EQ(behind.get(), 2);
    EXPECT_TRUE(is_done.get_future().get());
}
#endif

TEST(Futures, WorkMayWaitInABodyThatAnotherThreadWorksOn) {
    const int threads = num_threads();
    set_num_threads(2);
    const auto nap = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    parallel_for(100, 8, [&](std::int64_t, std::int64_t) { nap(1); });
    std::vector<Future<int>> all;
    for (int t = 0; t < 4; ++t) {
        all.push_back(run_async<int>([&] {
            const auto me = std::this_thread::get_id();
            std::atomic<int> sum{0};
            parallel_for(2, 2, [&](std::int64_t begin, std::int64_t end) {
                if (std::this_thread::get_id() == me && end - begin == 1) return nap(20);
                nap(40);
                sum += run_async<int>([] { return 1; }).get();
            });
            return sum.load();
        }));
    }
    for (const Future<int>& each : all) {
        ASSERT_TRUE(each.wait_for(std::chrono::seconds(60)));
        EXPECT_LE(each.get(), 1);
    }
    set_num_threads(threads);
}

}  // namespace
}  // namespace quern
