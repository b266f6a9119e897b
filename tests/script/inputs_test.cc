// What a script reads from outside, and what it refuses before any work.

#include "script_helpers.h"

namespace quern::script {
namespace {

Signature signature_of(const std::string& text) {
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    diagnostics.raise();
    Signature signature = check(*source, diagnostics);
    diagnostics.raise();
    return signature;
}

std::vector<std::string> inputs_of(const std::string& text) {
    std::vector<std::string> names;
    for (const FreeName& input : signature_of(text).inputs) names.push_back(input.name);
    return names;
}

using Names = std::vector<std::string>;

TEST(ScriptInputs, AFreeNameIsAnInput) {
    EXPECT_EQ(inputs_of("let a = split(x, n)\nlet b = a"), (Names{"x", "n"}));
    EXPECT_EQ(inputs_of("let x = relu(x)\nlet y = x"), (Names{"x"}));
    EXPECT_EQ(inputs_of("let a = [inf, true, float32]"), (Names{}));
    EXPECT_EQ(inputs_of("let a = model.layers[layer].w"), (Names{"model", "layer"}));
    EXPECT_EQ(inputs_of("let a = split(t, 2, axis=k)"), (Names{"t", "k"}));
}

TEST(ScriptInputs, OperandsAreInputsAndNamesInKernelsAreNot) {
    const Signature signature = signature_of(
        "let y = compute(x, w = model.w) {\n"
        "    @kernel elementwise\n"
        "    for i in 0..n:\n"
        "        out[i] = x[i] * w[i] + eps\n"
        "}\n");
    ASSERT_EQ(signature.inputs.size(), 2u);
    EXPECT_EQ(signature.inputs[0].name, "x");
    EXPECT_EQ(signature.inputs[1].name, "model");
    const auto& names = signature.kernel_names;
    EXPECT_NE(std::find(names.begin(), names.end(), "eps"), names.end());
    EXPECT_EQ(signature.results, (Names{"y"}));
    EXPECT_EQ(signature.kernels.size(), 1u);
}

TEST(ScriptInputs, APipelineNobodyCallsIsTheScript) {
    const Signature signature = signature_of(
        "let factor = 2\n"
        "pipeline f(x: tensor[n], k: int):\n"
        "    let inner = k * n\n"
        "    return split(x, inner * factor * free)\n");
    EXPECT_GE(signature.main, 0);
    ASSERT_EQ(signature.inputs.size(), 1u);
    EXPECT_EQ(signature.inputs[0].name, "free");
    ASSERT_EQ(signature.parameters.size(), 2u);
    EXPECT_EQ(signature.parameters[0].name, "x");
    EXPECT_EQ(signature.results, (Names{"factor", "f"}));
}

TEST(ScriptInputs, APipelineThatIsCalledIsNotTheScript) {
    EXPECT_LT(signature_of("pipeline f(k: int):\n    return k\nlet a = f(1)\n").main, 0);
    EXPECT_LT(
        signature_of("pipeline f(k: int):\n    return k\npipeline g(k: int):\n    return k\n").main,
        0);
}

TEST(ScriptInputs, EveryMissingInputIsReportedBeforeAnyWork) {
    const auto errors = errors_of("let a = 1 / 0\nlet b = split(x, parts)");
    ASSERT_EQ(errors.size(), 2u);
    EXPECT_EQ(errors[0].code, "E0411");
    EXPECT_EQ(errors[0].line, 2);
    EXPECT_EQ(errors[0].column, 15);
    EXPECT_EQ(errors[0].message, "'x' has no value");
    EXPECT_EQ(errors[0].help[0], "give it tensors with --in x=FILE or a number with --arg x=VALUE");
    EXPECT_EQ(errors[1].message, "'parts' has no value");
}

TEST(ScriptInputs, AMissingInputSuggestsANameThatThereIs) {
    const auto errors = errors_of("let weight = 1\nlet b = wieght");
    ASSERT_EQ(errors.size(), 1u);
    ASSERT_EQ(errors[0].help.size(), 2u);
    EXPECT_EQ(errors[0].help[1], "did you mean 'weight'?");
}

TEST(ScriptInputs, AMissingParameterIsReported) {
    EXPECT_EQ(error_of("pipeline f(k: int):\n    return k\n"), "E0411 at 1:12");
    const auto errors = errors_of("pipeline f(k: tensr):\n    return k\n");
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0416");
    EXPECT_EQ(errors[0].help[0], "did you mean 'tensor'?");
}

TEST(ScriptInputs, AnUnknownSettingIsRefused) {
    EXPECT_EQ(error_of("config { compute_devise: \"auto\" }"), "E0440 at 1:10");
    EXPECT_EQ(error_of("config { compute_device: \"auto\" }"), "no error");
    EXPECT_EQ(error_of("config { compute_device: \"cuda:9\" }"), "E0601 at 1:26");
    EXPECT_EQ(error_of("config { compute_device: 3 }"), "E0441 at 1:26");
}

TEST(ScriptInputs, CallsAreCheckedBeforeAnyWork) {
    EXPECT_EQ(error_of("let a = 1 / 0\nlet b = split(1)"), "E0408 at 2:9");
    EXPECT_EQ(error_of("let b = split(1, 2, along=1)"), "E0408 at 1:21");
    EXPECT_EQ(error_of("let b = exp(1, 2)"), "E0408 at 1:9");
    EXPECT_EQ(message_of("let b = exp(1, 2)"), "'exp' expects 1 argument, got 2");
    EXPECT_EQ(error_of("let b = 1 |> exp(2)"), "E0408 at 1:14");
}

}  // namespace
}  // namespace quern::script
