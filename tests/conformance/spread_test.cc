// Checks 94 and 95: a launch over several devices gives what one device gives.

#include <cmath>

#include "tests/conformance/operands.h"
#include "tests/script/script_helpers.h"

namespace quern {
namespace spread_test {

using script::CaughtWarnings;

/// Two and three logical devices, and the interpreter, which may be named more than once.
std::vector<std::string> device_lists() {
    std::vector<std::string> lists = {R"(["interpreter", "interpreter"])"};
    if (devices().front().id == "cpu") {
        lists.push_back(R"(["cpu:0", "cpu:1"])");
        lists.push_back(R"(["cpu:0", "cpu:1", "cpu:2"])");
        lists.push_back(R"(["cpu:1", "interpreter"])");
    }
    return lists;
}

/// These, and each device "vulkan:N" beside others.
std::vector<std::string> all_lists() {
    std::vector<std::string> lists = device_lists();
    for (const DeviceInfo& device : devices()) {
        if (device.type != "vulkan") continue;
        lists.push_back(R"([")" + device.id + R"(", "interpreter"])");
        lists.push_back(R"(["auto", ")" + device.id + R"(", ")" + device.id + R"("])");
    }
    return lists;
}

std::string spread(std::string text, const std::string& list, const std::string& mode) {
    return text.insert(text.find('{', text.find("compute(")),
                       "@device(" + list + ") @parallel(" + mode + ") ");
}

/// What sums of n terms that add up to 1 in magnitude differ by when they are added in other
/// orders: 6 sqrt(n) u of float32, of which more has a chance of 1e-7 n (Higham and Mary, "A new
/// approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019, theorem 2.4).
/// One term that is missing is more.
double of_other_orders(double terms) { return 6 * std::sqrt(terms) * 0x1p-24; }

/// Bits on devices of one kind, which add in one order.
void expect_same(const Tensor& result, const Tensor& expected, const std::string& list,
                 double absolute = kAbsolute) {
    int kinds = 0;
    for (const char* kind : {"interpreter", "cpu", "auto", "vulkan"}) {
        kinds += list.find(kind) != std::string::npos ? 1 : 0;
    }
    if (kinds > 1) {
        EXPECT_CLOSE(result, expected.values(), kRelative, absolute);
    } else {
        EXPECT_TRUE(same_bits(result, expected));
    }
}

Device first_of(const std::string& list) { return Device(list.substr(2, list.find('"', 2) - 2)); }

struct Row {
    const char* number;
    std::vector<Shape> operands;
    bool masked = false;
    bool scalars = false;
};

class Check94 : public ::testing::TestWithParam<Row> {};

TEST_P(Check94, PartsOfTheOutermostLoopGiveTheBitsOfTheWhole) {
    const Row& row = GetParam();
    std::vector<Argument> arguments;
    if (row.scalars) arguments.push_back(arg("eps", 1e-5));
    const std::vector<std::string> simple = device_lists();
    const std::string text = example_text(row.number);
    for (const std::string& list : all_lists()) {
        const bool is_simple = std::ranges::find(simple, list) != simple.end();
        const Kernel whole = Kernel(text).on(first_of(list));
        const Kernel parts(spread(text, list, "data"));
        for (const std::int64_t rows : {0, 1, 2, 3, 7, 40}) {
            if (!is_simple && rows != 0 && rows != 7) continue;
            SCOPED_TRACE(list + ", rows " + std::to_string(rows));
            std::vector<Tensor> operands;
            for (std::size_t i = 0; i < row.operands.size(); ++i) {
                Shape shape = row.operands[i];
                for (std::int64_t& extent : shape) extent = extent == -1 ? rows : extent;
                operands.push_back(row.masked && i == 3 ? random_tensor(shape, DType::Bool, 9)
                                                        : uniform(shape, i + 1));
            }
            const CaughtWarnings warnings;
            const Tensor expected = whole.run(operands, arguments);
            const Tensor result = parts.run(operands, arguments);
            EXPECT_EQ(warnings.count("W0707"), 0);
            EXPECT_EQ(result.device(), first_of(list));
            expect_same(result, expected, list);
        }
    }
}

const Row kRows[] = {
    {"01", {{-1}}},
    {"02", {{-1}, {-1}}},
    {"03", {{-1, 7}, {7}}},
    {"07", {{-1, 5}}},
    {"09", {{-1, 33}, {33, 20}}},
    {"10", {{-1, 5, 7}, {-1, 7, 3}}},
    {"11", {{-1, 3, 6, 5}, {4, 3, 3, 2}, {4}}},
    {"12", {{-1, 3, 6, 5}, {3, 3, 2}}},
    {"13", {{-1, 2, 5, 3}, {-1, 2, 5, 3}, {-1, 2, 5, 3}, {5, 5}}, true},
    {"14", {{-1, 1, 67, 3}, {-1, 1, 67, 3}, {-1, 1, 67, 3}}},
    {"16", {{-1, 19}, {19}, {19}}, false, true},
    {"17", {{-1, 3, 5}}},
    {"18", {{-1, 2, 3, 6}, {3, 3}, {3, 3}}},
};
INSTANTIATE_TEST_SUITE_P(Kernels, Check94, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string("K") + info.param.number; });

TEST(Check94, PartsInTheMemoryOfAnotherDeviceGiveTheBitsOfTheWhole) {
    for (const std::int64_t n : {1, 2, 7, 40}) {
        const Tensor a = uniform({n, 33}, 1), b = uniform({33, n}, 2);
        const Kernel whole = example("09").with(Numerics::Reproducible);
        const Tensor expected = whole.on(Device("interpreter"))(a, b);
        for (const std::string& list : all_lists()) {
            for (const char* mode : {"data", "model"}) {
                const CaughtWarnings warnings;
                const Kernel parts(spread(example_text("09"), list, mode));
                const Tensor result = parts.with(Numerics::Reproducible)(a, b);
                EXPECT_TRUE(same_bits(result, expected)) << list << mode << n;
                EXPECT_EQ(warnings.count("W0707"), 0);
            }
        }
    }
}

TEST(Check94, SmallElementsAreWrittenApartByADeviceThatMayStoreTheirNeighbours) {
    const std::string text = example_text("01");
    for (const std::string& list : all_lists()) {
        for (const DType dtype : {DType::Float16, DType::BFloat16}) {
            const Tensor x = uniform({41}, 1, -1, 1, dtype);
            const CaughtWarnings warnings;
            const Tensor result = Kernel(spread(text, list, "data"))(x);
            EXPECT_TRUE(same_bits(result, Kernel(text).on(Device("interpreter"))(x))) << list;
            EXPECT_EQ(warnings.count("W0707"), 0) << list;
        }
    }
}

TEST(Check94, ADeviceThatGetsNoPartDoesNotMatter) {
    // Two rows for three devices, of which the last could not store such elements.
    const Tensor x = uniform({2, 3}, 1, -1, 1, DType::Float16), w = uniform({3}, 2);
    for (const DeviceInfo& device : devices()) {
        if (device.type != "vulkan") continue;
        const std::string list = R"(["interpreter", "interpreter", ")" + device.id + R"("])";
        const CaughtWarnings warnings;
        const Kernel kernel(spread(example_text("03"), list, "data"));
        EXPECT_TRUE(same_bits(kernel(x, w), example("03").on(Device("interpreter"))(x, w)));
        EXPECT_EQ(warnings.count("W0707"), 0);
    }
}

TEST(Check94, DevicesThatDoNotWriteInOneMemoryWriteSlicesOfTheResult) {
    std::vector<std::string> ids;
    for (const DeviceInfo& device : devices()) {
        if (device.type == "vulkan") ids.push_back(device.id);
    }
    if (ids.size() < 2) GTEST_SKIP() << "no device vulkan:1";
    const std::string list = "[\"" + ids[0] + "\", \"" + ids[1] + "\"]";
    const Tensor x = uniform({41, 3}, 3), y = uniform({3, 41}, 4);
    const auto result_of = [&](const std::string& body, const Tensor& operand, int warned) {
        SCOPED_TRACE(body);
        const bool is_flat = body.find("len") != std::string::npos;
        const std::string text = std::string("compute(x) {\n@kernel ") +
                                 (is_flat ? "elementwise" : "custom") + "\n" + body + "\n}";
        const CaughtWarnings warnings;
        const Tensor result = Kernel(spread(text, list, "data"))(operand);
        EXPECT_TRUE(same_bits(result, Kernel(text).on(Device("interpreter"))(operand)));
        EXPECT_EQ(warnings.count("W0707"), warned);
    };
    result_of("for i in 0..n, j in 0..m: out[i, j] = x[i, j] * 2.0", x, 0);
    // Slices of the last axis, of all rows that are left out, and of every second row.
    result_of("for j in 0..m, i in 0..n: out[i, j] = x[i, j] * 2.0", x, 0);
    result_of("for i in 0..n, j in 0..m: out[i, j] = x[j, i] * 2.0", y, 0);
    result_of("for i in 2..n, j in 0..m: out[i, j] = x[i, j] * 2.0", x, 0);
    result_of("for i in 1..n step 2, j in 0..m: out[i, j] = x[i, j] * 2.0", x, 0);
    result_of("for i in 0..len: out[i] = x[i] * 2.0", x, 0);
    // What the parts write is no slice.
    result_of("for i in 0..n, j in 0..m: out[n - 1 - i, j] = x[i, j] * 2.0", x, 1);
    result_of("for i in 0..n: out[i, 0] = x[i, 0]\n", x, 0);
}

TEST(Check94, TwoStoresToPlacesOfTheirOwnAreNoSliceOfOneAxis) {
    std::vector<std::string> ids;
    for (const DeviceInfo& device : devices()) {
        if (device.type == "vulkan") ids.push_back(device.id);
    }
    if (ids.size() < 2) GTEST_SKIP() << "no device vulkan:1";
    const Tensor x = uniform({10}, 3);
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  out[2 * i] = x[i]\n"
        "  out[2 * i + 1] = x[i] * 2.0\n}";
    const CaughtWarnings warnings;
    const Kernel parts(spread(text, "[\"" + ids[0] + "\", \"" + ids[1] + "\"]", "data"));
    EXPECT_TRUE(same_bits(parts(x), Kernel(text).on(Device("interpreter"))(x)));
    EXPECT_EQ(warnings.count("W0707"), 1);
}

TEST(Check94, PartsOfAReductionAreCombined) {
    for (const std::string& list : device_lists()) {
        for (const std::string op : {"+", "*", "min", "max"}) {
            for (const char* then : {"", " |> sqrt()"}) {
                const std::string text = "compute(x) {\n    @kernel reduce(" + op +
                                         ")\n    for i in 0..n, j in 0..m:\n        yield x[i, j]"
                                         "\n}" +
                                         then;
                const Kernel whole = Kernel(text).on(first_of(list));
                const Kernel parts(spread(text, list, "data"));
                for (const std::int64_t rows : {1, 2, 3, 7, 5000}) {
                    SCOPED_TRACE(list + op + then + ", rows " + std::to_string(rows));
                    const Tensor x = uniform({rows, 3}, 5, 0.9999, 1.0001);
                    const Tensor expected = whole(x), result = parts(x);
                    const bool is_exact = op == "min" || op == "max";
                    const double tolerance = is_exact ? 0 : of_other_orders(3.0 * double(rows));
                    EXPECT_CLOSE(result, expected.values(), tolerance, 0);
                }
            }
        }
    }
}

TEST(Check94, PartsOfAReductionThatIsExactInAnyOrderAreCombined) {
    // Powers of two whose product stays one, from whichever element on it begins.
    const Tensor seeds = uniform({5000, 3}, 5);
    Tensor x({5000, 3}, DType::Float32);
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
        const bool is_other = i % 97 == 5;
        x.data<float>()[i] = !is_other ? 1.0F : seeds.data<float>()[i] < 0 ? 0.5F : 2.0F;
    }
    for (const std::string& list : all_lists()) {
        for (const char* op : {"+", "*", "min", "max"}) {
            const std::string text = std::string("compute(x) {\n    @kernel reduce(") + op +
                                     ")\n    for i in 0..n, j in 0..m:\n        yield x[i, j]\n}";
            const Tensor expected = Kernel(text).on(Device("interpreter"))(x);
            EXPECT_TRUE(same_bits(Kernel(spread(text, list, "data"))(x), expected)) << list << op;
        }
    }
}

TEST(Check94, PartsOfAReductionAreRoundedOnceWhenTheyAreCombined) {
    const Kernel whole = example("06");
    const std::string sum =
        "compute(x) {\n    @kernel reduce(+)\n    for i in 0..len:\n        yield x[i]\n}";
    std::vector<double> values(40, 6000);
    std::fill_n(values.begin() + 20, 20, -6000);
    for (const std::string& list : device_lists()) {
        for (const DType dtype : {DType::Float16, DType::BFloat16}) {
            // 300^2 is above the largest float16, and so is each half of the second sum.
            const Tensor large = Tensor::from({4}, {300.0, 300.0, 300.0, 300.0}).to(dtype);
            const Tensor norm = Kernel(spread(example_text("06"), list, "data"))(large);
            EXPECT_EQ(norm.dtype(), dtype);
            EXPECT_EQ(norm.item(), whole.on(first_of(list))(large).item()) << list;
            const Tensor terms = Tensor::from({40}, values).to(dtype);
            EXPECT_EQ(Kernel(spread(sum, list, "data"))(terms).item(), 0) << list;
        }
    }
}

TEST(Check94, PartsAreCombinedByTheOperatorOfTheResultAndNotOfAnotherSum) {
    const std::string text =
        "compute(x) {\n    @kernel reduce(max)\n    for i in 0..n:\n        var total = 0.0\n"
        "        for j in 0..m:\n            total += x[i, j]\n        yield total\n}";
    const Tensor x = uniform({50, 3}, 5);
    for (const std::string& list : device_lists()) {
        const Tensor expected = Kernel(text).on(first_of(list))(x);
        EXPECT_CLOSE(Kernel(spread(text, list, "data"))(x), expected.values(), kRelative,
                     kAbsolute);
    }
}

TEST(Check94, PartsOfIntegersAndBoolsAreExact) {
    for (const std::string& list : all_lists()) {
        const auto expect_exact = [&](const std::string& op, const std::vector<Tensor>& operands) {
            const std::string text = "compute(x) {\n    @kernel reduce(" + op +
                                     ")\n    for i in 0..len:\n        yield x[i]\n}";
            const Kernel whole = Kernel(text).on(first_of(list));
            const Kernel parts(spread(text, list, "data"));
            for (const Tensor& x : operands) {
                EXPECT_TRUE(same_bits(parts(x), whole(x))) << list << op;
            }
        };
        const Tensor numbers = uniform({10007}, 8, -1e6, 1e6, DType::Int32);
        for (const char* op : {"+", "min", "max"}) expect_exact(op, {numbers});
        for (const char* op : {"and", "or"}) {
            expect_exact(op, {random_tensor({33}, DType::Bool, 4), Tensor({33}, DType::Bool),
                              Tensor({0}, DType::Bool)});
        }
    }
}

TEST(Check94, WhatCannotBeSpreadRunsOnTheFirstDeviceWithAWarning) {
    const std::vector<std::pair<const char*, Tensor>> rows = {{"08", uniform({37}, 1)},
                                                              {"15", uniform({4, 5}, 2)}};
    for (const auto& [number, x] : rows) {
        for (const std::string& list : all_lists()) {
            const std::string text = example_text(number);
            const CaughtWarnings warnings;
            const Tensor result = Kernel(spread(text, list, "data"))(x);
            EXPECT_EQ(warnings.count("W0707"), 1);
            EXPECT_TRUE(same_bits(result, Kernel(text).on(first_of(list))(x)));
        }
    }
}

TEST(Check94, ElementsThatNoPartWritesAreZero) {
    const std::string text =
        "compute(x) {\n    @kernel custom\n    for i in 0..n:\n        if x[i] > 0.0:\n"
        "            out[2 * i + 1] = x[i]\n}";
    for (const std::string& list : all_lists()) {
        const CaughtWarnings warnings;
        const Tensor x = uniform({41}, 3);
        EXPECT_TRUE(same_bits(Kernel(spread(text, list, "data"))(x),
                              Kernel(text).on(Device("interpreter"))(x)));
    }
}

TEST(Check94, AFailureOfOnePartIsReportedWithItsLine) {
    const std::string text =
        "compute(x, idx) {\n    @kernel custom\n    for i in 0..n:\n        out[i] = x[idx[i]]\n}";
    const Tensor x = uniform({5}, 3);
    for (const std::int64_t at : {0, 19, 39}) {
        std::vector<std::int64_t> idx(40, 3);
        idx[std::size_t(at)] = 5;
        const Tensor index = Tensor::from({40}, idx);
        for (const std::string& list : all_lists()) {
            EXPECT_EQ(refusal([&] { return Kernel(spread(text, list, "data"))(x, index); }),
                      "E0507 4:20");
        }
    }
}

TEST(Check95, ColumnsOfAWeightAreSpread) {
    for (const std::int64_t columns : {1, 2, 3, 7, 40}) {
        const Tensor a = uniform({9, 33}, 1), b = uniform({33, columns}, 2);
        for (const std::string& list : device_lists()) {
            SCOPED_TRACE(list + ", columns " + std::to_string(columns));
            const std::string text = example_text("09");
            const CaughtWarnings warnings;
            const Tensor expected = Kernel(text).on(first_of(list))(a, b);
            // Products of numbers below 1.
            expect_same(Kernel(spread(text, list, "model"))(a, b), expected, list,
                        of_other_orders(33) * 33);
            EXPECT_EQ(warnings.count("W0707"), 0);
        }
    }
}

TEST(Check95, AKernelWithoutAWeightIsNotSpread) {
    const CaughtWarnings warnings;
    const Tensor x = uniform({9}, 1);
    const std::string text = spread(example_text("01"), device_lists()[0], "model");
    EXPECT_TRUE(same_bits(Kernel(text)(x), example("01")(x)));
    EXPECT_EQ(warnings.count("W0707"), 1);
}

}  // namespace spread_test
}  // namespace quern
