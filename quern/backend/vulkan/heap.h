#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "quern/runtime/pool.h"

namespace quern::vulkan {

/// Memory of a device, slab by slab.
class DeviceHeap : public Heap {
public:
    enum class Kind : std::uint8_t {
        Shared,   // host and device see it; the device's own if there is such
        Own,      // the device's, which the host does not see: what `take` gives is memory of the
                  // host that stands for it
        Staging,  // the host's, which the device sees too
    };

    /// `largest`: no slab is of more bytes. `is_addressed`: kernels find memory by its address.
    /// `families`: those of the queues that use it.
    DeviceHeap(VkPhysicalDevice physical, VkDevice device, const VolkDeviceTable& vk, Kind kind,
               std::uint64_t largest, bool is_addressed, std::vector<std::uint32_t> families);
    std::byte* take(std::size_t bytes) noexcept override;
    void give_back(std::byte* memory, std::size_t bytes) noexcept override;

    /// Where the device has what stands at an address of the host.
    struct Place {
        VkBuffer buffer = VK_NULL_HANDLE;
        std::uint64_t offset = 0;
        std::uint64_t address = 0;
    };
    Place find(const std::byte* data) const;

private:
    struct Slab {
        VkBuffer buffer = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        std::uint64_t address = 0;
        std::size_t bytes = 0;
    };

    bool make(Slab& slab, std::byte*& data) noexcept;
    bool allocate(Slab& slab) noexcept;
    void release(const Slab& slab, std::byte* data) noexcept;

    VkDevice device_;
    const VolkDeviceTable& vk_;
    Kind kind_;
    std::uint64_t largest_;
    bool is_addressed_;
    std::vector<std::uint32_t> families_;
    VkPhysicalDeviceMemoryProperties types_{};
    mutable std::mutex mutex_;

    /// By the host's address.
    std::map<const std::byte*, Slab> slabs_;
};

/// A heap, and the pool of its slabs.
struct Area {
    Area(VkPhysicalDevice physical, VkDevice device, const VolkDeviceTable& vk,
         DeviceHeap::Kind kind, std::uint64_t largest, bool is_addressed,
         std::vector<std::uint32_t> families, std::size_t idle)
        : heap(physical, device, vk, kind, largest, is_addressed, std::move(families)),
          pool(heap, std::numeric_limits<std::size_t>::max(), idle) {}

    DeviceHeap heap;
    Pool pool;
};

/// A block and the pool that it is of.
struct Taken {
    Pool* pool = nullptr;
    Pool::Block* block = nullptr;

    void free() const noexcept { pool->free(block); }
};

/// Bytes from one place of the device's to another.
struct Copy {
    DeviceHeap::Place src, dst;
    std::size_t bytes = 0;
};

/// Whether the host sees most of what the device has of its own, through its caches. Where it sees
/// a window, as by a PCI bus without resizable windows, tensors would soon lie in the host's
/// memory; without caches it reads by words from across the bus, where a copy takes whole lines.
/// `is_of_host`: the device has no memory but the host's, where what it does not call its own is as
/// near: AMD's say so of all that the host sees through its caches.
bool host_sees_memory(const VkPhysicalDeviceMemoryProperties& types, bool is_of_host);

}  // namespace quern::vulkan
