// Every allocation fails in turn where work goes on beside its caller, on several devices, and
// where compiled code is kept.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/async.h"
#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/kernel_bundle.h"
#include "quern/memory.h"
#include "quern/memory_pool.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/disk_cache.h"
#include "quern/support/memory.h"
#include "quern/threads.h"
#include "tests/memory/failing_allocations.h"

namespace quern {
namespace {

using failing::fail_each_allocation;
using failing::require;

constexpr const char* kDouble = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * factor
})";

/// The interpreter, and the device cpu where it is.
std::vector<std::string> host_devices() {
    std::vector<std::string> ids = {"interpreter"};
    if (!cpu::plugin_path().empty()) ids.push_back("cpu");
    return ids;
}

class FailingAllocationsOn : public ::testing::TestWithParam<std::string> {
protected:
    const Kernel kernel_ = Kernel(kDouble).on(Device(GetParam()));

    /// Of bytes that tensors' pool has, and of few.
    const Tensor large_ = Tensor::from({1 << 15}, std::vector<float>(1 << 15, 3));
    const Tensor few_ = Tensor::from<float>({2}, {3, 3});
};

TEST_P(FailingAllocationsOn, LoseNoAsynchronousWork) {
    for (const Tensor& x : {large_, few_}) {
        const long count = fail_each_allocation([&] {
            const Future<Tensor> a = kernel_.async()(x, arg("factor", 2.0));
            const Future<Tensor> b = kernel_.async()(a, arg("factor", 2.0));
            require(b.get().data<float>()[1] == 12);
            require(a.get().data<float>()[1] == 6);
        });
        EXPECT_GT(count, 10);
    }
}

TEST(Launches, IntoAResultThatIsThereAllocateNothing) {
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no device cpu";
    const Kernel kernel = Kernel(kDouble).on(Device("cpu"));
    const Tensor x = Tensor::from<float>({3}, {1, 2, 3}), z = Tensor::from<float>({3}, {4, 5, 6});
    Tensor y({3}, DType::Float32);
    const Argument factor = arg("factor", 2.0);
    kernel.into(y, x, factor);
    failing::fail_all(true);
    bool has_thrown = false;
    try {
        kernel.into(y, z, factor);
    } catch (...) {
        has_thrown = true;
    }
    failing::fail_all(false);
    EXPECT_FALSE(has_thrown);
    EXPECT_EQ(y.values(), (std::vector<double>{8, 10, 12}));
}

TEST_P(FailingAllocationsOn, LeaveNoResultOfAFailedKernelHalfWritten) {
    const Kernel quotients =
        Kernel("compute(x, y) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i] / y[i]\n}")
            .on(Device(GetParam()));
    // The first elements are written before the last fails.
    constexpr std::int64_t kCount = 100;
    const Tensor x = Tensor::from({kCount}, std::vector<std::int32_t>(kCount, 6));
    Tensor y = x.clone(), result({kCount}, DType::Int32, Device(GetParam()));
    y.data<std::int32_t>()[kCount - 1] = 0;
    // So that there is code for the launches below.
    quotients.into(result, x, x);
    std::fill_n(result.data<std::int32_t>(), kCount, 7);
    const auto prepare = [&] {
        std::int32_t* const elements = result.data<std::int32_t>();
        require(elements[0] == 7 || elements[0] == -1);
        require(std::count(elements, elements + kCount, elements[0]) == kCount);
        std::fill_n(elements, kCount, 7);
    };
    const auto action = [&] {
        try {
            quotients.into(result, x, y);
        } catch (const KernelError&) {
            require(result.data<std::int32_t>()[0] == -1);
            return;
        }
        require(false);
    };
    EXPECT_GT(fail_each_allocation(action, prepare), 4);
}

TEST(Launches, LeaveNoResultOfAThreadWithoutMemoryHalfWritten) {
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no device cpu";
    // Each thread has an array that is not kept between launches.
    const Kernel reversed = Kernel(R"(compute(x) {
    @kernel custom
    for b in 0..rows:
        var t = zeros(n)
        for i in 0..n: t[i] = x[b, i] * 2.0
        for i in 0..n: out[b, i] = t[n - 1 - i]
})")
                                .on(Device("cpu"));
    constexpr std::int64_t kRows = 8, kColumns = (std::int64_t{1} << 18) + 1;
    const Tensor x({kRows, kColumns}, DType::Float32);
    Tensor result({kRows, kColumns}, DType::Float32);
    const auto is_all = [&](float value) {
        const float* const elements = result.data<float>();
        return std::all_of(elements, elements + kRows * kColumns, [&](float element) {
            return element == value || (element != element && value != value);
        });
    };
    const auto reset = [&] {
        std::fill_n(result.data<float>(), kRows * kColumns, 7.0F);
        trim_memory();
    };
    reversed.into(result, x);
    reset();
    long failures = 0;
    const auto prepare = [&] {
        const float value = result.data<float>()[0];
        require(is_all(value));
        failures += value != value;
        reset();
    };
    fail_each_allocation([&] { reversed.into(result, x); }, prepare);
    require(is_all(0));
    EXPECT_GT(failures, 0);
}

TEST_P(FailingAllocationsOn, LoseNothingThatWaitsForSeveral) {
    const long count = fail_each_allocation([&] {
        std::vector<Future<Tensor>> futures;
        or_out_of_memory("test", [&] { futures.reserve(3); });
        for (int i = 0; i < 3; ++i) {
            futures.push_back(kernel_.async()(few_, arg("factor", 1.0 + i)));
        }
        Future<std::vector<Tensor>> all;
        Future<std::pair<Tensor, std::size_t>> any;
        // What is made of templates is the program's, and throws what its own code throws.
        or_out_of_memory("test", [&] {
            all = when_all(futures);
            any = when_any(futures);
            require(all.get().at(2).data<float>()[0] == 9);
            const auto& [first, number] = any.get();
            require(first.data<float>()[0] == 3 * (1 + float(number)));
        });
    });
    EXPECT_GT(count, 20);
}

TEST_P(FailingAllocationsOn, LeaveStreamsInOrder) {
    const long count = fail_each_allocation([&] {
        std::optional<Stream> one, other;
        one.emplace();
        other.emplace();
        const Future<Tensor> a = kernel_.async(*one)(few_, arg("factor", 2.0));
        other->wait(one->record());
        const Future<Tensor> b = kernel_.async(*other)(a, arg("factor", 2.0));
        const Future<Tensor> c = kernel_.async(*other)(b, arg("factor", 2.0));
        require(c.get().data<float>()[0] == 24);
        require(a.is_ready() && b.is_ready());
        other->synchronize();
    });
    EXPECT_GT(count, 20);
}

TEST_P(FailingAllocationsOn, LeaveAStreamThatLivesOnUsable) {
    Stream stream;
    fail_each_allocation(
        [&] {
            const Future<Tensor> a = kernel_.async(stream)(few_, arg("factor", 2.0));
            require(a.get().data<float>()[0] == 6);
            stream.synchronize();
        },
        [] {}, /*keeps=*/true);
}

TEST_P(FailingAllocationsOn, LoseNoMemoryOfAPool) {
    MemoryPool pool(Device(GetParam()), 1 << 16);
    Shape row, block;
    const auto action = [&] {
        const std::size_t live = pool.counters().live;
        try {
            Tensor a = pool.allocate(std::move(row)), b = pool.allocate(std::move(block));
            for (Tensor* each : {&a, &b}) {
                std::fill_n(each->data<float>(), each->element_count(), 1.0f);
            }
            require(kernel_(a, arg("factor", 2.0)).data<float>()[99] == 2);
            pool.free(b);
            pool.reset();
        } catch (const OutOfMemory&) {
            require(pool.counters().live == live);
            throw;
        }
        require(pool.counters().live == live);
    };
    EXPECT_GT(fail_each_allocation(action, [&] { row = {100}, block = {3, 5}; }), 5);
    EXPECT_EQ(pool.counters().largest, std::size_t{1} << 16);
}

TEST_P(FailingAllocationsOn, LoseNothingInNewPoolsAndPinnedMemory) {
    Shape shape;
    const auto action = [&] {
        MemoryPool pool(Device(GetParam()), 1 << 20);
        const Tensor pinned = Tensor::pinned(std::move(shape), DType::Float32, pool.device());
        require(pinned.is_pinned() && pool.counters().free == 1 << 20);
    };
    EXPECT_GT(fail_each_allocation(action, [&] { shape = {300}; }), 4);
}

TEST_P(FailingAllocationsOn, LoseNoPartOfWorkThatIsSpread) {
    const Kernel spread(std::string("compute(x) @device([\"") + GetParam() + "\", \"" + GetParam() +
                        "\"]) @parallel(data) {\n    @kernel elementwise\n"
                        "    for i in 0..len: out[i] = x[i] * 2.0\n}");
    const long count = fail_each_allocation([&] {
        const Tensor y = spread(large_);
        require(y.data<float>()[0] == 6 && y.data<float>()[large_.element_count() - 1] == 6);
    });
    EXPECT_GT(count, 10);
}

INSTANTIATE_TEST_SUITE_P(, FailingAllocationsOn, ::testing::ValuesIn(host_devices()),
                         [](const auto& info) { return info.param; });

/// Twice as deep as there are threads at work at a time.
int depth(int n) {
    return n == 0 ? 0 : 1 + run_async<int>([n] { return depth(n - 1); }).get();
}

/// What a program says whose threads are refused: in a process of its own, where no thread is yet.
TEST(RefusedThreads, LeaveAsynchronousWorkToThoseThatThereAre) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            // One thread, which waits for work that it began.
            const int found = run_async<int>([] {
                                  failing::refuse_threads(true);
                                  return depth(20);
                              }).get();
            std::_Exit(found == 20 ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST(RefusedThreads, AreOutOfMemoryWhereThereIsNone) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            failing::refuse_threads(true);
            const Future<int> refused = run_async<int>([] { return 1; });
            int code = 1;
            try {
                refused.get();
            } catch (const OutOfMemory&) {
                failing::refuse_threads(false);
                code = run_async<int>([] { return 0; }).get();
            }
            std::_Exit(code);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST(RefusedThreads, LeaveKernelsToTheCaller) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            failing::refuse_threads(true);
            std::atomic<std::int64_t> covered{0};
            parallel_for(100, 4,
                         [&](std::int64_t begin, std::int64_t end) { covered += end - begin; });
            std::_Exit(covered == 100 ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

/// The first asynchronous work of a process makes what later work finds.
TEST(FailingAllocationsAtFirst, EndInOutOfMemoryOrWell) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int n = 0; n < 12; ++n) {
        EXPECT_EXIT(
            {
                int code = 2;
                failing::fail_one(n);
                try {
                    code = run_async<int>([] { return 0; }).get();
                } catch (const std::bad_alloc&) {
                    // Of the template, which is the program's.
                    code = 0;
                } catch (const OutOfMemory&) {
                    code = 0;
                }
                std::_Exit(code);
            },
            ::testing::ExitedWithCode(0), "")
            << n;
    }
}

/// A folder that is gone with the test.
class Folder {
public:
    Folder() { std::filesystem::remove_all(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    const std::string path = ::testing::TempDir() + "quern_failing_" + std::to_string(::getpid());
};

std::ptrdiff_t open_files() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
}

TEST(FailingAllocationsOfFiles, LeaveEntriesOfTheCacheWholeOrAbsent) {
    const Folder folder;
    const DiskCache cache(folder.path, 1 << 20);
    const auto open_before = open_files();
    const std::vector<std::byte> value(3000, std::byte{7}), other(2000, std::byte{8});
    std::vector<std::string> warnings;
    set_warning_handler([](const Diagnostic&) {});
    const long count = fail_each_allocation(
        [&] {
            or_out_of_memory("cache", [&] {
                // Where a failure was caught there is a warning, and the entry before or none.
                cache.write("key", value);
                const auto read = cache.read("key");
                require(!read || *read == value || *read == other);
                cache.write("key", other);
                const auto again = cache.read("key");
                require(!again || *again == other || *again == value);
            });
        },
        [] {}, /*keeps=*/true);
    EXPECT_GT(count, 10);
    EXPECT_EQ(open_files(), open_before);
    cache.write("key", value);
    EXPECT_EQ(cache.read("key"), value);
    set_warning_handler({});
}

TEST(FailingAllocationsOfFiles, LoadBundlesWholeOrNotAtAll) {
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    const Folder folder;
    std::filesystem::create_directories(folder.path);
    const std::string path = folder.path + "/program.kernels";
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    {
        const KernelRecorder recorder;
        Kernel(kDouble).on(Device("cpu"))(x, arg("factor", 2.0));
        recorder.write(path);
    }
    EXPECT_GT(fail_each_allocation([&] { load_kernels(path); }, [] {}, /*keeps=*/true), 10);
    EXPECT_EQ(Kernel(kDouble).on(Device("cpu"))(x, arg("factor", 3.0)).values().at(3), 12);
}

}  // namespace
}  // namespace quern
