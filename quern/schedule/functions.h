#pragma once

#include "quern/ir/cir.h"
#include "quern/lir/builder.h"

namespace quern::schedule {

/// Where the instructions of a function go, and whether a product and a sum, and a number and a
/// power of two, are one of them.
struct FunctionPlace {
    lir::Builder& builder;
    bool fuses = false;
    bool scales = false;
};

/// The instructions of a function, for x of float32 or float64.
lir::ValueId function(const FunctionPlace& place, ir::UnaryOp op, lir::ValueId x);

/// x to the power of y, both float32 or both float64.
lir::ValueId power(const FunctionPlace& place, lir::ValueId x, lir::ValueId y);

/// What is written for a function or a power.
struct CodeSize {
    int instructions = 0;  // besides constants
    bool jumps = false;
};
CodeSize code_size(const ir::Expr& expression);

/// x to the power of n, wrapped; integers of one dtype, n not negative.
lir::ValueId integer_power(lir::Builder& builder, lir::ValueId x, lir::ValueId n);

}  // namespace quern::schedule
