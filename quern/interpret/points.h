#pragma once

#include <vector>

#include "quern/interpret/ranges.h"

namespace quern::interpret {

/// The buffers that the points of a parallel nest write and that exist outside it, without those of
/// which it is proven that no two points use one element. `loops` are the nest, outermost first;
/// the last one's body is what a point does.
std::vector<ir::BufferId> buffers_shared_by_points(const ir::Kernel& kernel, Ranges& ranges,
                                                   const std::vector<const ir::Stmt*>& loops);

}  // namespace quern::interpret
