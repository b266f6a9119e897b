#pragma once

#include <span>
#include <string>
#include <vector>

#include "quern/dtype.h"

namespace quern {

/// Renders floats of one column: equally long, points aligned, as NumPy does. Each has the fewest
/// digits that tell it from the other values of its dtype, and at most 8 after the point; all are
/// in exponential form if one of them is 1e8 or more, or below 1e-4, or 1000 times another.
std::vector<std::string> float_texts(std::span<const double> values, DType dtype);

}  // namespace quern
