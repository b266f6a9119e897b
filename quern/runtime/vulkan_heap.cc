#include "quern/runtime/vulkan_heap.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "quern/error.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"

namespace quern::vulkan {

DeviceMemory::DeviceMemory(std::size_t device) : device_(device), driver_(driver_of(device)) {}

std::byte* DeviceMemory::take(std::size_t bytes) noexcept {
    const Lock lock(mutex_);
    Memory memory = driver_.allocate(device_, bytes);
    if (!memory.error.empty()) error_ = std::move(memory.error);
    if (!memory.data) return nullptr;
    try {
        slabs_.emplace(memory.data, memory);
    } catch (const std::bad_alloc&) {
        driver_.free(device_, memory, 0);
        return nullptr;
    }
    if (!memory.is_zero) std::memset(memory.data, 0, bytes);
    return memory.data;
}

void DeviceMemory::give_back(std::byte* memory, std::size_t) noexcept {
    const Lock lock(mutex_);
    const auto at = slabs_.find(memory);
    driver_.free(device_, at->second, last_);
    slabs_.erase(at);
}

std::shared_ptr<Storage> DeviceMemory::storage(std::byte* block, std::size_t bytes) const {
    const Lock lock(mutex_);
    Memory part = std::prev(slabs_.upper_bound(block))->second;
    part.data = block;
    part.bytes = bytes;
    return Storage::part_on_vulkan(device_, part, last_);
}

void DeviceMemory::retire(std::uint64_t ticket) noexcept {
    const Lock lock(mutex_);
    last_ = std::max(last_, ticket);
}

void DeviceMemory::raise_none(std::size_t bytes) const {
    const Lock lock(mutex_);
    if (!error_.empty()) {
        raise(DeviceLost("[vulkan:" + std::to_string(device_) + "] " + error_));
    }
    raise_no_room(device_, bytes);
}

}  // namespace quern::vulkan
