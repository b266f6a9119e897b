#include "quern/backend/vulkan/queue.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace quern::vulkan {
namespace {

/// A launch costs less than a submission, and the device must not wait long for the first.
constexpr std::size_t kMostLaunches = 16;

/// Submissions that a device has at a time, so that it has work while the host records more.
constexpr std::size_t kBusy = 2;

/// Beyond them the host waits: what is in flight holds memory.
constexpr std::size_t kMostInFlight = 4;

/// Where a launch is several.
constexpr std::size_t kMostParts = 64;

/// Bytes that wait for one submission to end.
constexpr std::size_t kMostHeld = std::size_t{64} << 20;

std::string name_of(VkResult result) {
    switch (result) {
        case VK_ERROR_DEVICE_LOST:
            return "the device is lost";
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return "the device is out of memory";
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return "the host is out of memory";
        case VK_ERROR_INITIALIZATION_FAILED:
            return "the driver does not start";
        case VK_ERROR_INCOMPATIBLE_DRIVER:
            return "there is no driver";
        case VK_ERROR_MEMORY_MAP_FAILED:
            return "memory cannot be mapped";
        case VK_ERROR_EXTENSION_NOT_PRESENT:
            return "an extension is not there";
        case VK_ERROR_FEATURE_NOT_PRESENT:
            return "a feature is not there";
        case VK_ERROR_TOO_MANY_OBJECTS:
            return "there are too many of them";
        case VK_ERROR_UNKNOWN:
            return "the driver does not say why";
        case VK_TIMEOUT:
            return "no answer in time";
        default:
            return "VkResult " + std::to_string(int(result));
    }
}

Failure::Kind kind_of(VkResult result) {
    switch (result) {
        case VK_ERROR_DEVICE_LOST:
            return Failure::Kind::Lost;
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return Failure::Kind::HostIsFull;
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return Failure::Kind::DeviceIsFull;
        default:
            return Failure::Kind::Error;
    }
}

}  // namespace

VulkanError::VulkanError(const char* call, VkResult result)
    : std::runtime_error(std::string(call) + ": " + name_of(result)), kind_(kind_of(result)) {}

void check(VkResult result, const char* call) {
    if (result != VK_SUCCESS) throw VulkanError(call, result);
}

Queue::Queue(VkDevice device, const VolkDeviceTable& vk, std::uint32_t family, Does does,
             std::uint64_t most_work)
    : device_(device), vk_(vk), family_(family), most_work_(most_work) {
    if (does == Does::Everything) {
        stages_ |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
        writes_ |= VK_ACCESS_SHADER_WRITE_BIT;
        reads_ |= VK_ACCESS_SHADER_READ_BIT;
    }
    vk_.vkGetDeviceQueue(device_, family_, 0, &queue_);
    const VkSemaphoreTypeCreateInfo timeline{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                             .initialValue = kBeforeAll};
    const VkSemaphoreCreateInfo semaphore{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                          .pNext = &timeline};
    try {
        check(vk_.vkCreateSemaphore(device_, &semaphore, nullptr, &ended_), "vkCreateSemaphore");
        for (std::size_t i = 0; i <= kMostInFlight; ++i) make_spare();
    } catch (...) {
        destroy();
        throw;
    }
}

Queue::~Queue() { destroy(); }

void Queue::destroy() noexcept {
    for (const std::list<Batch>* list : {&open_, &in_flight_, &spare_}) {
        for (const Batch& batch : *list) vk_.vkDestroyCommandPool(device_, batch.pool, nullptr);
    }
    vk_.vkDestroySemaphore(device_, ended_, nullptr);
}

void Queue::make_spare() {
    std::list<Batch> made(1);
    Batch& batch = made.front();
    batch.blocks.reserve(kMostLaunches);
    batch.codes.reserve(kMostLaunches);
    const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                       .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                       .queueFamilyIndex = family_};
    check(vk_.vkCreateCommandPool(device_, &pool, nullptr, &batch.pool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo buffer{
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = batch.pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    const VkResult result = vk_.vkAllocateCommandBuffers(device_, &buffer, &batch.commands);
    if (result != VK_SUCCESS) vk_.vkDestroyCommandPool(device_, batch.pool, nullptr);
    check(result, "vkAllocateCommandBuffers");
    spare_.splice(spare_.end(), made);
}

VkCommandBuffer Queue::commands() {
    if (open_.empty()) open(kMostInFlight);
    return open_.front().commands;
}

void Queue::add_work(std::uint64_t instructions) {
    if (work_ > 0 && work_ + instructions > most_work_) {
        submit();
        open(kMostParts);
        reserve(reserved_);
    }
    work_ += instructions;
}

void Queue::copy(std::span<const Copy> copies) {
    if (copies.empty()) return;
    const VkCommandBuffer to = commands();
    const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = writes_,
                                  .dstAccessMask = reads_ | writes_};
    const auto separate = [&] {
        vk_.vkCmdPipelineBarrier(to, stages_, stages_, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    };
    separate();
    for (const Copy& copy : copies) {
        const VkBufferCopy region{copy.src.offset, copy.dst.offset, copy.bytes};
        vk_.vkCmdCopyBuffer(to, copy.src.buffer, copy.dst.buffer, 1, &region);
    }
    separate();
}

void Queue::begin_after(const Queue& other, std::uint64_t ticket) {
    Batch& batch = open_.front();
    batch.before = other.ended_;
    batch.ticket_before = std::max(batch.ticket_before, ticket);
}

void Queue::open(std::size_t most_in_flight) {
    if (in_flight_.size() >= most_in_flight) {
        wait(in_flight_.front().ticket);
        reclaim();
    }
    if (spare_.empty()) make_spare();
    Batch& batch = spare_.front();
    check(vk_.vkResetCommandPool(device_, batch.pool, 0), "vkResetCommandPool");
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    check(vk_.vkBeginCommandBuffer(batch.commands, &begin), "vkBeginCommandBuffer");
    batch.ticket = ticket();
    batch.before = VK_NULL_HANDLE;
    batch.ticket_before = 0;
    open_.splice(open_.begin(), spare_, spare_.begin());
}

void Queue::reserve(std::size_t blocks) {
    reserved_ = blocks;
    Batch& batch = open_.front();
    batch.blocks.reserve(batch.blocks.size() + blocks);
    batch.codes.reserve(batch.codes.size() + 1);
}

void Queue::keep(std::span<const Taken> blocks, std::shared_ptr<const void> code) noexcept {
    Batch& batch = open_.front();
    for (const Taken& taken : blocks) {
        batch.blocks.push_back(taken);
        held_ += taken.block->size();
    }
    batch.codes.push_back(std::move(code));
}

void Queue::submit_if_due() {
    if (open_.empty()) return;
    if (in_flight_.size() < kBusy || open_.front().codes.size() >= kMostLaunches ||
        held_ >= kMostHeld || work_ >= most_work_) {
        submit();
    }
}

void Queue::submit() {
    if (open_.empty()) return;
    const Batch& batch = open_.front();
    const VkMemoryBarrier barrier{
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = writes_,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    vk_.vkCmdPipelineBarrier(batch.commands, stages_, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                             nullptr, 0, nullptr);
    check(vk_.vkEndCommandBuffer(batch.commands), "vkEndCommandBuffer");
    const std::uint32_t waits = batch.ticket_before > 0 ? 1 : 0;
    const VkTimelineSemaphoreSubmitInfo timeline{
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = waits,
        .pWaitSemaphoreValues = &batch.ticket_before,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &batch.ticket};
    const VkSubmitInfo submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                              .pNext = &timeline,
                              .waitSemaphoreCount = waits,
                              .pWaitSemaphores = &batch.before,
                              .pWaitDstStageMask = &stages_,
                              .commandBufferCount = 1,
                              .pCommandBuffers = &batch.commands,
                              .signalSemaphoreCount = 1,
                              .pSignalSemaphores = &ended_};
    VkResult result = vk_.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE);
    // What it lacks may be what earlier work has. It has done nothing.
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
        wait(submitted_);
        result = vk_.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE);
    }
    check(result, "vkQueueSubmit");
    ++submitted_;
    held_ = 0;
    work_ = 0;
    in_flight_.splice(in_flight_.end(), open_);
}

void Queue::wait(std::uint64_t ticket) const {
    const VkSemaphoreWaitInfo wait{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                   .semaphoreCount = 1,
                                   .pSemaphores = &ended_,
                                   .pValues = &ticket};
    check(vk_.vkWaitSemaphores(device_, &wait, std::numeric_limits<std::uint64_t>::max()),
          "vkWaitSemaphores");
}

std::uint64_t Queue::reclaim() {
    std::uint64_t ended = 0;
    constexpr const char* kCall = "vkGetSemaphoreCounterValue";
    check(vk_.vkGetSemaphoreCounterValue(device_, ended_, &ended), kCall);
    // Drivers say so, and not in the result.
    if (ended > submitted_) throw VulkanError(kCall, VK_ERROR_DEVICE_LOST);
    while (!in_flight_.empty() && in_flight_.front().ticket <= ended) {
        Batch& batch = in_flight_.front();
        for (const Taken& taken : batch.blocks) taken.free();
        batch.blocks.clear();
        batch.codes.clear();
        spare_.splice(spare_.end(), in_flight_, in_flight_.begin());
    }
    return ended;
}

}  // namespace quern::vulkan
