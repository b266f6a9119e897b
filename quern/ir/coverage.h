#pragma once

#include <cstdint>
#include <span>

#include "quern/ir/index.h"

namespace quern::ir {

/// Whether a launch with these numbers that does not fail writes every element of the output, of
/// which `extents` is the shape: a store that no condition decides, whose every index is a loop of
/// its own over all of its axis. False where other stores would do it together.
bool writes_all(const Kernel& kernel, std::span<const std::int64_t> extents,
                const Environment& environment);

/// Whether a launch with these numbers runs no statement but loops, none of which has iterations:
/// it writes nothing, and nothing of it can fail.
bool runs_nothing(const Kernel& kernel, const Environment& environment);

}  // namespace quern::ir
