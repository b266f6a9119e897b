#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern::vulkan {

/// What a call of Vulkan did not do.
class VulkanError : public std::runtime_error {
public:
    VulkanError(const char* call, VkResult result);
};

/// What a physical device has of what kernels may use.
struct Abilities {
    explicit Abilities(VkPhysicalDevice device);

    /// What every kernel needs and the device lacks, or empty.
    std::string missing() const;

    /// The first capability of a module that the device lacks, or empty.
    std::string lacks(std::span<const std::uint32_t> module) const;

    VkPhysicalDeviceProperties properties{};
    FloatControls controls;
    Integers integers;

    /// What to switch on: those of them that the device has.
    VkPhysicalDeviceFeatures core{};
    VkPhysicalDeviceVulkan11Features v11{};
    VkPhysicalDeviceVulkan12Features v12{};

    static constexpr std::uint32_t kNoQueue = ~std::uint32_t{0};
    std::uint32_t queue_family = kNoQueue;
    std::int64_t memory = 0;
};

/// Memory that host and device both see, slab by slab.
class MappedHeap : public Heap {
public:
    MappedHeap(VkPhysicalDevice physical, VkDevice device, const VolkDeviceTable& vk);
    std::byte* take(std::size_t bytes) noexcept override;
    void give_back(std::byte* memory, std::size_t bytes) noexcept override;

    /// What the device calls an address of the host.
    std::uint64_t address_of(const std::byte* data) const;

private:
    struct Slab {
        VkBuffer buffer = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        std::uint64_t address = 0;
        std::size_t bytes = 0;
    };

    bool make(Slab& slab, std::byte*& data) noexcept;
    void release(const Slab& slab) noexcept;

    VkDevice device_;
    const VolkDeviceTable& vk_;
    VkPhysicalDeviceMemoryProperties types_{};
    mutable std::mutex mutex_;

    /// By the host's address.
    std::map<const std::byte*, Slab> slabs_;
};

/// A device in use. Launches wait for each other.
class GpuDevice {
public:
    GpuDevice(VkPhysicalDevice physical, const Abilities& abilities);
    ~GpuDevice();
    GpuDevice(const GpuDevice&) = delete;
    GpuDevice& operator=(const GpuDevice&) = delete;

    struct Stage {
        VkPipeline pipeline = VK_NULL_HANDLE;
        std::uint32_t points_of_group = 1;
    };

    VkPipeline pipeline(std::span<const std::uint32_t> module);
    void destroy(VkPipeline pipeline);

    Outcome run(std::span<const Stage> stages, const KernelImage& image, const ReadyLaunch& launch,
                std::span<const Range> operands, Range output, bool keeps_output);

private:
    class Blocks;

    void open(VkPhysicalDevice physical);
    void close() noexcept;
    void dispatch(const Stage& stage, const Push& push, std::uint64_t most);
    void wait_for_memory(VkPipelineStageFlags from, VkPipelineStageFlags to);
    void submit_and_wait();

    const Abilities& abilities_;
    VkDevice device_ = VK_NULL_HANDLE;
    VolkDeviceTable vk_{};
    VkQueue queue_ = VK_NULL_HANDLE;
    VkCommandPool commands_ = VK_NULL_HANDLE;
    VkCommandBuffer command_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkSemaphore done_ = VK_NULL_HANDLE;
    std::uint64_t submitted_ = 0;

    /// Work was given to the device that nobody has waited for; nobody can any more.
    bool is_pending_ = false;
    bool is_lost_ = false;
    std::unique_ptr<MappedHeap> heap_;
    std::unique_ptr<Pool> pool_;
    std::mutex mutex_;
};

}  // namespace quern::vulkan
