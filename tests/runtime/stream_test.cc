#include "quern/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "quern/async.h"
#include "tests/sanitized.h"

namespace quern {
namespace {

TEST(Streams, RunWorkInTheOrderInWhichItCame) {
    Stream stream;
    std::vector<int> seen;  // Of one piece at a time.
    std::vector<Future<int>> futures;
    for (int i = 0; i < 1000; ++i) {
        futures.push_back(stream.run([&seen, i] {
            seen.push_back(i);
            return 2 * i;
        }));
    }
    stream.synchronize();
    ASSERT_EQ(seen.size(), 1000u);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(seen[std::size_t(i)], i);
        EXPECT_EQ(futures[std::size_t(i)].get(), 2 * i);
    }
}

TEST(Streams, GoOnAfterAnError) {
    Stream stream;
    const Future<int> failing = stream.run([]() -> int { throw std::runtime_error("first"); });
    const Future<int> next = stream.run([] { return 2; });
    EXPECT_EQ(next.get(), 2);
    EXPECT_THROW(failing.get(), std::runtime_error);
}

TEST(Streams, WorkGoesOnWhenTheStreamIsGone) {
    std::atomic<bool> may_end{false};
    Future<int> future;
    {
        Stream stream;
        stream.run([&] {
            while (!may_end) std::this_thread::yield();
            return 0;
        });
        future = stream.run([] { return 7; });
    }
    EXPECT_FALSE(future.is_ready());
    may_end = true;
    EXPECT_EQ(future.get(), 7);
}

TEST(Streams, WaitForEventsOfOthersAndNotForWhatComesBehindThem) {
    Stream first, second;
    std::atomic<int> stage{0};
    std::atomic<bool> may_end{false};
    first.run([&] {
        while (!may_end) std::this_thread::yield();
        return stage.exchange(1);
    });
    const Event event = first.record();
    second.wait(event);
    const Future<int> behind = second.run([&] { return stage.load(); });
    const Future<int> later = first.run([&] {
        behind.wait();  // Would never end if the event held this, too.
        return 3;
    });
    EXPECT_FALSE(event.has_happened());
    EXPECT_FALSE(behind.is_ready());
    may_end = true;
    EXPECT_EQ(behind.get(), 1);
    EXPECT_TRUE(event.has_happened());
    EXPECT_EQ(later.get(), 3);
}

TEST(Streams, AnEventBehindAWaitHoldsThatToo) {
    Stream first, second, third;
    std::atomic<bool> may_end{false};
    first.run([&] {
        while (!may_end) std::this_thread::yield();
        return 0;
    });
    second.wait(first.record());
    third.wait(second.record());
    const Future<int> behind = third.run([] { return 1; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(behind.is_ready());
    may_end = true;
    EXPECT_EQ(behind.get(), 1);
    EXPECT_TRUE(Event().has_happened());
    Event().wait();
}

TEST(Streams, OrderProducersAndConsumersOfManyStreams) {
    const int pairs = kSanitized ? 5'000 : 100'000;
    std::vector<Stream> streams(64);
    // Written and read without any other order than that of the streams.
    std::vector<int> slots(std::size_t(pairs), -1);
    std::vector<Future<int>> read;
    std::mt19937 random(5);
    for (int i = 0; i < pairs; ++i) {
        Stream& producer = streams[random() % 64];
        Stream& consumer = streams[random() % 64];
        int& slot = slots[std::size_t(i)];
        producer.run([&slot, i] { return slot = i; });
        consumer.wait(producer.record());
        read.push_back(consumer.run([&slot] { return slot; }));
    }
    for (int i = 0; i < pairs; ++i) ASSERT_EQ(read[std::size_t(i)].get(), i);
}

TEST(Streams, GoOnWhereTheyWereMovedFrom) {
    Stream stream;
    Stream moved = std::move(stream);
    EXPECT_EQ(stream.run([] { return 1; }).get() + moved.run([] { return 2; }).get(), 3);
    stream = std::move(moved);
    moved.synchronize();
}

TEST(Streams, RunKernels) {
    const Kernel twice(
        "compute(x) { @kernel elementwise; for i in 0..len { out[i] = x[i] * 2.0 } }");
    Stream stream;
    std::vector<Future<Tensor>> futures;
    for (int i = 0; i < 20; ++i) {
        futures.push_back(twice.async(stream)(Tensor::from<float>({1}, {float(i)})));
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(futures[std::size_t(i)].get().item(), 2 * i);
    EXPECT_ANY_THROW(twice.async(stream)());
}

}  // namespace
}  // namespace quern
