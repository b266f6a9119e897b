// Memory that the host does not see, and a queue that only copies, on a device that has neither.

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "tests/vulkan/mock/orders.h"

namespace quern::mock {
namespace {

/// The first type of memory that the host sees, as two: the device's own, unseen, and the host's.
struct TwoMemories {
    std::uint32_t real = 0;
    std::mutex mutex;
    std::set<VkDeviceMemory> unseen;
    std::set<VkBuffer> own_buffers;

    static constexpr std::uint32_t kOwn = 0, kHost = 1;
};

TwoMemories& two_memories() {
    static TwoMemories memories;
    return memories;
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceMemoryProperties* got) {
    real<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(device,
                                                                                         got);
    if (is("uncached memory") && say_here()) {
        for (VkMemoryType& type : got->memoryTypes) {
            type.propertyFlags &= ~VkMemoryPropertyFlags(VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
        }
    }
    if (is("divided memory") && say_here()) {
        constexpr VkMemoryPropertyFlags kAll = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                               VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                               VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
        // The driver's own one, as two: that of the device, seen past the caches, and the host's.
        const VkMemoryHeap heap = got->memoryHeaps[got->memoryTypes[0].heapIndex];
        got->memoryTypeCount = got->memoryHeapCount = 2;
        got->memoryTypes[0] = {
            VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                (kAll & ~VkMemoryPropertyFlags(VK_MEMORY_PROPERTY_HOST_CACHED_BIT)),
            0};
        got->memoryTypes[1] = {kAll, 1};
        got->memoryHeaps[0] = {heap.size / 3 * 2, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
        got->memoryHeaps[1] = {heap.size / 3, 0};
    }
    if (!is("memory of its own")) return;
    say_here();
    constexpr VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    std::uint32_t& real = two_memories().real;
    for (real = 0; (got->memoryTypes[real].propertyFlags & seen) != seen;) ++real;
    const VkMemoryHeap heap = got->memoryHeaps[got->memoryTypes[real].heapIndex];
    got->memoryTypeCount = got->memoryHeapCount = 2;
    got->memoryTypes[TwoMemories::kOwn] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    got->memoryTypes[TwoMemories::kHost] = {seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
    got->memoryHeaps[0] = {heap.size, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    got->memoryHeaps[1] = {heap.size, 0};
}

VKAPI_ATTR void VKAPI_CALL requirements_of_two(VkDevice device, VkBuffer buffer,
                                               VkMemoryRequirements* got) {
    real<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(device, buffer, got);
    got->memoryTypeBits = 3;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_of_two(VkDevice device, const VkMemoryAllocateInfo* about,
                                               const VkAllocationCallbacks* from,
                                               VkDeviceMemory* made) {
    constexpr VkDeviceSize kLittle = 64 << 10;
    const bool is_hosts = about->memoryTypeIndex == TwoMemories::kHost;
    if (is("little staging") && is_hosts && about->allocationSize > kLittle) {
        say_here();
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    VkMemoryAllocateInfo other = *about;
    other.memoryTypeIndex = two_memories().real;
    const VkResult result =
        real<PFN_vkAllocateMemory>("vkAllocateMemory")(device, &other, from, made);
    const std::lock_guard lock(two_memories().mutex);
    two_memories().unseen.erase(*made);
    if (about->memoryTypeIndex == TwoMemories::kOwn) two_memories().unseen.insert(*made);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_of_divided(VkDevice device,
                                                   const VkMemoryAllocateInfo* about,
                                                   const VkAllocationCallbacks* from,
                                                   VkDeviceMemory* made) {
    std::fprintf(stderr, "mock: memory of type %u\n", about->memoryTypeIndex);
    VkMemoryAllocateInfo other = *about;
    other.memoryTypeIndex = 0;
    return real<PFN_vkAllocateMemory>("vkAllocateMemory")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL bind_of_two(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
    {
        const std::lock_guard lock(two_memories().mutex);
        two_memories().own_buffers.erase(buffer);
        if (two_memories().unseen.contains(memory)) two_memories().own_buffers.insert(buffer);
    }
    return real<PFN_vkBindBufferMemory>("vkBindBufferMemory")(device, buffer, memory, offset);
}

VKAPI_ATTR void VKAPI_CALL copy_of_two(VkCommandBuffer to, VkBuffer src, VkBuffer dst,
                                       std::uint32_t count, const VkBufferCopy* regions) {
    {
        const std::lock_guard lock(two_memories().mutex);
        const bool is_to_device = two_memories().own_buffers.contains(dst);
        for (std::uint32_t i = 0; i < count; ++i) {
            std::fprintf(stderr, "mock: %llu bytes %s the device\n",
                         static_cast<unsigned long long>(regions[i].size),
                         is_to_device ? "to" : "from");
        }
    }
    real<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer")(to, src, dst, count, regions);
}

VKAPI_ATTR VkResult VKAPI_CALL map_of_two(VkDevice device, VkDeviceMemory memory,
                                          VkDeviceSize offset, VkDeviceSize size,
                                          VkMemoryMapFlags flags, void** data) {
    {
        const std::lock_guard lock(two_memories().mutex);
        if (two_memories().unseen.contains(memory)) return VK_ERROR_MEMORY_MAP_FAILED;
    }
    return real<PFN_vkMapMemory>("vkMapMemory")(device, memory, offset, size, flags, data);
}

/// Two queues of which the driver has one. What has been submitted waits here, in the order of each
/// queue, until a value of the timeline that it signals is asked for.
struct LateQueues {
    struct Late {
        VkQueue queue = VK_NULL_HANDLE;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        VkSemaphore waits = VK_NULL_HANDLE, signals = VK_NULL_HANDLE;
        std::uint64_t until = 0, value = 0;
        VkPipelineStageFlags stages = 0;
    };

    /// Of the family that the driver does not have.
    std::uint32_t family = 0;
    std::mutex mutex;

    /// What stands for each device's other queue, and the driver's queue that does its work.
    std::deque<int> others;
    std::map<VkQueue, VkQueue> real_ones;
    std::map<VkSemaphore, std::deque<Late>> late;

    VkResult run(const Late& what) {
        const VkTimelineSemaphoreSubmitInfo timeline{
            VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
            nullptr,
            what.waits ? 1u : 0u,
            &what.until,
            1,
            &what.value};
        const VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                  &timeline,
                                  what.waits ? 1u : 0u,
                                  &what.waits,
                                  &what.stages,
                                  1,
                                  &what.commands,
                                  1,
                                  &what.signals};
        return real<PFN_vkQueueSubmit>("vkQueueSubmit")(what.queue, 1, &submit, VK_NULL_HANDLE);
    }

    /// All of a queue up to a value, behind what that waits for.
    VkResult run_until(VkSemaphore semaphore, std::uint64_t value) {
        std::deque<Late>& mine = late[semaphore];
        while (!mine.empty() && mine.front().value <= value) {
            const Late next = mine.front();
            mine.pop_front();
            VkResult result = VK_SUCCESS;
            if (next.waits) result = run_until(next.waits, next.until);
            if (result == VK_SUCCESS) result = run(next);
            if (result != VK_SUCCESS) return result;
        }
        return VK_SUCCESS;
    }
};

LateQueues& late_queues() {
    static LateQueues queues;
    return queues;
}

VKAPI_ATTR void VKAPI_CALL families_of_two(VkPhysicalDevice device, std::uint32_t* count,
                                           VkQueueFamilyProperties* got) {
    const auto real_families = real<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(
        "vkGetPhysicalDeviceQueueFamilyProperties");
    std::uint32_t own = 0;
    real_families(device, &own, nullptr);
    late_queues().family = own;
    if (got) {
        real_families(device, &own, got);
        // Behind it one of video.
        constexpr VkQueueFlags kVideo = 0x20;
        got[own] = {VK_QUEUE_TRANSFER_BIT, 1, 0, {1, 1, 1}};
        got[own + 1] = {VK_QUEUE_TRANSFER_BIT | kVideo, 1, 0, {1, 1, 1}};
    }
    *count = own + 2;
}

VKAPI_ATTR VkResult VKAPI_CALL create_with_one_queue(VkPhysicalDevice device,
                                                     const VkDeviceCreateInfo* about,
                                                     const VkAllocationCallbacks* from,
                                                     VkDevice* made) {
    VkDeviceCreateInfo other = *about;
    std::vector<VkDeviceQueueCreateInfo> queues;
    for (std::uint32_t i = 0; i < about->queueCreateInfoCount; ++i) {
        const VkDeviceQueueCreateInfo& queue = about->pQueueCreateInfos[i];
        if (queue.queueFamilyIndex != late_queues().family) queues.push_back(queue);
    }
    if (queues.size() < about->queueCreateInfoCount) say_here();
    other.queueCreateInfoCount = std::uint32_t(queues.size());
    other.pQueueCreateInfos = queues.data();
    return real<PFN_vkCreateDevice>("vkCreateDevice")(device, &other, from, made);
}

VKAPI_ATTR void VKAPI_CALL queue_of_two(VkDevice device, std::uint32_t family, std::uint32_t index,
                                        VkQueue* got) {
    const bool is_other = family == late_queues().family;
    real<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(device, is_other ? 0 : family, index, got);
    if (!is_other) return;
    const std::lock_guard lock(late_queues().mutex);
    const auto other = reinterpret_cast<VkQueue>(&late_queues().others.emplace_back());
    late_queues().real_ones.emplace(other, *got);
    *got = other;
}

VKAPI_ATTR VkResult VKAPI_CALL pool_of_two(VkDevice device, const VkCommandPoolCreateInfo* about,
                                           const VkAllocationCallbacks* from, VkCommandPool* made) {
    VkCommandPoolCreateInfo other = *about;
    if (other.queueFamilyIndex == late_queues().family) other.queueFamilyIndex = 0;
    return real<PFN_vkCreateCommandPool>("vkCreateCommandPool")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL buffer_of_one_family(VkDevice device,
                                                    const VkBufferCreateInfo* about,
                                                    const VkAllocationCallbacks* from,
                                                    VkBuffer* made) {
    VkBufferCreateInfo other = *about;
    if (other.sharingMode != VK_SHARING_MODE_CONCURRENT) {
        std::fputs("mock: a buffer of one family\n", stderr);
    }
    other.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    other.queueFamilyIndexCount = 0;
    return real<PFN_vkCreateBuffer>("vkCreateBuffer")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL submit_late(VkQueue queue, std::uint32_t, const VkSubmitInfo* submit,
                                           VkFence) {
    const auto* const timeline = static_cast<const VkTimelineSemaphoreSubmitInfo*>(submit->pNext);
    const std::lock_guard lock(late_queues().mutex);
    const auto other = late_queues().real_ones.find(queue);
    if (other != late_queues().real_ones.end()) std::fputs("mock: a transfer\n", stderr);
    LateQueues::Late late;
    late.queue = other == late_queues().real_ones.end() ? queue : other->second;
    late.commands = submit->pCommandBuffers[0];
    late.signals = submit->pSignalSemaphores[0];
    late.value = timeline->pSignalSemaphoreValues[0];
    if (submit->waitSemaphoreCount > 0) {
        late.waits = submit->pWaitSemaphores[0];
        late.until = timeline->pWaitSemaphoreValues[0];
        late.stages = submit->pWaitDstStageMask[0];
    }
    late_queues().late[late.signals].push_back(late);
    if (other == late_queues().real_ones.end()) {
        if (late.waits) std::fputs("mock: a wait for a transfer\n", stderr);
        return VK_SUCCESS;
    }
    if (late.waits) std::fputs("mock: a transfer that waits for launches\n", stderr);
    if (!is("quick transfers")) return VK_SUCCESS;
    const VkResult result = late_queues().run_until(late.signals, late.value);
    if (result != VK_SUCCESS) return result;
    return real<PFN_vkQueueWaitIdle>("vkQueueWaitIdle")(late.queue);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_late(VkDevice device, const VkSemaphoreWaitInfo* about,
                                             std::uint64_t most) {
    {
        const std::lock_guard lock(late_queues().mutex);
        const VkResult result = late_queues().run_until(about->pSemaphores[0], about->pValues[0]);
        if (result != VK_SUCCESS) return result;
    }
    return real<PFN_vkWaitSemaphores>("vkWaitSemaphores")(device, about, most);
}

VKAPI_ATTR VkResult VKAPI_CALL idle_behind_late(VkDevice device) {
    {
        const std::lock_guard lock(late_queues().mutex);
        for (auto& [semaphore, late] : late_queues().late) {
            if (!late.empty()) late_queues().run_until(semaphore, late.back().value);
        }
    }
    return real<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device);
}

}  // namespace

PFN_vkVoidFunction of_hardware(const char* name) {
    const auto is_name = [&](const char* other) { return std::strcmp(name, other) == 0; };
    if (is("transfer queue")) {
        if (is_name("vkGetPhysicalDeviceQueueFamilyProperties")) {
            return PFN_vkVoidFunction(&families_of_two);
        }
        if (is_name("vkCreateDevice")) return PFN_vkVoidFunction(&create_with_one_queue);
        if (is_name("vkGetDeviceQueue")) return PFN_vkVoidFunction(&queue_of_two);
        if (is_name("vkCreateCommandPool")) return PFN_vkVoidFunction(&pool_of_two);
        if (is_name("vkCreateBuffer")) return PFN_vkVoidFunction(&buffer_of_one_family);
        if (is_name("vkQueueSubmit")) return PFN_vkVoidFunction(&submit_late);
        if (is_name("vkWaitSemaphores")) return PFN_vkVoidFunction(&wait_for_late);
        if (is_name("vkDeviceWaitIdle")) return PFN_vkVoidFunction(&idle_behind_late);
    }
    if (is("memory of its own")) {
        if (is_name("vkGetBufferMemoryRequirements")) {
            return PFN_vkVoidFunction(&requirements_of_two);
        }
        if (is_name("vkAllocateMemory")) return PFN_vkVoidFunction(&allocate_of_two);
        if (is_name("vkBindBufferMemory")) return PFN_vkVoidFunction(&bind_of_two);
        if (is_name("vkCmdCopyBuffer")) return PFN_vkVoidFunction(&copy_of_two);
        if (is_name("vkMapMemory")) return PFN_vkVoidFunction(&map_of_two);
    }
    if (is("divided memory")) {
        if (is_name("vkGetBufferMemoryRequirements")) {
            return PFN_vkVoidFunction(&requirements_of_two);
        }
        if (is_name("vkAllocateMemory")) return PFN_vkVoidFunction(&allocate_of_divided);
    }
    const bool is_of_memory =
        is("memory of its own") || is("uncached memory") || is("divided memory");
    if (is_of_memory && is_name("vkGetPhysicalDeviceMemoryProperties")) {
        return PFN_vkVoidFunction(&memory_properties);
    }
    return nullptr;
}

}  // namespace quern::mock
