// Memory that ends while kernels are compiled.

#include <gtest/gtest.h>

#ifdef __linux__
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/runtime/cpu_plugin.h"
#include "tests/address_space.h"
#include "tests/sanitized.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

std::string kernel_number(int k) {
    return "compute(x) {\n    @kernel fused\n    for i in 0..n:\n        var s = 0.0\n"
           "        for j in 0..m:\n            s += sin(x[i, j] + " +
           std::to_string(k) + ".0) * pow(x[i, j], 1.5) + tanh(x[i, j])\n        out[i] = s\n}";
}

/// How many of some kernels compile, and how many are refused with numbers; ends the process with 0
/// if nothing else happens to any.
void compile_some(std::size_t left, int threads, bool is_loaded = true) {
    const Tensor x({64, 64});
    const Device cpu("cpu");
    if (is_loaded) Kernel(kernel_number(99)).on(cpu)(x);
    leave_addresses(left);
    std::atomic<int> right = 0, refused = 0;
    const auto work = [&](int first) {
        for (int k = first; k < first + 6; ++k) {
            try {
                Kernel(kernel_number(k)).on(cpu)(x);
                ++right;
            } catch (const OutOfMemory& error) {
                const std::string said = error.what();
                refused += said.find("[compiler] expected room for ") == 0 &&
                           said.find("bytes are free") != std::string::npos;
            }
        }
    };
    std::vector<std::thread> all;
    for (int t = 1; t < threads; ++t) all.emplace_back(work, 10 * t);
    work(0);
    for (std::thread& thread : all) thread.join();
    leave_addresses(std::size_t{1} << 30);
    Kernel(kernel_number(77)).on(cpu)(x);
    std::_Exit(right + refused == 6 * threads ? 0 : 1);
}

TEST(Compiling, WithoutMemoryIsAnErrorAndTheProgramGoesOn) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer takes addresses of its own";
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (const std::size_t kilobytes : {0, 1000, 1800, 2500, 8000, 30000, 36000, 60000}) {
        EXPECT_EXIT(compile_some(kilobytes << 10, 1), testing::ExitedWithCode(0), "") << kilobytes;
    }
    EXPECT_EXIT(compile_some(std::size_t{50} << 20, 1, false), testing::ExitedWithCode(0), "");
    // Threads ask for room beside each other's, and get new stacks.
    EXPECT_EXIT(compile_some(std::size_t{200} << 20, 2), testing::ExitedWithCode(0), "");
}

/// Code of so many functions that it takes ten times the memory of others.
void compile_large(std::size_t left) {
    std::string text = "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var s = x[i]\n";
    for (int k = 0; k < 150; ++k) {
        text += "  s = pow(s + " + std::to_string(k) + ".0, 1.5) + tan(s) * sin(s)\n";
    }
    const Kernel large = Kernel(text + "  out[i] = s\n}").on(Device("cpu"));
    const Tensor x({64});
    Kernel(kernel_number(99)).on(Device("cpu"))(Tensor({64, 64}));
    leave_addresses(left);
    try {
        large(x);
    } catch (const OutOfMemory&) {
    }
    std::_Exit(0);
}

TEST(Compiling, OfManyFunctionsWithoutMemoryIsAnErrorToo) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer takes addresses of its own";
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (const std::size_t megabytes : {50, 100, 150, 200, 250}) {
        EXPECT_EXIT(compile_large(megabytes << 20), testing::ExitedWithCode(0), "") << megabytes;
    }
}

}  // namespace
}  // namespace quern
#endif
