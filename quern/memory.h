#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "quern/device.h"

namespace quern {

/// Memory that tensors and kernels' arrays are taken from. In bytes but for `allocations`. Of this
/// process those of 64 KiB and more are counted; smaller ones are of the C library, and not counted
/// but in `pinned` and `copied`. Of a device "vulkan:N" all are.
struct MemoryCounters {
    /// In use now, and the most since the program began or reset_peak_memory().
    std::size_t live = 0;
    std::size_t peak = 0;

    /// Taken from the system, what is in use and what is kept for later.
    std::size_t held = 0;

    /// How many times memory was asked for.
    std::uint64_t allocations = 0;

    /// The most that may be held.
    std::size_t limit = std::numeric_limits<std::size_t>::max();

    /// Of pinned tensors, of any size, which none of the above counts.
    std::size_t pinned = 0;

    /// Copied so far between the memories of devices: by `Tensor::to`, and by launches with
    /// operands or results in another memory than their device's.
    std::uint64_t copied = 0;
};

/// Of this process. Thread-safe, as the others.
MemoryCounters memory_counters();

/// Of a device: its own memory if it is "vulkan:N", else that of this process. `pinned` and
/// `copied` are of the process. Throws DeviceError or OutOfMemory where the device cannot be used.
MemoryCounters memory_counters(const Device& device);

/// Lets a device hold no more than `bytes` from now on; for others than "vulkan:N" this process,
/// whose smaller arrays, pinned tensors and memory pools are not meant. What does not fit throws
/// OutOfMemory, once what is kept for later was given back; what is in use stays. Throws
/// DeviceError or OutOfMemory where the device cannot be used.
void set_memory_limit(const Device& device, std::size_t bytes);

/// Lets the most there has been begin at what is in use now.
void reset_peak_memory() noexcept;

/// Of a device. Throws DeviceError or OutOfMemory where it cannot be used.
void reset_peak_memory(const Device& device);

/// Gives what is kept for later back to the system.
void trim_memory() noexcept;

/// To that of a device. Throws DeviceError or OutOfMemory where it cannot be used.
void trim_memory(const Device& device);

}  // namespace quern
