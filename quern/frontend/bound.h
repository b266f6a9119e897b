#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "quern/frontend/prepare.h"
#include "quern/ir/facts.h"
#include "quern/semantics/bind.h"

namespace quern::frontend {

/// Vectors of today's processors load from any address alike: code for one may run at another.
inline const void* const kAnywhere = reinterpret_cast<const void*>(std::uintptr_t{1});

/// Results lie at multiples of Storage::kAlignment.
inline const void* const kResult = reinterpret_cast<const void*>(std::uintptr_t{64});

/// Where packets of devices begin.
inline const void* const kPacket = reinterpret_cast<const void*>(std::uintptr_t{16});

/// A kernel whose dimensions have their numbers.
struct BoundKernel {
    std::shared_ptr<const Prepared> prepared;

    /// Of the operands, as binding sees them: a flat one has one axis.
    std::vector<Shape> shapes;
    semantics::Binding binding;

    const ir::Kernel& kernel() const { return prepared->lowered.kernel; }

    /// Refers to this.
    ir::Environment environment() const;

    /// True if compiled code writes every element of the output: then it need not be cleared.
    bool writes_all() const;

    /// What holds of a launch on operands in row-major order, which lie where `operand` says, and
    /// whose result is where `result` says.
    ir::Facts row_major_facts(const void* operand, const void* result) const;
};

/// Prepares and binds. Throws KernelError: with E0502 if flat operands differ in shape, with every
/// diagnostic if the launch does not check.
BoundKernel bind_launch(const lang::Source& source, lang::NodeId compute,
                        std::span<const OperandInfo> operands, const Arguments& arguments,
                        const LaunchOptions& options);

/// The same of what is prepared.
BoundKernel bind_launch(const lang::Source& source, std::shared_ptr<const Prepared> prepared,
                        std::span<const OperandInfo> operands);

/// A launch of which everything is known but where its result is.
struct BoundLaunch : BoundKernel {
    explicit BoundLaunch(BoundKernel kernel) : BoundKernel(std::move(kernel)) {}

    lang::NodeId compute = -1;
    Numerics numerics = Numerics::Strict;

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

}  // namespace quern::frontend
