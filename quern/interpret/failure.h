#pragma once

#include "quern/interpret/machine.h"

namespace quern::interpret {

/// Says what the trap of a machine means, in the words of the kernel.
Failure describe(const ir::Kernel& kernel, const Code& code, Machine& machine);

}  // namespace quern::interpret
