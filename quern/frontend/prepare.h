#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/frontend/launch.h"
#include "quern/frontend/vulkan_launch.h"
#include "quern/interpret/interpret.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/semantics/bind.h"
#include "quern/semantics/request.h"
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

/// A Compute node made ready for operands of given dtypes and ranks.
struct Prepared {
    semantics::Lowered lowered;
    interpret::Program program;
    std::shared_ptr<CompiledKernels> compiled = std::make_shared<CompiledKernels>();
    std::shared_ptr<VulkanKernels> on_vulkan = std::make_shared<VulkanKernels>();
};

/// A launch of which everything is known but where its result is.
struct BoundLaunch {
    std::shared_ptr<const Prepared> prepared;
    lang::NodeId compute = -1;
    Numerics numerics = Numerics::Strict;
    std::vector<Shape> shapes;
    semantics::Binding binding;

    /// The operands, row-major where their positions are indexed; whether they are so as given.
    std::vector<Tensor> operands;
    bool are_as_given = true;
    std::vector<interpret::View> views;
    std::vector<interpret::ScalarValue> scalars;

    /// Of the result.
    interpret::View output;
    Shape shape;
    DType dtype = DType::Float32;

    /// Of the operands; room for the result's is behind them.
    std::vector<void*> addresses() const;
};

/// Throws KernelError with every diagnostic if the launch does not check.
BoundLaunch bound(const lang::Source& source, lang::NodeId compute,
                  std::span<const Tensor> operands, const Arguments& arguments,
                  const LaunchOptions& options);

/// What the CPU compiled for a launch like this, and how it is launched. `observer` as in
/// CompiledKernels. Throws KernelError with E0600 if the CPU does not run the kernel.
std::pair<std::shared_ptr<const CompiledKernel>, ReadyLaunch> compiled(
    const lang::Source& source, const BoundLaunch& launch, schedule::Observer* observer);

/// What holds of a launch on operands in row-major order, which lie where `operand` says, and whose
/// result is where `result` says.
ir::Facts row_major_facts(const Prepared& prepared, std::span<const OperandInfo> operands,
                          std::span<const Shape> shapes, const semantics::Binding& binding,
                          const void* operand, const void* result);

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

/// Lowers, verifies and prepares, or takes what an equal call made before. Throws KernelError.
/// Thread-safe.
std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options);

/// Verifies what was lowered and makes it ready. Throws InternalError.
std::shared_ptr<const Prepared> verified(semantics::Lowered lowered);

/// What `prepare` gives for a launch with fused operands.
std::shared_ptr<const Prepared> prepare_fused(const lang::Source& source, lang::NodeId compute,
                                              std::span<const OperandInfo> operands,
                                              const Arguments& arguments,
                                              const LaunchOptions& options);

/// The number that a scalar of the CIR has in a launch; null where the host gave none.
const Number* find_number(std::string_view scalar, const Arguments& arguments,
                          const LaunchOptions& options);

/// The shapes that binding sees: a flat operand has one axis. Throws KernelError with E0502 if flat
/// operands differ in shape.
std::vector<Shape> bound_shapes(const lang::Source& source, const Prepared& prepared,
                                std::span<const OperandInfo> operands);

/// True if compiled code writes every element of the output: then it need not be cleared.
bool writes_all(const Prepared& prepared, const semantics::Binding& binding,
                std::span<const Shape> shapes);

/// A launch over several devices: see spread.cc.
Tensor launch_spread(const lang::Source& source, lang::NodeId compute,
                     std::span<const Tensor> operands, const Arguments& arguments,
                     const LaunchOptions& options);

/// Cuts the loop that LaunchOptions::part is of: its bounds become two further scalars, whose
/// values come from there.
void cut_loop(ir::Kernel& kernel, Spread spread);

/// Vectors of today's processors load from any address alike: code for one may run at another.
inline const void* const kAnywhere = reinterpret_cast<const void*>(std::uintptr_t{1});

/// Results lie at multiples of Storage::kAlignment.
inline const void* const kResult = reinterpret_cast<const void*>(std::uintptr_t{64});

/// Where packets of devices begin.
inline const void* const kPacket = reinterpret_cast<const void*>(std::uintptr_t{16});

/// Binds, or throws KernelError.
semantics::Binding bind_or_raise(const lang::Source& source, const Prepared& prepared,
                                 std::span<const Shape> shapes);

/// Lowers what the text alone says: float32 operands of the ranks that the body uses, bool where
/// one is a condition, int64 where one is an index; free names are scalars. Where that is wrong,
/// other ranks and dtypes of which fewer errors come.
std::optional<semantics::Lowered> lower_text(const lang::Source& source, lang::NodeId compute,
                                             std::vector<semantics::Piped> then,
                                             lang::Diagnostics& diagnostics);

}  // namespace quern::frontend
