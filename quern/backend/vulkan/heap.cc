#include "quern/backend/vulkan/heap.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

namespace quern::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kOwn = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkMemoryPropertyFlags kHostSees =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

constexpr VkBufferUsageFlags kAddressed = VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;

/// Asks for a feature that is not switched on.
constexpr VkMemoryPropertyFlags kUncached = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;

/// What a type of memory should have, the best first.
std::span<const VkMemoryPropertyFlags> wanted(DeviceHeap::Kind kind) {
    static constexpr VkMemoryPropertyFlags kShared[] = {
        kHostSees | kOwn | kCached, kHostSees | kCached, kHostSees | kOwn, kHostSees};
    static constexpr VkMemoryPropertyFlags kOwnOnly[] = {kOwn};
    static constexpr VkMemoryPropertyFlags kStaging[] = {kHostSees | kCached, kHostSees};
    switch (kind) {
        case DeviceHeap::Kind::Shared:
            return kShared;
        case DeviceHeap::Kind::Own:
            return kOwnOnly;
        case DeviceHeap::Kind::Staging:
            break;
    }
    return kStaging;
}

}  // namespace

bool host_sees_memory(const VkPhysicalDeviceMemoryProperties& types, bool is_of_host) {
    VkDeviceSize own = 0, seen = 0;
    constexpr VkMemoryPropertyFlags kAll = kHostSees | kCached;
    for (std::uint32_t i = 0; i < types.memoryTypeCount; ++i) {
        const VkMemoryPropertyFlags flags = types.memoryTypes[i].propertyFlags;
        const VkDeviceSize size = types.memoryHeaps[types.memoryTypes[i].heapIndex].size;
        if ((flags & kUncached) != 0) continue;
        const bool is_own = (flags & kOwn) != 0;
        if (is_own) own = std::max(own, size);
        if ((is_own || is_of_host) && (flags & kAll) == kAll) seen = std::max(seen, size);
    }
    // Where all is the host's, drivers divide it as they like.
    return seen >= own / (is_of_host ? 4 : 2);
}

DeviceHeap::DeviceHeap(VkPhysicalDevice physical, VkDevice device, const VolkDeviceTable& vk,
                       Kind kind, std::uint64_t largest, bool is_addressed,
                       std::vector<std::uint32_t> families)
    : device_(device),
      vk_(vk),
      kind_(kind),
      largest_(largest),
      is_addressed_(is_addressed),
      families_(std::move(families)) {
    vkGetPhysicalDeviceMemoryProperties(physical, &types_);
}

bool DeviceHeap::allocate(Slab& slab) noexcept {
    VkMemoryRequirements needs{};
    vk_.vkGetBufferMemoryRequirements(device_, slab.buffer, &needs);
    if (needs.size > largest_) return false;
    const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                          .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    for (const VkMemoryPropertyFlags properties : wanted(kind_)) {
        for (std::uint32_t i = 0; i < types_.memoryTypeCount; ++i) {
            const VkMemoryType& type = types_.memoryTypes[i];
            const bool fits = (needs.memoryTypeBits >> i & 1) != 0 &&
                              (type.propertyFlags & properties) == properties &&
                              (type.propertyFlags & kUncached) == 0 &&
                              needs.size <= types_.memoryHeaps[type.heapIndex].size;
            const VkMemoryAllocateInfo from{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .pNext = is_addressed_ ? &flags : nullptr,
                                            .allocationSize = needs.size,
                                            .memoryTypeIndex = i};
            if (!fits) continue;
            if (vk_.vkAllocateMemory(device_, &from, nullptr, &slab.memory) == VK_SUCCESS) {
                return true;
            }
            slab.memory = VK_NULL_HANDLE;
        }
    }
    return false;
}

bool DeviceHeap::make(Slab& slab, std::byte*& data) noexcept {
    const bool is_of_several = families_.size() > 1;
    const VkBufferCreateInfo about{
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = slab.bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | (is_addressed_ ? kAddressed : 0),
        .sharingMode = is_of_several ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = is_of_several ? std::uint32_t(families_.size()) : 0,
        .pQueueFamilyIndices = is_of_several ? families_.data() : nullptr};
    if (vk_.vkCreateBuffer(device_, &about, nullptr, &slab.buffer) != VK_SUCCESS) {
        slab.buffer = VK_NULL_HANDLE;
        return false;
    }
    if (!allocate(slab) ||
        vk_.vkBindBufferMemory(device_, slab.buffer, slab.memory, 0) != VK_SUCCESS) {
        return false;
    }
    if (kind_ == Kind::Own) {
        data = take_or_trim([&] { return host_heap().take(slab.bytes); });
    } else {
        void* mapped = nullptr;
        if (vk_.vkMapMemory(device_, slab.memory, 0, VK_WHOLE_SIZE, 0, &mapped) != VK_SUCCESS) {
            return false;
        }
        data = static_cast<std::byte*>(mapped);
        // Vulkan promises 64; drivers map pages.
        if (reinterpret_cast<std::uintptr_t>(data) % Pool::kAlignment != 0) return false;
        std::memset(data, 0, slab.bytes);
    }
    const VkBufferDeviceAddressInfo where{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                          .buffer = slab.buffer};
    if (is_addressed_) slab.address = vk_.vkGetBufferDeviceAddress(device_, &where);
    return data != nullptr;
}

void DeviceHeap::release(const Slab& slab, std::byte* data) noexcept {
    vk_.vkDestroyBuffer(device_, slab.buffer, nullptr);
    vk_.vkFreeMemory(device_, slab.memory, nullptr);
    if (kind_ == Kind::Own && data) host_heap().give_back(data, slab.bytes);
}

std::byte* DeviceHeap::take(std::size_t bytes) noexcept {
    Slab slab;
    slab.bytes = bytes;
    std::byte* data = nullptr;
    if (!make(slab, data)) {
        release(slab, data);
        return nullptr;
    }
    try {
        const std::lock_guard lock(mutex_);
        slabs_.emplace(data, slab);
    } catch (const std::bad_alloc&) {
        release(slab, data);
        return nullptr;
    }
    return data;
}

void DeviceHeap::give_back(std::byte* memory, std::size_t) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = slabs_.find(memory);
    release(found->second, memory);
    slabs_.erase(found);
}

DeviceHeap::Place DeviceHeap::find(const std::byte* data) const {
    const std::lock_guard lock(mutex_);
    const auto& [begin, slab] = *std::prev(slabs_.upper_bound(data));
    const auto offset = std::uint64_t(data - begin);
    return {slab.buffer, offset, slab.address + offset};
}

}  // namespace quern::vulkan
