#pragma once

#include <array>
#include <memory>
#include <vector>

#include "quern/ir/facts.h"
#include "quern/numerics.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/support/threads.h"

namespace quern::frontend {

/// What the CPU compiled of one kernel, for each set of facts that it met. Thread-safe.
class CompiledKernels {
public:
    CompiledKernels();
    ~CompiledKernels();

    /// Code for a launch of which `facts` hold: what is there, or made now by passes that
    /// `observer` sees. Throws DeviceError, and InternalError if the observer found a fault.
    std::shared_ptr<const CompiledKernel> find(const ir::Kernel& kernel, const ir::Facts& facts,
                                               Numerics numerics,
                                               schedule::Observer* observer = nullptr);

    /// Forgets code that is wrong, here and on the disk.
    void discard(const std::shared_ptr<const CompiledKernel>& code, const ir::Kernel& kernel,
                 Numerics numerics);

private:
    std::shared_ptr<const CompiledKernel> find_or_make(const ir::Kernel& kernel,
                                                       const ir::Facts& facts, Numerics numerics,
                                                       schedule::Observer* observer);

    Mutex mutex_;
    LoadedCode loaded_;

    /// One list for each mode.
    std::array<std::vector<std::shared_ptr<const CompiledKernel>>, 3> kernels_;
};

}  // namespace quern::frontend
