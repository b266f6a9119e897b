#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "quern/tensor.h"

namespace quern {

/// Returns the strides of row-major order, in elements. `shape` is valid.
std::vector<std::int64_t> row_major_strides(const Shape& shape);

/// Returns `axis` counted from the first. Throws ShapeError, naming `op`, if there is no such axis.
int axis_from_first(std::string_view op, int axis, const Shape& shape);

}  // namespace quern
