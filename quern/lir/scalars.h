#pragma once

#include <cstdint>
#include <span>

#include "quern/lir/lir.h"

namespace quern::lir {

// What operations give on one lane. A value is the bits of its dtype, and zeros above them.

std::uint64_t unary_of(Op op, DType dtype, std::uint64_t a);

/// Quotients by the integer 0 are 0.
std::uint64_t binary_of(Op op, DType dtype, std::uint64_t a, std::uint64_t b);
bool compare_of(Op op, DType dtype, std::uint64_t a, std::uint64_t b);

/// Of as many lanes as there are results.
void binary_of(Op op, DType dtype, std::span<std::uint64_t> results, const std::uint64_t* a,
               const std::uint64_t* b);
void compare_of(Op op, DType dtype, std::span<std::uint64_t> results, const std::uint64_t* a,
                const std::uint64_t* b);
void cast_of(DType from, DType to, std::span<std::uint64_t> results, const std::uint64_t* a);
std::uint64_t fma_of(DType dtype, std::uint64_t a, std::uint64_t b, std::uint64_t c);
std::uint64_t cast_of(std::uint64_t a, DType from, DType to);

/// Whether a float's whole part is an integer of the dtype; of a float that is a divisor, kInRange.
bool is_in_range(std::uint64_t a, DType from, DType to);

}  // namespace quern::lir
