#pragma once

#include <cstdint>
#include <span>

#include "quern/lir/lir.h"

namespace quern::lir {

/// More than any bound of iterations.
inline constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};

/// How often loops go round at most, all together, for points of the grid that are done at a time
/// by masks, if `words` are the values of the parameters: the time counts that finds a loop's end,
/// and so do both sides of a branch. kUnbounded where that is not seen.
std::uint64_t most_iterations(const Function& function, std::span<const std::uint64_t> words);

}  // namespace quern::lir
