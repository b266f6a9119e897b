// The programs of examples/kernels run from the command line on small inputs. Their numbers are
// compared elsewhere; here it is shapes, dtypes and names that the command must get right.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "command.h"
#include "quern/runtime/device_options.h"

namespace quern::cli {
namespace {

struct Input {
    std::string name;
    Shape shape;
    DType dtype = DType::Float32;
};

struct Program {
    std::string file;
    std::vector<Input> inputs;
    std::vector<std::string> arguments;
    std::string result;
    Shape shape;
    DType dtype = DType::Float32;
};

void PrintTo(const Program& program, std::ostream* out) { *out << program.file; }

/// Values between -1 and 1 that repeat nowhere near.
Tensor filled(const Input& input) {
    std::vector<double> values(std::size_t(element_count(input.shape)));
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::sin(1.0 + 2.3 * double(n));
    return Tensor::from(input.shape, values).to(input.dtype);
}

class Programs : public ::testing::TestWithParam<Program> {
protected:
    void TearDown() override { unsetenv("QUERN_PLUGINS"); }

    static std::vector<std::string> command(const std::string& name) {
        std::vector<std::string> arguments = {
            name, std::string(QUERN_SOURCE_DIR "/examples/kernels/") + GetParam().file};
        for (const std::string& argument : GetParam().arguments) {
            arguments.insert(arguments.end(), {"--arg", argument});
        }
        return arguments;
    }

    /// The result of a run, in a folder of its own.
    Tensor result_of(const std::vector<std::string>& more = {}) const {
        const Folder folder;
        std::vector<std::string> arguments = command("run");
        for (const Input& input : GetParam().inputs) {
            const std::string path = folder.write(input.name + ".npy", filled(input));
            arguments.insert(arguments.end(), {"--in", input.name + "=" + path});
        }
        arguments.insert(arguments.end(), more.begin(), more.end());
        arguments.insert(arguments.end(),
                         {"--out", GetParam().result + "=" + folder / "result.npy"});
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        return outcome.status == 0 ? load_npy(folder / "result.npy") : Tensor();
    }
};

TEST_P(Programs, RunFromTheCommandLine) {
    const Program& program = GetParam();
    const Tensor result = result_of();
    EXPECT_EQ(result.shape(), program.shape);
    EXPECT_EQ(result.dtype(), program.dtype);
    double largest = 0;
    for (const double value : result.values()) {
        ASSERT_TRUE(std::isfinite(value));
        largest = std::max(largest, std::fabs(value));
    }
    EXPECT_GT(largest, 0);
}

TEST_P(Programs, BakedForOtherExtentsGiveTheInterpretersBitsWithoutACompiler) {
    if (!has_device("cpu")) GTEST_SKIP() << "no device cpu";
    setenv("QUERN_CACHE", "off", 1);
    const Folder folder;
    const std::string kernels = folder / "kernels";
    const Tensor expected = result_of({"--device", "interpreter"});
    for (const int times : {1, 32}) {
        std::vector<std::string> bake = command("bake");
        bake.insert(bake.end(), {"--numerics", "reproducible", "--out", kernels});
        for (const Input& input : GetParam().inputs) {
            Shape shape = input.shape;
            for (std::int64_t& extent : shape) extent *= times;
            bake.insert(bake.end(),
                        {"--shape", fmt::format("{}={}{}", input.name, to_string(input.dtype),
                                                to_string(shape))});
        }
        const Outcome baked = run(bake);
        ASSERT_EQ(baked.status, 0) << baked.err;
        setenv("QUERN_PLUGINS", (folder / "").c_str(), 1);
        const Tensor alone =
            result_of({"--device", "cpu", "--numerics", "reproducible", "--kernels", kernels});
        unsetenv("QUERN_PLUGINS");
        ASSERT_EQ(alone.bytes(), expected.bytes());
        EXPECT_EQ(std::memcmp(alone.data(), expected.data(), alone.bytes()), 0) << times;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Examples, Programs,
    ::testing::Values(
        Program{"01_relu.quern", {{"x", {5}}}, {}, "y", {5}},
        Program{"02_multiply_add.quern", {{"x", {5}}, {"y", {5}}}, {}, "z", {5}},
        Program{"03_scale_rows.quern", {{"matrix", {2, 3}}, {"vector", {3}}}, {}, "scaled", {2, 3}},
        Program{"04_sum.quern", {{"data", {7}}}, {}, "total", {}},
        Program{"05_max.quern", {{"data", {7}}}, {}, "max_val", {}},
        Program{"06_norm.quern", {{"data", {7}}}, {}, "norm", {}},
        Program{"07_row_sums.quern", {{"matrix", {2, 3}}}, {}, "row_sums", {2}},
        Program{"08_argmax.quern", {{"data", {7}}}, {}, "max_idx", {}, DType::Int64},
        Program{"09_matmul.quern", {{"A", {4, 3}}, {"B", {3, 5}}}, {}, "C", {4, 5}},
        Program{
            "10_batched_matmul.quern", {{"A", {2, 4, 3}}, {"B", {2, 3, 5}}}, {}, "C", {2, 4, 5}},
        Program{"11_conv2d.quern",
                {{"input", {1, 2, 5, 6}}, {"kernel", {3, 2, 3, 2}}, {"bias", {3}}},
                {"stride=2", "padding=1"},
                "output",
                {1, 3, 3, 4}},
        Program{"12_depthwise_conv2d.quern",
                {{"input", {1, 2, 5, 6}}, {"kernel", {2, 3, 2}}},
                {},
                "output",
                {1, 2, 3, 5}},
        Program{"13_attention.quern",
                {{"Q", {1, 2, 5, 4}},
                 {"K", {1, 2, 5, 4}},
                 {"V", {1, 2, 5, 4}},
                 {"mask", {5, 5}, DType::Bool}},
                {},
                "attn",
                {1, 2, 5, 4}},
        Program{"14_flash_attention.quern",
                {{"Q", {1, 2, 5, 4}}, {"K", {1, 2, 5, 4}}, {"V", {1, 2, 5, 4}}},
                {},
                "attn",
                {1, 2, 5, 4}},
        Program{"15_softmax.quern", {{"logits", {2, 3}}}, {}, "probs", {2, 3}},
        Program{"16_layer_norm.quern",
                {{"x", {2, 6}}, {"gamma", {6}}, {"beta", {6}}},
                {"eps=1e-5"},
                "normalized",
                {2, 6}},
        Program{"17_gelu.quern", {{"x", {2, 3, 2}}}, {}, "activated", {2, 3, 2}},
        Program{"18_rope.quern",
                {{"x", {1, 2, 3, 4}}, {"cos_cache", {3, 2}}, {"sin_cache", {3, 2}}},
                {},
                "rotated",
                {1, 2, 3, 4}}),
    [](const ::testing::TestParamInfo<Program>& info) {
        return "Kernel" + info.param.file.substr(0, 2);
    });

TEST(TransformerProgram, RunsWithAModelFromASafetensorsFile) {
    const Folder folder;
    TensorSet model;
    const std::int64_t h = 4, f = 6;
    const std::vector<std::pair<std::string, Shape>> weights = {
        {"qkv_proj", {h, 3 * h}}, {"out_proj", {h, h}}, {"ln1_weight", {h}}, {"ln1_bias", {h}},
        {"ffn_up", {h, f}},       {"ffn_down", {f, h}}, {"ln2_weight", {h}}, {"ln2_bias", {h}}};
    for (const auto& [name, shape] : weights) {
        model["layers.1." + name] = filled({name, shape}).to(DType::Float32);
    }
    save_safetensors(folder / "model.safetensors", model);
    const std::string x = folder.write("x.npy", filled({"x", {1, 3, h}}));
    const Outcome outcome =
        run({"run", QUERN_SOURCE_DIR "/examples/kernels/19_transformer_block.quern", "--in",
             "x=" + x, "--in", "model=" + folder / "model.safetensors", "--arg", "layer=1", "--arg",
             "num_heads=2", "--arg", "eps=1e-5", "--out",
             "transformer_block=" + folder / "result.npy"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(load_npy(folder / "result.npy").shape(), (Shape{1, 3, h}));
}

TEST(CheckedPrograms, EveryOneChecks) {
    for (const char* folder : {"/examples/kernels", "/examples/demo"}) {
        for (const auto& entry :
             std::filesystem::directory_iterator(std::string(QUERN_SOURCE_DIR) + folder)) {
            if (entry.path().extension() != ".quern") continue;
            const Outcome outcome = run({"check", entry.path().string()});
            EXPECT_EQ(outcome.status, 0) << entry.path() << "\n" << outcome.err;
        }
    }
}

}  // namespace
}  // namespace quern::cli
