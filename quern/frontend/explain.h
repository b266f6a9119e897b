#pragma once

#include <span>
#include <string>
#include <vector>

#include "quern/frontend/launch.h"

namespace quern::frontend {

/// Checks the Compute node for operands of these dtypes and shapes and says, for each dimension,
/// where its value came from, which loops run in parallel and on what, bytes moved and operations
/// done. Throws KernelError as `launch` does.
std::string explain(const lang::Source& source, lang::NodeId compute,
                    std::span<const OperandInfo> operands, const Arguments& arguments = {},
                    const LaunchOptions& options = {});

/// The same without operands: what the text alone says. Dimensions and parallel loops are named,
/// numbers are left out.
std::string explain(const lang::Source& source, lang::NodeId compute,
                    std::vector<semantics::Piped> then = {});

}  // namespace quern::frontend
