#pragma once

#include <cstdint>

#include "quern/dtype.h"

namespace quern {

/// Writes `count` elements to `dst`, one after the other, converted as `Tensor::to` states.
/// `stride` is the distance between source elements, in elements. Neither address needs to be
/// aligned; the two ranges do not overlap.
void convert(const void* src, DType src_dtype, std::int64_t stride, void* dst, DType dst_dtype,
             std::int64_t count) noexcept;

/// A double that one rounding to a float of 32 bits or fewer turns into the float that is nearest
/// to the integer.
double rounded_to_odd(std::int64_t v);

}  // namespace quern
