#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/frontend/placement.h"
#include "quern/lang/parse.h"
#include "quern/numerics.h"
#include "quern/runtime/compiled.h"
#include "quern/semantics/request.h"
#include "quern/tensor.h"

// The way from a `compute` of a checked text to its result. The host language, compute() and
// QUERN_KERNEL all go through it.

namespace quern::frontend {

using semantics::Arguments;
using semantics::Number;

/// The iterations of the loop that is cut which one device does, from 0.
struct Part {
    Spread spread = Spread::Data;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

struct LaunchRequest;

/// What is known of an operand without its elements.
struct OperandInfo {
    DType dtype = DType::Float32;
    Shape shape;
};

/// An operand of which the kernel makes the elements itself: see fused.h.
struct FusedOperand {
    /// The first of the operands that it is made from.
    std::size_t operand = 0;
    OperandInfo info;
    std::shared_ptr<const LaunchRequest> by;
};

struct LaunchOptions {
    Placement placement;

    /// Somebody may hold the operands (runtime/held.h): then what was taken back meanwhile is
    /// there.
    bool are_held = false;

    /// Only these iterations.
    std::optional<Part> part;

    /// As in KernelOptions.
    bool pedantic = false;

    /// How compiled code rounds.
    Numerics numerics = Numerics::Strict;

    /// Unary kernel functions applied to the result in the same launch: `|> sqrt()`.
    std::vector<semantics::Piped> then;

    /// Each is one operand of the text; in the list of operands are those of its own kernel. In the
    /// order in which they were fused.
    std::vector<FusedOperand> fused;

    /// Called now and then, from the launching thread, with the part of the work that is done.
    Progress progress;
};

/// Runs the Compute node `compute` of `source` on operands given in the order of its operand list.
/// Throws KernelError with every diagnostic before any work if it does not check, and with the line
/// that failed if it fails while it runs. Warnings and notes go to the handler.
Tensor launch(const lang::Source& source, lang::NodeId compute, std::span<const Tensor> operands,
              const Arguments& arguments = {}, const LaunchOptions& options = {});

/// The same where `key` already holds everything of these.
class LaunchKey;
Tensor launch(const LaunchKey& key, const lang::Source& source, lang::NodeId compute,
              std::span<const Tensor> operands, const Arguments& arguments,
              const LaunchOptions& options);

std::vector<OperandInfo> infos_of(std::span<const Tensor> operands);

/// Throws what `launch` throws before any work, for operands like these. Gives what the result will
/// be.
OperandInfo check_launch(const lang::Source& source, lang::NodeId compute,
                         std::span<const OperandInfo> operands, const Arguments& arguments,
                         const LaunchOptions& options);

/// Throws KernelError with E0602 for the first operand that a pedantic launch would copy to its
/// device.
void check_memory(const lang::Source& source, lang::NodeId compute,
                  std::span<const Tensor> operands, const Arguments& arguments,
                  const LaunchOptions& options);

/// Makes the code that a launch on row-major operands like these needs on the device cpu. Throws
/// what `launch` throws before any work.
void compile_launch(const lang::Source& source, lang::NodeId compute,
                    std::span<const OperandInfo> operands, const Arguments& arguments,
                    const LaunchOptions& options);

}  // namespace quern::frontend
