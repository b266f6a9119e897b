// A device that is absent is refused before any work; a single one makes @parallel a warning.

#include "script_helpers.h"

namespace quern::script {
namespace refusal_test {

const Bindings kX = {{"x", counting({4})}};

std::string relu(const std::string& header) {
    return "compute(x) " + header +
           "{ @kernel elementwise; for i in 0..len { out[i] = relu(x[i]) } }";
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

}  // namespace refusal_test
}  // namespace quern::script
