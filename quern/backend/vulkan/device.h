#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/queue.h"
#include "quern/lir/iterations.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern::vulkan {

/// What a physical device has of what kernels may use.
struct Abilities {
    explicit Abilities(VkPhysicalDevice device);

    /// What every kernel needs and the device lacks, or empty.
    std::string missing() const;

    /// The device and the version of its driver.
    std::string driver() const;

    /// The first capability of a module that the device lacks, or empty.
    std::string lacks(std::span<const std::uint32_t> module) const;

    VkPhysicalDeviceProperties properties{};
    FloatControls controls;
    Integers integers;

    /// How many invocations of a work-group tell each other values; 1 if none do. Drivers that
    /// have several sizes are told this one, if `sets_subgroup`.
    std::uint32_t subgroup = 1;
    bool sets_subgroup = false;

    /// What to switch on: those of them that the device has.
    VkPhysicalDeviceFeatures core{};
    VkPhysicalDeviceVulkan11Features v11{};
    VkPhysicalDeviceVulkan12Features v12{};

    static constexpr std::uint32_t kNoQueue = ~std::uint32_t{0};
    std::uint32_t queue_family = kNoQueue;
    std::int64_t memory = 0;

private:
    void find_subgroups(VkPhysicalDevice device, VkDriverId driver);
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

/// A device in use. Thread-safe.
class GpuDevice {
public:
    GpuDevice(VkPhysicalDevice physical, const Abilities& abilities);
    ~GpuDevice();
    GpuDevice(const GpuDevice&) = delete;
    GpuDevice& operator=(const GpuDevice&) = delete;

    /// As Driver has them.
    Memory allocate(std::size_t bytes);
    void free(const Memory& memory, std::uint64_t ticket) noexcept;
    std::string wait(std::uint64_t ticket);

    /// Waits for what was submitted, when the process ends.
    void finish() noexcept;

    struct Stage {
        VkPipeline pipeline = VK_NULL_HANDLE;
        std::uint32_t points_of_group = 1;

        /// Of a point.
        std::uint32_t invocations = 1;
    };

    /// `has_subgroups`: its code takes their size for granted.
    VkPipeline pipeline(std::span<const std::uint32_t> module, bool has_subgroups);
    void destroy(VkPipeline pipeline);

    /// What one launch is.
    struct Work {
        std::span<const Stage> stages;
        const KernelImage& image;
        const ReadyLaunch& launch;
        std::span<const Range> operands;
        Range output;
        bool keeps_output = false;

        /// What a point of each stage takes.
        std::span<const lir::Bounds> bounds;

        /// Whether an invocation may say why it ended early.
        bool may_fail = false;

        /// Owns the pipelines.
        std::shared_ptr<const void> code;
    };

    /// As Driver has it.
    Outcome run(const Work& work);

    /// Whether its driver leaves loops too early.
    bool cuts_loops() const { return abilities_.controls.cuts_loops; }

private:
    class Blocks;
    struct Lent;
    struct Recipe;

    void open(VkPhysicalDevice physical);
    void close() noexcept;
    Pool::Block* take(std::size_t bytes);
    Recipe prepare(const Work& work, Blocks& blocks) const;
    void record(const Work& work, const Recipe& recipe);
    void dispatch(const Stage& stage, const Push& push, std::uint64_t most, std::uint64_t each);
    void submit();
    void reclaim();
    void lose(const VulkanError& error);

    const Abilities& abilities_;
    VkDevice device_ = VK_NULL_HANDLE;
    VolkDeviceTable vk_{};
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    std::unique_ptr<MappedHeap> heap_;
    std::unique_ptr<Pool> pool_;

    /// Of one submission.
    std::uint64_t most_work_ = 0;

    /// Of what follows.
    std::mutex mutex_;
    std::unique_ptr<Queue> queue_;

    /// Memory of tensors that are gone, which the device may still use.
    Lent* returned_ = nullptr;

    /// The last ticket that is known to have ended.
    std::uint64_t ended_ = 0;

    /// The process ends: what is launched now is waited for, and memory is left alone.
    bool is_ending_ = false;

    /// Why the device cannot be used any more, or empty.
    std::string lost_;
};

}  // namespace quern::vulkan
