// Code for aarch64, run by an emulator of it: the interpreter's bits in reproducible mode, strict
// and fast code near them.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/cpu/compiled_run.h"
#include "tests/cpu/definitions.h"
#include "tests/folder.h"
#include "tests/generator/random_kernel.h"
#include "tests/schedule/examples.h"

namespace quern::cpu_test {
namespace {

/// What run_image reads.
class Job {
public:
    void word(std::uint64_t value) { bytes(&value, sizeof(value)); }
    void bytes(const void* from, std::size_t count) {
        text_.append(static_cast<const char*>(from), count);
    }
    void counted(const void* from, std::size_t count) {
        word(count);
        bytes(from, count);
    }
    void write(const std::string& path) const {
        std::ofstream(path, std::ios::binary).write(text_.data(), std::streamsize(text_.size()));
    }

private:
    std::string text_;
};

std::size_t bytes_of(const interpret::View& view) {
    std::int64_t elements = 1;
    for (std::size_t p = 0; p < view.shape.size(); ++p) {
        if (view.shape[p] == 0) return 0;
        elements += (view.shape[p] - 1) * view.strides[p];
    }
    return std::size_t(elements) * size_of(view.dtype);
}

class Aarch64 : public Compiled {
protected:
    void SetUp() override {
        Compiled::SetUp();
        if (!IsSkipped() && std::string(QUERN_AARCH64_RUN).empty()) {
            GTEST_SKIP() << "no g++-aarch64-linux-gnu or no qemu-user";
        }
    }

    /// None if an assertion failed.
    std::optional<Tensor> run(const Case& c, Numerics numerics) {
        const ir::Facts facts = c.facts();
        const KernelImage image =
            image_from(compile({c.kernel(), facts, numerics, cpu::Simd::Neon}));
        const ReadyLaunch launch = c.ready(image);
        Job job;
        job.counted(image.object.data(), image.object.size());
        job.word(launch.stages.size());
        for (std::size_t i = 0; i < launch.stages.size(); ++i) {
            const std::string& function = image.stages[i].function;
            job.counted(function.data(), function.size());
            job.word(launch.stages[i].words.size());
            for (const std::uint64_t word : launch.stages[i].words) job.word(word);
            job.word(std::uint64_t(launch.stages[i].points));
        }
        job.word(launch.local);
        Tensor result = c.output();
        std::vector<std::string> buffers(image.buffer_count);
        for (std::size_t i = 0; i < c.views().size(); ++i) {
            const interpret::View& view = c.views()[i];
            buffers[i].assign(static_cast<const char*>(view.data), bytes_of(view));
        }
        const std::size_t output = c.views().size();
        buffers[output].assign(static_cast<const char*>(result.data()), result.bytes());
        for (std::size_t i = 0; i < launch.shared.size(); ++i) {
            buffers[image.shared[i].buffer].resize(launch.shared[i]);
        }
        job.word(buffers.size());
        for (const std::string& buffer : buffers) job.counted(buffer.data(), buffer.size());
        job.word(output);
        const TestFolder folder;
        const std::string from = folder / "job", to = folder / "result";
        job.write(from);
        const std::string command =
            std::string(QUERN_AARCH64_RUN) + " '" + from + "' > '" + to + "'";
        const int status = std::system(command.c_str());
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (code == 1) return std::nullopt;
        EXPECT_EQ(code, 0) << command;
        std::ifstream file(to, std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(file), {});
        EXPECT_EQ(bytes.size(), result.bytes());
        if (bytes.size() == result.bytes()) std::memcpy(result.data(), bytes.data(), bytes.size());
        return result;
    }

    void expect_agreement(const Case& c, double tolerance = 1e-5, double scale = 1) {
        const auto expected = c.interpreted();
        ASSERT_TRUE(expected);
        const auto exact = run(c, Numerics::Reproducible);
        ASSERT_TRUE(exact);
        EXPECT_TRUE(same_numbers(*exact, *expected)) << to_string(*exact) << "\nexpected\n"
                                                     << to_string(*expected);
        for (const Numerics numerics : {Numerics::Strict, Numerics::Fast}) {
            SCOPED_TRACE(to_string(numerics));
            const auto close = run(c, numerics);
            ASSERT_TRUE(close);
            expect_near(*close, *expected, tolerance, scale);
        }
    }
};

TEST_F(Aarch64, RunsTheExamples) {
    for (const schedule::Row& row : schedule::kRows) {
        SCOPED_TRACE(row.number);
        expect_agreement(schedule::case_of(row), 1e-5, 10);
    }
}

TEST_F(Aarch64, EvaluatesFunctionsByTheirDefinition) {
    for (const DType dtype : kDTypes) {
        const Tensor x = arguments(dtype);
        for (const char* name : kFunctions) {
            SCOPED_TRACE(std::string(name) + " of " + std::string(to_string(dtype)));
            const Case c(text_of(name), {x});
            const auto expected = c.interpreted();
            const auto exact = run(c, Numerics::Reproducible);
            const auto strict = run(c, Numerics::Strict);
            ASSERT_TRUE(expected && exact && strict);
            EXPECT_TRUE(same_numbers(*exact, *expected));
            EXPECT_TRUE(same_numbers(*strict, definition(name, x, /*fuses=*/true)));
        }
        const Tensor y = uniform(x.shape(), 4, -3, 3, dtype);
        const Case c(kPower, {x, y});
        const auto expected = c.interpreted();
        const auto exact = run(c, Numerics::Reproducible);
        const auto strict = run(c, Numerics::Strict);
        ASSERT_TRUE(expected && exact && strict);
        EXPECT_TRUE(same_numbers(*exact, *expected));
        EXPECT_TRUE(same_numbers(*strict, fused_powers(x, y)));
    }
}

TEST_F(Aarch64, ConvertsBetweenAllDtypes) {
    const DType dtypes[] = {DType::Bool,   DType::Int8,    DType::Int16,    DType::Int32,
                            DType::Int64,  DType::UInt8,   DType::UInt16,   DType::UInt32,
                            DType::UInt64, DType::Float16, DType::BFloat16, DType::Float32,
                            DType::Float64};
    const double numbers[] = {0,    -0.0,  1,     -1,    2.5,   -2.5,     127,       128,
                              -129, 255.5, 256,   65504, 65520, 1e-7,     6e-8,      3e9,
                              -3e9, 1e19,  -1e19, 1e39,  NAN,   INFINITY, -INFINITY, 0.1};
    const Tensor x =
        Tensor::from({24}, std::vector<double>(std::begin(numbers), std::end(numbers)));
    for (const DType from : dtypes) {
        for (const DType to : dtypes) {
            const std::string name(to_string(to));
            SCOPED_TRACE(std::string(to_string(from)) + " to " + name);
            const Case c("compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = " +
                             name + "(x[i])\n}",
                         {x.to(from)});
            const auto expected = c.interpreted();
            const auto exact = run(c, Numerics::Reproducible);
            ASSERT_TRUE(expected && exact);
            EXPECT_TRUE(same_numbers(*exact, *expected));
        }
    }
}

/// Whose double lies between two floats.
TEST_F(Aarch64, WideIntegersRoundOnceToFloat32) {
    std::vector<std::int64_t> values = {9223371761976868863, -9223371761976868863};
    for (int exponent = 25; exponent < 62; ++exponent) {
        const std::int64_t halfway = std::int64_t{0x1000001} << (exponent - 24);
        for (const std::int64_t off : {-1, 0, 1}) values.push_back(halfway + off);
    }
    const Tensor x = Tensor::from({std::int64_t(values.size())}, values);
    const char* text =
        "compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = float32(x[i])\n}";
    for (const DType from : {DType::Int64, DType::UInt64}) {
        const Case c(text, {x.to(from)});
        const auto expected = c.interpreted();
        const auto exact = run(c, Numerics::Reproducible);
        ASSERT_TRUE(expected && exact);
        EXPECT_TRUE(same_numbers(*exact, *expected)) << to_string(from);
    }
}

TEST_F(Aarch64, ReadsOperandsThatAreViews) {
    const Tensor x = uniform({9, 21}, 1);
    expect_agreement(Case(example_text("07"), {x.permute({1, 0})}));
    expect_agreement(Case(example_text("09"), {x.permute({1, 0}), x.slice(1, 3, 20)}), 1e-5, 10);
}

TEST_F(Aarch64, RunsRandomKernels) {
    const auto expect_right = [&](const generator::RandomKernel& kernel) {
        SCOPED_TRACE(kernel.text);
        const Case c(kernel.text, kernel.operands);
        const auto expected = c.interpreted();
        ASSERT_TRUE(expected);
        for (const Numerics numerics : {Numerics::Reproducible, Numerics::Strict}) {
            SCOPED_TRACE(to_string(numerics));
            const auto result = run(c, numerics);
            ASSERT_TRUE(result);
            EXPECT_EQ(kernel.wrong_element(*result), "");
            EXPECT_TRUE(numerics == Numerics::Strict || same_numbers(*result, *expected));
        }
    };
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
        SCOPED_TRACE(seed);
        expect_right(generator::random_kernel(seed));
        if (seed % 3 == 0) expect_right(generator::random_row_kernel(seed));
    }
}

TEST_F(Aarch64, SaysThatAnAssertionFailed) {
    const Tensor x = uniform({7}, 1);
    const Tensor index = Tensor::from({3}, std::vector<std::int64_t>{0, 6, 7});
    const Case c(R"(compute(x, index) {
    @kernel custom
    for i in 0..n: out[i] = x[index[i]]
})",
                 {x, index});
    EXPECT_FALSE(run(c, Numerics::Strict));
}

}  // namespace
}  // namespace quern::cpu_test
