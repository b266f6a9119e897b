#pragma once

#include "quern/ir/cir.h"
#include "quern/lir/builder.h"

namespace quern::schedule {

/// The instructions of a function, for x of float32 or float64.
lir::ValueId function(lir::Builder& builder, ir::UnaryOp op, lir::ValueId x);

/// x to the power of y, both float32 or both float64.
lir::ValueId power(lir::Builder& builder, lir::ValueId x, lir::ValueId y);

}  // namespace quern::schedule
