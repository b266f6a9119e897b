#pragma once

#include <vector>

#include "quern/ir/cir.h"

namespace quern::schedule {

/// What a reduction begins with: 0, 1, the least or largest value, true, false.
ir::ExprId identity(ir::Kernel& kernel, ir::BinaryOp op, DType dtype);

/// The operator by which a block contributes to a var.
ir::BinaryOp operator_of(const std::vector<ir::Stmt>& block, ir::SymbolId symbol);

}  // namespace quern::schedule
