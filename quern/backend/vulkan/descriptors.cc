#include "quern/backend/vulkan/descriptors.h"

#include <utility>

#include "quern/backend/vulkan/queue.h"

namespace quern::vulkan {
namespace {

/// Made at a time.
constexpr std::uint32_t kSets = 16;

}  // namespace

DescriptorSets::~DescriptorSets() {
    for (const VkDescriptorPool pool : pools_) {
        vk_.vkDestroyDescriptorPool(device_, pool, nullptr);
    }
    for (const auto& [bindings, layout] : layouts_) {
        vk_.vkDestroyPipelineLayout(device_, layout.pipeline, nullptr);
        vk_.vkDestroyDescriptorSetLayout(device_, layout.set, nullptr);
    }
}

VkPipelineLayout DescriptorSets::layout(std::uint32_t bindings) {
    const std::lock_guard lock(mutex_);
    return find(bindings).pipeline;
}

DescriptorSets::Layout& DescriptorSets::find(std::uint32_t bindings) {
    Layout& layout = layouts_[bindings];
    if (!layout.pipeline) make(layout, bindings);
    return layout;
}

void DescriptorSets::make(Layout& layout, std::uint32_t bindings) {
    std::vector<VkDescriptorSetLayoutBinding> all(bindings);
    for (std::uint32_t i = 0; i < bindings; ++i) {
        all[i] = {.binding = i,
                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                  .descriptorCount = 1,
                  .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    }
    const VkDescriptorSetLayoutCreateInfo set{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = bindings,
        .pBindings = all.data()};
    // One that the last attempt left is used.
    if (bindings > 0 && !layout.set) {
        check(vk_.vkCreateDescriptorSetLayout(device_, &set, nullptr, &layout.set),
              "vkCreateDescriptorSetLayout");
    }
    const VkPushConstantRange pushed{VK_SHADER_STAGE_COMPUTE_BIT, 0, pushed_};
    const VkPipelineLayoutCreateInfo about{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                           .setLayoutCount = bindings > 0 ? 1u : 0u,
                                           .pSetLayouts = &layout.set,
                                           .pushConstantRangeCount = 1,
                                           .pPushConstantRanges = &pushed};
    check(vk_.vkCreatePipelineLayout(device_, &about, nullptr, &layout.pipeline),
          "vkCreatePipelineLayout");
}

void DescriptorSets::make_spare(Layout& layout, std::uint32_t bindings) {
    layout.spare.reserve(layout.all + kSets);
    pools_.reserve(pools_.size() + 1);
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSets * bindings};
    const VkDescriptorPoolCreateInfo about{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                           .maxSets = kSets,
                                           .poolSizeCount = 1,
                                           .pPoolSizes = &size};
    const std::vector<VkDescriptorSetLayout> layouts(kSets, layout.set);
    std::vector<VkDescriptorSet> sets(kSets);
    VkDescriptorPool pool = VK_NULL_HANDLE;
    check(vk_.vkCreateDescriptorPool(device_, &about, nullptr, &pool), "vkCreateDescriptorPool");
    const VkDescriptorSetAllocateInfo of{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                         .descriptorPool = pool,
                                         .descriptorSetCount = kSets,
                                         .pSetLayouts = layouts.data()};
    const VkResult result = vk_.vkAllocateDescriptorSets(device_, &of, sets.data());
    if (result != VK_SUCCESS) vk_.vkDestroyDescriptorPool(device_, pool, nullptr);
    check(result, "vkAllocateDescriptorSets");
    pools_.push_back(pool);
    layout.spare.insert(layout.spare.end(), sets.begin(), sets.end());
    layout.all += kSets;
}

DescriptorSets::Set DescriptorSets::bind(std::span<const VkDescriptorBufferInfo> buffers) {
    const auto bindings = std::uint32_t(buffers.size());
    std::vector<VkWriteDescriptorSet> writes(bindings);
    const std::lock_guard lock(mutex_);
    Layout& layout = find(bindings);
    if (layout.spare.empty()) make_spare(layout, bindings);
    const VkDescriptorSet set = layout.spare.back();
    layout.spare.pop_back();
    for (std::uint32_t i = 0; i < bindings; ++i) {
        writes[i] = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                     .dstSet = set,
                     .dstBinding = i,
                     .descriptorCount = 1,
                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                     .pBufferInfo = &buffers[i]};
    }
    vk_.vkUpdateDescriptorSets(device_, bindings, writes.data(), 0, nullptr);
    return {*this, layout, set};
}

DescriptorSets::Set::Set(Set&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)), layout_(other.layout_), set_(other.set_) {}

DescriptorSets::Set::~Set() {
    if (!from_) return;
    const std::lock_guard lock(from_->mutex_);
    layout_->spare.push_back(set_);
}

}  // namespace quern::vulkan
