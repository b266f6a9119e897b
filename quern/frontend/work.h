#pragma once

#include <span>

#include "quern/frontend/bound.h"

namespace quern::frontend {

/// What one launch does.
struct Work {
    /// In bytes: each element of the result once, and those of the operands that are read, as far
    /// as the loops around a read tell; an element that two reads name may count twice, but no
    /// operand more than whole.
    double read = 0;
    double written = 0;

    /// Of numbers that are not indices. A multiply-add is two.
    double operations = 0;
    double functions = 0;
    double points = 1;

    /// Bounds of loops are elements of operands, or variables that other iterations or branches
    /// set: such a loop counts as one iteration.
    bool is_least = false;

    double bytes() const { return read + written; }
};

/// Counted over the loops of the CIR: as they stand, but that what has fewer loops than its nest
/// counts for its own only, and of two branches the one with more. Of a loop whose work differs
/// from one iteration to the next up to 256 are looked at, evenly spread, of one inside it 32, and
/// of others 2: exact for fewer iterations, and where the work grows evenly, as in triangular
/// nests.
Work work_of(const BoundKernel& launch);

/// The same from the text. Throws KernelError as `launch` does before any work.
Work work_of(const lang::Source& source, lang::NodeId compute,
             std::span<const OperandInfo> operands, const Arguments& arguments,
             const LaunchOptions& options);

}  // namespace quern::frontend
