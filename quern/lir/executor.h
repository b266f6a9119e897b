#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quern/lir/lir.h"

namespace quern::lir {

/// Bytes that a function may touch: from `begin` up to `end`, counted from element 0.
struct Memory {
    std::byte* data = nullptr;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// What one execution of a function is given.
struct Launch {
    /// The value of each parameter; of the first and the last point it does not matter.
    std::span<const std::uint64_t> words;

    /// Of each buffer that is no array of a group or lane.
    std::span<const Memory> memory;

    /// For the arrays of a point that Alloc makes.
    std::size_t local_bytes = 0;
    std::int64_t points = 1;

    /// Whether steps of banks are counted.
    bool counts_banks = false;
};

struct Execution {
    /// An assertion did not hold.
    bool has_failed = false;

    /// What no device may do, or empty: "%7 (store): lane 3 writes what lane 2 wrote".
    std::string mistake;

    /// The most steps that 32 lanes take for what they ask of the arrays of their group at once:
    /// see Banks. 0 if they are not counted, or nothing is asked for.
    std::uint32_t bank_steps = 0;
};

/// Runs a function of LIR without vectors (lir/lanes.h) point by point: an instruction of all lanes
/// before the next one while they go the same way, else lane by lane between barriers and
/// exchanges. Reports the first access out of bounds; the first race, which is two
/// lanes that touch a byte without a barrier between them, of one subgroup too, or two points, and
/// one of them writes it; the first barrier or exchange that lanes do not reach together; a
/// value from another subgroup; and the first element of a point's array that is read and was not
/// written. What it does not report is right on a device whose subgroups have at least `subgroup`
/// lanes, if the numbers are. Sets arrays to bits 1 first.
Execution execute(const Function& function, const Launch& launch);

}  // namespace quern::lir
