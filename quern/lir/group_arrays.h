#pragma once

#include <cstdint>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::lir {

/// Whether an instruction reads or writes a matrix in memory.
bool touches_matrix(Op op);

/// Which arrays of a thread lie in memory that the lanes of a work-group share.
struct GroupArrays {
    /// The function, in which arrays that share memory are one buffer.
    Function function;

    /// Of each buffer, the elements that it has there; 0 for one that does not lie there.
    std::vector<std::uint32_t> elements;
};

/// Gives `room` bytes of a work-group to arrays whose size the code knows: first to those of
/// matrices, then to the others, the smallest first. What has no room takes that of an array of its
/// dtype which nobody reads any more, or yet, where there is such a one: which arrays are in use at
/// the same time follows from where they are made (Alloc) and touched. Narrow elements take 32
/// bits, but not those of matrices; bools have no place there. Each takes whole 16 bytes.
GroupArrays group_arrays(const Function& function, std::uint64_t room);

}  // namespace quern::lir
