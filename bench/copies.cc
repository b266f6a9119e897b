// Copies of 64 MiB to and from the devices from pinned memory and from other, in turn.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "quern/device.h"
#include "quern/error.h"
#include "quern/runtime/device_options.h"
#include "quern/tensor.h"

namespace {

using namespace quern;

constexpr std::int64_t kCount = 1 << 24;
constexpr int kRounds = 30;

template <class Call>
double seconds_of(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
    const Device host("interpreter");
    Tensor pinned;
    try {
        pinned = Tensor::pinned({kCount}, DType::Float32, host);
    } catch (const OutOfMemory& error) {
        std::printf("skipped: %s\n", error.what());
        return 0;
    }
    std::mt19937 engine(1);
    std::generate_n(pinned.data<float>(), kCount, [&] { return float(engine()); });
    const Tensor other = pinned.clone();
    bool agree = true, reached = true;
    std::printf("%-14s %16s %16s %8s\n", "device", "GB/s pinned", "GB/s other", "ratio");
    for (const DeviceInfo& info : devices()) {
        const bool is_host = has_host_memory(info.id);
        if (is_host && info.id != host.id()) continue;
        const Device device(info.id);
        Tensor result;
        std::vector<double> a, b;
        for (int round = 0; round < kRounds; ++round) {
            // A device that shares the memory copies as a program does.
            const auto copy = [&](const Tensor& from) {
                return is_host ? from.clone() : from.to(device);
            };
            a.push_back(seconds_of([&] { result = copy(pinned); }));
            b.push_back(seconds_of([&] { result = copy(other); }));
        }
        agree = agree &&
                std::memcmp(result.to(host).data<float>(), other.data<float>(), other.bytes()) == 0;
        const double gb = double(other.bytes()) / 1e9;
        const double least = *std::ranges::min_element(a), peer = *std::ranges::min_element(b);
        std::printf("%-14s %16.1f %16.1f %7.2fx\n", info.id.c_str(), gb / least, gb / peer,
                    peer / least);
        // Of a copy that is the same in both cases times differ by so much.
        constexpr double kNoise = 0.95;
        reached = reached && peer / least >= kNoise;
    }
    if (!agree) std::printf("missed: copies differ\n");
    if (!reached) std::printf("missed: pinned memory is slower\n");
    return agree && reached ? 0 : 1;
}
