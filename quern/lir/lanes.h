#pragma once

#include <cstdint>

#include "quern/lir/lir.h"

namespace quern::lir {

/// Of the number of a lane: what Op::Lane gives.
inline constexpr DType kIndex = DType::Int32;

/// The lanes of the function's vectors.
std::uint32_t lanes_of(const Function& function);

/// A function with vectors as one that the lanes of a work-group run together: a vector is a value
/// of each lane; what is the same for all lanes each computes, and the first stores. Arrays of a
/// thread are the group's: those whose size the code knows lie in memory that its lanes share, as
/// far as `bytes` of it go (group_arrays), and have no Alloc. Folds, shuffles and the like go
/// through an array of the group, and barriers stand where a lane may see what another wrote
/// (Hazards). As far as subgroups go they take no array, on a device that runs `subgroup` lanes
/// together, a power of two. Control flow is the same for all lanes. An assertion ends
/// all of them or none, but where no lane waits for another. A function without vectors is as it
/// was.
Function for_lanes(const Function& function, std::uint32_t subgroup = 1,
                   std::uint32_t bytes = kGroupBytes);

/// Whether every matrix of such a function is in memory that its lanes share: other arrays may have
/// left no room.
bool has_room_for_matrices(const Function& function);

}  // namespace quern::lir
