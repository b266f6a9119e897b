#include "quern/backend/vulkan/device.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "quern/runtime/compiled.h"

namespace quern::vulkan {
namespace {

/// What arrays of lanes may take together.
constexpr std::size_t kMostScratch = std::size_t{64} << 20;

/// What the pool keeps that no launch uses.
constexpr std::size_t kIdle = std::size_t{256} << 20;

void check(VkResult result, const char* call) {
    if (result != VK_SUCCESS) throw VulkanError(call, result);
}

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
        case VK_TIMEOUT:
            return "no answer in time";
        default:
            return "VkResult " + std::to_string(int(result));
    }
}

}  // namespace

VulkanError::VulkanError(const char* call, VkResult result)
    : std::runtime_error(std::string(call) + ": " + name_of(result)) {}

MappedHeap::MappedHeap(VkPhysicalDevice physical, VkDevice device, const VolkDeviceTable& vk)
    : device_(device), vk_(vk) {
    vkGetPhysicalDeviceMemoryProperties(physical, &types_);
}

bool MappedHeap::make(Slab& slab, std::byte*& data) noexcept {
    const VkBufferCreateInfo about{
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = slab.bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    if (vk_.vkCreateBuffer(device_, &about, nullptr, &slab.buffer) != VK_SUCCESS) {
        slab.buffer = VK_NULL_HANDLE;
        return false;
    }
    VkMemoryRequirements needs{};
    vk_.vkGetBufferMemoryRequirements(device_, slab.buffer, &needs);
    const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                          .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    constexpr VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    // Asks for a feature that is not switched on.
    constexpr VkMemoryPropertyFlags uncached = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    // The device's own first, then what the host caches, then any that both see.
    constexpr VkMemoryPropertyFlags own = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    for (const VkMemoryPropertyFlags also : {own | cached, own, cached, VkMemoryPropertyFlags{0}}) {
        const VkMemoryPropertyFlags wanted = seen | also;
        for (std::uint32_t i = 0; i < types_.memoryTypeCount; ++i) {
            const VkMemoryType& type = types_.memoryTypes[i];
            const bool fits = (needs.memoryTypeBits >> i & 1) != 0 &&
                              (type.propertyFlags & wanted) == wanted &&
                              (type.propertyFlags & uncached) == 0 &&
                              needs.size <= types_.memoryHeaps[type.heapIndex].size;
            const VkMemoryAllocateInfo from{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .pNext = &flags,
                                            .allocationSize = needs.size,
                                            .memoryTypeIndex = i};
            if (!fits) continue;
            if (vk_.vkAllocateMemory(device_, &from, nullptr, &slab.memory) != VK_SUCCESS) {
                slab.memory = VK_NULL_HANDLE;
                continue;
            }
            void* mapped = nullptr;
            if (vk_.vkBindBufferMemory(device_, slab.buffer, slab.memory, 0) != VK_SUCCESS ||
                vk_.vkMapMemory(device_, slab.memory, 0, VK_WHOLE_SIZE, 0, &mapped) != VK_SUCCESS) {
                return false;
            }
            const VkBufferDeviceAddressInfo where{
                .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = slab.buffer};
            slab.address = vk_.vkGetBufferDeviceAddress(device_, &where);
            data = static_cast<std::byte*>(mapped);
            std::memset(data, 0, slab.bytes);
            return true;
        }
    }
    return false;
}

void MappedHeap::release(const Slab& slab) noexcept {
    vk_.vkDestroyBuffer(device_, slab.buffer, nullptr);
    vk_.vkFreeMemory(device_, slab.memory, nullptr);
}

std::byte* MappedHeap::take(std::size_t bytes) noexcept {
    Slab slab;
    slab.bytes = bytes;
    std::byte* data = nullptr;
    if (!make(slab, data)) {
        release(slab);
        return nullptr;
    }
    try {
        const std::lock_guard lock(mutex_);
        slabs_.emplace(data, slab);
    } catch (const std::bad_alloc&) {
        release(slab);
        return nullptr;
    }
    return data;
}

void MappedHeap::give_back(std::byte* memory, std::size_t) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = slabs_.find(memory);
    release(found->second);
    slabs_.erase(found);
}

std::uint64_t MappedHeap::address_of(const std::byte* data) const {
    const std::lock_guard lock(mutex_);
    const auto& [begin, slab] = *std::prev(slabs_.upper_bound(data));
    return slab.address + std::uint64_t(data - begin);
}

/// Memory for one launch.
class GpuDevice::Blocks {
public:
    struct Piece {
        std::byte* host = nullptr;
        std::uint64_t address = 0;
    };

    explicit Blocks(GpuDevice& device) : device_(device) {}
    ~Blocks() {
        for (Pool::Block* block : all_) device_.pool_->free(block);
    }
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;

    Piece take(std::size_t bytes) {
        all_.reserve(all_.size() + 1);
        Pool::Block* const block = device_.pool_->allocate(std::max<std::size_t>(bytes, 1));
        if (!block) {
            missing_ = bytes;
            throw VulkanError("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
        }
        all_.push_back(block);
        return {block->data(), device_.heap_->address_of(block->data())};
    }

    std::size_t missing() const { return missing_; }

    /// The device may still use them.
    void abandon() { all_.clear(); }

private:
    GpuDevice& device_;
    std::vector<Pool::Block*> all_;
    std::size_t missing_ = 0;
};

GpuDevice::GpuDevice(VkPhysicalDevice physical, const Abilities& abilities)
    : abilities_(abilities) {
    try {
        open(physical);
    } catch (...) {
        close();
        throw;
    }
}

void GpuDevice::open(VkPhysicalDevice physical) {
    VkPhysicalDeviceVulkan12Features v12 = abilities_.v12;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    v12.pNext = nullptr;
    VkPhysicalDeviceVulkan11Features v11 = abilities_.v11;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    v11.pNext = &v12;
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                        .queueFamilyIndex = abilities_.queue_family,
                                        .queueCount = 1,
                                        .pQueuePriorities = &priority};
    const VkDeviceCreateInfo about{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .pNext = &v11,
                                   .queueCreateInfoCount = 1,
                                   .pQueueCreateInfos = &queue,
                                   .pEnabledFeatures = &abilities_.core};
    check(vkCreateDevice(physical, &about, nullptr, &device_), "vkCreateDevice");
    volkLoadDeviceTable(&vk_, device_);
    vk_.vkGetDeviceQueue(device_, abilities_.queue_family, 0, &queue_);
    const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                       .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                       .queueFamilyIndex = abilities_.queue_family};
    check(vk_.vkCreateCommandPool(device_, &pool, nullptr, &commands_), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo buffer{
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = commands_,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    check(vk_.vkAllocateCommandBuffers(device_, &buffer, &command_), "vkAllocateCommandBuffers");
    const VkPushConstantRange pushed{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
    const VkPipelineLayoutCreateInfo layout{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                            .pushConstantRangeCount = 1,
                                            .pPushConstantRanges = &pushed};
    check(vk_.vkCreatePipelineLayout(device_, &layout, nullptr, &layout_),
          "vkCreatePipelineLayout");
    const VkSemaphoreTypeCreateInfo timeline{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                          .pNext = &timeline};
    check(vk_.vkCreateSemaphore(device_, &semaphore, nullptr, &done_), "vkCreateSemaphore");
    heap_ = std::make_unique<MappedHeap>(physical, device_, vk_);
    pool_ = std::make_unique<Pool>(*heap_, std::numeric_limits<std::size_t>::max(), kIdle);
}

GpuDevice::~GpuDevice() { close(); }

void GpuDevice::close() noexcept {
    if (!device_) return;
    vk_.vkDeviceWaitIdle(device_);
    pool_.reset();
    heap_.reset();
    vk_.vkDestroySemaphore(device_, done_, nullptr);
    vk_.vkDestroyPipelineLayout(device_, layout_, nullptr);
    vk_.vkDestroyCommandPool(device_, commands_, nullptr);
    vk_.vkDestroyDevice(device_, nullptr);
}

VkPipeline GpuDevice::pipeline(std::span<const std::uint32_t> module) {
    const VkShaderModuleCreateInfo code{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                        .codeSize = module.size_bytes(),
                                        .pCode = module.data()};
    VkShaderModule shader = VK_NULL_HANDLE;
    check(vk_.vkCreateShaderModule(device_, &code, nullptr, &shader), "vkCreateShaderModule");
    VkComputePipelineCreateInfo about{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                      .layout = layout_};
    about.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .module = shader,
                   .pName = "main"};
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result =
        vk_.vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &about, nullptr, &pipeline);
    vk_.vkDestroyShaderModule(device_, shader, nullptr);
    check(result, "vkCreateComputePipelines");
    return pipeline;
}

void GpuDevice::destroy(VkPipeline pipeline) { vk_.vkDestroyPipeline(device_, pipeline, nullptr); }

/// The points of a stage, as many at a time as a dispatch may have and as there is scratch for.
void GpuDevice::dispatch(const Stage& stage, const Push& push, std::uint64_t most) {
    vk_.vkCmdBindPipeline(command_, VK_PIPELINE_BIND_POINT_COMPUTE, stage.pipeline);
    const std::uint64_t groups_at_once = abilities_.properties.limits.maxComputeWorkGroupCount[0];
    // Invocations have numbers of 32 bits.
    constexpr std::uint64_t kMostInvocations = (std::uint64_t{1} << 32) - kGroup;
    most = std::min({most, groups_at_once * stage.points_of_group, kMostInvocations});
    const std::uint64_t end = push.end;
    Push part = push;
    for (std::uint64_t begin = 0; begin < end; begin += most) {
        part.begin = begin;
        part.end = std::min(end, begin + most);
        vk_.vkCmdPushConstants(command_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof part,
                               &part);
        const std::uint64_t groups =
            (part.end - part.begin + stage.points_of_group - 1) / stage.points_of_group;
        vk_.vkCmdDispatch(command_, std::uint32_t(groups), 1, 1);
        // The next part takes the same scratch, the next stage what this one wrote.
        wait_for_memory(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    }
}

void GpuDevice::wait_for_memory(VkPipelineStageFlags from, VkPipelineStageFlags to) {
    VkAccessFlags reads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    if (to == VK_PIPELINE_STAGE_HOST_BIT) reads = VK_ACCESS_HOST_READ_BIT;
    const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                  .dstAccessMask = reads};
    vk_.vkCmdPipelineBarrier(command_, from, to, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void GpuDevice::submit_and_wait() {
    const std::uint64_t value = ++submitted_;
    const VkTimelineSemaphoreSubmitInfo timeline{
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value};
    const VkSubmitInfo submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                              .pNext = &timeline,
                              .commandBufferCount = 1,
                              .pCommandBuffers = &command_,
                              .signalSemaphoreCount = 1,
                              .pSignalSemaphores = &done_};
    is_pending_ = true;
    check(vk_.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    const VkSemaphoreWaitInfo wait{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                   .semaphoreCount = 1,
                                   .pSemaphores = &done_,
                                   .pValues = &value};
    check(vk_.vkWaitSemaphores(device_, &wait, std::numeric_limits<std::uint64_t>::max()),
          "vkWaitSemaphores");
    is_pending_ = false;
}

namespace {

/// As lir::without_int64 and emit want it; what is larger, the interpreter runs.
bool is_addressed_by_32_bits(std::span<const Range> operands, Range output,
                             const ReadyLaunch& launch) {
    const auto fits = [](std::uint64_t bytes) { return bytes < std::uint64_t{1} << 31; };
    return std::ranges::all_of(operands, [&](const Range& r) { return fits(r.bytes); }) &&
           fits(output.bytes) && std::ranges::all_of(launch.shared, fits) && fits(launch.local);
}

}  // namespace

Outcome GpuDevice::run(std::span<const Stage> stages, const KernelImage& image,
                       const ReadyLaunch& launch, std::span<const Range> operands, Range output,
                       bool keeps_output) {
    const std::lock_guard lock(mutex_);
    Outcome outcome;
    if (is_lost_) {
        outcome.error = "the device is lost";
        return outcome;
    }
    if (!abilities_.integers.has_64 && !is_addressed_by_32_bits(operands, output, launch)) {
        outcome.has_failed = true;
        return outcome;
    }
    Blocks blocks(*this);
    try {
        std::vector<std::uint64_t> addresses(image.buffer_count, 0);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const auto piece = blocks.take(operands[i].bytes);
            if (operands[i].bytes > 0) {
                std::memcpy(piece.host, operands[i].data, operands[i].bytes);
            }
            addresses[i] = piece.address + operands[i].offset;
        }
        const auto result = blocks.take(output.bytes);
        if (keeps_output && output.bytes > 0) {
            std::memcpy(result.host, output.data, output.bytes);
        }
        addresses[operands.size()] = result.address;
        for (std::size_t i = 0; i < image.shared.size(); ++i) {
            addresses[image.shared[i].buffer] = blocks.take(launch.shared[i]).address;
        }
        std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        std::uint64_t points = 0;
        for (const auto& stage : launch.stages)
            points = std::max(points, std::uint64_t(stage.points));
        if (launch.local > 0) {
            most = std::max<std::uint64_t>(kMostScratch / launch.local, 1);
            if (most > kGroup) most = most / kGroup * kGroup;
        }
        const std::uint64_t at_once = std::min(points, most);
        Push push;
        push.scratch_bytes = launch.local;
        if (launch.local > 0) push.scratch = blocks.take(launch.local * at_once).address;

        // One block: whether an assertion failed, addresses, and the words of each stage.
        std::size_t words = 1 + addresses.size();
        for (const auto& stage : launch.stages) words += stage.words.size();
        const auto table = blocks.take(words * sizeof(std::uint64_t));
        std::vector<std::uint64_t> content{0};
        content.insert(content.end(), addresses.begin(), addresses.end());
        push.failed = table.address;
        push.buffers = table.address + sizeof(std::uint64_t);

        check(vk_.vkResetCommandPool(device_, commands_, 0), "vkResetCommandPool");
        const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                             .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
        check(vk_.vkBeginCommandBuffer(command_, &begin), "vkBeginCommandBuffer");
        for (std::size_t i = 0; i < launch.stages.size(); ++i) {
            push.words = table.address + content.size() * sizeof(std::uint64_t);
            push.end = std::uint64_t(launch.stages[i].points);
            content.insert(content.end(), launch.stages[i].words.begin(),
                           launch.stages[i].words.end());
            dispatch(stages[i], push, most);
        }
        wait_for_memory(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT);
        check(vk_.vkEndCommandBuffer(command_), "vkEndCommandBuffer");
        std::memcpy(table.host, content.data(), content.size() * sizeof(std::uint64_t));
        submit_and_wait();
        const auto says = [&](std::size_t why) {
            std::uint32_t word = 0;
            std::memcpy(&word, table.host + why, sizeof word);
            return word != 0;
        };
        outcome.has_failed = says(kAssertionFailed);
        outcome.is_cut = says(kLoopCut) && !outcome.has_failed;
        if (output.bytes > 0) std::memcpy(output.data, result.host, output.bytes);
    } catch (const VulkanError& error) {
        outcome.error = error.what();
        outcome.out_of_memory = blocks.missing();
        if (is_pending_ && vk_.vkDeviceWaitIdle(device_) != VK_SUCCESS) {
            is_lost_ = true;
            blocks.abandon();
        }
        is_pending_ = false;
    }
    return outcome;
}

}  // namespace quern::vulkan
