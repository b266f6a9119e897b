#pragma once

#include <cstddef>
#include <memory>

#include "quern/tensor.h"

namespace quern {

/// Memory of a device, of a fixed size, from which tensors are taken: a hard limit on what they use
/// together.
/// Copies are of one pool. Thread-safe.
class MemoryPool {
public:
    /// In bytes.
    struct Counters {
        std::size_t size = 0;

        /// Of tensors, each rounded up to 256.
        std::size_t live = 0;
        std::size_t free = 0;

        /// Of the largest tensor that there is room for.
        std::size_t largest = 0;
    };

    /// Of `bytes`, rounded up to a multiple of 256. Throws ValueError if there are none,
    /// OutOfMemory if the device does not have them, DeviceError or DeviceLost if it cannot be
    /// used.
    MemoryPool(const Device& device, std::size_t bytes);

    // What was moved from is a copy, too.
    MemoryPool(const MemoryPool&) = default;
    MemoryPool& operator=(const MemoryPool&) = default;

    /// A tensor in row-major order at an address that is a multiple of 256, with elements that are
    /// not set. Its memory returns to the pool with the last tensor over it, or before by free() or
    /// reset(). Throws ShapeError if the shape is not valid, OutOfMemory (E0613) naming what was
    /// asked for, what is free and the largest block if there is no room.
    Tensor allocate(Shape shape, DType dtype = DType::Float32);

    /// Takes the memory of a tensor back: from now on kernels refuse it, and all tensors over the
    /// same memory, with E0614. Launches that were begun before, by any thread, go on; the memory
    /// is free when they end. One whose operand is a future begins when that is there. Throws
    /// ValueError if it was taken back before (E0615) or is not of this pool (E0616).
    void free(const Tensor& tensor);

    /// Whether the tensor was allocated here, its memory taken back or not.
    bool owns(const Tensor& tensor) const noexcept;

    /// Takes the memory of every tensor back, as free() does.
    void reset();

    const Device& device() const noexcept;
    Counters counters() const;

    bool operator==(const MemoryPool&) const = default;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace quern
