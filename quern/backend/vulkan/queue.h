#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "quern/backend/vulkan/heap.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern::vulkan {

/// What a call of Vulkan did not do.
class VulkanError : public std::runtime_error {
public:
    VulkanError(const char* call, VkResult result);
    explicit VulkanError(const Failure& failure)
        : std::runtime_error(failure.what), kind_(failure.kind) {}
    Failure::Kind kind() const { return kind_; }
    Failure failure() const { return {kind_, what()}; }

private:
    Failure::Kind kind_;
};

/// Throws VulkanError.
void check(VkResult result, const char* call);

/// The work of a device in the order in which it came. Several launches are one submission, whose
/// number in the order of submissions is their ticket. For one thread at a time, but for `wait`.
class Queue {
public:
    enum class Does : std::uint8_t { Everything, Copies };

    /// `most_work`: how many instructions one submission executes.
    Queue(VkDevice device, const VolkDeviceTable& vk, std::uint32_t family, Does does,
          std::uint64_t most_work);

    /// Nothing may be in flight.
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// Where commands go: those of a launch all to one submission, but for parts of too much work.
    VkCommandBuffer commands();

    /// Says how much the next commands do. What is more than one submission may do together is
    /// several.
    void add_work(std::uint64_t instructions);

    /// Copies after what came before, and before what comes.
    void copy(std::span<const Copy> copies);

    /// What is recorded begins when a submission of another queue has ended.
    void begin_after(const Queue& other, std::uint64_t ticket);

    /// The ticket of what is recorded now.
    std::uint64_t ticket() const { return submitted_ + 1; }

    /// Makes room for `keep`, which then throws nothing.
    void reserve(std::size_t blocks);

    /// What the launch uses is freed when it has ended.
    void keep(std::span<const Taken> blocks, std::shared_ptr<const void> code) noexcept;

    /// Memory that was freed too early for the device: counts towards what one submission holds.
    void count(std::size_t bytes) { held_ += bytes; }

    /// Submits what is recorded, if the device has little to do, or much is recorded.
    void submit_if_due();
    void submit();
    std::uint64_t submitted() const { return submitted_; }

    /// Waits for that submission, which was made. Thread-safe.
    void wait(std::uint64_t ticket) const;

    /// Frees what ended work has used. The last ticket that has ended, or that a device which is
    /// lost says has: who needs the work waits for it.
    std::uint64_t reclaim();

private:
    struct Batch {
        VkCommandPool pool = VK_NULL_HANDLE;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        std::uint64_t ticket = 0;

        /// What it begins after; 0: nothing.
        VkSemaphore before = VK_NULL_HANDLE;
        std::uint64_t ticket_before = 0;
        std::vector<Taken> blocks;
        std::vector<std::shared_ptr<const void>> codes;
    };

    void open(std::size_t most_in_flight);
    void make_spare();
    void destroy() noexcept;

    VkDevice device_;
    const VolkDeviceTable& vk_;
    std::uint32_t family_;

    /// What its commands do.
    VkPipelineStageFlags stages_ = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkAccessFlags writes_ = VK_ACCESS_TRANSFER_WRITE_BIT;
    VkAccessFlags reads_ = VK_ACCESS_TRANSFER_READ_BIT;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkSemaphore ended_ = VK_NULL_HANDLE;
    std::uint64_t submitted_ = kBeforeAll;

    /// What is recorded, if anything, is the one in `open_`. As many in all as may be in flight and
    /// one more.
    std::list<Batch> open_, in_flight_, spare_;
    std::size_t held_ = 0;

    std::uint64_t most_work_;
    std::uint64_t work_ = 0;

    /// What the launch that is recorded has asked `reserve` for.
    std::size_t reserved_ = 0;
};

}  // namespace quern::vulkan
