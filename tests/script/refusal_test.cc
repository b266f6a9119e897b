// What needs another device than the interpreter is refused with a message of its own, before any
// work.

#include <fstream>
#include <sstream>

#include "script_helpers.h"

namespace quern::script {
namespace {

const Bindings kX = {{"x", counting({4})}};

std::string relu(const std::string& header) {
    return "compute(x) " + header +
           "{ @kernel elementwise; for i in 0..len { out[i] = relu(x[i]) } }";
}

TEST(ScriptRefusal, SeveralDevices) {
    EXPECT_EQ(error_of("let r = " + relu("@device([\"cpu:0\", \"cpu:1\"]) @parallel(data) "), kX),
              "E0600 at 1:28");
}

TEST(ScriptRefusal, Check35_ParallelOnASingleDeviceIsAWarning) {
    const CaughtWarnings warnings;
    const Results results = run_text("let r = " + relu("@parallel(data) "), kX);
    EXPECT_EQ(warnings.count("W0707"), 1);
    ASSERT_EQ(warnings.list().size(), 1u);
    EXPECT_EQ(warnings.list()[0].severity, Severity::Warning);
    EXPECT_EQ(warnings.list()[0].source.substr(std::size_t(warnings.list()[0].column) - 1, 8),
              "parallel");
    EXPECT_EQ(tensor_in(results, "r").values(), (std::vector<double>{0, 1, 2, 3}));
    EXPECT_EQ(error_of("let r = " + relu("@device([\"interpreter\"]) @parallel(model) "), kX),
              "no error");
    EXPECT_EQ(error_of("let r = " + relu("@device([\"cuda:9\"]) @parallel(model) "), kX),
              "E0601 at 1:29");
}

TEST(ScriptRefusal, AnAbsentDeviceOfAPipelineCall) {
    const std::string pipeline = "pipeline f(t: tensor):\n    return t\n";
    EXPECT_EQ(error_of(pipeline + "let r = f(x) @device(\"cuda:9\")\n", kX), "E0601 at 3:22");
    EXPECT_EQ(error_of(pipeline + "let r = f(x) @device(\"auto\")\n", kX), "no error");
}

TEST(ScriptRefusal, EachKindOfWorkIsReportedOnceWithItsOtherLines) {
    const std::string several = relu("@device([\"cpu:0\", \"cpu:1\"]) ");
    const auto errors =
        errors_of("let a = 1 / 0\nlet r = " + several + "\nlet s = " + several + "\n", kX);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].line, 2);
    EXPECT_EQ(errors[0].notes, (std::vector<std::string>{"the same holds on line 3 ('@device')"}));
}

TEST(ScriptRefusal, TheProgramOfTheHostApiIsCheckedAndNotRun) {
    std::ifstream file(QUERN_SOURCE_DIR "/examples/kernels/20_host_api.quern");
    ASSERT_TRUE(file);
    std::ostringstream text;
    text << file.rdbuf();
    lang::Diagnostics diagnostics(text.str());
    const auto source = lang::parse(text.str(), {}, diagnostics);
    ASSERT_FALSE(diagnostics.has_errors());
    check(*source, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors());

    Bindings bindings;
    for (const char* name : {"data", "batch1", "batch2", "batch3", "large"}) {
        bindings[name] = counting({4});
    }
    int refused = 0;
    for (const Diagnostic& error : errors_of(text.str(), bindings)) {
        EXPECT_TRUE(error.code == "E0600" || error.code == "E0601") << error.message;
        refused += error.code == "E0600" ? 1 : 0;
    }
    EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace quern::script
