// The share of a launch that is done, as its caller hears of it.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "quern/frontend/launch.h"
#include "quern/lang/parse.h"

namespace quern {
namespace {

struct Heard {
    std::vector<double> parts;
    double seconds = 0;
};

/// Runs the kernel over one element that is repeated n times.
Heard progress_of(const std::string& text, std::int64_t n, const char* device) {
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    diagnostics.raise();
    const lang::Tree tree = source->tree();
    const Tensor one = Tensor::from<float>({1}, {1});
    const Tensor x =
        Tensor::adopt(const_cast<void*>(one.data()), {n}, DType::Float32, {0}, [one] {});
    const std::vector<Tensor> operands = {x};
    Heard heard;
    frontend::LaunchOptions options;
    options.placement.device = Device(device);
    options.progress = [&](double part) { heard.parts.push_back(part); };
    const auto begin = std::chrono::steady_clock::now();
    frontend::launch(*source, tree.child(tree[tree.root].first, 0), operands, {}, options);
    heard.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return heard;
}

/// Of a run that takes a second or so, whatever the machine.
Heard progress_of_long_run(const std::string& text, std::int64_t n,
                           const char* device = "interpreter") {
    Heard heard = progress_of(text, n, device);
    while (heard.seconds < 0.7) heard = progress_of(text, n *= 2, device);
    return heard;
}

void expect_steady(const Heard& heard) {
    ASSERT_GE(heard.parts.size(), 3u) << "in " << heard.seconds << " s";
    for (std::size_t i = 0; i < heard.parts.size(); ++i) {
        EXPECT_GE(heard.parts[i], i == 0 ? 0 : heard.parts[i - 1]);
        EXPECT_LE(heard.parts[i], 1);
    }
    // It is said within every 100 ms, so that the first is of the beginning and the last of the
    // end.
    EXPECT_GT(heard.parts.front(), 0);
    EXPECT_LT(heard.parts.front(), 0.6);
    EXPECT_GT(heard.parts.back(), 0.4);
}

TEST(Progress, MovesWithinASingleReduction) {
    expect_steady(progress_of_long_run(R"(compute(x) {
        @kernel custom
        var total = 0.0
        for i in 0..n:
            total += x[i]
        out = total
    })",
                                       1 << 22));
}

TEST(Progress, MovesWithinAReduceKernel) {
    expect_steady(progress_of_long_run(
        "compute(x) { @kernel reduce(+); for i in 0..len { yield x[i] * x[i] } }", 1 << 22));
}

TEST(Progress, MovesWithinNestedLoopsOfOnePoint) {
    expect_steady(progress_of_long_run(R"(compute(x) {
        @kernel custom
        for p in 0..1:
            var state = 0.0
            for i in 0..n:
                for j in 0..1000:
                    state = state * 0.5 + x[i]
            out[p] = state
    })",
                                       1 << 10));
}

TEST(Progress, CountsLoopsOneAfterAnotherOnce) {
    const Heard heard = progress_of_long_run(R"(compute(x) {
        @kernel custom
        var total = 0.0
        for i in 0..n:
            total += x[i]
        var squares = 0.0
        for i in 0..n:
            squares += x[i] * x[i] * total
        out = squares
    })",
                                             1 << 21);
    expect_steady(heard);
    EXPECT_GT(heard.parts.back(), 0.5) << "the second loop begins where the first has ended";
}

TEST(Progress, MovesOverParallelPoints) {
    expect_steady(progress_of_long_run(
        "compute(x) { @kernel elementwise; for i in 0..len { out[i] = sin(x[i]) } }", 1 << 20));
}

TEST(Progress, MovesWhileCompiledCodeRuns) {
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    expect_steady(progress_of_long_run(R"(compute(x) {
        @kernel custom
        for p in 0..1000:
            var sum = 0.0
            for i in 0..n:
                sum += sin(x[i] * p)
            out[p] = sum
    })",
                                       1 << 14, "cpu"));
}

}  // namespace
}  // namespace quern
