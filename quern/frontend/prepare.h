#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quern/frontend/launch.h"
#include "quern/interpret/interpret.h"
#include "quern/runtime/compiled.h"
#include "quern/semantics/bind.h"
#include "quern/semantics/request.h"
#include "quern/support/threads.h"

namespace quern::frontend {

/// What the CPU compiled of one kernel, for each set of facts that it met. Thread-safe.
class CompiledKernels {
public:
    CompiledKernels();
    ~CompiledKernels();

    /// Code for a launch of which `facts` hold: what is there, or made now. Throws DeviceError.
    std::shared_ptr<const CompiledKernel> find(const ir::Kernel& kernel, const ir::Facts& facts);

private:
    Mutex mutex_;
    std::vector<std::shared_ptr<const CompiledKernel>> kernels_;
};

/// A Compute node made ready for operands of given dtypes and ranks.
struct Prepared {
    semantics::Lowered lowered;
    interpret::Program program;
    std::shared_ptr<CompiledKernels> compiled = std::make_shared<CompiledKernels>();
};

/// Lowers, verifies and prepares, or takes what an equal call made before. Throws KernelError.
/// Thread-safe.
std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options);

/// The shapes that binding sees: a flat operand has one axis. Throws KernelError with E0502 if flat
/// operands differ in shape.
std::vector<Shape> bound_shapes(const lang::Source& source, const Prepared& prepared,
                                std::span<const OperandInfo> operands);

/// True if compiled code writes every element of the output: then it need not be cleared.
bool writes_all(const Prepared& prepared, const semantics::Binding& binding,
                std::span<const Shape> shapes);

/// Binds, or throws KernelError.
semantics::Binding bind_or_raise(const lang::Source& source, const Prepared& prepared,
                                 std::span<const Shape> shapes);

/// Lowers what the text alone says: float32 operands of the ranks that the body uses, bool where
/// one is a condition, int64 where one is an index; free names are scalars.
std::optional<semantics::Lowered> lower_text(const lang::Source& source, lang::NodeId compute,
                                             std::vector<semantics::Piped> then,
                                             lang::Diagnostics& diagnostics);

}  // namespace quern::frontend
