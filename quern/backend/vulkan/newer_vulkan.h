#pragma once

#include <volk.h>

#include <cstdint>

// What headers of Vulkan 1.3.239 (Debian 12) lack: VK_KHR_cooperative_matrix (2023), and what is in
// vulkan_beta.h only. Names and numbers are Khronos's.

namespace quern::vulkan {

inline constexpr const char* kPortabilitySubset = "VK_KHR_portability_subset";

inline constexpr const char* kCooperativeMatrix = "VK_KHR_cooperative_matrix";

inline constexpr auto kCooperativeMatrixFeatures = VkStructureType(1000506000);
inline constexpr auto kCooperativeMatrixRow = VkStructureType(1000506001);
inline constexpr auto kCooperativeMatrixProperties = VkStructureType(1000506002);

struct CooperativeMatrixFeatures {
    VkStructureType sType = kCooperativeMatrixFeatures;
    void* pNext = nullptr;
    VkBool32 cooperativeMatrix = VK_FALSE;
    VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

struct CooperativeMatrixProperties {
    VkStructureType sType = kCooperativeMatrixProperties;
    void* pNext = nullptr;
    VkShaderStageFlags cooperativeMatrixSupportedStages = 0;
};

/// Types of components: 0 is float16, 1 float32.
struct CooperativeMatrixRow {
    VkStructureType sType = kCooperativeMatrixRow;
    void* pNext = nullptr;
    std::uint32_t MSize = 0, NSize = 0, KSize = 0;
    std::uint32_t AType = 0, BType = 0, CType = 0, ResultType = 0;
    VkBool32 saturatingAccumulation = VK_FALSE;
    std::uint32_t scope = 0;
};

/// `rows`: CooperativeMatrixRow, or none to count them. Whoever defines the function has a type of
/// its own for them, and sanitizers compare the types of functions.
using GetCooperativeMatrixRows = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t* count,
                                                      void* rows);

}  // namespace quern::vulkan
