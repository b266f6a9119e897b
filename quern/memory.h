#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

/// The memory of this process that tensors and kernels' arrays of 64 KiB and more are taken from.
/// In bytes but for `allocations`. Smaller ones are of the C library, and not counted but in
/// `pinned` and `copied`.
struct MemoryCounters {
    /// In use now, and the most since the program began or reset_peak_memory().
    std::size_t live = 0;
    std::size_t peak = 0;

    /// Taken from the system, what is in use and what is kept for later.
    std::size_t held = 0;

    /// How many times memory was asked for.
    std::uint64_t allocations = 0;

    /// Of pinned tensors, of any size, which none of the above counts.
    std::size_t pinned = 0;

    /// Copied so far between the memories of devices: by `Tensor::to`, and by launches with
    /// operands or results in another memory than their device's.
    std::uint64_t copied = 0;
};

/// Thread-safe, as the others.
MemoryCounters memory_counters();

/// Lets the most there has been begin at what is in use now.
void reset_peak_memory() noexcept;

/// Gives what is kept for later back to the system.
void trim_memory() noexcept;

}  // namespace quern
