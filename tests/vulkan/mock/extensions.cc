// Extensions that a driver is said to have, and does not.

#include <cstring>
#include <string>

#include "tests/vulkan/mock/orders.h"

namespace quern::mock {
namespace {

constexpr const char* kMatrices = "VK_KHR_cooperative_matrix";
constexpr const char* kPortability = "VK_KHR_portability_subset";
constexpr const char* kSubgroupSizes = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;

/// Newer than the headers.
constexpr auto kMatrixFeatures = VkStructureType(1000506000);
constexpr auto kMatrixProperties = VkStructureType(1000506002);
constexpr auto kSizeFeatures = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT;
constexpr auto kSizeProperties =
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT;

struct MatrixFeatures {
    VkStructureType type;
    void* next;
    VkBool32 has, is_robust;
};
struct MatrixProperties {
    VkStructureType type;
    void* next;
    VkShaderStageFlags stages;
};
struct MatrixRow {
    VkStructureType type;
    void* next;
    std::uint32_t rows, columns, depth, left, right, sum, result;
    VkBool32 saturates;
    std::uint32_t scope;
};

/// Takes a structure out of a chain, which the driver and the validation layer do not know.
VkBaseOutStructure* taken_out(void* chain, VkStructureType type) {
    for (auto* last = static_cast<VkBaseOutStructure*>(chain); last->pNext; last = last->pNext) {
        if (last->pNext->sType != type) continue;
        VkBaseOutStructure* const found = last->pNext;
        last->pNext = found->pNext;
        return found;
    }
    return nullptr;
}

void put_back(void* chain, VkBaseOutStructure* structure) {
    auto* const first = static_cast<VkBaseOutStructure*>(chain);
    structure->pNext = first->pNext;
    first->pNext = structure;
}

/// The extension that is said to be there, or null.
const char* said() {
    if (is("no matrices")) return kMatrices;
    if (is("portability")) return kPortability;
    return is("told subgroups") ? kSubgroupSizes : nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char* layer,
                                          std::uint32_t* count, VkExtensionProperties* all) {
    const auto real_extensions =
        real<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties");
    std::uint32_t own = 0;
    real_extensions(device, layer, &own, nullptr);
    if (all) {
        real_extensions(device, layer, &own, all);
        std::strcpy(all[own].extensionName, said());
    }
    *count = own + 1;
    return VK_SUCCESS;
}

/// 8 x 8 x 8 of float16 in float32, of a subgroup.
VKAPI_ATTR VkResult VKAPI_CALL matrix_rows(VkPhysicalDevice, std::uint32_t* count, void* rows) {
    *count = 1;
    auto* const row = static_cast<MatrixRow*>(rows);
    if (row) *row = {row->type, row->next, 8, 8, 8, 0, 0, 1, 1, VK_FALSE, 3};
    return VK_SUCCESS;
}

bool sees_portable = false;

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* about,
                                               const VkAllocationCallbacks* from,
                                               VkInstance* made) {
    const auto* const names = about->ppEnabledExtensionNames;
    for (std::uint32_t i = 0; i < about->enabledExtensionCount; ++i) {
        const std::string name = names[i];
        sees_portable |= name == VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    }
    sees_portable &= (about->flags & VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR) != 0;
    return real<PFN_vkCreateInstance>("vkCreateInstance")(about, from, made);
}

/// Without the extension and its features. A device that is a subset is none without it.
VKAPI_ATTR VkResult VKAPI_CALL create_without(VkPhysicalDevice device,
                                              const VkDeviceCreateInfo* about,
                                              const VkAllocationCallbacks* from, VkDevice* made) {
    VkDeviceCreateInfo other = *about;
    std::vector<const char*> names;
    for (std::uint32_t i = 0; i < about->enabledExtensionCount; ++i) {
        const char* const name = about->ppEnabledExtensionNames[i];
        if (std::strcmp(name, said()) != 0) names.push_back(name);
    }
    if (is("portability")) {
        say_here();
        if (names.size() == about->enabledExtensionCount) return VK_ERROR_EXTENSION_NOT_PRESENT;
    }
    other.enabledExtensionCount = std::uint32_t(names.size());
    other.ppEnabledExtensionNames = names.data();
    taken_out(&other, kMatrixFeatures);
    if (is("told subgroups")) taken_out(&other, kSizeFeatures);
    return real<PFN_vkCreateDevice>("vkCreateDevice")(device, &other, from, made);
}

/// Says what the driver is told of subgroups, which the real one has no other of.
VKAPI_ATTR VkResult VKAPI_CALL create_told(VkDevice device, VkPipelineCache cache,
                                           std::uint32_t count,
                                           const VkComputePipelineCreateInfo* all,
                                           const VkAllocationCallbacks* from, VkPipeline* made) {
    constexpr VkPipelineShaderStageCreateFlags full =
        VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    std::vector<VkComputePipelineCreateInfo> others(all, all + count);
    for (VkComputePipelineCreateInfo& other : others) {
        const auto* const size =
            static_cast<const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT*>(
                other.stage.pNext);
        if (size) {
            say_here();
            std::fprintf(stderr, "mock: subgroups of %u%s\n", size->requiredSubgroupSize,
                         other.stage.flags & full ? ", full" : "");
        }
        other.stage.pNext = nullptr;
        other.stage.flags &= ~full;
    }
    return real<PFN_vkCreateComputePipelines>("vkCreateComputePipelines")(
        device, cache, count, others.data(), from, made);
}

}  // namespace

bool hides_portable_devices() { return is("portability") && !sees_portable; }

void properties_of_extensions(VkPhysicalDevice device, VkPhysicalDeviceProperties2* got) {
    VkBaseOutStructure* const matrices =
        is("no matrices") ? taken_out(got, kMatrixProperties) : nullptr;
    VkBaseOutStructure* const sizes =
        is("told subgroups") ? taken_out(got, kSizeProperties) : nullptr;
    real<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(device, got);
    if (matrices) {
        reinterpret_cast<MatrixProperties*>(matrices)->stages = VK_SHADER_STAGE_COMPUTE_BIT;
        put_back(got, matrices);
    }
    if (!sizes) return;
    // The one that there is.
    const auto& one = *static_cast<VkPhysicalDeviceSubgroupProperties*>(got->pNext);
    auto& to_choose = *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlPropertiesEXT*>(sizes);
    to_choose.minSubgroupSize = to_choose.maxSubgroupSize = one.subgroupSize;
    to_choose.maxComputeWorkgroupSubgroups = 128;
    to_choose.requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
    put_back(got, sizes);
}

void features_of_extensions(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* got) {
    VkBaseOutStructure* const matrices =
        is("no matrices") ? taken_out(got, kMatrixFeatures) : nullptr;
    VkBaseOutStructure* const sizes =
        is("told subgroups") ? taken_out(got, kSizeFeatures) : nullptr;
    real<PFN_vkGetPhysicalDeviceFeatures2>("vkGetPhysicalDeviceFeatures2")(device, got);
    if (matrices) {
        reinterpret_cast<MatrixFeatures*>(matrices)->has = VK_TRUE;
        put_back(got, matrices);
    }
    if (!sizes) return;
    auto& features = *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlFeaturesEXT*>(sizes);
    features.subgroupSizeControl = features.computeFullSubgroups = VK_TRUE;
    put_back(got, sizes);
}

PFN_vkVoidFunction of_extensions(const char* name) {
    const std::string function = name;
    if (!said()) return nullptr;
    if (function == "vkEnumerateDeviceExtensionProperties") {
        return PFN_vkVoidFunction(&extensions);
    }
    if (function == "vkCreateDevice") return PFN_vkVoidFunction(&create_without);
    if (is("portability") && function == "vkCreateInstance") {
        return PFN_vkVoidFunction(&create_instance);
    }
    if (is("told subgroups") && function == "vkCreateComputePipelines") {
        return PFN_vkVoidFunction(&create_told);
    }
    if (is("no matrices") && function == "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR") {
        return PFN_vkVoidFunction(&matrix_rows);
    }
    return nullptr;
}

}  // namespace quern::mock
