// Check 75: where an element lies in memory does not change a bit of any kernel's result.
#include <functional>

#include "tests/conformance/operands.h"

namespace quern {
namespace {

struct Row {
    const char* number;
    std::vector<Shape> operands;
    bool masked = false;
    bool scalars = false;
};

const Row kRows[] = {
    {"01", {{37}}},
    {"02", {{37}, {37}}},
    {"03", {{5, 7}, {7}}},
    {"04", {{37}}},
    {"05", {{37}}},
    {"06", {{37}}},
    {"07", {{5, 7}}},
    {"08", {{37}}},
    {"09", {{5, 7}, {7, 3}}},
    {"10", {{2, 5, 7}, {2, 7, 3}}},
    {"11", {{2, 3, 6, 5}, {4, 3, 3, 2}, {4}}},
    {"12", {{2, 3, 6, 5}, {3, 3, 2}}},
    {"13", {{2, 2, 5, 3}, {2, 2, 5, 3}, {2, 2, 5, 3}, {5, 5}}, true},
    {"14", {{2, 1, 67, 3}, {2, 1, 67, 3}, {2, 1, 67, 3}}},
    {"15", {{4, 5}}},
    {"16", {{4, 5}, {5}, {5}}, false, true},
    {"17", {{2, 3, 5}}},
    {"18", {{2, 2, 3, 6}, {3, 3}, {3, 3}}},
};

class Check75 : public ::testing::TestWithParam<Row> {};

TEST_P(Check75, LayoutsGiveEqualNumbers) {
    const Row& row = GetParam();
    std::vector<Argument> arguments;
    if (row.scalars) arguments.push_back(arg("eps", 1e-5));
    std::vector<Tensor> operands, repeated;
    for (std::size_t i = 0; i < row.operands.size(); ++i) {
        Tensor t = uniform(row.operands[i], i + 1);
        if (row.masked && i == 3) t = random_tensor(row.operands[i], DType::Bool, 9);
        operands.push_back(t);
        repeated.push_back(first_row_repeated(t));
    }
    std::vector<Tensor> copies;
    for (const Tensor& t : repeated) copies.push_back(t.clone());
    for (const DeviceInfo& device : devices()) {
        SCOPED_TRACE(device.id);
        const Kernel kernel = example(row.number).on(Device(device.id));
        const auto run_here = [&](const std::vector<Tensor>& given) {
            return kernel.run(given, arguments);
        };
        // Compiled code adds in the order that is fastest for the strides.
        const bool is_exact = device.id == "interpreter";
        const auto expect_same = [&](const Tensor& result, const Tensor& expected) {
            if (is_exact) {
                EXPECT_TRUE(same_bits(result, expected));
            } else {
                EXPECT_CLOSE(result, expected.values(), kRelative, 1e-5);
            }
        };
        const Tensor expected = run_here(operands);
        for (const auto layout : {transposed_in_memory, sliced_from_larger}) {
            std::vector<Tensor> others;
            for (const Tensor& t : operands) others.push_back(layout(t));
            expect_same(run_here(others), expected);
        }
        expect_same(run_here(repeated), run_here(copies));
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Check75, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string("K") + info.param.number; });

}  // namespace
}  // namespace quern
