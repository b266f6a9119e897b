#pragma once

#include <optional>

#include "quern/lir/lir.h"

namespace quern::lir {

/// The same function for a device without float64, or none if it has none: numbers are uint64,
/// buffers of them too, and arithmetic on them is SoftFloat64's, so results have the same bits, but
/// for those of NaN.
/// Requires: no fused product of float64.
std::optional<Function> without_float64(const Function& function);

}  // namespace quern::lir
