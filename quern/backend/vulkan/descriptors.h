#pragma once

#include <volk.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace quern::vulkan {

/// Sets of storage buffers, one binding each, and the layouts of pipelines that are given one. Sets
/// that are given back are used again. Thread-safe.
class DescriptorSets {
public:
    /// `pushed`: bytes of the constants that a dispatch pushes.
    DescriptorSets(VkDevice device, const VolkDeviceTable& vk, std::uint32_t pushed)
        : device_(device), vk_(vk), pushed_(pushed) {}

    /// No set may be in use.
    ~DescriptorSets();
    DescriptorSets(const DescriptorSets&) = delete;
    DescriptorSets& operator=(const DescriptorSets&) = delete;

    /// Of pipelines that are given a set of so many bindings; none if that is 0.
    VkPipelineLayout layout(std::uint32_t bindings);

    class Set;

    /// A set with these buffers in its bindings.
    Set bind(std::span<const VkDescriptorBufferInfo> buffers);

private:
    struct Layout {
        VkDescriptorSetLayout set = VK_NULL_HANDLE;
        VkPipelineLayout pipeline = VK_NULL_HANDLE;

        /// Has room for all that there are.
        std::vector<VkDescriptorSet> spare;
        std::size_t all = 0;
    };

    Layout& find(std::uint32_t bindings);
    void make(Layout& layout, std::uint32_t bindings);
    void make_spare(Layout& layout, std::uint32_t bindings);

    VkDevice device_;
    const VolkDeviceTable& vk_;
    std::uint32_t pushed_;
    std::mutex mutex_;
    std::map<std::uint32_t, Layout> layouts_;
    std::vector<VkDescriptorPool> pools_;
};

/// A set in use, which is given back when this ends.
class DescriptorSets::Set {
public:
    Set(DescriptorSets& from, Layout& layout, VkDescriptorSet set)
        : from_(&from), layout_(&layout), set_(set) {}
    Set(Set&& other) noexcept;
    Set& operator=(Set&&) = delete;
    ~Set();

    VkDescriptorSet get() const { return set_; }

private:
    DescriptorSets* from_;
    Layout* layout_;
    VkDescriptorSet set_;
};

}  // namespace quern::vulkan
