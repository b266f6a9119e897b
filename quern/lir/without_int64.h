#pragma once

#include "quern/lir/lir.h"

namespace quern::lir {

/// The same function for a device without integers of 64 bits.
///
/// A value that lies within 32 bits, as far as the ranges of what it is made from say, becomes an
/// int32; any other becomes two uint32, its low and its high half, and arithmetic on them. Buffers
/// of int64 and uint64 hold two uint32 for each element, the low half first. Offsets, bounds of
/// loops and counts become int32. What that assumes of parameters and of bounds the function
/// asserts: dims, extents and points are below 2^30, strides fit in 32 bits.
/// Requires: no float64; buffers of less than 2^31 elements, or 2^30 of 64 bits.
/// Numerics: exact; casts round once.
Function without_int64(const Function& function);

}  // namespace quern::lir
