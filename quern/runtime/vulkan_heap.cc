#include "quern/runtime/vulkan_heap.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "quern/runtime/storage.h"

namespace quern::vulkan {

PoolHeap::PoolHeap(std::size_t device) : device_(device), driver_(driver_of(device)) {}

std::byte* PoolHeap::take(std::size_t bytes) noexcept {
    std::unique_ptr<Slab> slab(new (std::nothrow) Slab);
    if (!slab) return nullptr;
    const Lock lock(mutex_);
    slab->memory = driver_.allocate(device_, bytes);
    std::byte* const data = slab->memory.data;
    if (!data) {
        failure_ = std::move(slab->memory.failure);
        return nullptr;
    }
    if (!slab->memory.is_zero) std::memset(data, 0, bytes);
    slab->next = std::move(slabs_);
    slabs_ = std::move(slab);
    return data;
}

void PoolHeap::give_back(std::byte* memory, std::size_t) noexcept {
    const Lock lock(mutex_);
    std::unique_ptr<Slab>* at = &slabs_;
    while ((*at)->memory.data != memory) at = &(*at)->next;
    driver_.free(device_, (*at)->memory, last_);
    *at = std::move((*at)->next);
}

std::shared_ptr<Storage> PoolHeap::storage(std::byte* block, std::size_t bytes) const {
    // What a child of fork() has of it is its parent's.
    raise_if_failed(device_, driver_.wait(device_, kBeforeAll));
    const Lock lock(mutex_);
    const Slab* slab = slabs_.get();
    const auto holds = [&](const Memory& memory) {
        return std::less_equal<>()(memory.data, block) &&
               std::less<>()(block, memory.data + memory.bytes);
    };
    while (!holds(slab->memory)) slab = slab->next.get();
    Memory part = slab->memory;
    part.data = block;
    part.bytes = bytes;
    return Storage::part_on_vulkan(device_, part, last_);
}

void PoolHeap::retire(std::uint64_t ticket) noexcept {
    const Lock lock(mutex_);
    last_ = std::max(last_, ticket);
}

void PoolHeap::raise_none(std::size_t bytes) const {
    const Lock lock(mutex_);
    raise_if_failed(device_, failure_);
    raise_no_room(device_, bytes);
}

}  // namespace quern::vulkan
