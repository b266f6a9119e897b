#include "quern/async.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "quern/kernel.h"
#include "quern/memory_pool.h"
#include "quern/static_kernel.h"
#include "quern/stream.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

const char* const kScale = R"(
compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] * factor
})";

/// Each device that there is.
std::vector<Device> every_device() {
    std::vector<Device> list;
    for (const DeviceInfo& info : devices()) list.emplace_back(info.id);
    return list;
}

TEST(AsyncKernel, GivesWhatTheKernelGives) {
    for (const Device& device : every_device()) {
        SCOPED_TRACE(device.id());
        const Kernel kernel = Kernel(kScale).on(device);
        std::vector<Future<Tensor>> futures;
        for (int i = 0; i < 20; ++i) {
            const Tensor x = Tensor::from<float>({2}, {float(i), 1});
            futures.push_back(kernel.async()(x, arg("factor", 3)));
        }
        const std::vector<Tensor> all = when_all(futures).get();
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(all[std::size_t(i)].values(), (std::vector<double>{3.0 * i, 3}));
            EXPECT_TRUE(futures[std::size_t(i)].get().shares_storage_with(all[std::size_t(i)]));
        }
    }
}

/// Of this process.
std::ptrdiff_t count_of_threads() {
    const std::filesystem::directory_iterator threads("/proc/self/task");
    return std::distance(begin(threads), end(threads));
}

TEST(AsyncKernel, NoThreadWaitsForAnOperandOnAStreamEither) {
    if (!std::filesystem::exists("/proc/self/task")) GTEST_SKIP() << "no /proc";
    const Kernel kernel = Kernel(kScale).on(Device("interpreter"));
    std::promise<void> gate;
    const Future<Tensor> slow = run_async<Tensor>([opened = gate.get_future().share()] {
        opened.wait();
        return Tensor::from<float>({1}, {7});
    });
    const std::ptrdiff_t before = count_of_threads();
    std::vector<Stream> streams(50);
    std::vector<Future<Tensor>> all;
    for (const Stream& stream : streams) {
        all.push_back(kernel.async(stream)(slow, arg("factor", 2)));
        all.push_back(kernel.async(stream)(all.back(), arg("factor", 3)));
    }
    // Others of the library may begin meanwhile.
    EXPECT_LT(count_of_threads(), before + 10);
    gate.set_value();
    EXPECT_EQ(all.back().get().item(), 42);
    when_all(all).wait();
}

TEST(AsyncKernel, IsMadeFromATextThatTheCompilerChecked) {
    const auto kernel = QUERN_KERNEL(R"(compute(x) {
        @kernel elementwise
        for i in 0..len: out[i] = x[i] + 1.0
    })");
    EXPECT_EQ(kernel.async()(Tensor::from<float>({1}, {4})).get().item(), 5);
}

TEST(AsyncKernel, RefusesAtTheCallWhatDoesNotFit) {
    const AsyncKernel kernel = Kernel(kScale).async();
    const Tensor x({2});
    EXPECT_THROW(kernel(x), KernelError);
    EXPECT_THROW(kernel(x, x, arg("factor", 1)), KernelError);
    EXPECT_THROW(kernel(x, arg("fctor", 1)), ValueError);
    // A word of convolutions alone.
    EXPECT_THROW(kernel(x, arg("factor", 1), arg("stride", 2)), ValueError);
}

TEST(AsyncKernel, ThrowsAtGetWhatFailsWhileItRuns) {
    for (const Device& device : every_device()) {
        SCOPED_TRACE(device.id());
        const Kernel kernel = Kernel(R"(compute(n, d) {
    @kernel elementwise
    for i in 0..len:
        out[i] = n[i] / d[i]
})")
                                  .on(device);
        const Tensor n = Tensor::from<std::int64_t>({3}, {1, 2, 3});
        const Tensor d = Tensor::from<std::int64_t>({3}, {1, 0, 1});
        const Future<Tensor> future = kernel.async()(n, d);
        for (int time = 0; time < 2; ++time) {
            try {
                future.get();
                FAIL() << "no error";
            } catch (const KernelError& error) {
                EXPECT_EQ(error.diagnostics().at(0).code, "E0621");
                EXPECT_EQ(error.diagnostics().at(0).line, 4);
            }
        }
    }
}

TEST(AsyncKernel, KeepsOperandsThatTheCallerDropped) {
    bool is_released = false;
    std::vector<float> memory = {1, 2, 3};
    Future<Tensor> future;
    {
        const Tensor x = Tensor::adopt(memory.data(), {3}, DType::Float32, {},
                                       [&is_released] { is_released = true; });
        future = Kernel(kScale).async()(x, arg("factor", 2));
    }
    EXPECT_EQ(future.get().values(), (std::vector<double>{2, 4, 6}));
    EXPECT_TRUE(is_released);
}

TEST(AsyncKernel, TakesFuturesAsOperands) {
    for (const Device& device : every_device()) {
        SCOPED_TRACE(device.id());
        const AsyncKernel scale = Kernel(kScale).on(device).async();
        const AsyncKernel sum = Kernel(R"(compute(x, y, z) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] + 10.0 * y[i] + 100.0 * z[i]
})")
                                    .on(device)
                                    .async();
        const Tensor one = Tensor::from<float>({2}, {1, 2});
        const Future<Tensor> two = scale(one, arg("factor", 2)),
                             three = scale(one, arg("factor", 3));
        EXPECT_EQ(sum(two, one, three).get().values(), (std::vector<double>{312, 624}));
        EXPECT_EQ(sum(one, two, two).get().values(), (std::vector<double>{221, 442}));
        EXPECT_EQ(scale(scale(two, arg("factor", 5)), arg("factor", 7)).get().values(),
                  (std::vector<double>{70, 140}));
    }
}

TEST(AsyncKernel, ChainsOfManyFuturesTakeNoThreadEach) {
    const AsyncKernel next = Kernel(R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] + 1.0
})")
                                 .async();
    Future<Tensor> last = next(Tensor::from<float>({1}, {0}));
    for (int i = 1; i < 3000; ++i) last = next(last);
    EXPECT_EQ(last.get().item(), 3000);
}

TEST(AsyncKernel, FailsWithTheErrorOfTheFutureThatItTakes) {
    const AsyncKernel pick = Kernel(R"(compute(x, at) {
    @kernel custom
    for i in 0..n: out[i] = x[at[i]]
})")
                                 .async();
    const AsyncKernel scale = Kernel(kScale).async();
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    const Future<Tensor> wrong = pick(x, Tensor::from<std::int64_t>({2}, {0, 5}));
    const Future<Tensor> after = scale(wrong, arg("factor", 2));
    EXPECT_THROWS(KernelError, "E0507", after.get());
    EXPECT_THROWS(KernelError, "E0507", scale(after, arg("factor", 2)).get());
    // What does not fit is seen when it is there.
    const Future<Tensor> whole = ready_future(Tensor::from<float>({2}, {1, 2}));
    EXPECT_THROWS(KernelError, "E0411", scale(whole).get());
    EXPECT_THROWS(ValueError, "future", scale(Future<Tensor>(), arg("factor", 2)));
}

TEST(AsyncKernel, GoesOnBesideAFutureWhenMemoryIsTakenBack) {
    const Kernel sum = Kernel(R"(compute(x, y) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] + y[i]
})");
    MemoryPool pool(Device(), 1 << 20);
    Tensor x = pool.allocate({3}, DType::Float32);
    for (int i = 0; i < 3; ++i) x.data<float>()[i] = float(i);
    std::atomic<bool> goes_on = false;
    const Future<Tensor> late = run_async<Tensor>([&] {
        while (!goes_on) std::this_thread::yield();
        return Tensor::from<float>({3}, {10, 20, 30});
    });
    const Future<Tensor> result = sum.async()(x, late);
    pool.free(x);
    goes_on = true;
    EXPECT_EQ(result.get().values(), (std::vector<double>{10, 21, 32}));
}

TEST(AsyncKernel, TakesFuturesOnAStreamInItsOrder) {
    const Stream stream;
    const AsyncKernel scale = Kernel(kScale).async(stream), beside = Kernel(kScale).async();
    Future<Tensor> last = ready_future(Tensor::from<float>({1}, {1}));
    for (int i = 0; i < 20; ++i) {
        last = scale(beside(last, arg("factor", 2)), arg("factor", 0.5));
    }
    EXPECT_EQ(last.get().item(), 1);
}

TEST(AsyncKernel, HoldsWhatAFutureGave) {
    const Kernel slow = Kernel(R"(compute(x) {
    @kernel custom
    for i in 0..n:
        var state = x[i]
        for k in 0..2000000: state = state * 0.5 + x[i]
        out[i] = state
})")
                            .on(Device("interpreter"));
    MemoryPool pool(Device("interpreter"), 64);
    Tensor x = pool.allocate({4});
    for (int i = 0; i < 4; ++i) x.data<float>()[i] = 1;
    const Future<Tensor> result = slow.async()(ready_future(x));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    pool.free(x);
    // Either it has ended, or its memory is not given to another.
    try {
        Tensor other = pool.allocate({4});
        for (int i = 0; i < 4; ++i) other.data<float>()[i] = 50;
    } catch (const OutOfMemory&) {
    }
    EXPECT_EQ(result.get().values(), (std::vector<double>{2, 2, 2, 2}));
}

TEST(AsyncKernel, GoesOnWithAFuturesMemoryWhereOtherWorkHoldsIt) {
    const Kernel sum(
        "compute(a, b) { @kernel elementwise; for i in 0..len: out[i] = a[i] + b[i] }");
    MemoryPool pool(Device("interpreter"), 64);
    Tensor x = pool.allocate({4});
    for (int i = 0; i < 4; ++i) x.data<float>()[i] = 1;
    Stream stream;
    std::promise<void> gate;
    auto before = stream.run([opened = gate.get_future().share()] {
        opened.wait();
        return 0;
    });
    const auto result = sum.on(Device("interpreter")).async(stream)(ready_future(x), x);
    pool.free(x);
    gate.set_value();
    EXPECT_EQ(result.get().values(), (std::vector<double>{2, 2, 2, 2}));
}

TEST(AsyncKernel, RefusesAnEmptyFutureOnAStreamToo) {
    const Stream stream;
    const Kernel scale(kScale);
    const AsyncKernel on_stream = scale.async(stream);
    EXPECT_THROWS(ValueError, "expected the future of some work, got an empty one",
                  on_stream(Future<Tensor>(), arg("factor", 2.0)));
    const Tensor x = Tensor::from<float>({1}, {3});
    EXPECT_EQ(on_stream(x, arg("factor", 2.0)).get().item(), 6);
}

}  // namespace
}  // namespace quern
