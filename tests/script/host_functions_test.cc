// split, reshape, permute, to_device, compute_devices, casts, element-wise functions of tensors.

#include <cmath>

#include "quern/math/functions.h"
#include "quern/runtime/cpu_plugin.h"
#include "script_helpers.h"

namespace quern::script {
namespace host_functions_test {

const Bindings kX = {{"x", counting({2, 3})}};

TEST(ScriptFunctions, SplitGivesEqualViews) {
    const Results results =
        run_text("let (a, b, c) = split(x, 3, axis=-1)\nlet (d, e) = x.split(2)", kX);
    EXPECT_EQ(tensor_in(results, "b").shape(), (Shape{2, 1}));
    EXPECT_EQ(tensor_in(results, "b").values(), (std::vector<double>{1, 4}));
    EXPECT_EQ(tensor_in(results, "e").values(), (std::vector<double>{3, 4, 5}));
    EXPECT_TRUE(tensor_in(results, "a").shares_storage_with(tensor_in(results, "c")));
}

TEST(ScriptFunctions, SplitRefusesARemainderAndAWrongAxis) {
    EXPECT_EQ(error_of("let r = split(x, 2, axis=1)", kX), "E0502 at 1:18");
    EXPECT_EQ(error_of("let r = split(x, 0, axis=1)", kX), "E0502 at 1:18");
    EXPECT_EQ(error_of("let r = split(x, 1, axis=2)", kX), "E0502 at 1:26");
    EXPECT_EQ(error_of("let r = split(x, 1, axis=-3)", kX), "E0502 at 1:26");
    EXPECT_EQ(error_of("let r = split(x, 1.5)", kX), "E0441 at 1:18");
    EXPECT_EQ(error_of("let r = split(3, 1)", kX), "E0441 at 1:15");
}

TEST(ScriptFunctions, ArgumentsWithoutANameAreNotReplacedByNamedOnes) {
    EXPECT_EQ(error_of("let r = split(x, axis=0)", kX), "E0408 at 1:9");
    EXPECT_EQ(error_of("let r = x.split(axis=0)", kX), "E0408 at 1:11");
    EXPECT_EQ(error_of("let r = to_device(x, copy=true)", kX), "E0408 at 1:9");
    EXPECT_EQ(error_of("let r = split(x, 2, axis=0, axis=1)", kX), "E0408 at 1:9");
    EXPECT_EQ(error_of("let r = split(x, 2, 0, axis=1)", kX), "E0408 at 1:9");
    EXPECT_EQ(error_of("let r = memory_pool(size=1KB, size=2KB)"), "E0408 at 1:31");
    EXPECT_EQ(error_of("let r = memory_pool(\"cpu\", device=\"cpu\")"), "E0408 at 1:28");
    EXPECT_EQ(error_of("let p = memory_pool(size=1KB)\nlet r = p.allocate([2], shape=[2])"),
              "E0408 at 2:25");
    EXPECT_EQ(error_of("let p = memory_pool(size=1KB)\nlet r = allocate(p, shape=[2])"),
              "no error");
    EXPECT_EQ(error_of("let p = memory_pool(size=1KB)\nlet r = allocate(p, [2], shape=[2])"),
              "E0408 at 2:32");
    EXPECT_EQ(error_of("let r = allocate([2], shape=[2])"), "E0408 at 1:29");
    EXPECT_EQ(error_of("let p = memory_pool(size=1KB)\nlet r = p.allocate([2], dtype=i32)"),
              "no error");
}

TEST(ScriptFunctions, HaveNoDecorators) {
    EXPECT_EQ(error_of("let r = sqrt(x) @device(\"interpreter\")", kX), "E0302 at 1:17");
    EXPECT_EQ(error_of("let r = x |> sqrt() @async", kX), "E0302 at 1:21");
    EXPECT_EQ(error_of("let r = x.to_device(\"cpu\") @parallel(data)", kX), "E0302 at 1:28");
}

TEST(ScriptFunctions, APipedValueIsNotTheOperandThatTheChainBeganWith) {
    const Bindings bindings = {{"x", Tensor::from<float>({4}, {4, 9, 16, 0.25f})}};
    const Results results = run_text(
        "let r = x |> sqrt() |> max(x)\nlet s = x |> max(x)\n"
        "let t = x |> sqrt() |> sqrt() |> min(x)\n",
        bindings);
    EXPECT_EQ(tensor_in(results, "r").values(), (std::vector<double>{4, 9, 16, 0.5}));
    EXPECT_EQ(tensor_in(results, "s").values(), (std::vector<double>{4, 9, 16, 0.25}));
    EXPECT_EQ(tensor_in(results, "t").values()[3], 0.25);
}

TEST(ScriptFunctions, TakeAnInputWhoseNameMeansSomethingInAKernel) {
    for (const std::string name : {"await", "inf", "out", "len", "compute", "argument1"}) {
        const Results results = run_text("let r = max(" + name + ", 2.0)",
                                         {{name, Tensor::from<float>({3}, {1, 2, 3})}});
        EXPECT_EQ(tensor_in(results, "r").values(), (std::vector<double>{2, 2, 3})) << name;
    }
}

TEST(ScriptFunctions, ReshapeKeepsTheElements) {
    const Results results = run_text("let a = reshape(x, [3, 2])\nlet b = x.reshape([-1])", kX);
    EXPECT_EQ(tensor_in(results, "a").shape(), (Shape{3, 2}));
    EXPECT_EQ(tensor_in(results, "b").shape(), (Shape{6}));
    EXPECT_TRUE(tensor_in(results, "a").shares_storage_with(tensor_in(results, "b")));
}

TEST(ScriptFunctions, ReshapeRefusesAnotherNumberOfElements) {
    EXPECT_EQ(error_of("let r = reshape(x, [4, 2])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [4, -1])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [-1, -1])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [-2, 3])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [0, -1])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [4294967296, 4294967296])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, 6)", kX), "E0441 at 1:20");
    EXPECT_EQ(error_of("let r = reshape(x, [2.0, 3])", kX), "E0441 at 1:20");
}

TEST(ScriptFunctions, PermuteReordersAxes) {
    const Results results = run_text("let r = permute(reshape(x, [1, 2, 3]), [2, 0, -2])", kX);
    EXPECT_EQ(tensor_in(results, "r").shape(), (Shape{3, 1, 2}));
    EXPECT_EQ(tensor_in(results, "r").values(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(error_of("let r = permute(x, [0, 0])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = permute(x, [0])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = permute(x, [0, 2])", kX), "E0502 at 1:20");
    EXPECT_EQ(error_of("let r = permute(x, [0, 1, 1])", kX), "E0502 at 1:20");
}

TEST(ScriptFunctions, MovingToTheSameDeviceSharesStorage) {
    const Tensor x = kX.at("x").as<Tensor>()->to(Device("auto"));
    const Results results = run_text(
        "let a = x.to_device(\"auto\")\n"
        "let b = to_device(x, \"auto\", copy=true)\n"
        "let c = x.to_device(\"auto\", copy=false)\n",
        {{"x", x}});
    EXPECT_TRUE(tensor_in(results, "a").shares_storage_with(x));
    EXPECT_FALSE(tensor_in(results, "b").shares_storage_with(x));
    EXPECT_TRUE(tensor_in(results, "c").shares_storage_with(x));
    EXPECT_EQ(error_of("let r = x.to_device(\"cuda:9\")", kX), "E0601 at 1:21");
    EXPECT_EQ(error_of("let id = \"cuda:9\"\nlet r = x.to_device(id)", kX), "E0601 at 2:21");
    EXPECT_EQ(error_of("let r = x.to_device(3)", kX), "E0441 at 1:21");
    EXPECT_EQ(error_of("let r = x.to_device(\"cpu\", copy=1)", kX), "E0441 at 1:33");
}

TEST(ScriptFunctions, DevicesAreListed) {
    const Results results = run_text(
        "let devices = compute_devices()\n"
        "let r = [devices[0].id, devices[0].type, devices[0].name, devices[0].cores,\n"
        "         devices[0].memory]\n");
    const auto* first = results.find("devices")->as<List>();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->elements.size(), devices().size());
    EXPECT_EQ(first->elements.back().as<DeviceInfo>()->id, devices().back().id);
    EXPECT_EQ(error_of("let r = compute_devices()[0].color"), "E0441 at 1:30");
}

TEST(ScriptFunctions, Check89_TheCpuIsListedAndEveryIdCanBeUsed) {
    bool has_cpu = false;
    for (const DeviceInfo& info : devices()) {
        has_cpu |= info.id == "cpu";
        const Results results = run_text("let r = compute(x) @device(\"" + info.id +
                                             "\") {\n    @kernel elementwise\n    for i in "
                                             "0..len: out[i] = x[i] + 1.0\n}\n",
                                         kX);
        EXPECT_EQ(tensor_in(results, "r").device().id(), info.id);
        EXPECT_EQ(tensor_in(results, "r").values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    }
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no compiler plug-in in this build";
    EXPECT_TRUE(has_cpu);
}

TEST(ScriptFunctions, CastsConvertTensors) {
    const Results results = run_text("let r = f16(x)\nlet s = x |> i64()", kX);
    EXPECT_EQ(tensor_in(results, "r").dtype(), DType::Float16);
    EXPECT_EQ(tensor_in(results, "s").dtype(), DType::Int64);
    EXPECT_EQ(tensor_in(results, "s").values(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST(ScriptFunctions, ElementwiseFunctionsTakeTensors) {
    const Results results = run_text(
        "let a = x |> sqrt()\n"
        "let b = clamp(x, 1, 3.5)\n"
        "let c = max(x, a)\n"
        "let d = pow(x, 2.0)\n"
        "let e = relu(x) |> exp2() |> log2()\n",
        kX);
    EXPECT_EQ(tensor_in(results, "a").shape(), (Shape{2, 3}));
    EXPECT_FLOAT_EQ(float(tensor_in(results, "a").values()[5]), std::sqrt(5.0f));
    EXPECT_EQ(tensor_in(results, "b").values(), (std::vector<double>{1, 1, 2, 3, 3.5, 3.5}));
    EXPECT_EQ(tensor_in(results, "c").values(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(tensor_in(results, "d").values(), (std::vector<double>{0, 1, 4, 9, 16, 25}));
    EXPECT_NEAR(tensor_in(results, "e").values()[5], 5, 1e-5);
}

TEST(ScriptFunctions, ElementwiseFunctionsKeepRankZeroAndViews) {
    const Results results = run_text(
        "let s = reshape(split(reshape(x, [6]), 6)[4], []) |> sqrt()\n"
        "let t = permute(x, [1, 0]) |> abs()\n",
        kX);
    EXPECT_EQ(tensor_in(results, "s").rank(), 0);
    EXPECT_EQ(tensor_in(results, "s").item(), 2);
    EXPECT_EQ(tensor_in(results, "t").values(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(ScriptFunctions, EveryUnaryFunctionIsAHostFunction) {
    // acosh is defined from 1 on, asin and others up to there.
    const Bindings numbers = {{"x", Tensor::from<double>({2}, {0.5, 1.5})}};
#define UNARY(name, op, operand, value)                                    \
    {                                                                      \
        const Results results = run_text("let r = " #name "(x)", numbers); \
        const std::vector<double> got = tensor_in(results, "r").values();  \
        for (const int k : {0, 1}) {                                       \
            const math::Native<double> x = {0.5 + k};                      \
            const double expected = (value).number;                        \
            if (std::isnan(expected)) {                                    \
                EXPECT_TRUE(std::isnan(got[std::size_t(k)])) << #name;     \
            } else {                                                       \
                EXPECT_EQ(got[std::size_t(k)], expected) << #name;         \
            }                                                              \
        }                                                                  \
    }
#include "quern/lang/functions.def"
}

TEST(ScriptFunctions, ADiagnosticOfAnElementwiseFunctionShowsTheScriptsLine) {
    const auto errors = errors_of("let n = i32(x)\nlet r = 1 |> max(n) |> max(x)\n", kX);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(
        to_string(errors[0]),
        "test.quern:2:24: error[E0404]: expected operands of one kind, got int32 and float32\n"
        "    2 | let r = 1 |> max(n) |> max(x)\n"
        "      |                        ^~~\n"
        "help: convert the integers: float32(...)");
    // What a message quotes has the script's names.
    const auto chosen = errors_of("let r = select(x, 1, 2)\n", kX);
    ASSERT_EQ(chosen.size(), 1u);
    EXPECT_EQ(chosen[0].help, (std::vector<std::string>{"compare it: x[i] != 0.0"}));
    EXPECT_EQ(chosen[0].source, "let r = select(x, 1, 2)");
}

TEST(ScriptFunctions, ElementwiseFunctionsTakeOneTensorTwiceAndAnyName) {
    const Bindings named = {
        {"i", counting({3})}, {"len", counting({3})}, {"argument2", counting({3})}};
    const Results results = run_text(
        "let a = max(i, i)\nlet b = max(len, argument2)\nlet max = i\nlet c = min(max, abs(max))\n",
        named);
    for (const char* name : {"a", "b", "c"}) {
        EXPECT_EQ(tensor_in(results, name).values(), (std::vector<double>{0, 1, 2})) << name;
    }
}

TEST(ScriptFunctions, ElementwiseFunctionsRefuseOtherShapes) {
    const Bindings two = {{"x", counting({2, 3})}, {"y", counting({3, 2})}};
    EXPECT_EQ(error_of("let r = max(x, y)", two), "E0502 at 1:16");
    EXPECT_EQ(error_of("let r = max(x, \"a\")", two), "E0441 at 1:16");
}

}  // namespace host_functions_test
}  // namespace quern::script
