#pragma once

#include <memory>
#include <span>

#include "quern/frontend/compiled_kernels.h"
#include "quern/frontend/launch.h"
#include "quern/frontend/vulkan_launch.h"
#include "quern/interpret/interpret.h"
#include "quern/semantics/request.h"

namespace quern::frontend {

/// A Compute node made ready for operands of given dtypes and ranks.
struct Prepared {
    semantics::Lowered lowered;
    interpret::Program program;
    std::shared_ptr<CompiledKernels> compiled = std::make_shared<CompiledKernels>();
    std::shared_ptr<VulkanKernels> on_vulkan = std::make_shared<VulkanKernels>();
};

/// Lowers, verifies and prepares, or takes what an equal call made before. Throws KernelError.
/// Thread-safe.
std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options);

/// Verifies what was lowered and makes it ready. Throws InternalError.
std::shared_ptr<const Prepared> verified(semantics::Lowered lowered);

}  // namespace quern::frontend
