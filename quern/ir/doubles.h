#pragma once

#include "quern/ir/cir.h"

// Floats of the host are doubles, and most are rounded where they are used.

namespace quern::ir {

/// What a launch can round a double to before the kernel begins.
constexpr bool is_rounded_to(DType dtype) {
    return dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16;
}

/// Whether an expression is a scalar of float64, rounded to such a dtype.
bool is_rounded_scalar(const Kernel& kernel, const Expr& e);

/// Whether something is computed in float64 while the kernel runs.
bool needs_float64(const Kernel& kernel);

}  // namespace quern::ir
