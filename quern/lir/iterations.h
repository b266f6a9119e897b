#pragma once

#include <cstdint>
#include <span>

#include "quern/lir/lir.h"

namespace quern::lir {

/// More than any bound of iterations.
inline constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};

/// What a point takes at most, or several that are done at a time by masks.
struct Bounds {
    /// How often loops go round, all together: the time counts that finds a loop's end, and so do
    /// both sides of a branch.
    std::uint64_t iterations = 0;

    /// How many instructions: those of loops' bodies as often as they are for something.
    std::uint64_t instructions = 0;
};

/// Of a function if `words` are the values of its parameters. kUnbounded where that is not seen.
Bounds bounds_of(const Function& function, std::span<const std::uint64_t> words);

}  // namespace quern::lir
