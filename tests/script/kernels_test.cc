// compute in a script: operands, numbers by name, functions in the same launch, devices.

#include <cmath>

#include "script_helpers.h"

namespace quern::script {
namespace kernels_test {

const Bindings kX = {{"x", counting({4})}};

std::string scale(const std::string& header,
                  const std::string& body = "    @kernel elementwise\n") {
    return "let y = compute(x) " + header + "{\n" + body +
           "    for i in 0..len:\n        out[i] = x[i] * factor\n}\n";
}

TEST(ScriptKernels, NumbersOfTheScriptReachTheKernelByName) {
    const auto y = [](const Results& results) { return tensor_in(results, "y").values(); };
    EXPECT_EQ(y(run_text("let factor = 2.5\n" + scale(""), kX)),
              (std::vector<double>{0, 2.5, 5, 7.5}));
    Bindings given = kX;
    given["factor"] = 3.0;
    EXPECT_EQ(y(run_text(scale(""), given)), (std::vector<double>{0, 3, 6, 9}));
    EXPECT_EQ(y(run_text("pipeline f(x: tensor, factor: float):\n"
                         "    let y = compute(x) {\n"
                         "        @kernel elementwise\n"
                         "        for i in 0..len: out[i] = x[i] * factor\n"
                         "    }\n"
                         "    return y\n"
                         "let y = f(x, 4)\n",
                         kX)),
              (std::vector<double>{0, 4, 8, 12}));
    EXPECT_EQ(errors_of(scale(""), kX).at(0).code, "E0411");
}

TEST(ScriptKernels, ATruthValueReachesTheKernel) {
    const std::string text =
        "let y = compute(x) {\n    @kernel elementwise\n"
        "    for i in 0..len: out[i] = select(negative, -x[i], x[i])\n}\n";
    EXPECT_EQ(tensor_in(run_text("let negative = true\n" + text, kX), "y").values()[3], -3);
    EXPECT_EQ(tensor_in(run_text("let negative = false\n" + text, kX), "y").values()[3], 3);
}

TEST(ScriptKernels, Check113_FunctionsBehindAKernelAddNoLaunch) {
    std::vector<std::string> launched;
    RunOptions options;
    options.explained = [&](std::string_view kernel, const std::string&) {
        launched.emplace_back(kernel);
    };
    const Tensor x = Tensor::from({2}, {-2.0f, 1.0f});
    const std::string multiply_add =
        "let z = compute(x, y) {\n    @kernel elementwise\n"
        "    for i in 0..len: out[i] = x[i] * 2.0 - y[i] * 3.0\n} |> relu()\n";
    EXPECT_EQ(tensor_in(run_text(multiply_add, {{"x", x}, {"y", x}}, options), "z").values(),
              (std::vector<double>{2, 0}));
    const std::string norm =
        "let norm = compute(x) {\n    @kernel reduce(+)\n"
        "    for i in 0..n: yield x[i] * x[i]\n} |> sqrt()\n";
    EXPECT_EQ(tensor_in(run_text(norm, {{"x", Tensor::from({2}, {3.0f, 4.0f})}}, options), "norm")
                  .values(),
              (std::vector<double>{5}));
    EXPECT_EQ(launched, (std::vector<std::string>{"z", "norm"}));
}

TEST(ScriptKernels, PedanticReachesTheKernel) {
    const std::string text =
        "let y = compute(x) {\n    @kernel elementwise\n    for s in 0..n:\n"
        "        let s = x[s]\n        out[s] = s\n}\n";
    RunOptions options;
    EXPECT_EQ(error_of(text, kX, options), "no error");
    options.pedantic = true;
    EXPECT_EQ(error_of(text, kX, options), "E0412 at 5:13");
}

TEST(ScriptKernels, ADimensionOfTheSignatureMustBeTheKernels) {
    EXPECT_EQ(errors_of("let n = 3\n"
                        "let y = compute(x) {\n"
                        "    @kernel elementwise\n"
                        "    for i in 0..n: out[i] = x[i]\n"
                        "}\n",
                        kX)
                  .at(0)
                  .code,
              "E0501");
}

TEST(ScriptKernels, AnAliasAndADottedPathNameOperands) {
    TensorSet set;
    set["w"] = Tensor::from<float>({4}, {1, 10, 100, 1000});
    Bindings bindings = kX;
    bindings["model"] = set_of(set);
    const Results results = run_text(
        "let a = compute(x, model.w) {\n"
        "    @kernel elementwise\n"
        "    for i in 0..len: out[i] = x[i] * model.w[i]\n"
        "}\n"
        "let b = compute(x, v = model.w) {\n"
        "    @kernel elementwise\n"
        "    for i in 0..len: out[i] = x[i] * v[i]\n"
        "}\n",
        bindings);
    EXPECT_EQ(tensor_in(results, "a").values(), (std::vector<double>{0, 10, 200, 3000}));
    EXPECT_EQ(tensor_in(results, "b").values(), (std::vector<double>{0, 10, 200, 3000}));
}

TEST(ScriptKernels, AnOperandIsATensor) {
    const std::string text =
        "let y = compute(x) {\n    @kernel elementwise\n"
        "    for i in 0..len: out[i] = x[i]\n}\n";
    EXPECT_EQ(error_of(text, {{"x", std::int64_t{3}}}), "E0441 at 1:17");
    EXPECT_EQ(error_of(text, {{"x", set_of({{"a", counting({2})}})}}), "E0441 at 1:17");
    const auto errors = errors_of(text, {{"x", set_of({{"a", counting({2})}})}});
    EXPECT_EQ(errors[0].message, "an operand expects a tensor, got a set of tensors");
    EXPECT_EQ(errors[0].help, (std::vector<std::string>{"name one tensor of the set: x.NAME"}));
}

TEST(ScriptKernels, UnaryFunctionsBehindAComputeBelongToItsLaunch) {
    int launches = 0;
    RunOptions options;
    options.explained = [&](std::string_view, const std::string&) { ++launches; };
    const std::string sum_of_squares =
        "let r = compute(x) {\n    @kernel reduce(+)\n    for i in 0..len: yield x[i] * x[i]\n}";
    const Results one = run_text(sum_of_squares + " |> sqrt() |> abs()\n", kX, options);
    EXPECT_NEAR(tensor_in(one, "r").item(), std::sqrt(14.0), 1e-6);
    EXPECT_EQ(launches, 1);
    launches = 0;
    const Results two = run_text(sum_of_squares + " |> max(20.0)\n", kX, options);
    EXPECT_EQ(tensor_in(two, "r").item(), 20);
    EXPECT_EQ(launches, 2);
    const Results own =
        run_text("pipeline sqrt(t: tensor):\n    return 1\n" + sum_of_squares + " |> sqrt()\n", kX);
    EXPECT_EQ(to_string(*own.find("r")), "1");
}

TEST(ScriptKernels, ExplainNamesTheKernelByItsResult) {
    std::vector<std::string> names;
    RunOptions options;
    options.explained = [&](std::string_view name, const std::string& text) {
        names.emplace_back(name);
        EXPECT_FALSE(text.empty());
    };
    run_text("let factor = 2.0\n" + scale(""), kX, options);
    EXPECT_EQ(names, (std::vector<std::string>{"y"}));
}

TEST(ScriptKernels, ShapesAreKnownWithoutALaunch) {
    RunOptions options;
    options.shapes_only = true;
    const std::int64_t large = std::int64_t{1} << 20;
    const Results results = run_text(
        "let C = compute(A, B) {\n    @kernel matmul\n    for i in 0..M, j in 0..N:\n"
        "        var sum = 0.0\n        for k in 0..K: sum += A[i, k] * B[k, j]\n"
        "        out[i, j] = sum\n}\n"
        "let D = permute(C, [1, 0]) |> isnan()\n",
        {{"A", placeholder({large, 2}, DType::Float64)},
         {"B", placeholder({2, 7}, DType::Float64)}},
        options);
    EXPECT_EQ(tensor_in(results, "C").shape(), (Shape{large, 7}));
    EXPECT_EQ(tensor_in(results, "C").dtype(), DType::Float64);
    EXPECT_EQ(tensor_in(results, "D").shape(), (Shape{7, large}));
    EXPECT_EQ(tensor_in(results, "D").dtype(), DType::Bool);
}

TEST(ScriptKernels, ADeviceMayBeNamedInHeaderOrBody) {
    const std::string factor = "let factor = 2\n";
    EXPECT_EQ(error_of(factor + scale("@device(\"auto\") "), kX), "no error");
    EXPECT_EQ(error_of(factor + scale("", "    @kernel elementwise\n    @device(\"auto\")\n"), kX),
              "no error");
    EXPECT_EQ(error_of(factor + scale("@device(\"cuda:9\") "), kX), "E0601 at 2:28");
    EXPECT_EQ(
        error_of(factor + scale("", "    @kernel elementwise\n    @device(\"cuda:9\")\n"), kX),
        "E0601 at 4:13");
    EXPECT_EQ(errors_of(factor + scale("@device(\"cuda:9\") "), kX)[0].notes.size(), 1u);
}

TEST(ScriptKernels, WhatTheSystemHasNoRoomForIsReportedAtItsCompute) {
    set_default_device("auto");
    const std::string text =
        "let n = 1000000000000000\nlet y = compute() {\n    @kernel custom\n"
        "    for i in 0..n: out[i] = 1.0\n}\n";
    const auto errors = errors_of(text);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0608");
    const std::string message =
        "[tensor] expected room for 4000000000000000 bytes, got none from the system; ";
    EXPECT_EQ(errors[0].message.substr(0, message.size()), message);
    EXPECT_EQ(errors[0].file, "test.quern");
    EXPECT_EQ(errors[0].line, 2);
    EXPECT_EQ(errors[0].column, 9);
    EXPECT_EQ(errors[0].source, "let y = compute() {");
}

TEST(ScriptKernels, WhatTheSystemHasNoRoomForIsReportedAtItsCall) {
    set_default_device("auto");
    // Two bytes each, of which the operand has one in memory.
    const Bindings large = {{"x", placeholder({std::int64_t{1} << 50}, DType::Float32)}};
    EXPECT_EQ(error_of("let a = 1\nlet r = x |> f16()\n", large), "E0608 at 2:14");
    EXPECT_EQ(error_of("let r = x.to_device(\"auto\", copy=true)\n", large), "E0608 at 1:11");
    EXPECT_EQ(error_of("let r = sqrt(x)\n", large), "E0608 at 1:9");
    // The innermost place counts.
    EXPECT_EQ(error_of("pipeline f(t: tensor):\n    return abs(t)\nlet r = f(x)\n", large),
              "E0608 at 2:12");
}

TEST(ScriptKernels, AWrongPipeBehindAComputeIsReportedAtThePipe) {
    const std::string kernel =
        "let y = compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = x[i]\n}";
    EXPECT_EQ(error_of(kernel + " |> gelu()\n", kX), "E0407 at 4:6");
    EXPECT_EQ(error_of(kernel + " |> sqrt() |> pow()\n", kX), "E0408 at 4:16");
    EXPECT_EQ(error_of(kernel + " |> relu(2)\n", kX), "E0408 at 4:6");
    EXPECT_EQ(error_of(kernel + " |> dot(x)\n", kX), "E0418 at 4:6");
}

TEST(ScriptKernels, TheSignatureKnowsWhatIsPipedIntoEachLaunch) {
    const std::string text =
        "pipeline exp(t: tensor):\n    return t\n"
        "let y = compute(x) { @kernel custom; out = x } |> sqrt() |> abs() |> exp() |> sin()\n"
        "let z = compute(x) { @kernel custom; out = x } |> max(2.0) |> abs()\n";
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    const Signature signature = check(*source, diagnostics);
    ASSERT_EQ(signature.kernels.size(), 2u);
    ASSERT_EQ(signature.kernels[0].then.size(), 2u);
    EXPECT_EQ(signature.kernels[0].then[1].name, "abs");
    EXPECT_EQ(text.substr(signature.kernels[0].then[1].span.begin, 3), "abs");
    EXPECT_TRUE(signature.kernels[1].then.empty());
}

TEST(ScriptKernels, AFailureInAKernelPointsAtTheScriptsLine) {
    const Bindings empty = {{"x", counting({0})}};
    const auto errors = errors_of(
        "let a = 1\nlet y = compute(x) {\n    @kernel reduce(max)\n"
        "    for i in 0..len: yield x[i]\n}\n",
        empty);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0620");
    EXPECT_EQ(errors[0].file, "test.quern");
    EXPECT_GE(errors[0].line, 2);
}

TEST(ScriptKernels, Check92_TheDeviceOfConfigIsTheDefaultAndAComputeMayNameAnother) {
    const auto device_in = [](const std::string& config, const std::string& decorator,
                              std::optional<Device> option = {}) {
        const std::string text = config + "let y = compute(x)" + decorator +
                                 " {\n    @kernel elementwise\n    for i in 0..len:\n"
                                 "        out[i] = x[i] * 2.0\n}\n";
        RunOptions options;
        options.device = option;
        const Results results = run_text(text, {{"x", counting({3})}}, options);
        return tensor_in(results, "y").device().id();
    };
    const std::string config = "config {\n    compute_device: \"interpreter\"\n}\n";
    const std::string other = device_in("", "");
    EXPECT_EQ(device_in(config, ""), "interpreter");
    EXPECT_EQ(device_in(config, " @device(\"" + other + "\")"), other);
    EXPECT_EQ(device_in("", " @device(\"interpreter\")"), "interpreter");
    EXPECT_EQ(device_in(config, "", Device(other)), other) << "the caller's wins";
}

/// Whether or not its text says them, a conv2d takes stride and padding of the call; of the script
/// only what the text says.
TEST(ScriptKernels, AConvolutionTakesNoNumberOfTheScriptThatItDoesNotName) {
    const std::string convolution =
        "let y = compute(x, k) {\n    @kernel conv2d\n"
        "    for b in 0..batch, oc in 0..out_channels:\n        for oh in 0..out_h, ow in "
        "0..out_w:\n"
        "            var sum = 0.0\n            for ic in 0..in_channels:\n"
        "                for kh in 0..kernel_h, kw in 0..kernel_w:\n"
        "                    sum += x[b, ic, oh + kh, ow + kw] * k[oc, ic, kh, kw]\n"
        "            out[b, oc, oh, ow] = sum\n}\n";
    const Bindings given = {{"x", Tensor({1, 1, 5, 5})}, {"k", Tensor({1, 1, 2, 2})}};
    const auto shape = [&](const std::string& before, Bindings bindings) {
        return tensor_in(run_text(before + convolution, std::move(bindings)), "y").shape();
    };
    EXPECT_EQ(shape("", given), (Shape{1, 1, 4, 4}));
    EXPECT_EQ(shape("let stride = 3\nlet padding = 1\n", given), (Shape{1, 1, 4, 4}));
    EXPECT_EQ(shape("let stride = true\nlet padding = 0.5\n", given), (Shape{1, 1, 4, 4}));
    const std::string own = "let stride = 3\n" + convolution;
    std::string stated = own;
    stated.replace(stated.find("conv2d"), 6, "conv2d(stride=1)");
    EXPECT_EQ(tensor_in(run_text(stated, given), "y").shape(), (Shape{1, 1, 4, 4}));
    Bindings of_the_call = given;
    of_the_call["stride"] = true;
    EXPECT_EQ(error_of(convolution, of_the_call), "E0309 at 2:13");
}

}  // namespace kernels_test
}  // namespace quern::script
