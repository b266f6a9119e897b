#pragma once

#include <cstddef>
#include <vector>

#include "quern/runtime/image.h"
#include "quern/schedule/plan.h"

namespace quern {

/// What a launch needs of a plan, with the code of its stages.
KernelImage image_of(const schedule::Plan& plan, std::vector<std::byte> object);

}  // namespace quern
