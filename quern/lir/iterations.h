#pragma once

#include <cstdint>
#include <span>

#include "quern/lir/lir.h"

namespace quern::lir {

/// More than any bound of iterations.
inline constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};

/// How often the bodies of loops run at most, all together, for one point of the grid, if `words`
/// are the values of the parameters. kUnbounded where that is not seen.
std::uint64_t most_iterations(const Function& function, std::span<const std::uint64_t> words);

}  // namespace quern::lir
