#include <algorithm>
#include <cstring>
#include <utility>

#include "quern/backend/vulkan/device.h"

namespace quern::vulkan {
namespace {

/// What the driver has made of one module before, and what it makes now.
class PipelineCache {
public:
    PipelineCache(const VolkDeviceTable& vk, VkDevice device, const Abilities& abilities,
                  const DriverCode* kept, std::string key)
        : vk_(vk), device_(device), kept_(kept), key_(std::move(key)) {
        if (!kept_) return;
        before_ = kept_->read(key_).value_or(std::vector<std::byte>());
        // Drivers should look at the header themselves, and some do not.
        if (!is_of(abilities.properties)) before_.clear();
        const VkPipelineCacheCreateInfo about{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                              .initialDataSize = before_.size(),
                                              .pInitialData = before_.data()};
        if (vk_.vkCreatePipelineCache(device_, &about, nullptr, &cache_) != VK_SUCCESS) {
            cache_ = VK_NULL_HANDLE;
        }
    }
    ~PipelineCache() { vk_.vkDestroyPipelineCache(device_, cache_, nullptr); }
    PipelineCache(const PipelineCache&) = delete;
    PipelineCache& operator=(const PipelineCache&) = delete;

    /// Null where there is none.
    VkPipelineCache get() const { return cache_; }

    /// Keeps what is new, if the driver gives any. A pipeline needs none of it.
    void keep() const {
        std::size_t size = 0;
        if (!cache_ || vk_.vkGetPipelineCacheData(device_, cache_, &size, nullptr) != VK_SUCCESS) {
            return;
        }
        std::vector<std::byte> now(size);
        const VkResult got = vk_.vkGetPipelineCacheData(device_, cache_, &size, now.data());
        if (got != VK_SUCCESS || size <= sizeof(Header)) return;
        now.resize(size);
        if (now != before_) kept_->write(key_, now);
    }

private:
    using Header = VkPipelineCacheHeaderVersionOne;

    bool is_of(const VkPhysicalDeviceProperties& device) const {
        if (before_.size() < sizeof(Header)) return false;
        Header header;
        std::memcpy(&header, before_.data(), sizeof header);
        return header.headerSize == sizeof header &&
               header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
               header.vendorID == device.vendorID && header.deviceID == device.deviceID &&
               std::ranges::equal(header.pipelineCacheUUID, device.pipelineCacheUUID);
    }

    const VolkDeviceTable& vk_;
    VkDevice device_;
    const DriverCode* kept_;
    std::string key_;
    std::vector<std::byte> before_;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
};

std::string key_of(std::span<const std::uint32_t> module, const Groups& groups,
                   const Abilities& abilities) {
    std::string key = "vulkan pipeline\n" + abilities.driver() + "\n" +
                      std::to_string(groups.subgroup) + "\n" + std::to_string(groups.invocations) +
                      "\n";
    key.append(reinterpret_cast<const char*>(module.data()), module.size_bytes());
    return key;
}

}  // namespace

GpuDevice::Stage GpuDevice::stage(const lir::Function& function,
                                  std::span<const std::uint32_t> module, const Groups& groups,
                                  const Windows& windows, const DriverCode* kept) {
    {
        const std::lock_guard lock(mutex_);
        if (const Failure failure = lost()) throw VulkanError(failure);
    }
    Stage stage{.points_of_group = groups.points,
                .invocations = function.lanes,
                .bindings = bindings_of(function, windows)};
    const bool is_bound = abilities_.buffers == BuffersAre::Bound;
    stage.layout = sets_->layout(is_bound ? stage.bindings.count() : 0);
    stage.pipeline = pipeline(module, stage.layout, groups, kept);
    return stage;
}

VkPipeline GpuDevice::pipeline(std::span<const std::uint32_t> module, VkPipelineLayout layout,
                               const Groups& groups, const DriverCode* kept) {
    const VkShaderModuleCreateInfo code{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                        .codeSize = module.size_bytes(),
                                        .pCode = module.data()};
    const PipelineCache cache(vk_, device_, abilities_, kept,
                              kept ? key_of(module, groups, abilities_) : std::string());
    VkShaderModule shader = VK_NULL_HANDLE;
    check(vk_.vkCreateShaderModule(device_, &code, nullptr, &shader), "vkCreateShaderModule");
    VkComputePipelineCreateInfo about{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                      .layout = layout};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT size{
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = abilities_.subgroup};
    const VkSpecializationMapEntry invocations{
        .constantID = kInvocationsOfGroup, .offset = 0, .size = sizeof groups.invocations};
    const VkSpecializationInfo chosen{.mapEntryCount = 1,
                                      .pMapEntries = &invocations,
                                      .dataSize = sizeof groups.invocations,
                                      .pData = &groups.invocations};
    // The place of a lane in its subgroup is taken from its number in the group.
    const bool are_full = groups.subgroup > 1 && abilities_.has_full_subgroups &&
                          groups.invocations % abilities_.subgroup == 0;
    constexpr VkPipelineShaderStageCreateFlags full =
        VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    about.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .pNext = groups.subgroup > 1 && abilities_.sets_subgroup ? &size : nullptr,
                   .flags = are_full ? full : 0u,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .module = shader,
                   .pName = "main",
                   .pSpecializationInfo = &chosen};
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result =
        vk_.vkCreateComputePipelines(device_, cache.get(), 1, &about, nullptr, &pipeline);
    vk_.vkDestroyShaderModule(device_, shader, nullptr);
    check(result, "vkCreateComputePipelines");
    try {
        cache.keep();
    } catch (...) {
        vk_.vkDestroyPipeline(device_, pipeline, nullptr);
        throw;
    }
    return pipeline;
}

void GpuDevice::destroy(const Stage& stage) noexcept {
    if (!is_parents_) vk_.vkDestroyPipeline(device_, stage.pipeline, nullptr);
}

}  // namespace quern::vulkan
