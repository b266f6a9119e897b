// Quern's threads beside oneTBB's: the time of a call whose ranges do nothing, of ranges of like
// and of very different cost, and of a kernel on Quern's own pool and on oneTBB's shared with it.
// The bound is the time of one thread over the number of threads.

#include "quern/threads.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "quern/kernel.h"

#if defined(QUERN_HAS_TBB)
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace {

using namespace quern;

constexpr int kThreads = 2;

#if defined(QUERN_HAS_TBB)
class OneTbb : public ThreadPool {
public:
    void run(int count, void (*task)(void* context, int i), void* context) noexcept override {
        arena_.execute([&] {
            tbb::parallel_for(
                0, count, [&](int i) { task(context, i); }, tbb::simple_partitioner());
        });
    }

    template <class Body>
    void for_ranges(std::int64_t count, const Body& body) {
        arena_.execute([&] {
            tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, count),
                              [&](const auto& range) { body(range.begin(), range.end()); });
        });
    }

private:
    tbb::task_arena arena_{kThreads};
};
#endif

/// The least and the median seconds of a call.
struct Seconds {
    double least, median;
};

/// Each call `together` times in a row before the next, as kernels follow each other, or once after
/// a rest, when threads sleep.
std::vector<Seconds> times_of(const std::vector<std::function<void()>>& calls, int rounds,
                              int together = 10, std::chrono::microseconds rest = {}) {
    std::vector<std::vector<double>> all(calls.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (rest > std::chrono::microseconds(0)) std::this_thread::sleep_for(rest);
            for (int call = 0; call < together; ++call) {
                const auto start = std::chrono::steady_clock::now();
                calls[i]();
                all[i].push_back(
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                        .count());
            }
        }
    }
    std::vector<Seconds> result;
    for (std::vector<double>& each : all) {
        std::sort(each.begin(), each.end());
        result.push_back({each.front(), each[each.size() / 2]});
    }
    return result;
}

/// Sums that depend on each other, so that no compiler leaves them out.
double work(std::int64_t steps) {
    double x = 0.5;
    for (std::int64_t i = 0; i < steps; ++i) x = x * 0.999 + 1e-3;
    return x;
}

volatile double sink;

void print(const char* what, const std::vector<Seconds>& times) {
    std::printf("%-34s", what);
    for (const Seconds& each : times) {
        std::printf("  %9.2f %9.2f", each.least * 1e6, each.median * 1e6);
    }
    std::printf("\n");
}

}  // namespace

int main() {
    set_num_threads(kThreads);
    std::printf("%-34s  %19s  %19s  %19s\n", "microseconds: least, median", "one thread", "Quern",
                "oneTBB");
#if defined(QUERN_HAS_TBB)
    OneTbb tbb;
#endif
    const auto compare = [&](const char* what, std::int64_t count, int rounds, const auto& body) {
        std::vector<std::function<void()>> calls = {[&] { parallel_for(count, 1, body); },
                                                    [&] { parallel_for(count, kThreads, body); }};
#if defined(QUERN_HAS_TBB)
        calls.push_back([&] { tbb.for_ranges(count, body); });
#endif
        print(what, times_of(calls, std::max(3, rounds / 10)));
    };
    compare("ranges that do nothing", 16, 20000, [](std::int64_t, std::int64_t) {});
    for (const std::int64_t steps : {1000, 10000, 1000000}) {
        char what[64];
        std::snprintf(what, sizeof what, "64 ranges, %lld steps in all", (long long)steps);
        compare(
            what, 64, int(20000000 / (steps + 10000)),
            [=](std::int64_t begin, std::int64_t end) { sink = work((end - begin) * steps / 64); });
    }
    compare("costs from 1 to 1024", 1024, 100, [](std::int64_t begin, std::int64_t end) {
        double sum = 0;
        for (std::int64_t i = begin; i < end; ++i) sum += work(i + 1);
        sink = sum;
    });

    const Kernel gelu = Kernel(
                            "compute(x) {\n @kernel elementwise\n for i in 0..len: out[i] = x[i] * "
                            "0.5 * (1.0 + erf(x[i] * 0.70710678))\n}")
                            .on(Device("cpu"));
    for (const std::int64_t count : {1 << 14, 1 << 17, 1 << 20}) {
        const Tensor x = Tensor::from({count}, std::vector<float>(std::size_t(count), 0.3f));
        Tensor result({count});
        const auto on = [&](ThreadPool* pool, int threads) {
            return [&, pool, threads] {
                set_thread_pool(pool);
                set_num_threads(threads);
                gelu.into(result, x);
            };
        };
        std::vector<std::function<void()>> calls = {on(nullptr, 1), on(nullptr, kThreads)};
#if defined(QUERN_HAS_TBB)
        calls.push_back(on(&tbb, kThreads));
#endif
        char what[64];
        std::snprintf(what, sizeof what, "kernel on %lld elements", (long long)count);
        print(what, times_of(calls, int((1 << 22) / count)));
        std::snprintf(what, sizeof what, "the same, 2 ms after another");
        print(what, times_of(calls, 50, 1, std::chrono::microseconds(2000)));
    }
    set_thread_pool(nullptr);
#if !defined(QUERN_HAS_TBB)
    std::printf("skipped: no oneTBB (Debian's libtbb-dev)\n");
#endif
    return 0;
}
