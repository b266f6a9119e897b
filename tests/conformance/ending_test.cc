// Programs that end while what they began goes on.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#ifndef QUERN_NO_THREADS
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#endif

#include "quern/future.h"
#include "quern/kernel.h"
#include "tests/folder.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

/// One that no process has compiled before.
Kernel another(int number) {
    return Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = exp(x[i]) * exp(x[i] * " +
                  std::to_string(number) + ".0) + 1.0\n}");
}

#ifndef QUERN_NO_THREADS

/// Compilers make static objects while they compile, and such are destroyed first.
TEST(ProgramsThatEnd, WaitForKernelsThatAreCompiled) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int round = 0; round < 20; ++round) {
        EXPECT_EXIT(
            {
                for (int n = 0; n < 8; ++n) {
                    run_async<int>([n] {
                        const Tensor y = another(n).on(Device("cpu"))(Tensor({1000}));
                        return std::fprintf(stderr, "%g\n", y.values()[7]);
                    });
                }
                std::exit(0);
            },
            testing::ExitedWithCode(0), "^(2\n){8}$");
    }
}

TEST(ProgramsThatEnd, WaitForWhatThreadsBeganThatAreNotTheFirst) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int round = 0; round < 20; ++round) {
        EXPECT_EXIT(
            {
                std::thread([] {
                    for (int n = 0; n < 8; ++n) {
                        run_async<int>([n] {
                            const Tensor y = another(n).on(Device("cpu"))(Tensor({1000}));
                            return std::fprintf(stderr, "%g\n", y.values()[7]);
                        });
                    }
                }).join();
                std::exit(0);
            },
            testing::ExitedWithCode(0), "^(2\n){8}$");
    }
}

/// A program's first thread waits, not the first that the library knows.
TEST(ThreadsThatEnd, DoNotWaitForWhatTheyBeganThoughTheyLoadedTheLibrary) {
#ifdef QUERN_LOADED_LATE
    static std::atomic<bool> may_end{false}, has_ended{false};
    std::promise<void> ended;
    std::future<void> end = ended.get_future();
    std::thread loader([&] {
        void* const library = dlopen(QUERN_LOADED_LATE, RTLD_NOW | RTLD_LOCAL);
        ASSERT_TRUE(library) << dlerror();
        using Begin = void (*)(std::atomic<bool>&, std::atomic<bool>&);
        reinterpret_cast<Begin>(dlsym(library, "begin"))(may_end, has_ended);
        // Once the objects of the thread are destroyed.
        ended.set_value_at_thread_exit();
    });
    EXPECT_EQ(end.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    may_end = true;
    loader.join();
    while (!has_ended) std::this_thread::yield();
#else
    GTEST_SKIP() << "one copy of the library only";
#endif
}

#endif

TEST(ProgramsThatEnd, WaitForLaunchesOnDevicesOfVulkan) {
    // Mesa's compiler works when a kernel runs for the first time, unless it finds it on the disk.
    std::optional<TestFolder> shaders;
    if (GTEST_FLAG_GET(internal_run_death_test).empty()) {
        shaders.emplace();
        ::setenv("MESA_SHADER_CACHE_DIR", shaders->path().c_str(), 1);
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    int count = 0;
    for (const DeviceInfo& device : devices()) {
        if (device.type != "vulkan") continue;
        ++count;
        for (int round = 0; round < 3; ++round) {
            EXPECT_EXIT(
                {
                    another(round).on(Device(device.id))(Tensor({4}).to(Device(device.id)));
                    std::exit(0);
                },
                testing::ExitedWithCode(0), "")
                << device.id;
        }
    }
    if (count == 0) GTEST_SKIP() << "no device of Vulkan";
}

}  // namespace
}  // namespace quern
