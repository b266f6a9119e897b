#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"
#include "quern/runtime/device_options.h"

// Baked kernels run where there is no compiler, and say what is wrong where they do not.

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = R"(
let y = compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = tanh(x[i]) * 2.0
}
let s = compute(y) {
    @kernel reduce(+)
    for i in 0..n: yield y[i]
}
)";

class Bake : public testing::Test {
protected:
    void SetUp() override {
        if (!has_device("cpu")) GTEST_SKIP() << "no device cpu";
        setenv("QUERN_CACHE", "off", 1);
        script_ = folder_.write("script.quern", kText);
        kernels_ = folder_ / "script.kernels";
    }
    void TearDown() override { unsetenv("QUERN_PLUGINS"); }

    Outcome bake(const std::vector<std::string>& more) const {
        std::vector<std::string> arguments = {"bake", script_, "--out", kernels_};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return cli::run(arguments);
    }

    /// Runs the script where no compiler is.
    Outcome run_alone(const Tensor& x, const std::vector<std::string>& more = {}) const {
        const std::string operand = folder_.write("x.npy", x);
        const std::string nowhere = folder_ / "nowhere";
        fs::create_directory(nowhere);
        setenv("QUERN_PLUGINS", nowhere.c_str(), 1);
        std::vector<std::string> arguments = {"run",          script_,     "--in",
                                              "x=" + operand, "--kernels", kernels_};
        arguments.insert(arguments.end(), more.begin(), more.end());
        Outcome outcome = cli::run(arguments);
        unsetenv("QUERN_PLUGINS");
        return outcome;
    }

    Folder folder_;
    std::string script_, kernels_;
};

Tensor ramp(std::int64_t n) {
    Tensor x({n}, DType::Float32);
    for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = float(i % 17) / 8 - 1;
    return x;
}

TEST_F(Bake, OfShapesRefusesWhatRunsOnSeveralDevices) {
    for (const char* devices : {R"(["cpu", "interpreter"])", R"(["interpreter", "cpu"])"}) {
        script_ =
            folder_.write("spread.quern", "let y = compute(x) @device(" + std::string(devices) +
                                              ") @parallel(data) {\n    @kernel elementwise\n"
                                              "    for i in 0..len: out[i] = x[i]\n}\n"
                                              "let z = abs(y)\n");
        const Outcome baked = bake({"--shape", "x=f32[6]"});
        EXPECT_EQ(baked.status, 1);
        EXPECT_NE(baked.err.find("expected a kernel of one device"), std::string::npos)
            << baked.err;
    }
}

TEST_F(Bake, MakesTheCpuADeviceThatNeedsNoCompiler) {
    const Outcome baked = bake({"--shape", "x=f32[1024]"});
    ASSERT_EQ(baked.status, 0) << baked.err;
    EXPECT_EQ(baked.out.find(kernels_ + ": 2 kernels, "), 0u) << baked.out;
    for (const std::int64_t n : {1024, 1, 0, 1003, 100'003}) {
        const Outcome alone = run_alone(ramp(n), {"--device", "cpu"});
        ASSERT_EQ(alone.status, 0) << alone.err;
        const Outcome compiled = cli::run({"run", script_, "--in", "x=" + (folder_ / "x.npy")});
        EXPECT_EQ(alone.out, compiled.out) << n;
    }
    EXPECT_EQ(run_alone(ramp(4)).status, 0) << "the default device";
}

TEST_F(Bake, RecordsARunOnWholeOperandsToo) {
    const std::string operand = folder_.write("x.npy", ramp(64));
    const Outcome baked = bake({"--in", "x=" + operand, "--numerics", "reproducible"});
    ASSERT_EQ(baked.status, 0) << baked.err;
    const Outcome alone = run_alone(ramp(65), {"--numerics", "reproducible"});
    EXPECT_EQ(alone.status, 0) << alone.err;
}

TEST_F(Bake, RunsCodeOfLesserInstructionsThanTheProcessorHas) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]", "--cpu", "scalar"}).status, 0);
    const Outcome alone = run_alone(ramp(64));
    EXPECT_EQ(alone.status, 0) << alone.err;
}

#if defined(__x86_64__)
TEST_F(Bake, RunsNoCodeOfMoreInstructionsThanTheEnvironmentAllows) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]", "--cpu", "sse4.1"}).status, 0);
    setenv("QUERN_CPU", "scalar", 1);
    const Outcome alone = run_alone(ramp(64));
    unsetenv("QUERN_CPU");
    EXPECT_EQ(alone.status, 1);
    EXPECT_NE(alone.err.find("got one for scalar, strict"), std::string::npos) << alone.err;
}
#endif

TEST_F(Bake, SaysWhichKernelWasNotBaked) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]"}).status, 0);
    const Outcome other = run_alone(ramp(64).to(DType::Float64));
    EXPECT_EQ(other.status, 1);
    EXPECT_NE(other.err.find("E0601: expected a kernel that was baked"), std::string::npos)
        << other.err;
    EXPECT_NE(other.err.find("x: float64[1]"), std::string::npos) << other.err;
    const Outcome mode = run_alone(ramp(64), {"--numerics", "fast"});
    EXPECT_NE(mode.err.find("E0601"), std::string::npos) << mode.err;
    // The interpreter needs none.
    EXPECT_EQ(run_alone(ramp(64).to(DType::Float64), {"--device", "interpreter"}).status, 0);
}

TEST_F(Bake, RefusesFilesThatAreDamagedOrOfAnotherProcessor) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]"}).status, 0);
    fs::resize_file(kernels_, fs::file_size(kernels_) / 2);
    const Outcome damaged = run_alone(ramp(64));
    EXPECT_EQ(damaged.status, 1);
    EXPECT_NE(damaged.err.find(kernels_ + ": expected baked kernels, got a file with a wrong"),
              std::string::npos)
        << damaged.err;
#if defined(__x86_64__)
    ASSERT_EQ(bake({"--shape", "x=f32[64]", "--cpu", "neon"}).status, 0);
    const Outcome foreign = run_alone(ramp(64));
    EXPECT_EQ(foreign.status, 1);
    EXPECT_NE(foreign.err.find("expected kernels for this processor, got none"), std::string::npos)
        << foreign.err;
#endif
}

TEST_F(Bake, LeavesTheOldFileIfItFails) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]"}).status, 0);
    const std::string before = read_file(kernels_);
    const Outcome wrong = bake({"--shape", "x=f32[64]", "--cpu", "avx9"});
    EXPECT_EQ(wrong.status, 1);
    EXPECT_NE(wrong.err.find("got 'avx9'"), std::string::npos) << wrong.err;
    const Outcome nothing = bake({"--shape", "x=f32[64]", "--device", "interpreter"});
    EXPECT_EQ(nothing.status, 1);
    EXPECT_NE(nothing.err.find("expected a launch on the device cpu, got none"), std::string::npos)
        << nothing.err;
    EXPECT_EQ(read_file(kernels_), before);
    EXPECT_EQ(folder_.files(), (std::vector<std::string>{"script.kernels", "script.quern"}));
}

TEST_F(Bake, AsksForWholeOperandsWhereAKernelIsSpread) {
    script_ = folder_.write("script.quern", R"(
let y = compute(x) @device(["cpu:0", "cpu:1"]) @parallel(data) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] + 1.0
}
)");
    const Outcome shapes = bake({"--shape", "x=f32[64]"});
    EXPECT_EQ(shapes.status, 1);
    EXPECT_NE(shapes.err.find("give whole operands"), std::string::npos) << shapes.err;
    const Outcome whole = bake({"--in", "x=" + folder_.write("x.npy", ramp(64))});
    ASSERT_EQ(whole.status, 0) << whole.err;
    const Outcome alone = run_alone(ramp(96));
    EXPECT_EQ(alone.status, 0) << alone.err;
}

TEST_F(Bake, LetsExplainSayWhatWasNotBaked) {
    ASSERT_EQ(bake({"--shape", "x=f32[64]"}).status, 0);
    const std::string operand = folder_.write("x.npy", ramp(4).to(DType::Float64));
    const std::string nowhere = folder_ / "nowhere";
    fs::create_directory(nowhere);
    setenv("QUERN_PLUGINS", nowhere.c_str(), 1);
    const Outcome outcome =
        cli::run({"explain", script_, "--in", "x=" + operand, "--kernels", kernels_});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("schedule    none: [device] E0601"), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("strict; len: x"), std::string::npos) << outcome.out;
}

TEST_F(Bake, PointsToTheLineOfAKernelThatTheCpuDoesNotRun) {
    script_ = folder_.write("script.quern", R"(
let y = compute(x) {
    @kernel custom
    for i in 0..n:
        out[i] = x[i]
        if i > 0:
            out[i] = out[i] + out[(i * 3 + 1) % n]
}
)");
    const Outcome refused = bake({"--shape", "x=f32[64]"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("E0600"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("script.quern:2"), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists(kernels_));
    const Outcome explained = cli::run({"explain", script_, "--shape", "x=f32[64]"});
    EXPECT_EQ(explained.status, 0) << explained.err;
    EXPECT_NE(explained.out.find("schedule    none: the device cpu does not run points of 'i'"),
              std::string::npos)
        << explained.out;
}

}  // namespace
}  // namespace quern::cli
