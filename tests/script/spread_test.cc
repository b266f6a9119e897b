// Scripts over several devices.

#include <fstream>
#include <sstream>

#include "script_helpers.h"
#include "tests/tensor_test.h"

namespace quern::script {
namespace spread_test {

const Bindings kX = {{"x", counting({5})}};

/// Two devices that there are.
std::string two() {
    return devices().front().id == "cpu" ? R"(["cpu:0", "cpu:1"])"
                                         : R"(["interpreter", "interpreter"])";
}

std::string twice(const std::string& header) {
    return "compute(x) " + header +
           "{ @kernel elementwise; for i in 0..len { out[i] = x[i] * 2.0 } }";
}

TEST(ScriptSpread, TheDecoratorsStandInHeaderOrBody) {
    const std::vector<double> expected = {0, 2, 4, 6, 8};
    const std::string in_body = "compute(x) @parallel(data) {\n @kernel elementwise\n @device(" +
                                two() + ")\n for i in 0..len: out[i] = x[i] * 2.0\n}";
    for (const std::string& kernel :
         {twice("@device(" + two() + ") "), twice("@device(" + two() + ") @parallel(data) "),
          twice("@parallel(data) @device(" + two() + ") "), in_body}) {
        const CaughtWarnings warnings;
        const Results results = run_text("let r = " + kernel + "\n", kX);
        EXPECT_EQ(tensor_in(results, "r").values(), expected) << kernel;
        EXPECT_TRUE(warnings.list().empty()) << kernel;
    }
}

TEST(ScriptSpread, AnAbsentDeviceOfTheListIsNamed) {
    EXPECT_EQ(error_of("let r = " + twice("@device([\"interpreter\", \"cuda:9\"]) "), kX),
              "E0601 at 1:44");
}

TEST(ScriptSpread, AnAsynchronousLaunchMayBeSpread) {
    const std::string script =
        "let f = " + twice("@async @device(" + two() + ") @parallel(data) ") +
        "\nlet r = await f\n";
    EXPECT_EQ(tensor_in(run_text(script, kX), "r").values(), (std::vector<double>{0, 2, 4, 6, 8}));
}

TEST(ScriptSpread, ThePipelinesKernelsAreSpreadOrGoToTheDevicesInTurn) {
    const auto step = [](const std::string& name, const std::string& from) {
        return "    let " + name + " = compute(" + from +
               ") { @kernel elementwise; for i in 0..len { out[i] = " + from + "[i] * 2.0 } }\n";
    };
    const std::string pipeline = "pipeline f(t: tensor):\n" + step("a", "t") + step("b", "a") +
                                 step("c", "b") + "    return (a, b, c)\n";
    for (const char* mode : {"data", "model"}) {
        const Results results = run_text(pipeline + "let (a, b, c) = f(x) @device(" + two() +
                                             ") @parallel(" + mode + ")\nlet d = relu(x)\n",
                                         kX);
        const Tensor a = tensor_in(results, "a"), b = tensor_in(results, "b"),
                     c = tensor_in(results, "c");
        EXPECT_EQ(c.values(), (std::vector<double>{0, 8, 16, 24, 32}));
        EXPECT_EQ(a.device(), c.device());
        EXPECT_EQ(tensor_in(results, "d").device(), Device());
        if (devices().front().id != "cpu") continue;
        EXPECT_EQ(a.device().id(), "cpu:0");
        EXPECT_EQ(b.device().id(), std::string(mode) == "model" ? "cpu:1" : "cpu:0");
    }
}

TEST(ScriptSpread, APipelineInsideOfOneGoesOnInItsTurn) {
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    const auto step = [](const std::string& name, const std::string& from) {
        return "    let " + name + " = compute(" + from +
               ") { @kernel elementwise; for i in 0..len { out[i] = " + from + "[i] * 2.0 } }\n";
    };
    for (const char* call : {"g(a)", "await (g(a) @async)"}) {
        const std::string script = "pipeline g(t: tensor):\n" + step("u", "t") +
                                   "    return u\npipeline f(t: tensor):\n" + step("a", "t") +
                                   "    let b = " + call + "\n" + step("c", "b") +
                                   "    return (a, b, c)\n" + "let (a, b, c) = f(x) @device(" +
                                   two() + ") @parallel(model)\n";
        const Results results = run_text(script, kX);
        EXPECT_EQ(tensor_in(results, "a").device().id(), "cpu:0");
        EXPECT_EQ(tensor_in(results, "b").device().id(), "cpu:1");
        if (std::string(call) == "g(a)") {
            EXPECT_EQ(tensor_in(results, "c").device().id(), "cpu:0");
        }
    }
}

/// 20, and what it is to give.
class HostApi : public ::testing::Test {
protected:
    HostApi() {
        std::ifstream file(QUERN_SOURCE_DIR "/examples/kernels/20_host_api.quern");
        std::ostringstream text;
        text << file.rdbuf();
        text_ = text.str();
    }

    void replace(std::string_view from, const std::string& to) {
        const std::size_t at = text_.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        text_.replace(at, from.size(), to);
    }

    Results results() const {
        const Bindings bindings = {{"data", data_},
                                   {"batch1", counting({5})},
                                   {"batch2", counting({6})},
                                   {"batch3", counting({7})},
                                   {"large", counting({3, 5})}};
        const CaughtWarnings warnings;
        Results results = run_text(text_, bindings);
        EXPECT_TRUE(warnings.list().empty());
        EXPECT_EQ(tensor_in(results, "doubled").values(), (std::vector<double>{0, 2, 4, 6}));
        EXPECT_EQ(tensor_in(results, "total").item(), 6);
        EXPECT_EQ(tensor_in(results, "bounded").item(), 6);
        std::vector<double> squares;
        for (int i = 0; i < 15; ++i) squares.push_back(i * i);
        EXPECT_EQ(tensor_in(results, "split_result").values(), squares);
        EXPECT_EQ(tensor_in(results, "home").values(), (std::vector<double>{0, 1, 2, 3}));
        EXPECT_TRUE(tensor_in(results, "view").shares_storage_with(data_));
        return results;
    }

    Tensor data_ = counting({4}).to(Device("cpu"));
    std::string text_;
};

TEST_F(HostApi, ItsProgramRuns) {
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    results();
}

TEST_F(HostApi, ItsProgramRunsOnEveryVulkanDeviceAndTheCpu) {
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    const std::string as_written = text_;
    bool has_run = false;
    for (const DeviceInfo& info : devices()) {
        if (info.type != "vulkan") continue;
        SCOPED_TRACE(info.id);
        has_run = true;
        text_ = as_written;
        replace("compute_device: \"auto\"", "compute_device: \"" + info.id + '"');
        replace("@device(\"cpu\")", "@device(\"" + info.id + "\")");
        replace("\"cpu:0\", \"cpu:1\"", '"' + info.id + "\", \"cpu\"");
        replace("to_device(\"auto\")", "to_device(\"" + info.id + "\")");
        const Results got = results();
        for (const char* name : {"doubled", "total", "split_result", "moved"}) {
            EXPECT_EQ(tensor_in(got, name).device().id(), info.id) << name;
        }
    }
    if (!has_run) GTEST_SKIP() << "no device vulkan:0";
}

}  // namespace spread_test
}  // namespace quern::script
