#pragma once

#include "quern/ir/facts.h"
#include "quern/numerics.h"

namespace quern::frontend {

/// Tells every KernelRecorder of the process that a launch on the device cpu needs code.
void note_for_recorders(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics);

}  // namespace quern::frontend
