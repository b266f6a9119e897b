#pragma once

#include "quern/ir/cir.h"

// The functions of functions.def on plain numbers. They are called, so that the dispatch loop stays
// small.

namespace quern::interpret {

using FloatFunction = float (*)(float);
using DoubleFunction = double (*)(double);

/// The function of a row; null if the operator is not from functions.def.
FloatFunction float_function(ir::UnaryOp op);
DoubleFunction double_function(ir::UnaryOp op);

float power(float x, float y);
double power(double x, double y);

}  // namespace quern::interpret
