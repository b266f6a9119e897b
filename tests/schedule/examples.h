// The example kernels on operands that the interpreter does in an instant.
#pragma once

#include <vector>

#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::schedule {

struct Row {
    const char* number;
    std::vector<Shape> operands;
    bool has_eps = false;

    /// Whether the last operand is a mask.
    bool has_mask = false;
};

// Beyond a chunk of a reduction, and beyond a tile.
inline const Row kRows[] = {
    {"01", {{37}}},
    {"02", {{37}, {37}}},
    {"03", {{5, 7}, {7}}},
    {"04", {{9000}}},
    {"05", {{9000}}},
    {"06", {{9000}}},
    {"07", {{3, 9000}}},
    {"08", {{9000}}},
    {"09", {{17, 33}, {33, 20}}},
    {"10", {{2, 5, 7}, {2, 7, 3}}},
    {"11", {{2, 3, 6, 5}, {4, 3, 3, 2}, {4}}},
    {"12", {{2, 3, 6, 5}, {3, 3, 2}}},
    {"13", {{1, 2, 37, 5}, {1, 2, 37, 5}, {1, 2, 37, 5}, {37, 37}}, false, true},
    {"14", {{1, 2, 130, 8}, {1, 2, 130, 8}, {1, 2, 130, 8}}},
    {"14", {{1, 1, 128, 16}, {1, 1, 128, 16}, {1, 1, 128, 16}}},
    {"15", {{70, 80}}},
    {"16", {{4, 50}, {50}, {50}}, true},
    {"17", {{2, 3, 5}}},
    {"18", {{2, 2, 3, 6}, {3, 3}, {3, 3}}},
};

inline cpu_test::Case case_of(const Row& row) {
    cpu_test::Arguments arguments;
    if (row.has_eps) arguments["eps"] = 1e-5;
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < row.operands.size(); ++i) {
        operands.push_back(uniform(row.operands[i], i + 1));
    }
    if (row.has_mask) operands.back() = random_tensor(row.operands.back(), DType::Bool, 9);
    return cpu_test::Case(example_text(row.number), operands, arguments);
}

}  // namespace quern::schedule
