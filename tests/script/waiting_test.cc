// Launches that wait until somebody looks: which become one, which do not, and that their results
// are those of launches made where they stand.

#include <cmath>
#include <cstring>
#include <random>

#include "quern/runtime/device_options.h"
#include "script_helpers.h"

namespace quern::script {
namespace {

const std::string kMultiplyAdd =
    "compute(x, y) {\n    @kernel elementwise\n"
    "    for i in 0..len: out[i] = x[i] * 2.0 - y[i] * 3.0\n}";
const std::string kRelu =
    "compute(z) {\n    @kernel elementwise\n    for i in 0..len: out[i] = max(z[i], 0.0)\n}";

Bindings two_vectors() {
    return {{"x", Tensor::from({4}, {-2.0f, 1.0f, 5.0f, 0.5f})},
            {"y", Tensor::from({4}, {1.0f, -1.0f, 2.0f, 0.0f})}};
}

/// "a(x, y: tensor):" and what follows, called as the script's only pipeline.
std::string pipeline(const std::string& body) {
    return "pipeline f(x: tensor, y: tensor):\n" + body + "let r = f(x, y)\n";
}

std::string indented(std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 5) {
        text.insert(at + 1, "    ");
    }
    return "    " + text + "\n";
}

struct Launched {
    std::vector<std::string> kernels;
    Results results;
};

Launched launched_by(const std::string& text, const Bindings& bindings, RunOptions options = {}) {
    Launched launched;
    options.explained = [&](std::string_view kernel, const std::string&) {
        launched.kernels.emplace_back(kernel);
    };
    launched.results = run_text(text, bindings, options);
    return launched;
}

using Names = std::vector<std::string>;

TEST(WaitingLaunches, Check113_AKernelOnTheResultOfAnotherLaunchesOnce) {
    const std::string body =
        indented("let z = " + kMultiplyAdd) + indented("let w = " + kRelu) + "    return w\n";
    const Launched launched = launched_by(pipeline(body), two_vectors());
    EXPECT_EQ(launched.kernels, Names{"w"});
    EXPECT_EQ(tensor_in(launched.results, "r").values(), (std::vector<double>{0, 5, 4, 1}));
}

TEST(WaitingLaunches, AnOperandThatIsAnExpressionBelongsToItsReader) {
    const std::string text = "let w = compute(z = " + kMultiplyAdd + ")" + kRelu.substr(10) + "\n";
    const Launched launched = launched_by(text, two_vectors());
    EXPECT_EQ(launched.kernels, Names{"w"});
    EXPECT_EQ(tensor_in(launched.results, "w").values(), (std::vector<double>{0, 5, 4, 1}));
}

TEST(WaitingLaunches, FunctionsOfTensorsInARowAreOneLaunch) {
    const Launched launched =
        launched_by("let w = x |> abs() |> sqrt() |> exp()\nlet v = max(abs(x), sqrt(abs(y)))\n",
                    two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"w", "v"}));
    EXPECT_NEAR(tensor_in(launched.results, "w").values()[2], std::exp(std::sqrt(5.0)), 1e-5);
    EXPECT_EQ(tensor_in(launched.results, "v").values(), (std::vector<double>{2, 1, 5, 0.5}));
}

TEST(WaitingLaunches, WhatTheTopLevelNamesIsAResult) {
    const Launched launched =
        launched_by("let z = " + kMultiplyAdd + "\nlet w = " + kRelu + "\n", two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"z", "w"}));
    EXPECT_EQ(tensor_in(launched.results, "z").values(), (std::vector<double>{-7, 5, 4, 1}));
}

TEST(WaitingLaunches, WhatNobodyLooksAtIsCheckedAndNotLaunched) {
    const std::string unused = indented("let z = " + kMultiplyAdd);
    EXPECT_EQ(launched_by(pipeline(unused + "    return x\n"), two_vectors()).kernels, Names{});
    Bindings bindings = two_vectors();
    bindings["y"] = Tensor::from({3}, {1.0f, 2.0f, 3.0f});
    EXPECT_EQ(error_of(pipeline(unused + "    return x\n"), bindings), "E0501 at 4:50");
}

TEST(WaitingLaunches, EagerLaunchesEveryKernelWhereItStands) {
    RunOptions options;
    options.eager = true;
    const std::string body =
        indented("let z = " + kMultiplyAdd) + indented("let w = " + kRelu) + "    return w\n";
    EXPECT_EQ(launched_by(pipeline(body), two_vectors(), options).kernels, (Names{"z", "w"}));
}

TEST(WaitingLaunches, NumbersOfOneNameKeepTheirKernelsValue) {
    const std::string text =
        "pipeline scaled(x: tensor, factor: float):\n"
        "    let w = compute(z = compute(x) {\n"
        "        @kernel elementwise\n"
        "        for i in 0..len: out[i] = x[i] * factor\n"
        "    } |> abs()) {\n"
        "        @kernel elementwise\n"
        "        for i in 0..len: out[i] = z[i] + factor\n"
        "    }\n"
        "    return w\n"
        "let r = scaled(x, 3.0)\nlet s = scaled(x, 4.0)\n";
    const Launched launched = launched_by(text, two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"w", "w"}));
    EXPECT_EQ(tensor_in(launched.results, "r").values(), (std::vector<double>{9, 6, 18, 4.5}));
    EXPECT_EQ(tensor_in(launched.results, "s").values(), (std::vector<double>{12, 8, 24, 6}));
}

TEST(WaitingLaunches, ATensorThatIsReadAgainIsComputedIntoMemory) {
    const std::string body = indented("let z = " + kMultiplyAdd) + indented("let a = " + kRelu) +
                             indented(
                                 "let b = compute(z, a, again = z) {\n"
                                 "    @kernel elementwise\n"
                                 "    for i in 0..len: out[i] = z[i] + a[i] + again[i]\n}") +
                             "    return b\n";
    const Launched launched = launched_by(pipeline(body), two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"z", "b"}));
    EXPECT_EQ(tensor_in(launched.results, "r").values(), (std::vector<double>{-14, 15, 12, 3}));
}

TEST(WaitingLaunches, OneThatReadsOtherElementsReadsATensor) {
    const std::string body = indented("let z = " + kMultiplyAdd) +
                             indented(
                                 "let s = compute(z: [n]) {\n    @kernel elementwise\n"
                                 "    for i in 0..n: out[i] = z[n - 1 - i]\n}") +
                             "    return s\n";
    const Launched launched = launched_by(pipeline(body), two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"z", "s"}));
    EXPECT_EQ(tensor_in(launched.results, "r").values(), (std::vector<double>{1, 4, 5, -7}));
}

TEST(WaitingLaunches, AKernelThatMayFailFailsWhereItStands) {
    Bindings bindings = two_vectors();
    bindings["y"] = Tensor::from({4}, {1.0f, 0.0f, 2.0f, 3.0f}).to(DType::Int32);
    const std::string divides =
        "let z = compute(y) {\n    @kernel elementwise\n"
        "    for i in 0..len: out[i] = 6 / y[i]\n}";
    EXPECT_EQ(error_of(pipeline(indented(divides) + "    return x\n"), bindings), "E0621 at 4:35");
    bindings["y"] = Tensor::from({4}, {1.0f, -1.0f, 2.0f, 9.0f}).to(DType::Int32);
    EXPECT_EQ(error_of(pipeline("    let z = pow(y, y)\n    return x\n"), bindings),
              "E0621 at 2:13");
    bindings["y"] = Tensor::from({4}, {1.0f, 0.0f, 2.0f, 9.0f}).to(DType::Int64);
    const std::string gathers =
        "let z = compute(x, y) {\n    @kernel elementwise\n"
        "    for i in 0..n: out[i] = x[y[i]]\n}";
    EXPECT_EQ(error_of(pipeline(indented(gathers) + "    return x\n"), bindings), "E0507 at 4:35");
}

TEST(WaitingLaunches, AnAccessOutOfBoundsIsReportedWhereItStands) {
    const std::string reads =
        "let z = compute(x, y) {\n    @kernel elementwise\n"
        "    for i in 0..n: out[i] = x[i] + y[7]\n}";
    EXPECT_EQ(error_of(reads + "\n", two_vectors()), "E0507 at 3:38");
    EXPECT_EQ(error_of(pipeline(indented(reads) + "    return y\n"), two_vectors()),
              "E0507 at 4:42");
}

TEST(WaitingLaunches, MemoryThatMayBeTakenBackIsReadAtOnce) {
    const std::string text =
        "pipeline f(n: int):\n"
        "    let pool = memory_pool(device=\"cpu\", size=1MB)\n"
        "    let a = pool.allocate(shape=[n])\n"
        "    let z = compute(a) {\n        @kernel elementwise\n"
        "        for i in 0..len: out[i] = a[i] * 0.0 + 1.0\n    }\n"
        "    pool.reset()\n"
        "    return max(min(z, 2.0), 1.0)\n"
        "let r = f(4)\n";
    EXPECT_EQ(launched_by(text, {}).kernels, (Names{"z", "kernel"}));
}

TEST(WaitingLaunches, ALongChainIsMadeInPieces) {
    std::string body = "    let v0 = abs(x)\n";
    for (int n = 1; n <= 20; ++n) {
        body += "    let v" + std::to_string(n) + " = sqrt(v" + std::to_string(n - 1) + ")\n";
    }
    const Launched launched = launched_by(pipeline(body + "    return v20\n"), two_vectors());
    EXPECT_EQ(launched.kernels, (Names{"v8", "v17", "v20"}));
}

TEST(WaitingLaunches, ExplainNamesALineOfTheScript) {
    std::string explained;
    RunOptions options;
    options.explained = [&](std::string_view, const std::string& text) { explained = text; };
    run_text("let one = 1\nlet two = 2\nlet w = compute(z = max(x, y))" + kRelu.substr(10) + "\n",
             two_vectors(), options);
    EXPECT_NE(explained.find("line 3"), std::string::npos) << explained;
    EXPECT_EQ(explained.find("line 1"), std::string::npos) << explained;
}

TEST(WaitingLaunches, ExplainOfAHostFunctionNamesTheLineOfItsCall) {
    std::string explained;
    RunOptions options;
    options.explained = [&](std::string_view, const std::string& text) { explained = text; };
    run_text("let one = 1\nlet w = relu(x)\n", {{"x", counting({2, 3})}}, options);
    EXPECT_NE(explained.find("len = 6, from the elements of 'x' (declared, line 2)"),
              std::string::npos)
        << explained;
}

TEST(WaitingLaunches, DevicesDoNotShareAKernel) {
    const std::string body =
        indented("let z = " + kMultiplyAdd) +
        indented(
            "let w = compute(z) {\n    @kernel elementwise\n"
            "    @device(\"interpreter\")\n    for i in 0..len: out[i] = max(z[i], 0.0)\n}") +
        "    return w\n";
    RunOptions options;
    options.device = Device("cpu:1");
    const Launched launched = launched_by(pipeline(body), two_vectors(), options);
    EXPECT_EQ(launched.kernels, (Names{"z", "w"}));
    EXPECT_EQ(tensor_in(launched.results, "r").values(), (std::vector<double>{0, 5, 4, 1}));
}

/// A pipeline of element-wise kernels, each of which reads what some before it gave.
std::string random_pipeline(std::mt19937& engine, int statements) {
    const auto below = [&](int n) { return int(engine() % unsigned(n)); };
    std::vector<std::string> names = {"x", "y", "h"};
    std::string text = "pipeline f(x: tensor, y: tensor, h: tensor, b: tensor, c: float):\n";
    for (int s = 0; s < statements; ++s) {
        const std::string p = names[std::size_t(below(int(names.size())))];
        const std::string q = names[std::size_t(below(int(names.size())))];
        const std::string v = "v" + std::to_string(s);
        const std::string head = "    let " + v + " = compute(p = " + p + ", q = " + q;
        const std::string kernel = ") {\n        @kernel elementwise\n        for i in 0..";
        switch (below(5)) {
            case 0:
                text += "    let " + v + " = tanh(" + p + ")\n";
                break;
            case 1:
                text += "    let " + v + " = " + p + " |> abs() |> sqrt()\n";
                break;
            case 2:
                text += head + kernel + "len: out[i] = p[i] * 0.75 + q[i] * c\n    }\n";
                break;
            case 3:
                text += head + ", b" + kernel +
                        "n, j in 0..m:\n            let t = p[i, j] * b[j]\n"
                        "            out[i, j] = select(q[i, j] < t, t * t, q[i, j] - c)\n    }\n";
                break;
            default:
                text += head + kernel +
                        "n, j in 0..m: out[i, j] = p[i, j] + max(q[i, j], 0.5)\n    } |> exp()\n";
                break;
        }
        names.push_back(v);
    }
    return text + "    return " + names.back() + "\nlet r = f(x, y, h, b, c)\n";
}

TEST(WaitingLaunches, RandomPipelinesHaveTheBitsOfLaunchesWhereTheyStand) {
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> number(-2, 2);
    const auto tensor = [&](const Shape& shape, DType dtype) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < element_count(shape); ++i) values.push_back(number(engine));
        return Tensor::from(shape, values).to(dtype);
    };
    std::size_t saved = 0;
    for (int n = 0; n < 60; ++n) {
        const std::string text = random_pipeline(engine, 2 + n % 6);
        const std::int64_t rows = n % 5 == 0 ? 0 : 1 + n % 7, columns = 1 + n % 19;
        Bindings bindings = {{"x", tensor({rows, columns}, DType::Float32)},
                             {"y", tensor({columns, rows}, DType::Float32).permute({1, 0})},
                             {"h", tensor({rows, columns}, DType::Float16)},
                             {"b", tensor({columns}, DType::Float32)},
                             {"c", 1.25}};
        for (const char* device : {"interpreter", "cpu"}) {
            if (!has_device(device)) GTEST_SKIP() << "no device " << device;
            RunOptions options;
            options.device = Device(device);
            options.numerics = Numerics::Reproducible;
            const Launched waited = launched_by(text, bindings, options);
            options.eager = true;
            const Launched eager = launched_by(text, bindings, options);
            const Tensor& a = tensor_in(waited.results, "r");
            const Tensor& b = tensor_in(eager.results, "r");
            ASSERT_EQ(a.shape(), b.shape()) << text;
            ASSERT_EQ(a.dtype(), b.dtype()) << text;
            ASSERT_TRUE(a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0)
                << device << "\n"
                << text;
            ASSERT_LE(waited.kernels.size(), eager.kernels.size()) << text;
            saved += eager.kernels.size() - waited.kernels.size();
        }
    }
    EXPECT_GT(saved, 150u);
}

}  // namespace
}  // namespace quern::script
