// The three numeric modes, as programs and scripts choose them.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "quern/async.h"
#include "quern/device.h"
#include "quern/numerics.h"
#include "quern/static_kernel.h"
#include "quern/threads.h"
#include "tests/conformance/operands.h"
#include "tests/script/script_helpers.h"

namespace quern {
namespace {

/// Puts the process's mode and threads back.
class Modes : public ::testing::Test {
protected:
    void SetUp() override {
        if (!Device("auto").is_cpu()) GTEST_SKIP() << "no plug-in with LLVM 19";
    }
    void TearDown() override {
        set_default_numerics(before_);
        set_num_threads(0);
        set_thread_pool(nullptr);
    }

private:
    Numerics before_ = default_numerics();
};

// Long enough for several chunks, with sums that round.
Tensor long_rows() { return uniform({20, 20011}, 5); }

const char* const kSquares = R"(
compute(x) {
    @kernel fused
    for b in 0..rows:
        var sum = 0.0
        for i in 0..n:
            sum += x[b, i] * x[b, i]
        out[b] = sum
})";

TEST_F(Modes, ReproducibleIsTheInterpretersBitsForAnyNumberOfThreads) {
    // Each has more work than one thread is given.
    const Tensor row = uniform({200'011}, 5), rows = long_rows();
    const Tensor heads = uniform({2, 2, 67, 20}, 8), whole = uniform({20011}, 6);
    const struct {
        const char* number;
        std::vector<Tensor> operands;
        std::vector<Argument> arguments = {};
    } kernels[] = {
        {"01", {row}},
        {"03", {rows, whole}},
        {"04", {row}},
        {"05", {row}},
        {"06", {row}},
        {"07", {rows}},
        {"08", {rows}},
        {"09", {uniform({61, 70}, 1), uniform({70, 65}, 2)}},
        {"10", {uniform({3, 31, 40}, 1), uniform({3, 40, 33}, 2)}},
        {"11", {uniform({2, 3, 26, 25}, 1), uniform({7, 3, 3, 3}, 2), uniform({7}, 3)}},
        {"12", {uniform({2, 9, 46, 45}, 1), uniform({9, 3, 3}, 2)}},
        {"13", {heads, heads, heads, random_tensor({67, 67}, DType::Bool, 9)}},
        {"14", {heads, heads, heads}},
        {"15", {rows}},
        {"16", {rows, whole, uniform({20011}, 7)}, {arg("eps", 1e-5)}},
        {"17", {rows}},
        {"18", {uniform({2, 9, 65, 64}, 1), uniform({65, 32}, 2), uniform({65, 32}, 3)}},
    };
    for (const auto& [number, operands, arguments] : kernels) {
        const Kernel kernel = example(number);
        const Tensor expected = kernel.on(Device("interpreter")).run(operands, arguments);
        for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            const Tensor got =
                kernel.on(Device("cpu")).with(Numerics::Reproducible).run(operands, arguments);
            EXPECT_TRUE(same_bits(got, expected)) << number << " on " << threads << " threads";
        }
    }
}

TEST_F(Modes, StrictBitsDoNotDependOnWhatRanBefore) {
    set_default_numerics(Numerics::Strict);
    // Kernels of one text share code, so that the second one has another name.
    const auto sums_of = [](const std::string& rows) {
        return Kernel("compute(" + rows + ") {\n    @kernel reduce(+, axis=1)\n" +
                      "    for i in 0..m, j in 0..n: yield " + rows + "[i, j]\n}")
            .on(Device("cpu"));
    };
    const Kernel fresh = sums_of("fresh"), used = sums_of("used");
    used(uniform({5003, 67}, 3).permute({1, 0}));
    used(uniform({403, 5003}, 3).slice(1, 0, 4999, 2));
    for (const Shape& shape : {Shape{67, 40011}, {4, 40011}, {67, 403}}) {
        const Tensor x = uniform(shape, 1);
        EXPECT_TRUE(same_bits(used(x), fresh(x))) << to_string(shape);
    }
}

/// The program's threads: one task after the other on one of them.
class OneThread : public ThreadPool {
public:
    void run(int count, void (*task)(void* context, int i), void* context) noexcept override {
        ++calls;
        std::thread([=] {
            for (int i = 0; i < count; ++i) task(context, i);
        }).join();
    }
    std::atomic<int> calls{0};
};

TEST_F(Modes, KernelsRunOnThreadsOfTheProgram) {
    // So many that they are worth threads.
    const Kernel kernel = example("17");
    const Tensor x = uniform({1 << 18}, 5);
    set_num_threads(3);
    for (const char* device : {"interpreter", "cpu"}) {
        const Kernel there = kernel.on(Device(device)).with(Numerics::Reproducible);
        set_thread_pool(nullptr);
        const Tensor expected = there(x);
        OneThread pool;
        set_thread_pool(&pool);
        EXPECT_TRUE(same_bits(there(x), expected)) << device;
        EXPECT_TRUE(same_bits(there.async()(x).get(), expected)) << device;
        EXPECT_EQ(pool.calls, 2) << device;
    }
}

/// As pools whose threads work for others while they wait: each call does a launch of another
/// kernel on the thread that calls.
class WorksForOthers : public ThreadPool {
public:
    explicit WorksForOthers(std::function<void()> other) : other_(std::move(other)) {}
    void run(int count, void (*task)(void* context, int i), void* context) noexcept override {
        for (int i = 0; i < count; ++i) task(context, i);
        if (is_at_it_) return;
        is_at_it_ = true;
        other_();
        is_at_it_ = false;
    }

private:
    std::function<void()> other_;
    bool is_at_it_ = false;
};

TEST_F(Modes, ALaunchWithinTheWaitOfAnotherTakesNoneOfItsMemory) {
    const Kernel sum = example("04").on(Device("cpu"));
    const std::int64_t n = 1 << 22;
    const Tensor ones = Tensor::from({n}, std::vector<float>(std::size_t(n), 1));
    const Tensor twos = Tensor::from({n}, std::vector<float>(std::size_t(n), 2));
    set_num_threads(3);
    double other = 0;
    WorksForOthers pool([&] { other = sum(twos).item(); });
    set_thread_pool(&pool);
    EXPECT_EQ(sum(ones).item(), double(n));
    EXPECT_EQ(other, 2.0 * double(n));
}

TEST_F(Modes, OfAKernelWinsOverThatOfTheProcess) {
    const Kernel kernel = Kernel(kSquares).on(Device("cpu"));
    const Tensor x = long_rows();
    const Tensor expected = Kernel(kSquares).on(Device("interpreter"))(x);
    const Tensor strict = kernel.with(Numerics::Strict)(x);
    ASSERT_FALSE(same_bits(strict, expected)) << "sums whose order cannot be told";
    set_default_numerics(Numerics::Reproducible);
    EXPECT_TRUE(same_bits(kernel(x), expected));
    EXPECT_TRUE(same_bits(kernel.with(Numerics::Strict)(x), strict));
    set_default_numerics(Numerics::Strict);
    EXPECT_TRUE(same_bits(kernel(x), strict));
    EXPECT_TRUE(same_bits(kernel.with(Numerics::Reproducible)(x), expected));
}

TEST_F(Modes, AreSaidByExplainUnlessStrict) {
    const Kernel kernel = Kernel(kSquares).on(Device("cpu"));
    const std::vector<Tensor> x = {long_rows()};
    EXPECT_EQ(kernel.with(Numerics::Strict).explain(x).find("strict"), std::string::npos);
    EXPECT_NE(kernel.with(Numerics::Reproducible).explain(x).find("; reproducible"),
              std::string::npos);
    EXPECT_NE(kernel.with(Numerics::Fast).explain(x).find("; fast"), std::string::npos);
}

TEST_F(Modes, FastKeepsInfinitiesAndNanOfWhatIsNotCancelled) {
    const float inf = std::numeric_limits<float>::infinity();
    const Tensor x = Tensor::from({6}, {0.0f, -inf, inf, NAN, 2.0f, -1.0f});
    const Tensor y = compute(R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = exp(x[i]) / 2.0 + 1.0 / x[i]
})",
                             x);
    const Kernel kernel = Kernel(R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = exp(x[i]) / 2.0 + 1.0 / x[i]
})");
    const Tensor fast = kernel.on(Device("cpu")).with(Numerics::Fast)(x);
    for (int i = 0; i < 6; ++i) {
        const float a = y.data<float>()[i], b = fast.data<float>()[i];
        if (std::isnan(a)) {
            EXPECT_TRUE(std::isnan(b)) << i;
        } else if (std::isinf(a)) {
            EXPECT_EQ(a, b);
        } else {
            EXPECT_NEAR(a, b, 1e-6 * std::abs(a)) << i;
        }
    }
}

TEST_F(Modes, FastTakesOneMorePerTanhForALogisticFunction) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16}) {
        const Kernel kernel(R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = (1.0 + tanh(x[i])) * 0.5 + (tanh(x[i] * 0.5) + 1.0)
})");
        const float inf = std::numeric_limits<float>::infinity();
        const Tensor special =
            Tensor::from({8}, {-inf, inf, NAN, 0.0f, -1e30f, 1e30f, -1e-30f, 44.0f}).to(dtype);
        const Tensor usual = uniform({1003}, 7, -30, 30).to(dtype);
        for (const Tensor& x : {special, usual}) {
            const std::vector<double> in = x.values();
            const std::vector<double> out =
                kernel.on(Device("cpu")).with(Numerics::Fast)(x).values();
            for (std::size_t i = 0; i < in.size(); ++i) {
                const double expected = 1 / (1 + std::exp(-2 * in[i])) + 2 / (1 + std::exp(-in[i]));
                // The power has the rounding of its exponent, which is below 90 where it counts.
                const double unit = dtype == DType::Float64   ? 0x1p-53
                                    : dtype == DType::Float32 ? 0x1p-24
                                    : dtype == DType::Float16 ? 0x1p-11
                                                              : 0x1p-8;
                const double bound = (dtype == DType::Float32 || dtype == DType::Float64)
                                         ? 90 * unit * expected + 1e-37
                                         : 8 * unit;
                if (std::isnan(expected)) {
                    EXPECT_TRUE(std::isnan(out[i])) << in[i];
                } else {
                    EXPECT_NEAR(out[i], expected, bound) << to_string(dtype) << " " << in[i];
                }
            }
        }
    }
}

TEST_F(Modes, FastDividesByWhatALoopKeepsAsAProduct) {
    // Eighths, whose sum is exact in any order.
    Tensor x = uniform({64, 300}, 3, 1, 2);
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
        x.data<float>()[i] = std::floor(8 * x.data<float>()[i]) / 8;
    }
    const Kernel softmax = Kernel(R"(compute(x) {
    @kernel fused
    for b in 0..rows:
        var sum = 0.0
        for i in 0..n:
            sum += x[b, i]
        for i in 0..n:
            out[b, i] = x[b, i] / sum
})")
                               .on(Device("cpu"));
    const Tensor strict = softmax.with(Numerics::Strict)(x);
    const Tensor fast = softmax.with(Numerics::Fast)(x);
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
        // The quotient is rounded once, 1 / sum and the product once each.
        ASSERT_NEAR(fast.data<float>()[i], strict.data<float>()[i],
                    3 * 0x1p-24 * strict.data<float>()[i]);
    }
}

TEST_F(Modes, StaticKernelsHaveThemToo) {
    const auto kernel = QUERN_KERNEL(R"(compute(x) {
    @kernel reduce(+)
    for i in 0..len:
        yield x[i] * x[i]
})");
    const Tensor x = uniform({20011}, 5);
    const Tensor expected = kernel.on(Device("interpreter"))(x);
    EXPECT_TRUE(same_bits(kernel.with(Numerics::Reproducible)(x), expected));
}

TEST_F(Modes, AreASettingOfScripts) {
    const std::string squares = std::string("let y = ") + (kSquares + 1);
    const Tensor x = long_rows();
    const Tensor expected = Kernel(kSquares).on(Device("interpreter"))(x);
    const auto of = [&](const std::string& mode) {
        const std::string setting = "config { numerics: \"" + mode + "\" }\n";
        script::RunOptions on_cpu;
        on_cpu.device = Device("cpu");
        const script::Results results =
            script::run_text(setting + squares, {{"x", script::Value(x)}}, on_cpu);
        return *results.find("y")->as<Tensor>();
    };
    EXPECT_TRUE(same_bits(of("reproducible"), expected));
    EXPECT_FALSE(same_bits(of("strict"), expected));
    EXPECT_EQ(script::error_of("config { numerics: \"exact\" }"), "E0441 at 1:20");
    EXPECT_EQ(script::error_of("config { numerics: 1 }"), "E0441 at 1:20");
}

TEST_F(Modes, OfAScriptEndWithIt) {
    const script::RunOptions options;
    script::run_text("config { numerics: \"reproducible\" }", {}, options);
    EXPECT_EQ(default_numerics(), Numerics::Strict);
}

TEST_F(Modes, ReproducibleCutsNoReduction) {
    const Tensor x = uniform({20011}, 8);
    const std::string sum =
        "(x) @device([\"cpu:0\", \"cpu:1\"]) @parallel(data) {\n    @kernel "
        "reduce(+)\n    for i in 0..len:\n        yield x[i]\n}";
    const script::CaughtWarnings warnings;
    const Tensor cut = Kernel("compute" + sum).with(Numerics::Reproducible)(x);
    EXPECT_EQ(warnings.count("W0707"), 1);
    EXPECT_TRUE(
        same_bits(cut.to(Device("interpreter")), example("04").on(Device("interpreter"))(x)));
}

TEST_F(Modes, ChangedBesideCallsAreNotMixedUp) {
    std::atomic<bool> ends = false;
    std::thread changes([&] {
        while (!ends) {
            set_default_numerics(Numerics::Strict);
            set_default_numerics(Numerics::Reproducible);
        }
    });
    const Tensor x = uniform({5003}, 3);
    for (int n = 0; n < 30; ++n) {
        const Kernel kernel(
            "compute(x) {\n    @kernel reduce(+)\n    for i in 0..len:\n        "
            "yield x[i] * x[i] + " +
            std::to_string(n) + ".25\n}");
        static_cast<void>(kernel.on(Device("cpu"))(x));
        static_cast<void>(kernel.on(Device("cpu")).with(Numerics::Strict)(x));
        EXPECT_TRUE(same_bits(kernel.on(Device("cpu")).with(Numerics::Reproducible)(x),
                              kernel.on(Device("interpreter"))(x)))
            << n;
    }
    ends = true;
    changes.join();
}

}  // namespace
}  // namespace quern
