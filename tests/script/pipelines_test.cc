// Pipelines: what their signatures bind and refuse, calls, returns.

#include "script_helpers.h"

namespace quern::script {
namespace {

const Bindings kMatrix = {{"x", counting({2, 3})}, {"square", counting({2, 2})}};

std::string with_identity(const std::string& signature, const std::string& call) {
    return "pipeline f" + signature + ":\n    return t\nlet r = " + call + "\n";
}

TEST(ScriptPipelines, ASignatureBindsItsDimensions) {
    EXPECT_EQ(result_of("pipeline f(t: tensor[rows, cols]):\n"
                        "    return (rows, cols)\n"
                        "let r = f(x)\n",
                        kMatrix),
              "(2, 3)");
}

TEST(ScriptPipelines, DimensionsOfOneNameMustAgree) {
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, n])", "f(x)"), kMatrix), "E0501 at 3:11");
    EXPECT_EQ(message_of(with_identity("(t: tensor[n, n])", "f(x)"), kMatrix),
              "'n' is 2 and 3 from dimension 1 of 't'");
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, n])", "f(square)"), kMatrix), "no error");
    EXPECT_EQ(error_of(with_identity("(n: int, t: tensor[n, m])", "f(3, x)"), kMatrix),
              "E0501 at 3:14");
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, m], n: int)", "f(x, 2)"), kMatrix), "no error");
    EXPECT_EQ(error_of("let m = 4\n" + with_identity("(t: tensor[n, m])", "f(x)"), kMatrix),
              "E0501 at 4:11");
}

TEST(ScriptPipelines, ADimensionMayBeANumberOrLeftOpen) {
    EXPECT_EQ(error_of(with_identity("(t: tensor[2, ?])", "f(x)"), kMatrix), "no error");
    EXPECT_EQ(error_of(with_identity("(t: tensor[?, 4])", "f(x)"), kMatrix), "E0501 at 3:11");
    EXPECT_EQ(error_of(with_identity("(t: tensor)", "f(x)"), kMatrix), "no error");
}

TEST(ScriptPipelines, ARankThatDoesNotFitIsRefused) {
    EXPECT_EQ(error_of(with_identity("(t: tensor[n])", "f(x)"), kMatrix), "E0504 at 3:11");
    EXPECT_EQ(message_of(with_identity("(t: tensor[n])", "f(x)"), kMatrix),
              "'t' expects 1 dimension, as in tensor[n], got a tensor float32 [2, 3]");
}

TEST(ScriptPipelines, TheNumberOfOperandsMustFit) {
    EXPECT_EQ(error_of(with_identity("(t: tensor)", "f(x, x)"), kMatrix), "E0504 at 3:9");
    EXPECT_EQ(error_of(with_identity("(t: tensor)", "f()"), kMatrix), "E0504 at 3:9");
    EXPECT_EQ(error_of(with_identity("(t: tensor)", "f(t=x)"), kMatrix), "E0408 at 3:11");
    EXPECT_EQ(error_of(with_identity("(t: tensor)", "x |> f()"), kMatrix), "no error");
}

TEST(ScriptPipelines, ScalarsAreCheckedByType) {
    const auto call = [](const std::string& type, const std::string& value) {
        return error_of(with_identity("(t: " + type + ")", "f(" + value + ")"), kMatrix);
    };
    EXPECT_EQ(call("int", "3"), "no error");
    EXPECT_EQ(call("int", "3.0"), "E0441 at 3:11");
    EXPECT_EQ(call("float", "3"), "no error");
    EXPECT_EQ(call("float", "true"), "E0441 at 3:11");
    EXPECT_EQ(call("bool", "true"), "no error");
    EXPECT_EQ(call("bool", "1"), "E0441 at 3:11");
    EXPECT_EQ(call("string", "\"a\""), "no error");
    EXPECT_EQ(call("string", "x"), "E0441 at 3:11");
    EXPECT_EQ(call("tensor", "3"), "E0441 at 3:11");
    EXPECT_EQ(call("tensr", "3"), "E0416 at 1:15");
}

TEST(ScriptPipelines, AnIntegerBecomesTheFloatThatASignatureAsksFor) {
    EXPECT_EQ(result_of("pipeline f(t: float):\n    return t / 2\nlet r = f(3)\n"), "1.5");
}

TEST(ScriptPipelines, TheResultMustFitItsType) {
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, m]) -> tensor[n, m]", "f(x)"), kMatrix),
              "no error");
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, m]) -> tensor[m, n]", "f(x)"), kMatrix),
              "E0501 at 1:32");
    EXPECT_EQ(error_of(with_identity("(t: tensor[n, m]) -> tensor[n]", "f(x)"), kMatrix),
              "E0504 at 1:32");
    EXPECT_EQ(error_of("pipeline f(k: int) -> tensor[n]:\n    return k\nlet r = f(1)\n"),
              "E0441 at 1:23");
    EXPECT_EQ(error_of("pipeline f(k: int) -> int:\n    return 2.5\nlet r = f(1)\n"),
              "E0441 at 1:23");
    EXPECT_EQ(result_of("pipeline f(k: int) -> float:\n    return 3\nlet r = f(1) / 2\n"), "1.5");
}

TEST(ScriptPipelines, CallsStandInsideOfEachOtherUpToALimit) {
    std::string text = "pipeline f0(x: tensor) -> tensor:\n    return x\n";
    for (int n = 1; n <= 40; ++n) {
        text += "pipeline f" + std::to_string(n) + "(x: tensor) -> tensor:\n    return f" +
                std::to_string(n - 1) + "(x)\n";
    }
    EXPECT_TRUE(errors_of(text + "let r = f39(x)", {{"x", Tensor({2})}}).empty());
    const auto errors = errors_of(text + "let r = f40(x)", {{"x", Tensor({2})}});
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0104");
    EXPECT_EQ(errors[0].message,
              "expected at most 40 calls inside of each other, got one more of 'f0'");
}

TEST(ScriptPipelines, ScopesAreLexical) {
    EXPECT_EQ(result_of("let a = 1\n"
                        "pipeline g(k: int):\n"
                        "    return a + k\n"
                        "pipeline f(k: int):\n"
                        "    let a = 100\n"
                        "    return g(k)\n"
                        "let r = f(2)\n"),
              "3");
    EXPECT_EQ(
        error_of("pipeline f(k: int):\n    let b = k\n    return b\nlet a = f(1)\nlet r = b\n"),
        "E0411 at 5:9");
    EXPECT_EQ(error_of("pipeline f(k: int):\n    return late\nlet r = f(1)\nlet late = 2\n"),
              "E0411 at 2:12");
}

TEST(ScriptPipelines, AnAssignmentReachesTheInnermostVar) {
    EXPECT_EQ(result_of("var a = 1\n"
                        "pipeline f(k: int):\n"
                        "    var a = 10\n"
                        "    a = a + k\n"
                        "    return a\n"
                        "let r = (f(2), a)\n"),
              "(12, 1)");
}

TEST(ScriptPipelines, OneMayBeCalledBeforeItIsDeclared) {
    EXPECT_EQ(result_of("let r = f(2)\npipeline f(k: int):\n    return k + 1\n"), "3");
}

TEST(ScriptPipelines, OneThatReturnsNothingHasNoValue) {
    EXPECT_EQ(error_of("pipeline f(k: int):\n    let a = k\nlet r = f(1)\n"), "E0441 at 3:5");
    EXPECT_EQ(error_of("pipeline f(k: int):\n    let a = k\nf(1)\n"), "no error");
}

TEST(ScriptPipelines, OneThatCallsItselfIsRefused) {
    EXPECT_EQ(error_of("pipeline f(k: int):\n    return f(k)\nlet r = f(1)\n"), "E0104 at 2:12");
}

TEST(ScriptPipelines, OneThatConfiguresTheDeviceConfiguresTheProcess) {
    const std::string text =
        "pipeline f(t: tensor):\n    config { compute_device: \"interpreter\" }\n    return t\n"
        "let a = f(x)\nlet r = allocate(shape=[1])\n";
    EXPECT_EQ(tensor_in(run_text(text, kMatrix), "r").device().id(), "interpreter");
    // An explicit device is no default.
    const std::string placed =
        "pipeline inner(t: tensor):\n    config { compute_device: \"cpu\" }\n    return t\n"
        "pipeline outer(t: tensor):\n    let a = inner(t)\n    return allocate(shape=[1])\n"
        "let r = outer(x) @device(\"interpreter\")\n";
    EXPECT_EQ(tensor_in(run_text(placed, kMatrix), "r").device().id(), "interpreter");
}

TEST(ScriptPipelines, TwoOfOneNameAreRefused) {
    EXPECT_EQ(error_of("pipeline f(k: int):\n    return k\npipeline f(k: int):\n    return k\n"),
              "E0410 at 3:10");
    EXPECT_EQ(error_of("pipeline f(k: int, k: int):\n    return k\nlet r = f(1, 2)\n"),
              "E0410 at 1:20");
}

TEST(ScriptPipelines, TheOnlyOneRunsWithItsInputs) {
    Bindings bindings = kMatrix;
    bindings["k"] = std::int64_t{3};
    const Results results = run_text(
        "pipeline last(x: tensor[rows, cols], k: int):\n"
        "    let parts = split(x, k, axis=1)\n"
        "    return parts[2]\n",
        bindings);
    EXPECT_EQ(tensor_in(results, "last").values(), (std::vector<double>{2, 5}));
}

}  // namespace
}  // namespace quern::script
