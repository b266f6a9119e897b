#pragma once

#include "quern/lir/lir.h"

namespace quern::lir {

/// The same function for a device without float64: numbers are uint64, buffers of them too, and
/// arithmetic on them is SoftFloat64's, so results have the same bits, but for those of NaN.
/// Requires: no fused product of float64.
Function without_float64(const Function& function);

}  // namespace quern::lir
