// What a launch costs beside its work: compiling, loading what an earlier process compiled, and
// launching again what was launched before.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "bench/targets.h"
#include "quern/kernel.h"
#include "tests/cpu/case.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace quern;
using Clock = std::chrono::steady_clock;

bench::Targets targets;

constexpr const char* kTiny = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = relu(x[i])
})";

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string text_of(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels" / name)
                .rdbuf();
    return text.str();
}

/// The least of several times, in seconds.
double least(int runs, const std::function<double()>& run) {
    double best = 1e30;
    for (int i = 0; i < runs; ++i) best = std::min(best, run());
    return best;
}

void launches() {
    const Kernel kernel = Kernel(kTiny).on(Device("cpu"));
    const Tensor x = Tensor::from({16}, std::vector<float>(16, -1.0f));
    kernel(x);
    constexpr int kCalls = 10000;
    const double seconds = least(30, [&] {
        const auto start = Clock::now();
        for (int i = 0; i < kCalls; ++i) kernel(x);
        return seconds_since(start) / kCalls;
    });
    const long before = allocations;
    { const Tensor result(x.shape(), x.dtype(), x.device()); }
    const long of_result = allocations - before;
    const long start = allocations;
    kernel(x);
    std::printf(
        "launch of a cached kernel on 16 elements: %.2f us; allocations: %ld, of which the "
        "result %ld\n",
        seconds * 1e6, allocations - start, of_result);
    targets.at_most("launch, us", seconds * 1e6, 2);
    Tensor result(x.shape(), x.dtype(), x.device());
    kernel.into(result, x);
    const long before_again = allocations;
    kernel.into(result, x);
    const long again = allocations - before_again;
    const double into = least(20, [&] {
        const auto begin = Clock::now();
        for (int i = 0; i < kCalls; ++i) kernel.into(result, x);
        return seconds_since(begin) / kCalls;
    });
    std::printf("the same into a result that is there: %.2f us; allocations: %ld\n", into * 1e6,
                again);
    targets.at_most("allocations of a launch", double(again), 0);
}

/// At most so many milliseconds; 0 where they are only shown.
struct Limit {
    double all = 0;
    double passes = 0;
};

void compiles(const char* name, const cpu_test::Case& c, Limit limit) {
    double before_llvm = 1e30;
    const double all = least(20, [&] {
        const ir::Facts facts = c.facts();
        cpu::CompileResult result;
        const auto start = Clock::now();
        cpu::compiler()({c.kernel(), facts, Numerics::Strict, cpu::chosen_simd()}, result);
        before_llvm = std::min(before_llvm, result.seconds_before_llvm);
        return seconds_since(start);
    });
    std::printf("compile %s: %.2f ms, of which our passes %.2f ms\n", name, all * 1e3,
                before_llvm * 1e3);
    if (limit.all > 0) targets.at_most(fmt::format("compile {}, ms", name), all * 1e3, limit.all);
    if (limit.passes > 0) {
        targets.at_most(fmt::format("our passes of {}, ms", name), before_llvm * 1e3, limit.passes);
    }
}

/// In a new process: parse, find the code on disk, run.
int load_once() {
    const Tensor x = Tensor::from({16}, std::vector<float>(16, -1.0f));
    const auto start = Clock::now();
    const Kernel kernel = Kernel(kTiny).on(Device("cpu"));
    const Tensor y = kernel(x);
    const double seconds = seconds_since(start);
    std::ifstream maps("/proc/self/maps");
    std::stringstream text;
    text << maps.rdbuf();
    if (text.str().find("LLVM") != std::string::npos || y.values()[0] != 0) return 1;
    std::printf("%.6f\n", seconds * 1e3);
    return 0;
}

void loads(const char* self) {
    const std::string folder =
        (std::filesystem::temp_directory_path() / ("quern-bench-" + std::to_string(getpid())))
            .string();
    setenv("QUERN_CACHE", folder.c_str(), 1);
    // The first process compiles: what it says of LLVM does not count.
    const std::string command = std::string(self) + " --load";
    const auto run = [&]() -> double {
        FILE* pipe = popen(command.c_str(), "r");
        double milliseconds = -1;
        if (std::fscanf(pipe, "%lf", &milliseconds) != 1) milliseconds = -1;
        pclose(pipe);
        return milliseconds;
    };
    const double first = run();
    std::vector<double> times;
    for (int i = 0; i < 21; ++i) times.push_back(run());
    std::filesystem::remove_all(folder);
    std::sort(times.begin(), times.end());
    if (first >= 0 || times.front() < 0) {
        targets.missed("a new process: expected the first to compile and the others not to");
        return;
    }
    std::printf(
        "a new process, from text to result with code from the disk, without LLVM: "
        "%.3f ms (least), %.3f ms (median of 21)\n",
        times.front(), times[10]);
    targets.at_most("from the disk, ms", times.front(), 1);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "--load") return load_once();
    if (cpu::plugin_path().empty()) {
        std::printf("skipped: no plug-in with LLVM 19\n");
        return 0;
    }
    set_warning_handler([](const Diagnostic&) {});
    setenv("QUERN_CACHE", "off", 1);
    launches();
    loads(argv[0]);
    const Tensor x({1 << 20});
    const Tensor rows({1024, 1024}), row({1024}), heads({1, 2, 128, 64});
    constexpr Limit kElementwise{15, 0.5}, kAttention{60, 3};
    compiles("01 relu", cpu_test::Case(text_of("01_relu.quern"), {x}), kElementwise);
    compiles("02 multiply-add", cpu_test::Case(text_of("02_multiply_add.quern"), {x, x}),
             kElementwise);
    compiles("03 scale rows", cpu_test::Case(text_of("03_scale_rows.quern"), {rows, row}),
             kElementwise);
    compiles("17 gelu", cpu_test::Case(text_of("17_gelu.quern"), {x}), kElementwise);
    const Tensor odd({100003}), odd_heads({1, 2, 1025, 65});
    compiles("17 gelu of 100003 elements", cpu_test::Case(text_of("17_gelu.quern"), {odd}),
             kElementwise);
    const std::string attention = text_of("14_flash_attention.quern");
    compiles("14 flash attention", cpu_test::Case(attention, {heads, heads, heads}), kAttention);
    compiles("14 flash attention with tiles that are cut off",
             cpu_test::Case(attention, {odd_heads, odd_heads, odd_heads}), kAttention);
    return targets.finish();
}
