#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/static_kernel.h"
#include "quern/support/processor.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/passes.h"

// Launches that are like an earlier one in all but elements take a shorter way.

namespace quern::cpu_test {
namespace launch_test {

class Launches : public Compiled {
protected:
    static Kernel kernel(const std::string& text) { return Kernel(text).on(Device("cpu")); }
};

/// How many threads may share each stage of a launch if there are two.
std::vector<int> threads_of(const std::string& text, std::vector<Tensor> operands) {
    const Case c(text, std::move(operands));
    const CompiledKernel kernel(c.kernel(), c.facts(), Numerics::Strict, cpu::chosen_simd());
    std::vector<int> threads;
    for (const auto& stage : c.ready(kernel, 2).stages) threads.push_back(stage.threads);
    return threads;
}

constexpr const char* kRowSums = R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        var sum = 0.0
        for k in 0..m: sum += x[i, k]
        out[i] = sum
})";

constexpr const char* kScaled = R"(
compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * factor
})";

Tensor numbers(const Shape& shape, float first) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + float(i);
    return Tensor::from(shape, values);
}

TEST_F(Launches, KeepNoLargeArrayOfAThread) {
    const Kernel reversed = kernel(R"(compute(x) {
    @kernel custom
    for b in 0..rows:
        var t = zeros(n)
        for i in 0..n: t[i] = x[b, i] * 2.0
        for i in 0..n: out[b, i] = t[n - 1 - i]
})");
    const Tensor x = uniform({4, 1 << 19}, 1);
    Tensor y({4, 1 << 19}, DType::Float32);
    const std::size_t before = memory_counters().live;
    for (int i = 0; i < 2; ++i) {
        reversed.into(y, x);
        EXPECT_EQ(memory_counters().live, before);
    }
    EXPECT_EQ(y.data<float>()[0], 2 * x.data<float>()[(1 << 19) - 1]);
}

TEST_F(Launches, AgainReadTheElementsThatThereAreNow) {
    const Kernel scaled = kernel(kScaled);
    const Tensor a = numbers({5}, 1), b = numbers({5}, 100);
    EXPECT_EQ(scaled(a, arg("factor", 2.0)).values(), (std::vector<double>{2, 4, 6, 8, 10}));
    const Tensor kept = scaled(a, arg("factor", 2.0));
    EXPECT_EQ(scaled(b, arg("factor", 2.0)).values(),
              (std::vector<double>{200, 202, 204, 206, 208}));
    EXPECT_EQ(kept.values(), (std::vector<double>{2, 4, 6, 8, 10}));
    EXPECT_EQ(kept.device().id(), "cpu");
}

TEST_F(Launches, TellNumbersShapesStridesAndDtypesApart) {
    const Kernel scaled = kernel(kScaled);
    const Tensor a = numbers({2, 3}, 1);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(scaled(a, arg("factor", 2.0)).values(),
                  (std::vector<double>{2, 4, 6, 8, 10, 12}));
        EXPECT_EQ(scaled(a, arg("factor", -1.0)).values(),
                  (std::vector<double>{-1, -2, -3, -4, -5, -6}));
        const Tensor column = scaled(a.reshape({6, 1}), arg("factor", 1.0));
        EXPECT_EQ(column.shape(), (Shape{6, 1}));
        const Tensor turned = scaled(a.permute({1, 0}), arg("factor", 1.0));
        EXPECT_EQ(turned.shape(), (Shape{3, 2}));
        EXPECT_EQ(turned.values(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
        EXPECT_EQ(scaled(a.slice(1, 0, 3, 2), arg("factor", 1.0)).values(),
                  (std::vector<double>{1, 3, 4, 6}));
        const Tensor wide = scaled(a.to(DType::Float64), arg("factor", 0.1));
        EXPECT_EQ(wide.dtype(), DType::Float64);
        EXPECT_EQ(wide.values()[0], 0.1);
    }
}

TEST_F(Launches, TakeStridedOperandsOfTwoAxesAsTheyLie) {
    const Kernel rows = kernel(R"(
compute(x) {
    @kernel custom
    for i in 0..n, j in 0..m: out[i, j] = x[i, j] + 1.0
})");
    const Tensor a = numbers({2, 3}, 0);
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(rows(a.permute({1, 0})).values(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
        EXPECT_EQ(rows(a.reshape({3, 2})).values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
        EXPECT_EQ(rows(a).values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
        EXPECT_EQ(rows(a.slice(1, 1, 3)).values(), (std::vector<double>{2, 3, 5, 6}));
        EXPECT_EQ(rows(a.slice(1, 0, 2)).values(), (std::vector<double>{1, 2, 4, 5}));
    }
}

TEST_F(Launches, ClearWhatNoStoreWrites) {
    const Kernel positive = kernel(R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        if x[i] > 0.0: out[i] = x[i]
})");
    const Tensor some = numbers({40000}, -20000);
    for (int round = 0; round < 3; ++round) {
        const Tensor result = positive(some);
        EXPECT_EQ(result.values()[0], 0);
        EXPECT_EQ(result.values()[20000], 0);
        EXPECT_EQ(result.values()[20001], 1);
    }
}

TEST_F(Launches, ThatFailSayTheSameEachTime) {
    const Kernel quotient = kernel(R"(
compute(n, d) {
    @kernel elementwise
    for i in 0..len: out[i] = n[i] / d[i]
})");
    const Tensor n = Tensor::from({2}, {6, 8}), good = Tensor::from({2}, {3, 2});
    const Tensor bad = Tensor::from({2}, {3, 0});
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(quotient(n, good).values(), (std::vector<double>{2, 4}));
        try {
            quotient(n, bad);
            FAIL() << "expected E0621";
        } catch (const KernelError& error) {
            EXPECT_EQ(error.diagnostics().front().code, "E0621");
        }
    }
}

TEST_F(Launches, OfFewRowsAreSharedWhereTheRowsAreLong) {
    EXPECT_EQ(threads_of(kRowSums, {Tensor({128, 1024})}), (std::vector<int>{2}));
    EXPECT_EQ(threads_of(kRowSums, {Tensor({4, 65536})}), (std::vector<int>{2}));
    EXPECT_EQ(threads_of(kRowSums, {Tensor({128, 64})}), (std::vector<int>{1}));
    EXPECT_EQ(threads_of(kRowSums, {Tensor({4096, 2})}), (std::vector<int>{1}));
    EXPECT_EQ(threads_of(kRowSums, {Tensor({0, 1024})}), (std::vector<int>{1}));
    EXPECT_EQ(threads_of(kRowSums, {Tensor({65536, 0})}), (std::vector<int>{2}));
}

TEST_F(Launches, AreSharedByWhatLoopsThatDependOnOthersDoAbout) {
    const std::string triangle = R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        var sum = 0.0
        for k in 0..i: sum += x[i, k]
        out[i] = sum
})";
    EXPECT_EQ(threads_of(triangle, {Tensor({2048, 2048})}), (std::vector<int>{2}));
    EXPECT_EQ(threads_of(triangle, {Tensor({64, 64})}), (std::vector<int>{1}));
}

TEST_F(Launches, GoOnAfterAnArgumentIsMissing) {
    const Kernel scaled = kernel(kScaled);
    const Tensor a = numbers({2}, 1);
    scaled(a, arg("factor", 2.0));
    EXPECT_THROW(scaled(a), KernelError);
    EXPECT_THROW(scaled(a, arg("other", 2.0)), ValueError);
    EXPECT_EQ(scaled(a, arg("factor", 2.0)).values(), (std::vector<double>{2, 4}));
}

TEST_F(Launches, OfManyKernelsAndThreadsDoNotMix) {
    std::vector<Kernel> kernels;
    for (int k = 0; k < 20; ++k) {
        kernels.push_back(
            kernel("compute(x) { @kernel elementwise\n for i in 0..len: out[i] = "
                   "x[i] + " +
                   std::to_string(k) + ".0 }"));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 600; ++i) {
                const int k = (i * 7 + t) % 20;
                const Tensor x = numbers({1 + i % 70}, float(t));
                ASSERT_EQ(kernels[std::size_t(k)](x).values()[0], double(t + k));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(Empty, TensorsHoldNanWhereTheEnvironmentAsksForIt) {
    const char* fill = std::getenv("QUERN_FILL");
    if (!fill || std::string_view(fill) != "nan") GTEST_SKIP() << "QUERN_FILL is not nan";
    for (const std::int64_t count : {1, 100, 100000}) {
        const Tensor tensor = Tensor::empty({count});
        for (const double value : tensor.values()) ASSERT_TRUE(std::isnan(value));
        EXPECT_EQ(tensor.shape(), Shape{count});
        EXPECT_EQ(Tensor({count}).values()[0], 0);
    }
}

TEST_F(Launches, IntoAResultThatIsThere) {
    for (const char* device : {"cpu", "interpreter"}) {
        SCOPED_TRACE(device);
        const Kernel scaled = Kernel(kScaled).on(Device(device));
        Tensor result({5}, DType::Float32, Device(device));
        const Tensor same = result;
        for (int round = 1; round < 4; ++round) {
            scaled.into(result, numbers({5}, 1), arg("factor", double(round)));
            const double r = round;
            EXPECT_EQ(same.values(), (std::vector<double>{r, 2 * r, 3 * r, 4 * r, 5 * r}));
        }
        // A part of a larger tensor, at no multiple of 64 bytes.
        const Tensor whole({3, 5}, DType::Float32, Device(device));
        Tensor row = whole.slice(0, 1, 2).reshape({5});
        for (int round = 0; round < 2; ++round) {
            scaled.into(row, numbers({5}, 1), arg("factor", 2.0));
            EXPECT_EQ(whole.values(),
                      (std::vector<double>{0, 0, 0, 0, 0, 2, 4, 6, 8, 10, 0, 0, 0, 0, 0}));
        }
    }
}

TEST_F(Launches, IntoAResultThatNoCacheHoldsAtAnyAddress) {
    const Kernel negated = kernel(
        "compute(x) {\n    @kernel elementwise\n    for i in 0..len: "
        "out[i] = -x[i]\n}");
    const auto n = std::int64_t(largest_cache() / sizeof(float)) + 1;
    const Tensor x = numbers({n}, 1);
    Tensor whole({n + 1});
    Tensor behind = whole.slice(0, 1, n + 1), aligned({n});
    for (int round = 0; round < 2; ++round) {
        negated.into(aligned, x);
        negated.into(behind, x);
    }
    for (const std::int64_t i : {std::int64_t(0), n / 2, n - 1}) {
        EXPECT_EQ(behind.data<float>()[i], -x.data<float>()[i]);
        EXPECT_EQ(aligned.data<float>()[i], -x.data<float>()[i]);
    }
}

TEST_F(Launches, IntoAResultHeedTheDeviceOfTheText) {
    for (const char* device : {"interpreter", "cpu:1", "cpu"}) {
        const Kernel twice("compute(x) @device(\"" + std::string(device) +
                           "\") {\n    @kernel elementwise\n    for i in 0..len: out[i] = x[i] * "
                           "2.0\n}");
        Tensor result({3}, DType::Float32, Device(device));
        Tensor elsewhere({3}, DType::Float32, Device("cpu:2"));
        for (int round = 0; round < 2; ++round) {
            twice.into(result, numbers({3}, 1));
            EXPECT_EQ(result.values(), (std::vector<double>{2, 4, 6}));
            EXPECT_THROWS(DeviceError, "expected a result on", twice.into(elsewhere, result));
        }
    }
    const auto thrice = QUERN_KERNEL(R"(compute(x) {
        @kernel elementwise
        for i in 0..len: out[i] = x[i] * 3.0
    })");
    Tensor result({3});
    thrice.into(result, numbers({3}, 1));
    EXPECT_EQ(result.values(), (std::vector<double>{3, 6, 9}));
}

TEST_F(Launches, IntoAResultClearWhatTheKernelDoesNotWrite) {
    const Kernel some = kernel(R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        if x[i] > 2.5:
            out[i] = x[i]
})");
    Tensor result = numbers({4}, 50);
    for (int round = 0; round < 2; ++round) {
        some.into(result, numbers({4}, 1));
        EXPECT_EQ(result.values(), (std::vector<double>{0, 0, 3, 4}));
    }
}

TEST_F(Launches, IntoAResultThatFailPoisonIt) {
    const char* const text = R"(
compute(x, y) {
    @kernel custom
    for i in 0..n:
        out[i] = x[i] / y[i]
})";
    const Tensor x = Tensor::from<std::int32_t>({3}, {6, 8, 9});
    const Tensor y = Tensor::from<std::int32_t>({3}, {3, 0, 3});
    const Tensor good = Tensor::from<std::int32_t>({3}, {3, 2, 3});
    for (const char* device : {"interpreter", "cpu:1", "cpu"}) {
        const Kernel quotients = Kernel(text).on(Device(device));
        Tensor result({3}, DType::Int32, Device(device));
        // The second time each way, there is code.
        for (int round = 0; round < 2; ++round) {
            EXPECT_THROWS(KernelError, "E0621", quotients.into(result, x, y));
            EXPECT_EQ(result.values(), (std::vector<double>{-1, -1, -1})) << device;
            quotients.into(result, x, good);
            EXPECT_EQ(result.values(), (std::vector<double>{2, 4, 3})) << device;
        }
    }

    const Kernel halves(
        "compute(x, y) {\n    @kernel custom\n"
        "    for i in 0..n: out[i] = select(x[i] / y[i] > 2, 1.0, 0.5)\n}");
    Tensor floats({3});
    EXPECT_THROWS(KernelError, "E0621", halves.into(floats, x, y));
    EXPECT_TRUE(std::isnan(floats.data<float>()[2]));
    const Kernel are_large(
        "compute(x, y) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i] / y[i] > 2\n}");
    Tensor flags({3}, DType::Bool);
    EXPECT_THROWS(KernelError, "E0621", are_large.into(flags, x, y));
    EXPECT_EQ(flags.values(), (std::vector<double>{1, 1, 1}));
    // Nothing has begun.
    Tensor kept = numbers({3}, 5);
    EXPECT_THROWS(KernelError, "E0501", halves.into(kept, x, y.slice(0, 0, 2)));
    EXPECT_EQ(kept.values(), numbers({3}, 5).values());
}

TEST_F(Launches, IntoAResultThatDoesNotFitAreRefusedAndLeaveItAsItWas) {
    const Kernel scaled = kernel(kScaled);
    const Tensor x = numbers({6}, 1);
    const auto factor = arg("factor", 2.0);
    static_cast<void>(scaled(x, factor));
    Tensor shorter = numbers({5}, 7);
    EXPECT_THROWS(ShapeError, "expected a result of shape [6], got [5]",
                  scaled.into(shorter, x, factor));
    EXPECT_EQ(shorter.values(), numbers({5}, 7).values());
    Tensor wide({6}, DType::Float64);
    EXPECT_THROWS(DTypeError, "expected a result of dtype float32, got float64",
                  scaled.into(wide, x, factor));
    Tensor elsewhere({6}, DType::Float32, Device("interpreter"));
    EXPECT_THROWS(DeviceError, "expected a result on 'cpu', got one on 'interpreter'",
                  scaled.into(elsewhere, x, factor));
    Tensor gaps = numbers({12}, 1).slice(0, 0, 12, 2);
    EXPECT_THROWS(ShapeError, "without gaps", scaled.into(gaps, x, factor));
    Tensor all = numbers({12}, 1);
    Tensor low = all.slice(0, 0, 6), high = all.slice(0, 6, 12), middle = all.slice(0, 3, 9);
    EXPECT_THROWS(ValueError, "shares no memory with operand 0", scaled.into(middle, low, factor));
    EXPECT_THROWS(ValueError, "shares no memory with operand 0", scaled.into(low, low, factor));
    EXPECT_EQ(all.values(), numbers({12}, 1).values());
    scaled.into(high, low, factor);
    EXPECT_EQ(high.values(), (std::vector<double>{2, 4, 6, 8, 10, 12}));
}

TEST_F(Launches, OfLoopsWhoseStepIsAsLargeAsNumbersGet) {
    const Tensor x = numbers({5}, 1);
    for (const std::int64_t step :
         {INT64_MAX, INT64_MAX - 3, std::int64_t(1) << 62, std::int64_t(7)}) {
        SCOPED_TRACE(step);
        const std::string s = std::to_string(step);
        const std::string head = "compute(x) {\n    @kernel custom\n    for i in 0..n";
        const std::string end = "        out[i] = s\n}";
        expect_agreement(Case(head + " step " + s + ": out[i] = x[i] * 2.0\n}", {x}));
        expect_agreement(Case(head + ":\n        var s = x[i]\n        for k in 0..n step " + s +
                                  ": s += x[k]\n" + end,
                              {x}));
        const std::string named =
            head + ":\n        var s = x[i]\n        for k in 0..n step c: s += x[k]\n" + end;
        expect_agreement(Case(named, {x}, {{"c", step}}));
    }
}

TEST_F(Launches, OfSegmentsThatEndFarBelowTheirBegin) {
    constexpr std::int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
    const Tensor low = Tensor::from<std::int64_t>({5}, {kMost, 3, kMost - 1, 5, 1});
    const Tensor high = Tensor::from<std::int64_t>({5}, {-2, kLeast, 0, 7, 2});
    for (const char* body : {"s = s * 3 + 1", "s += k"}) {
        for (const char* step : {"", " step 3"}) {
            const std::string text =
                "compute(low, high) {\n@kernel custom\nfor i in 0..n:\n  var s = 0\n"
                "  for k in low[i]..high[i]" +
                std::string(step) + ": " + body + "\n  out[i] = s\n}";
            const Case c(text, {low, high});
            EXPECT_EQ(first_wrong_pass(c, Numerics::Strict), "");
            expect_agreement(c);
        }
    }
}

TEST_F(Launches, SeeIndicesThatWrapOutOfBounds) {
    const Tensor x = numbers({8}, 1);
    const auto all = [](std::int64_t value, DType dtype) {
        return Tensor::from<std::int64_t>({8}, std::vector<std::int64_t>(8, value)).to(dtype);
    };
    const auto text = [](const std::string& index) {
        return "compute(x: [8], a) {\n@kernel custom\nfor i in 0..8: out[i] = x[" + index + "]\n}";
    };
    constexpr std::int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
    const struct {
        const char* index;
        std::int64_t a;
        DType dtype;
        bool is_inside;
    } kCases[] = {
        {"min(i64(a[i]) * 3000000000, 7)", 4294967295, DType::UInt32, false},
        {"(i64(a[i]) * 3000000001) % 8", 4294967295, DType::UInt32, false},
        {"min(abs(a[i]), 7)", kLeast, DType::Int64, false},
        {"min(max(a[i], 0) + 1, 7)", kMost, DType::Int64, false},
        {"min(max(a[i], -1) + 1, 7)", kMost, DType::Int64, false},
        {"min(a[i] * a[i], 7)", std::int64_t(3037000500), DType::Int64, false},
        {"(max(a[i], 0) * 8 + 3) / 8", (std::int64_t(1) << 61) + 1, DType::Int64, true},
        {"max(i64(a[i]) * 3000000000, -1) + 1", 4294967295, DType::UInt32, true},
        {"min(max(a[i], 0), 7)", kMost, DType::Int64, true},
        {"min(max(a[i], 0), 7)", kLeast, DType::Int64, true},
    };
    for (const auto& [index, a, dtype, is_inside] : kCases) {
        SCOPED_TRACE(index);
        const Case c(text(index), {x, all(a, dtype)});
        EXPECT_EQ(c.interpreted().has_value(), is_inside);
        if (is_inside) {
            expect_agreement(c);
            continue;
        }
        for (const cpu::Simd simd : levels_here()) {
            for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
                EXPECT_FALSE(c.compiled(numerics, simd)) << to_string(simd);
            }
        }
    }
}

/// Launches in the destructor of an object that its thread had before any launch.
struct LaunchesAtTheEnd {
    std::function<void()> launch;
    ~LaunchesAtTheEnd() {
        if (launch) launch();
    }
};

TEST_F(Launches, GoOnInDestructorsOfAThreadThatEnds) {
    const Kernel sums = kernel(R"(
compute(x) {
    @kernel custom
    for b in 0..n:
        shared var t[1000]
        for i in 0..1000: t[i] = exp(x[b]) + f32(i)
        barrier()
        var s = 0.0
        for i in 0..1000: s += t[999 - i]
        out[b] = s
})");
    const Tensor x = Tensor::from<float>({4}, {0, 0, 0, 0});
    for (int round = 0; round < 20; ++round) {
        std::optional<Tensor> first, last;
        std::thread([&] {
            static thread_local LaunchesAtTheEnd at_the_end;
            at_the_end.launch = [&] { last = sums(x); };
            first = sums(x);
        }).join();
        EXPECT_EQ(first->values(), (std::vector<double>(4, 500500)));
        EXPECT_EQ(last->values(), first->values());
    }
}

TEST_F(Launches, RunOnEveryLevelOfInstructionsThatThereIs) {
    std::string absent;
    for (const cpu::Simd simd : cpu::kSimdLevels) {
        if (!cpu::has(simd)) absent += std::string(" ") + to_string(simd);
    }
    if (!absent.empty()) GTEST_SKIP() << "this processor runs no code for" << absent;
}

}  // namespace launch_test
}  // namespace quern::cpu_test
