// Devices "vulkan:N" as programs see them.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "tests/cpu/compiled_run.h"

namespace quern {
namespace {

using cpu_test::message_of;
using cpu_test::same_numbers;

/// Of each device; says aloud why nothing is tested where no driver is.
class Vulkan : public testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override {
        if (GetParam() >= cpu_test::vulkan_devices().size()) {
            GTEST_SKIP() << "no device vulkan:" << GetParam();
        }
    }

    static const cpu_test::VulkanDevice& vulkan() { return cpu_test::vulkan_devices()[GetParam()]; }
    static const Device& device() { return vulkan().device; }
};

INSTANTIATE_TEST_SUITE_P(Drivers, Vulkan, testing::Values(std::size_t{0}, std::size_t{1}));

std::string custom(const std::string& body) {
    return "compute(x) {\n@kernel custom\n" + body + "\n}";
}

bool has_validation_layer() {
    std::ifstream maps("/proc/self/maps");
    const std::string loaded{std::istreambuf_iterator<char>(maps), {}};
    return loaded.find("VkLayer_khronos_validation") != std::string::npos;
}

TEST(VulkanDevices, AnAbsentOneSaysWhyAndWhatThereIs) {
    for (const char* id : {"vulkan:999", "vulkan:18446744073709551616", "vulkan:01", "vulkan:"}) {
        try {
            const Device device{std::string_view(id)};
            FAIL() << id;
        } catch (const DeviceError& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("E0601"), std::string::npos) << message;
            EXPECT_NE(message.find("interpreter"), std::string::npos) << message;
        }
    }
}

TEST(VulkanDevices, AnAbsentOneOfATextSaysTheSameWhy) {
    std::string why;
    try {
        const Device device("vulkan:999");
        FAIL();
    } catch (const DeviceError& error) {
        const std::string message = error.what();
        const std::size_t begin = message.find("': ") + 3;
        why = message.substr(begin, message.find("; there are") - begin);
    }
    try {
        Kernel(custom("@device(\"vulkan:999\")\nfor i in 0..n: out[i] = x[i]"))(Tensor({2}));
        FAIL();
    } catch (const KernelError& error) {
        EXPECT_NE(std::string(error.what()).find("got \"vulkan:999\": " + why), std::string::npos)
            << error.what();
    }
}

/// Loaders go on without a layer that they do not find, and a layer without its settings.
TEST_P(Vulkan, RunsUnderTheValidationLayerThatIsAskedFor) {
    const char* const layers = std::getenv("VK_INSTANCE_LAYERS");
    const char* const settings = std::getenv("VK_LAYER_SETTINGS_PATH");
    if (!layers || !settings)
        GTEST_SKIP() << "VK_INSTANCE_LAYERS or VK_LAYER_SETTINGS_PATH is not set";
    example("01").on(device())(uniform({3}, 1));
    EXPECT_TRUE(has_validation_layer());
    EXPECT_TRUE(std::ifstream(std::string(settings) + "/vk_layer_settings.txt").good());
}

TEST_P(Vulkan, IsListedWithItsMemory) {
    bool is_listed = false;
    for (const DeviceInfo& info : devices()) {
        if (info.id != device().id()) continue;
        is_listed = true;
        EXPECT_FALSE(info.name.empty());
        EXPECT_GT(info.memory, 0);
    }
    EXPECT_TRUE(is_listed);
    EXPECT_TRUE(device().is_vulkan());
    EXPECT_FALSE(device().is_cpu());
}

TEST_P(Vulkan, RunsAKernelAndItsResultSaysSo) {
    const Tensor x = uniform({1003}, 1), y = uniform({1003}, 2);
    const Tensor result = example("02").on(device())(x, y);
    EXPECT_EQ(result.device(), device());
    EXPECT_TRUE(same_numbers(result, example("02").on(Device("interpreter"))(x, y)));
}

TEST_P(Vulkan, TensorsOfItsOwnAreCopiesAndOperandsWhereTheyLie) {
    const Device interpreter("interpreter");
    const Kernel kernel = example("03").on(device()).with(Numerics::Reproducible);
    const Tensor x = uniform({9, 34}, 1), scale = uniform({34}, 2);
    const Tensor there = x.to(device());
    EXPECT_EQ(there.device(), device());
    EXPECT_FALSE(there.shares_storage_with(x));
    EXPECT_TRUE(there.to(device()).shares_storage_with(there));
    EXPECT_FALSE(there.to(interpreter).shares_storage_with(there));
    EXPECT_TRUE(same_numbers(there.to(interpreter), x));
    EXPECT_EQ(there.to(DType::Float64).device(), device());

    const Tensor expected = example("03").on(interpreter)(x, scale);
    EXPECT_TRUE(same_numbers(kernel(there, scale), expected));
    EXPECT_TRUE(same_numbers(kernel(there, scale.to(device())), expected));
    EXPECT_TRUE(same_numbers(kernel(transposed_in_memory(x).to(device()), scale), expected));
    const Tensor larger = sliced_from_larger(x).to(device());
    EXPECT_TRUE(same_numbers(kernel(larger, scale), expected));
    for (int axis : {0, 1}) {
        const Tensor view = there.permute({1, 0}).slice(axis, 1, 9, 3).permute({1, 0});
        const Tensor part = x.permute({1, 0}).slice(axis, 1, 9, 3).permute({1, 0}).clone();
        const Tensor scales = scale.slice(0, 0, part.shape(1));
        EXPECT_TRUE(
            same_numbers(kernel(view, scales), example("03").on(interpreter)(part, scales)));
    }
}

TEST_P(Vulkan, ThereAndBackKeepsEveryBitOfEveryDType) {
    for (int d = 0; d < kDTypeCount; ++d) {
        const auto dtype = static_cast<DType>(d);
        Tensor x({64}, dtype, Device("interpreter"));
        for (std::size_t i = 0; i < x.bytes(); ++i) {
            const auto byte = static_cast<unsigned char>(i * 151 + 255);
            static_cast<unsigned char*>(x.data())[i] = dtype == DType::Bool ? byte % 2 : byte;
        }
        const Tensor back = x.to(device()).to(Device("interpreter"));
        EXPECT_EQ(std::memcmp(back.data(), x.data(), x.bytes()), 0) << to_string(dtype);
    }
}

TEST_P(Vulkan, AResultIsAnOperandOfEveryDevice) {
    const Tensor x = uniform({1003}, 1);
    const Kernel step(custom("for i in 0..n: out[i] = x[i] * 0.5 + x[(i + 1) % n]"));
    Tensor here = x, there = x;
    for (int i = 0; i < 5; ++i) {
        here = step.on(Device("interpreter"))(here);
        there = step.on(device()).with(Numerics::Reproducible)(there);
    }
    EXPECT_TRUE(same_numbers(there, here));
    const Tensor expected = step.on(Device("interpreter"))(here);
    for (const DeviceInfo& other : devices()) {
        const Kernel next = step.on(Device(other.id)).with(Numerics::Reproducible);
        EXPECT_TRUE(same_numbers(next(there), expected)) << other.id;
    }
}

TEST_P(Vulkan, ReadsOperandsThatAreViews) {
    const Kernel kernel = example("03").on(device()).with(Numerics::Reproducible);
    const Tensor x = uniform({9, 34}, 1), scale = uniform({34}, 2);
    const Tensor expected = example("03").on(Device("interpreter"))(x, scale);
    for (const Tensor& view : {transposed_in_memory(x), sliced_from_larger(x)}) {
        EXPECT_TRUE(same_numbers(kernel(view, sliced_from_larger(scale)), expected));
    }
}

TEST_P(Vulkan, LeavesWhatAKernelDoesNotWriteAtZero) {
    const Tensor x = uniform({40}, 1);
    const Kernel kernel(custom("for i in 0..n:\n  if i % 3 == 0: out[i] = x[i]"));
    EXPECT_TRUE(same_numbers(kernel.on(device())(x), kernel.on(Device("interpreter"))(x)));
}

TEST_P(Vulkan, KeepsNanAndSignsOfZeroBesideConstants) {
    const Tensor x = Tensor::from({4}, std::vector<float>{NAN, INFINITY, -0.0f, 2});
    for (const char* body :
         {"for i in 0..n: out[i] = x[i] * 0.0", "for i in 0..n: out[i] = x[i] * (1.0 - 1.0)",
          "for i in 0..n: out[i] = 0 * x[i] + 0", "for i in 0..n: out[i] = x[i] - x[i]",
          "for i in 0..n:\n  var z = 0.0\n  out[i] = x[i] * z",
          "for i in 0..n:\n  var s = 0.0\n  s += x[i]\n  out[i] = s"}) {
        for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16}) {
            const Kernel kernel(custom(body));
            const Tensor operand = x.to(dtype);
            EXPECT_TRUE(same_numbers(kernel.on(device()).with(Numerics::Reproducible)(operand),
                                     kernel.on(Device("interpreter"))(operand)))
                << body << " " << to_string(dtype);
        }
    }
}

TEST_P(Vulkan, HasFloat64WhereItsProcessorHasNone) {
    // Denormal numbers too, but for drivers whose own float64 has none: as integers it has them
    // where float32 has none.
    const cpu_test::VulkanDevice& about = cpu_test::vulkan_devices()[GetParam()];
    const bool has_denormals = about.is_swiftshader || !about.has_no_denormals;
    const double small = has_denormals ? 0x1p-1074 : 0x1p-60;
    const double near = has_denormals ? -0x1.8p-1030 : -0x1.8p-50;
    const double divisor = has_denormals ? 0x1p-1060 : 0x1p-70;
    const Tensor x =
        Tensor::from({8}, std::vector<double>{small, near, 3, -0.0, 1e300, INFINITY, NAN, 0.1});
    const Tensor y =
        Tensor::from({8}, std::vector<double>{0.5, 0x1p-20, 7, divisor, 1e10, 2, 1, 0.3});
    const cpu_test::Case c(
        "compute(x, y) {\n@kernel custom\nfor i in 0..n, j in 0..n:\n"
        "  let q = x[i] / y[j] + sqrt(abs(x[j]))\n"
        "  out[i, j] = f64(f32(q)) + select(x[i] < y[j], q * x[i], floor(q) - f64(i32(q)))\n}",
        {x, y});
    for (const auto points : {vulkan::PointsAre::InvocationsOf32, vulkan::PointsAre::Chosen}) {
        const auto got = c.on_vulkan(device(), Numerics::Reproducible, points);
        ASSERT_TRUE(got.has_value());
        EXPECT_TRUE(same_numbers(*got, *c.interpreted()));
    }
}

/// Some drivers end the process.
TEST_P(Vulkan, RefusesCodeThatIsTooLong) {
    std::string sum = "sin(x[i])";
    for (const char* name : {"cos", "erf", "tan", "exp"})
        sum += std::string(" + ") + name + "(x[i])";
    const Kernel kernel = Kernel(custom("for i in 0..n: out[i] = " + sum)).on(device());
    const Tensor x = uniform({3}, 1, -2, 2, DType::Float64);
    const std::string message = message_of(kernel, std::vector{x});
    if (!vulkan().is_swiftshader) {
        EXPECT_EQ(message, "no error") << "it has float64";
        return;
    }
    EXPECT_NE(message.find("E0600"), std::string::npos) << message;
    EXPECT_NE(message.find("drivers are given up to 90000"), std::string::npos) << message;
}

/// SwiftShader ends the process where its stack is too small for it.
TEST_P(Vulkan, RefusesWhatNeedsMorePlacesThanSwiftShaderHas) {
    if (!vulkan().is_swiftshader) GTEST_SKIP() << "not SwiftShader";
    std::string text = "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var sum = x[i]\n";
    for (int n = 0; n < 1600; ++n)
        text += "  sum += x[min(i + " + std::to_string(n) + ", n - 1)]\n";
    const std::string message =
        message_of(Kernel(text + "  out[i] = sum\n}").on(device()), std::vector{uniform({5}, 1)});
    EXPECT_NE(message.find("E0600"), std::string::npos) << message;
    EXPECT_NE(message.find("SwiftShader has 32768"), std::string::npos) << message;
}

/// SwiftShader would keep 33649 numbers in one block of it.
TEST_P(Vulkan, RunsLongCodeWithoutBranches) {
    const cpu_test::Case c(custom("for i in 0..n: out[i] = cos(min(x[i], x[n - 1 - i]) + 0)"),
                           {uniform({5}, 1, -2, 2, DType::Float64)});
    const auto got = c.on_vulkan(device(), Numerics::Reproducible, vulkan::PointsAre::Chosen);
    ASSERT_TRUE(got.has_value());
    EXPECT_TRUE(same_numbers(*got, *c.interpreted()));
}

TEST_P(Vulkan, SharesOutScratchAmongMorePointsThanItIsFor) {
    // 32 KiB a point: more than 64 MiB together.
    const char* text =
        "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[8192]: float32\n"
        "  for i in 0..8: t[i * 1000] = exp(x[b, i])\n  barrier()\n"
        "  for i in 0..8: out[b, i] = t[7000 - i * 1000]\n}";
    const cpu_test::Case c(text, {uniform({2100, 8}, 1)});
    for (const auto points : {vulkan::PointsAre::Invocations, vulkan::PointsAre::Groups}) {
        const auto got = c.on_vulkan(device(), Numerics::Reproducible, points);
        ASSERT_TRUE(got.has_value());
        EXPECT_TRUE(same_numbers(*got, *c.interpreted()));
    }
}

TEST_P(Vulkan, TakesTensorsWithoutElements) {
    EXPECT_EQ(example("01").on(device())(Tensor({0})).shape(), (Shape{0}));
    EXPECT_EQ(example("04").on(device())(Tensor({0})).values()[0], 0);
}

TEST_P(Vulkan, ReportsAFailureAsTheInterpreterDoes) {
    const Kernel kernel("compute(x, at) {\n@kernel custom\nfor i in 0..n: out[i] = x[at[i]]\n}");
    std::vector<std::int64_t> at(40, 3);
    at[25] = 20;
    const std::vector<Tensor> operands = {uniform({20}, 1), Tensor::from({40}, at)};
    const std::string expected = message_of(kernel.on(Device("interpreter")), operands);
    EXPECT_NE(expected.find("E0507"), std::string::npos) << expected;
    EXPECT_EQ(message_of(kernel.on(device()), operands), expected);
}

TEST_P(Vulkan, RefusesAPointOfMoreIterationsThanTheDriverRunsOrRunsThemAll) {
    const Tensor x = uniform({300}, 1);
    const Kernel kernel(
        custom("for b in 0..1:\n  var s = 0.0\n  for i in 0..n, j in 0..n: s += x[i] * x[j]\n"
               "  out[b] = s"));
    const std::string message = message_of(kernel.on(device()), std::vector{x});
    if (message != "no error") {
        EXPECT_NE(message.find("E0600"), std::string::npos) << message;
        return;
    }
    const double expected = kernel.on(Device("interpreter"))(x).values()[0];
    // 90000 products of at most 4, added in another order.
    EXPECT_NEAR(kernel.on(device())(x).values()[0], expected, 90000 * 4 * 6e-8 * 100);
}

/// llvmpipe counts the rounds of all loops together, for all points that it does at a time.
TEST_P(Vulkan, LoopsInsideLoopsAndBranchesRunWholeOrAreRefused) {
    const auto agrees = [&](const char* body, const Tensor& x) {
        const Kernel kernel(custom(body));
        try {
            const Tensor got = kernel.on(device()).with(Numerics::Reproducible)(x);
            return same_numbers(got, kernel.on(Device("interpreter"))(x));
        } catch (const KernelError& error) {
            return std::string(error.what()).find("E0600") != std::string::npos;
        }
    };
    const Tensor narrow = uniform({20000, 2}, 1), signs = uniform({100}, 1);
    EXPECT_TRUE(
        agrees("for b in 0..1:\n  var s = 0.0\n  for i in 0..n:\n    for j in 0..m:\n"
               "      s += x[i, j]\n  out[b] = s",
               narrow));
    EXPECT_TRUE(
        agrees("for i in 0..n:\n  var s = 0.0\n  if x[i] > 0.5:\n"
               "    for k in 0..40000: s += x[i]\n  else:\n"
               "    for k in 0..40000: s -= x[i]\n  out[i] = s",
               signs));
}

TEST_P(Vulkan, IsChosenByAText) {
    const Tensor x = uniform({17}, 1);
    const Kernel kernel("compute(x) @device(\"" + device().id() +
                        "\") {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i] + 1.0\n}");
    EXPECT_EQ(kernel(x).device(), device());
}

TEST_P(Vulkan, PartsOfAReductionRunBesideTheCpu) {
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    const Tensor x = uniform({5000}, 1);
    const Kernel both("compute(x) @device([\"cpu:0\", \"" + device().id() +
                      "\"]) @parallel(data) {\n@kernel reduce(+)\nfor i in 0..n: yield x[i]\n}");
    const double expected = example("04").on(Device("interpreter"))(x).values()[0];
    // Sums of 5000 numbers of at most 2 in another order.
    EXPECT_NEAR(both(x).values()[0], expected, 5000 * 2 * 6e-8 * 10);
}

/// On ragged and on whole vectors.
TEST_P(Vulkan, GivesTheInterpretersBitsWhereAPointIsAGroup) {
    using cpu_test::Case;
    const std::string largest = custom(
        "for i in 0..r:\n  var m = x[i, 0]\n  for j in 0..c: m = max(m, x[i, j])\n  out[i] = m");
    const std::vector<Case> cases = {
        Case(largest, {uniform({5, 61}, 1, -4, 4, DType::Float16)}),
        Case(largest, {uniform({5, 61}, 1, -4, 4, DType::Float64)}),
        Case(largest, {random_tensor({5, 61}, DType::Int64, 1)}),
        Case(largest, {random_tensor({5, 61}, DType::UInt8, 1)}),
        Case(example_text("07"), {random_tensor({5, 61}, DType::Int32, 1)}),
        Case(example_text("01"), {uniform({100}, 1)}),
        Case(example_text("03"), {uniform({7, 33}, 1), uniform({33}, 2)}),
        Case(example_text("04"), {uniform({5000}, 1)}),
        Case(example_text("05"), {uniform({96}, 1)}),
        Case(example_text("07"), {uniform({5, 64}, 1)}),
        Case(example_text("07"), {uniform({5, 61}, 1)}),
        Case(example_text("08"), {uniform({300}, 1)}),
        Case(example_text("09"), {uniform({9, 20}, 1), uniform({20, 35}, 2)}),
        Case(example_text("09"), {uniform({8, 16}, 1), uniform({16, 32}, 2)}),
        Case(example_text("15"), {uniform({70}, 1)}),
        Case(example_text("16"), {uniform({3, 50}, 1), uniform({50}, 2), uniform({50}, 3)},
             {{"eps", 1e-5}}),
        Case(example_text("17"), {uniform({64}, 1, -4, 4, DType::Float16)}),
        Case(example_text("17"), {uniform({35}, 1, -4, 4, DType::Float64)}),
        Case(example_text("18"),
             {uniform({1, 2, 5, 66}, 1), uniform({5, 33}, 2), uniform({5, 33}, 3)}),
    };
    for (std::size_t n = 0; n < cases.size(); ++n) {
        SCOPED_TRACE(n);
        for (const auto points : {vulkan::PointsAre::Groups, vulkan::PointsAre::GroupsByMemory}) {
            const auto got = cases[n].on_vulkan(device(), Numerics::Reproducible, points);
            ASSERT_TRUE(got.has_value());
            EXPECT_TRUE(same_numbers(*got, *cases[n].interpreted()));
        }
        const auto strict =
            cases[n].on_vulkan(device(), Numerics::Strict, vulkan::PointsAre::Groups);
        ASSERT_TRUE(strict.has_value());
        // Sums of 5000 numbers of at most 2 in another order.
        cpu_test::expect_near(*strict, *cases[n].interpreted(), 1e-5, 100);
    }
}

/// Eight rows of lanes, some without work, behind barriers.
TEST_P(Vulkan, GroupsShareWhatAProductReads) {
    const auto integers = [](const Shape& shape, std::uint64_t seed, DType dtype) {
        return uniform(shape, seed, -4, 4).to(DType::Int32).to(dtype);
    };
    for (const DType dtype : {DType::Float32, DType::Float16, DType::Int8, DType::Int64}) {
        // What lanes share is a matter of the shape, how they read it one of the dtype.
        std::vector shapes{std::tuple{33, 17, 65}, {64, 64, 64}};
        std::vector points_are{vulkan::PointsAre::Groups};
        if (dtype == DType::Float32) {
            shapes.insert(shapes.end(), {{70, 40, 130}, {1, 64, 3}});
            points_are.push_back(vulkan::PointsAre::Chosen);
        }
        for (const auto& [m, k, n] : shapes) {
            SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n) +
                         std::string(to_string(dtype)));
            const cpu_test::Case c(example_text("09"),
                                   {integers({m, k}, 1, dtype), integers({k, n}, 2, dtype)});
            for (const auto points : points_are) {
                const auto got = c.on_vulkan(device(), Numerics::Strict, points);
                ASSERT_TRUE(got.has_value());
                EXPECT_TRUE(same_numbers(*got, *c.interpreted()));
            }
        }
    }
}

/// Rows of lanes inside of a point, each of which folds what its own have.
TEST_P(Vulkan, GroupsHaveRowsOfLanesForTiles) {
    const auto attention = [](std::int64_t length, std::int64_t width) {
        const Shape shape{1, 2, length, width};
        return cpu_test::Case(example_text("14"),
                              {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
    };
    const cpu_test::Case cut = attention(70, 24), whole = attention(64, 32);
    const auto exact =
        cut.on_vulkan(device(), Numerics::Reproducible, vulkan::PointsAre::GroupsByMemory);
    ASSERT_TRUE(exact.has_value());
    EXPECT_TRUE(same_numbers(*exact, *cut.interpreted()));
    for (const cpu_test::Case* c : {&cut, &whole}) {
        const auto strict = c->on_vulkan(device(), Numerics::Strict, vulkan::PointsAre::Groups);
        ASSERT_TRUE(strict.has_value());
        // Exponents, sums of up to 32 numbers of at most 4, are off by up to 128 x 2^-24.
        cpu_test::expect_near(*strict, *c->interpreted(), 1e-5, 2);
    }
    for (const DType dtype : {DType::Float32, DType::Float16, DType::Int8, DType::Int64}) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor x = uniform({2, 13, 37}, 4, -4, 4).to(DType::Int32).to(dtype);
        for (const char* step : {"s += x[p, i, k]", "s = max(s, x[p, i, k])"}) {
            const cpu_test::Case c(
                "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n"
                "  for i in 0..m:\n    var s = x[p, i, 0]\n    for k in 0..n: " +
                    std::string(step) + "\n    out[p, i] = s + first\n}",
                {x});
            const auto got = c.on_vulkan(device(), Numerics::Strict, vulkan::PointsAre::Groups);
            ASSERT_TRUE(got.has_value());
            EXPECT_TRUE(same_numbers(*got, *c.interpreted())) << step;
        }
    }
}

/// A driver that ends loops after 65,536 iterations runs tiles whose point would have more.
TEST_P(Vulkan, RunsTilesThatAreTooLongForAnInvocation) {
    const Shape shape{1, 1, 320, 64};
    const cpu_test::Case c(example_text("14"),
                           {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
    const auto got = c.on_vulkan(device(), Numerics::Strict);
    ASSERT_TRUE(got.has_value());
    cpu_test::expect_near(*got, *c.interpreted(), 1e-5, 2);
}

/// What a stage that was cut off leaves is not taken for its result by those behind it.
TEST_P(Vulkan, RefusesWhatIsTooLongWhereLaterStagesHaveWritten) {
    const cpu_test::Case c(
        "compute(x) {\n@kernel custom\nvar s = 0.0\nfor i in 0..rows:\n"
        "  for k in 0..cols: s += x[i, k]\nfor j in 0..8:\n"
        "  if s < 70000.0: out[j] = 1.0\n}",
        {uniform({2, 80000}, 1, 0.999, 1)});
    try {
        const auto got = c.on_vulkan(device(), Numerics::Strict);
        ASSERT_TRUE(got.has_value());
        EXPECT_TRUE(same_numbers(*got, *c.interpreted()));
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("more than 65535 iterations"), std::string::npos)
            << error.what();
    }
}

/// Lanes read what others wrote: in a loop behind the writes, and at once.
TEST_P(Vulkan, LanesOfAGroupSeeWhatOthersWrote) {
    const std::string begin =
        "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[64]: float32\n"
        "  for i in 0..64: t[i] = exp(x[b, i])\n  barrier()\n";
    for (const char* end :
         {"  for i in 0..64: out[b, i] = t[63 - i]\n}", "  out[b] = t[63] + t[17]\n}"}) {
        const cpu_test::Case c(begin + end, {uniform({5, 64}, 1)});
        const auto got = c.on_vulkan(device(), Numerics::Reproducible, vulkan::PointsAre::Groups);
        ASSERT_TRUE(got.has_value()) << end;
        EXPECT_TRUE(same_numbers(*got, *c.interpreted())) << end;
    }
}

TEST_P(Vulkan, FailsAsOneWhereAPointIsAGroup) {
    const char* text = "compute(x, at) {\n@kernel custom\nfor i in 0..n: out[i] = x[at[i]]\n}";
    std::vector<std::int64_t> at(40, 3);
    const auto run = [&] {
        const cpu_test::Case c(text, {uniform({20}, 1), Tensor::from({40}, at)});
        return c.on_vulkan(device(), Numerics::Strict, vulkan::PointsAre::Groups);
    };
    EXPECT_TRUE(run().has_value());
    at[25] = 20;
    EXPECT_FALSE(run().has_value());
}

/// Of this process, in pages.
long resident() {
    long pages = 0, kept = 0;
    FILE* file = std::fopen("/proc/self/statm", "r");
    const bool is_read = file && std::fscanf(file, "%ld %ld", &pages, &kept) == 2;
    if (file) std::fclose(file);
    return is_read ? kept : 0;
}

/// What this process has from malloc, in bytes. Unlike pages it does not depend on what allocators
/// keep of what was freed, which for a compiler is more than pipelines take.
std::size_t allocated() {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

/// Where nothing but the library and the driver keeps memory.
class VulkanMemory : public Vulkan {
protected:
    void SetUp() override {
        if (kSanitized) GTEST_SKIP() << "sanitizers keep what was freed";
        // Of no effect if a test of this process has loaded them before.
        unsetenv("VK_INSTANCE_LAYERS");
        Vulkan::SetUp();
        if (has_validation_layer()) GTEST_SKIP() << "the validation layer keeps what it sees";
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanMemory, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(VulkanMemory, IsNotKeptByLaunchesOfManySizes) {
    const Kernel kernel = example("01").on(device());
    const auto launch_all = [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t n = first; n <= last; ++n) static_cast<void>(kernel(Tensor({n})));
        synchronize(device());
    };
    // So many that what is remembered is full, and as many as ever are in flight.
    launch_all(10001, 12000);
    launch_all(1, 4000);
    const long before = resident();
    launch_all(4001, 14000);
    // Pages: a launch leaves not even 40 bytes.
    EXPECT_LT(resident() - before, 100);
}

TEST_P(VulkanMemory, IsCountedAndLimited) {
    trim_memory(device());
    const MemoryCounters before = memory_counters(device());
    {
        const Tensor x({1000, 1000}, DType::Float32, device());
        EXPECT_GE(memory_counters(device()).live, before.live + 4'000'000);
        EXPECT_EQ(memory_counters(device()).allocations, before.allocations + 1);
        EXPECT_GE(memory_counters(device()).held, memory_counters(device()).live);
    }
    EXPECT_EQ(memory_counters(device()).live, before.live);
    reset_peak_memory(device());
    EXPECT_EQ(memory_counters(device()).peak, before.live);
    const std::size_t limit = memory_counters(device()).held + (8 << 20);
    set_memory_limit(device(), limit);
    try {
        Tensor({16 << 20}, DType::Float32, device());
        ADD_FAILURE() << "64 MiB of 8";
    } catch (const OutOfMemory& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("expected room for 67108864 bytes"), std::string::npos) << what;
        EXPECT_NE(what.find("the limit is " + std::to_string(limit)), std::string::npos) << what;
        EXPECT_EQ(error.requested(), 67108864u);
        EXPECT_NE(what.find("; " + std::to_string(error.free().value()) + " bytes are free, " +
                            std::to_string(error.largest_block().value()) + " in one block"),
                  std::string::npos)
            << what;
    }
    const Kernel outer(
        "compute(x) {\n@kernel custom\nfor i in 0..n, j in 0..n: out[i, j] = x[i] + x[j]\n}");
    const Tensor x({4096}, DType::Float32, device());
    EXPECT_THROW(static_cast<void>(outer.on(device()).run(std::vector{x}, {})), OutOfMemory);
    set_memory_limit(device(), before.limit);
    EXPECT_EQ(outer.on(device()).run(std::vector{x}, {}).shape(), (Shape{4096, 4096}));
}

TEST_P(VulkanMemory, IsNotKeptByPipelinesThatNoKernelNeeds) {
    const Tensor x = uniform({3}, 1).to(device());
    int number = 0;
    const auto launch = [&](int count) {
        for (int i = 0; i < count; ++i) {
            const Kernel kernel(
                custom("for i in 0..n: out[i] = exp(x[i]) * " + std::to_string(++number) + ".0"));
            static_cast<void>(kernel.on(device())(x));
        }
        synchronize(device());
    };
    // As many as are kept, and some.
    launch(300);
    const std::size_t before = allocated();
    launch(200);
    // Where none is released, two hundred take 8.4 MiB on SwiftShader and 99 MiB on llvmpipe. What
    // varies from run to run is 0.1 and 1.1 MiB.
    const std::size_t most = vulkan().is_swiftshader ? std::size_t{2} << 20 : std::size_t{16} << 20;
    EXPECT_LT(allocated(), before + most);
}

}  // namespace
}  // namespace quern
