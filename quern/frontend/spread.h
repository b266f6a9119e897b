#pragma once

#include <span>

#include "quern/frontend/launch.h"
#include "quern/ir/cir.h"

namespace quern::frontend {

/// A launch over the devices of LaunchOptions::placement. Throws what `launch` throws.
Tensor launch_spread(const lang::Source& source, lang::NodeId compute,
                     std::span<const Tensor> operands, const Arguments& arguments,
                     const LaunchOptions& options);

/// Cuts the loop that LaunchOptions::part is of: its bounds become two further scalars, whose
/// values come from there.
void cut_loop(ir::Kernel& kernel, Spread spread);

}  // namespace quern::frontend
