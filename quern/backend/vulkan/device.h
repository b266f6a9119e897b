#pragma once

#include <volk.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/backend/vulkan/descriptors.h"
#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/heap.h"
#include "quern/backend/vulkan/newer_vulkan.h"
#include "quern/backend/vulkan/queue.h"
#include "quern/lir/iterations.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern::vulkan {

/// Whether a device has an extension, or, for none, the loader.
bool has_extension(VkPhysicalDevice device, std::string_view name);

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
    BuffersAre buffers = BuffersAre::Bound;

    /// It is a processor, whose invocations are no lanes.
    bool is_processor() const { return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }

    /// What lanes of a work-group may share, in bytes.
    std::uint32_t group_bytes() const;

    /// How many bindings a kernel may have; in how many of them a buffer of so many bytes is, of
    /// which pieces; and the bytes of the largest one that is in so many.
    std::uint32_t most_bindings() const;
    const char* name_of_most_bindings() const;
    std::uint32_t windows_for(std::uint64_t bytes) const;
    std::uint32_t window_bits() const;
    std::uint64_t largest_buffer(std::uint32_t windows) const;

    /// How many invocations of a work-group tell each other values; 1 if none do. Drivers that
    /// have several sizes are told this one, if `sets_subgroup`.
    std::uint32_t subgroup = 1;
    bool sets_subgroup = false;

    /// Whether no invocation of a subgroup is missing where a pipeline asks for that.
    bool has_full_subgroups = false;

    /// Whether it leaves out what Vulkan has every device have (kPortabilitySubset), of which
    /// nothing is of kernels.
    bool is_subset = false;

    /// What a subgroup multiplies at once, the largest first.
    std::vector<lir::Atom> atoms;

    /// Invocations of a work-group that does several points: a whole subgroup at least.
    std::uint32_t group = kGroup;

    /// What to switch on: those of them that the device has.
    VkPhysicalDeviceFeatures core{};
    VkPhysicalDeviceVulkan11Features v11{};
    VkPhysicalDeviceVulkan12Features v12{};
    CooperativeMatrixFeatures matrices;

    static constexpr std::uint32_t kNoQueue = ~std::uint32_t{0};
    std::uint32_t queue_family = kNoQueue;

    /// Of queues that only copy, which they do while others compute.
    std::uint32_t transfer_family = kNoQueue;
    std::int64_t memory = 0;

    /// Of it, in one piece.
    std::uint64_t largest_allocation = 0;

    /// Whether the host sees that memory.
    bool is_memory_seen = true;

private:
    void find_subgroups(VkPhysicalDevice device, VkDriverId driver);
    void find_atoms(VkPhysicalDevice device);
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
    Failure wait(std::uint64_t ticket);
    void wait_for_all() noexcept;
    Pool* pool(Failure& failure);
    Outcome upload(const Memory& memory);
    Outcome fetch(const Memory& memory);

    /// The process ends: waits for what was submitted, and from now on for each launch.
    void end() noexcept;

    /// This process is a child of fork(): the device and the driver's threads are its parent's, and
    /// nothing more is asked of it here.
    void leave_to_parent() noexcept;

    struct Stage {
        VkPipeline pipeline = VK_NULL_HANDLE;
        VkPipelineLayout layout = VK_NULL_HANDLE;
        std::uint32_t points_of_group = 1;

        /// Of a point.
        std::uint32_t invocations = 1;

        /// What is bound to it where buffers have no addresses.
        Bindings bindings;
    };

    /// Of a function and its module, whose work-groups do as many points as `groups` says, and take
    /// the size of subgroups for granted where it has one.
    Stage stage(const lir::Function& function, std::span<const std::uint32_t> module,
                const Groups& groups, const Windows& windows, const DriverCode* kept);
    void destroy(const Stage& stage) noexcept;

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
    struct Found;
    struct Recipe;

    void open(VkPhysicalDevice physical);
    void close() noexcept;
    Taken take(Area& area, std::size_t bytes);
    Area& seen() const { return staging_ ? *staging_ : *own_; }
    Found found(const DeviceHeap::Place& place, std::uint64_t bytes) const;
    Recipe prepare(const Work& work, Blocks& blocks) const;
    void bind(const Work& work, std::span<const Found> buffers, const Found& table,
              const Found& scratch, Recipe& recipe) const;
    void record(const Work& work, const Recipe& recipe);
    void dispatch(const Stage& stage, VkDescriptorSet set, const Push& push, std::uint64_t most,
                  std::uint64_t each);
    VkPipeline pipeline(std::span<const std::uint32_t> module, VkPipelineLayout layout,
                        const Groups& groups, const DriverCode* kept);
    void submit(Queue& queue);
    void submit_and_wait(Queue& queue, std::unique_lock<std::mutex>& lock);
    void wait_for(Queue& queue, std::uint64_t ticket, std::unique_lock<std::mutex>& lock);
    void wait_for_submitted() const;
    void reclaim();

    /// What copies between tensors and the host: a queue of its own, or the one that computes.
    Queue& mover() { return transfers_ ? *transfers_ : *queue_; }
    Lent* lent_at(const std::byte* data) const;
    void begin_after_moves(const Work& work);
    void see_launches();

    /// Calls `body` with the lock, memory that is given back, whether commands are recorded that
    /// use it, and the outcome, in which errors go.
    template <class Body>
    Outcome attempt(const Body& body);
    void lose(const VulkanError& error);
    bool is_there() const { return !is_parents_ && lost_.empty(); }
    Failure lost() const;

    const Abilities& abilities_;
    VkDevice device_ = VK_NULL_HANDLE;
    VolkDeviceTable vk_{};
    std::unique_ptr<DescriptorSets> sets_;

    /// Of tensors and of what kernels need beside them.
    std::unique_ptr<Area> own_;

    /// What the host sees, where that is not the same.
    std::unique_ptr<Area> staging_;

    /// Of one submission.
    std::uint64_t most_work_ = 0;

    /// Of what follows.
    std::mutex mutex_;
    std::unique_ptr<Queue> queue_;

    /// None where the host sees the device's memory, or there is no family of such queues.
    std::unique_ptr<Queue> transfers_;

    /// Memory of tensors by its address, where there are transfers.
    std::map<const std::byte*, Lent*> lent_;

    /// Memory of tensors that are gone, which the device may still use.
    Lent* returned_ = nullptr;

    /// The last ticket that is known to have ended, and that of a transfer.
    std::uint64_t ended_ = kBeforeAll;
    std::uint64_t moved_ = kBeforeAll;

    /// The last ticket that the host has waited for. Of others it is not known that the device was
    /// not lost before they ended.
    std::uint64_t waited_ = kBeforeAll;

    /// The last transfer that the queue of launches has waited for.
    std::uint64_t seen_moves_ = 0;

    /// What is launched now is waited for, and memory is left alone.
    bool is_ending_ = false;

    /// This process is a child of the one that opened it; set by its only thread.
    bool is_parents_ = false;

    /// How the device was lost, or empty.
    std::string lost_;
};

}  // namespace quern::vulkan
