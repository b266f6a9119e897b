#pragma once

#include <memory>
#include <utility>

#include "quern/error.h"
#include "quern/frontend/bound.h"
#include "quern/runtime/compiled.h"
#include "quern/schedule/observer.h"
#include "quern/support/check.h"

// A bound launch on one device.

namespace quern::frontend {

/// What the CPU compiled for a launch like this, and how it is launched. `observer` as in
/// CompiledKernels. Throws KernelError with E0600 if the CPU does not run the kernel.
std::pair<std::shared_ptr<const CompiledKernel>, ReadyLaunch> compiled(
    const lang::Source& source, const BoundLaunch& launch, schedule::Observer* observer);

/// Runs it on a device "vulkan:N": run_on_vulkan. Throws KernelError with E0600 if the device does
/// not run the kernel.
bool vulkan_runs(const lang::Source& source, const BoundLaunch& launch, const Device& device,
                 Tensor& result, bool keeps_result);

/// A kernel failed while it ran.
class FailedLaunch final : public KernelError {
    using KernelError::KernelError;
};

/// Runs it on the interpreter. Throws FailedLaunch with the line that failed.
void interpret(const lang::Source& source, const BoundLaunch& launch, Tensor& result,
               const Progress& progress);

/// What `work` gives. A kernel that the device does not run is E0600 at its line.
template <class Work>
auto or_kernel_error(const lang::Source& source, lang::NodeId compute, const Work& work) {
#if QUERN_EXCEPTIONS
    try {
        return work();
    } catch (const Refusal& refusal) {
        lang::Diagnostics diagnostics(source);
        diagnostics
            .add(lang::Code::E0600, source.nodes[std::size_t(compute)].span,
                 "the device " + refusal.device() + " does not run " + refusal.reason())
            .help("the device \"interpreter\" runs it");
        diagnostics.raise();
        throw;
    }
#else
    static_cast<void>(source);
    static_cast<void>(compute);
    return work();
#endif
}

}  // namespace quern::frontend
