#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "quern/runtime/pool.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/support/threads.h"

namespace quern {
class Storage;
}

namespace quern::vulkan {

/// Memory of the device "vulkan:N", for a pool whose blocks are tensors of it.
class PoolHeap : public Heap {
public:
    /// Throws DeviceError where there is no such device.
    explicit PoolHeap(std::size_t device);

    std::byte* take(std::size_t bytes) noexcept override;
    void give_back(std::byte* memory, std::size_t bytes) noexcept override;

    /// The storage of a block, which does not own it. What launches still do with blocks that were
    /// retired comes before what is done with it. Throws DeviceLost.
    std::shared_ptr<Storage> storage(std::byte* block, std::size_t bytes) const;

    /// A launch of that ticket may still use a block that becomes free.
    void retire(std::uint64_t ticket) noexcept;

    /// Throws OutOfMemory, DeviceLost or DeviceError: the device gave none.
    [[noreturn]] void raise_none(std::size_t bytes) const;

private:
    std::size_t device_;
    Driver& driver_;
    mutable Mutex mutex_;

    /// Mostly one.
    struct Slab {
        Memory memory;
        std::unique_ptr<Slab> next;
    };
    std::unique_ptr<Slab> slabs_;
    std::uint64_t last_ = 0;

    /// Of the last call that gave none.
    Failure failure_;
};

}  // namespace quern::vulkan
