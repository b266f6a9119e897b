#pragma once

#include <optional>

#include "quern/lir/lir.h"

namespace quern::lir {

/// Of 64 bits: what without_int64 replaces.
constexpr bool is_wide(DType dtype) { return dtype == DType::Int64 || dtype == DType::UInt64; }

/// The same function for a device without integers of 64 bits.
///
/// A value that lies within 32 bits, as far as the ranges of what it is made from say, becomes an
/// int32; any other becomes two uint32, its low and its high half, and arithmetic on them. Buffers
/// of int64 and uint64 hold two uint32 for each element, the low half first. Offsets, bounds of
/// loops and counts become int32. What that assumes of parameters and of bounds the function
/// asserts: dims, extents and points are below 2^30, strides fit in 32 bits.
/// `are_small`: whoever launches it has looked that they are (see has_small_numbers), and that no
/// point begins at an iteration of 2^30 or beyond, so it asserts less.
/// Requires: no float64; buffers of less than 2^31 elements, or 2^30 of 64 bits.
/// Numerics: exact; casts round once.
Function without_int64(const Function& function, bool are_small = false);

/// For a device that has integers of 64 bits: without_int64(function, true), or none where that
/// asserts what the function does not, or is more work.
std::optional<Function> narrowed(const Function& function);

}  // namespace quern::lir
