// What launches on devices "vulkan:N" cost: many without waiting, each with waiting, and work on
// memory of the device and of the host.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "quern/kernel.h"

namespace {

using namespace quern;
using Clock = std::chrono::steady_clock;

constexpr const char* kRelu = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = relu(x[i])
})";

/// The least of several times, in seconds.
double least(int runs, const std::function<void()>& run) {
    double best = 1e30;
    for (int i = 0; i < runs; ++i) {
        const auto start = Clock::now();
        run();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

Tensor random(std::int64_t count) {
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = number(engine);
    return Tensor::from({count}, values).to(Device("cpu"));
}

void launches(const Device& device) {
    const Kernel kernel = Kernel(kRelu).on(device);
    const Tensor x = random(16).to(device);
    const std::vector<double> expected = Kernel(kRelu).on(Device("interpreter"))(x).values();
    if (kernel(x).values() != expected) std::printf("    wrong result\n");
    constexpr int kCalls = 1000;
    const double batched = least(10, [&] {
        for (int i = 0; i < kCalls; ++i) kernel(x);
        synchronize(device);
    });
    const double chained = least(10, [&] {
        Tensor y = x;
        for (int i = 0; i < kCalls; ++i) y = kernel(y);
        synchronize(device);
    });
    const double alone = least(200, [&] {
        kernel(x);
        synchronize(device);
    });
    std::printf(
        "    launch on 16 elements: %.1f us each of %d, %.1f us where each reads the last "
        "one's result, %.1f us with waiting\n",
        batched / kCalls * 1e6, kCalls, chained / kCalls * 1e6, alone * 1e6);
}

void streams(const Device& device) {
    const Kernel kernel = Kernel(kRelu).on(device);
    const Tensor host = random(16 << 20), x = host.to(device);
    const double bytes = 2.0 * double(x.bytes());
    const auto run = [&](const Tensor& operand) {
        kernel(operand);
        synchronize(device);
    };
    const double there = least(7, [&] { run(x); }), copied = least(7, [&] { run(host); });
    const Kernel on_cpu = Kernel(kRelu).on(Device("cpu"));
    const double cpu = least(7, [&] { on_cpu(host); });
    if (kernel(x).values() != on_cpu(host).values()) std::printf("    wrong result\n");
    std::printf(
        "    relu of 64 MB in the device's memory: %.1f ms, %.1f GB/s; operand of the host: "
        "%.1f ms; device cpu: %.1f ms, %.1f GB/s\n",
        there * 1e3, bytes / there / 1e9, copied * 1e3, cpu * 1e3, bytes / cpu / 1e9);
}

}  // namespace

int main() {
    bool is_any = false;
    for (const DeviceInfo& info : devices()) {
        if (info.type != "vulkan") continue;
        is_any = true;
        std::printf("%s, %s\n", info.id.c_str(), info.name.c_str());
        launches(Device(info.id));
        streams(Device(info.id));
    }
    if (!is_any) std::printf("skipped: no device vulkan\n");
    return 0;
}
