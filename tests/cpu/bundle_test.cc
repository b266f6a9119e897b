#include "quern/kernel.h"
#include "quern/kernel_bundle.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/support/file.h"
#include "quern/support/processor.h"
#include "tests/cpu/compiled_run.h"
#include "tests/folder.h"

// What launches were noted, what is baked of them, and which code a launch takes.

namespace quern::cpu_test {
namespace {

class Bundle : public Compiled {
protected:
    static KernelBundle read(const std::string& path) {
        return bundle_from(read_file(path, 1 << 30), path);
    }

    TestFolder folder_;
    const std::string path_ = folder_ / "program.kernels";
};

constexpr const char* kScaled = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * factor + 3.25
})";

TEST_F(Bundle, HasCodeForTheLaunchesAndForAnyOthers) {
    const Kernel kernel = Kernel(kScaled).on(Device("cpu"));
    // A launch that is remembered is noted too.
    kernel(uniform({96}, 1), arg("factor", 2.0));
    const KernelRecorder recorder;
    EXPECT_EQ(recorder.count(), 0u);
    EXPECT_THROW(recorder.write(path_), ValueError);
    kernel(uniform({96}, 1), arg("factor", 2.0));
    kernel(uniform({96}, 1), arg("factor", 5.0));
    kernel.with(Numerics::Reproducible)(uniform({7}, 1), arg("factor", 2.0));
    kernel(uniform({96}, 1).to(DType::Float64), arg("factor", 2.0));
    EXPECT_EQ(recorder.count(), 2u) << "kernels: one of each dtype";

    std::vector<double> parts;
    recorder.write(path_, {.instructions = {"avx2", "sse4.1", "avx2"},
                           .progress = [&](double part) { parts.push_back(part); }});
    ASSERT_FALSE(parts.empty());
    EXPECT_EQ(parts.back(), 1);
    const KernelBundle bundle = read(path_);
    ASSERT_EQ(bundle.kernels.size(), 2u);
    std::size_t strict = 0, reproducible = 0;
    for (const KernelBundle::Kernel& each : bundle.kernels) {
        for (const KernelBundle::Code& code : each.codes) {
            strict += code.numerics == Numerics::Strict;
            reproducible += code.numerics == Numerics::Reproducible;
            EXPECT_FALSE(code.image.empty());
        }
        EXPECT_EQ(each.codes.front().simd, cpu::Simd::Avx2) << "the best first";
        EXPECT_EQ(each.codes.back().facts.operands[0].contiguous_axes, 0);
    }
    // As noted, for any extents, and for any strides too, on two levels.
    EXPECT_EQ(strict, 2 * 3 * 2u);
    EXPECT_EQ(reproducible, 3 * 2u);
}

TEST_F(Bundle, IsTakenBeforeWhatTheCompilerWouldMake) {
    const std::string text = R"(compute(a, b) {
    @kernel custom
    for i in 0..m, j in 0..n: out[i, j] = a[i, j] - b[j, i] * 0.125
})";
    {
        const KernelRecorder recorder;
        Kernel(text).on(Device("cpu"))(uniform({64, 32}, 1), uniform({32, 64}, 2));
        recorder.write(path_);
    }
    load_kernels(path_);
    for (const auto& [m, n] : {std::pair{64, 32}, {128, 96}, {5, 7}, {1, 1}, {0, 3}}) {
        const Tensor a = uniform({m, n}, 1), b = uniform({n, m}, 2);
        for (const Tensor& first : {a, transposed_in_memory(a)}) {
            const Case c(text, {first, b});
            const auto code = c.found(Numerics::Strict);
            const ir::Facts& facts = code->facts();
            const bool is_noted = m == 64 && n == 32 && first.is_contiguous();
            EXPECT_EQ(facts.dims == c.facts().dims, is_noted) << m << " x " << n;
            EXPECT_EQ(facts == ir::without_numbers(facts), !is_noted) << m << " x " << n;
            EXPECT_TRUE(ir::holds(facts, c.facts()));
            Tensor got = c.output();
            ASSERT_TRUE(c.run(*code, got, 2));
            EXPECT_TRUE(same_numbers(got, *c.interpreted())) << m << " x " << n;
        }
    }
}

TEST_F(Bundle, LoadedLaterIsTakenWhereItFitsBetter) {
    const std::string text = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * 0.5 - 2.0
})";
    const Kernel kernel = Kernel(text).on(Device("cpu"));
    const auto baked = [&](std::int64_t n, const char* level) {
        const KernelRecorder recorder;
        kernel(uniform({n}, 1));
        recorder.write(path_, {.instructions = {level}, .progress = {}});
        return read_file(path_, 1 << 30);
    };
    // Both are baked before anything is loaded, which the recorder would note as well.
    const auto first = baked(7, "sse4.1"), second = baked(4096, "sse4.1");
    const Case c(text, {uniform({4096}, 2)});
    load_kernels(first);
    EXPECT_EQ(c.found(Numerics::Strict)->facts().dims[0], ir::DimFacts());
    load_kernels(second);
    EXPECT_EQ(c.found(Numerics::Strict)->facts().dims[0], c.facts().dims[0]);
    load_kernels(first);
    EXPECT_EQ(c.found(Numerics::Strict)->facts().dims[0], c.facts().dims[0]);
}

TEST_F(Bundle, HasCodeForMachinesWhoseCachesHoldTheOutput) {
    const KernelRecorder recorder;
    const Kernel kernel = Kernel(kScaled).on(Device("cpu"));
    const std::int64_t n = std::int64_t(largest_cache() / sizeof(float) / 16 + 1) * 16;
    kernel(uniform({n}, 1), arg("factor", 2.0));
    recorder.write(path_, {.instructions = {"avx2"}, .progress = {}});
    const auto codes = read(path_).kernels.at(0).codes;
    const auto streamed = std::ranges::count_if(codes, [](const KernelBundle::Code& code) {
        return code.facts.operands.back().is_streamed;
    });
    EXPECT_EQ(codes.size(), 5u);
    EXPECT_EQ(streamed, 2);
    EXPECT_TRUE(codes.front().facts.operands.back().is_streamed);
}

}  // namespace
}  // namespace quern::cpu_test
