#include <algorithm>
#include <bit>
#include <iterator>
#include <spirv/unified1/spirv.hpp11>
#include <string_view>

#include "quern/backend/vulkan/device.h"
#include "quern/backend/vulkan/module.h"
#include "quern/backend/vulkan/newer_spirv.h"
#include "quern/backend/vulkan/targets.h"

namespace quern::vulkan {
namespace {

/// Features that kernels may use: what a module calls them, and where Vulkan has them.
struct Feature {
    const char* name;
    spv::Capability capability;
    VkBool32& (*flag)(Abilities&);
    bool is_needed;
};

const Feature kFeatures[] = {
    {"bufferDeviceAddress", spv::Capability::PhysicalStorageBufferAddresses,
     [](Abilities& a) -> VkBool32& { return a.v12.bufferDeviceAddress; }, false},
    {"timelineSemaphore", spv::Capability::Max,
     [](Abilities& a) -> VkBool32& { return a.v12.timelineSemaphore; }, true},
    {"vulkanMemoryModel", spv::Capability::VulkanMemoryModel,
     [](Abilities& a) -> VkBool32& { return a.v12.vulkanMemoryModel; }, false},
    {"shaderInt64", spv::Capability::Int64,
     [](Abilities& a) -> VkBool32& { return a.core.shaderInt64; }, false},
    {"shaderInt16", spv::Capability::Int16,
     [](Abilities& a) -> VkBool32& { return a.core.shaderInt16; }, false},
    {"shaderInt8", spv::Capability::Int8,
     [](Abilities& a) -> VkBool32& { return a.v12.shaderInt8; }, false},
    {"shaderFloat64", spv::Capability::Float64,
     [](Abilities& a) -> VkBool32& { return a.core.shaderFloat64; }, false},
    {"storageBuffer8BitAccess", spv::Capability::StorageBuffer8BitAccess,
     [](Abilities& a) -> VkBool32& { return a.v12.storageBuffer8BitAccess; }, false},
    {"shaderFloat16", spv::Capability::Float16,
     [](Abilities& a) -> VkBool32& { return a.v12.shaderFloat16; }, false},
    {"cooperativeMatrix", spirv::kCooperativeMatrixCapability,
     [](Abilities& a) -> VkBool32& { return a.matrices.cooperativeMatrix; }, false},
    {"storageBuffer16BitAccess", spv::Capability::StorageBuffer16BitAccess,
     [](Abilities& a) -> VkBool32& { return a.v11.storageBuffer16BitAccess; }, false},
};

VkBool32 flag(const Abilities& abilities, const Feature& feature) {
    return feature.flag(const_cast<Abilities&>(abilities));
}

/// Whether the driver has Mesa's compiler.
bool is_of_mesa(VkDriverId driver) {
    // Newer than headers may be.
    constexpr auto kImagination = VkDriverId(25), kHoneykrisp = VkDriverId(26);
    constexpr VkDriverId kAll[] = {VK_DRIVER_ID_MESA_RADV,
                                   VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
                                   VK_DRIVER_ID_MESA_LLVMPIPE,
                                   VK_DRIVER_ID_MESA_TURNIP,
                                   VK_DRIVER_ID_MESA_V3DV,
                                   VK_DRIVER_ID_MESA_PANVK,
                                   VK_DRIVER_ID_MESA_VENUS,
                                   VK_DRIVER_ID_MESA_DOZEN,
                                   VK_DRIVER_ID_MESA_NVK,
                                   kImagination,
                                   kHoneykrisp};
    return std::ranges::find(kAll, driver) != std::end(kAll);
}

/// Rows, columns or depth of a matrix: a tile has no more.
constexpr std::uint32_t kMostOfMatrix = 128;

}  // namespace

bool has_extension(VkPhysicalDevice device, std::string_view name) {
    const auto list = [&](std::uint32_t& count, VkExtensionProperties* all) {
        if (device) return vkEnumerateDeviceExtensionProperties(device, nullptr, &count, all);
        return vkEnumerateInstanceExtensionProperties(nullptr, &count, all);
    };
    std::uint32_t count = 0;
    list(count, nullptr);
    std::vector<VkExtensionProperties> extensions(count);
    list(count, extensions.data());
    extensions.resize(count);
    return std::ranges::any_of(extensions,
                               [&](const auto& each) { return each.extensionName == name; });
}

Abilities::Abilities(VkPhysicalDevice device) {
    VkPhysicalDeviceVulkan12Features all12{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features all11{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &all12};
    VkPhysicalDeviceFeatures2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                  .pNext = &all11};
    VkPhysicalDeviceFloatControlsProperties floats{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties allocations{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    floats.pNext = &driver;
    driver.pNext = &allocations;
    VkPhysicalDeviceProperties2 about{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                      .pNext = &floats};
    vkGetPhysicalDeviceProperties(device, &properties);
    // The structures of 1.2 mean nothing to an older device.
    if (properties.apiVersion < VK_API_VERSION_1_2) return;
    vkGetPhysicalDeviceFeatures2(device, &all);
    vkGetPhysicalDeviceProperties2(device, &about);
    largest_allocation = allocations.maxMemoryAllocationSize;
    Abilities has_all = *this;
    has_all.core = all.features;
    has_all.v11 = all11;
    has_all.v12 = all12;
    for (const Feature& feature : kFeatures) feature.flag(*this) = flag(has_all, feature);

    if (v12.bufferDeviceAddress && v12.vulkanMemoryModel) {
        buffers = BuffersAre::Addressed;
    } else {
        // With the memory model switched on, atomic operations need a feature for the scope of the
        // device.
        v12.bufferDeviceAddress = v12.vulkanMemoryModel = VK_FALSE;
    }
    integers = {.has_8 = bool(v12.shaderInt8),
                .has_16 = bool(core.shaderInt16),
                .has_64 = bool(core.shaderInt64),
                .loads_8 = bool(v12.storageBuffer8BitAccess),
                .loads_16 = bool(v11.storageBuffer16BitAccess)};
    is_subset = has_extension(device, kPortabilitySubset);
    find_subgroups(device, driver.driverID);
    find_atoms(device);
    // Behind Venus any driver may be.
    controls.folds_wrongly =
        driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE || driver.driverID == VK_DRIVER_ID_MESA_VENUS;
    controls.folds_casts = driver.driverID == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    controls.cuts_loops = controls.folds_wrongly;
    controls.converts_wrongly = is_of_mesa(driver.driverID);
    controls.has_few_places = driver.driverID == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    controls.keeps_nan16 = floats.shaderSignedZeroInfNanPreserveFloat16;
    controls.keeps_nan32 = floats.shaderSignedZeroInfNanPreserveFloat32;
    controls.keeps_nan64 = floats.shaderSignedZeroInfNanPreserveFloat64;
    controls.rounds_even16 = floats.shaderRoundingModeRTEFloat16;
    controls.rounds_even32 = floats.shaderRoundingModeRTEFloat32;
    controls.rounds_even64 = floats.shaderRoundingModeRTEFloat64;
    controls.keeps_denormals16 = floats.shaderDenormPreserveFloat16;
    controls.keeps_denormals32 = floats.shaderDenormPreserveFloat32;
    controls.keeps_denormals64 = floats.shaderDenormPreserveFloat64;
    // A mode of widths that are not independent is asked for in all that there are, or in none.
    const auto join = [&](VkShaderFloatControlsIndependence independence, bool& of16, bool& of32,
                          bool& of64) {
        if (independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL) return;
        const bool has16 = v12.shaderFloat16, has64 = core.shaderFloat64;
        const bool is_with_32 = independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
        const bool is_of_all = (of16 || !has16) && (of64 || !has64) && (of32 || !is_with_32);
        of16 = has16 && is_of_all;
        of64 = has64 && is_of_all;
        if (is_with_32) of32 = is_of_all;
    };
    join(floats.roundingModeIndependence, controls.rounds_even16, controls.rounds_even32,
         controls.rounds_even64);
    join(floats.denormBehaviorIndependence, controls.keeps_denormals16, controls.keeps_denormals32,
         controls.keeps_denormals64);
    controls.has_float16 = v12.shaderFloat16 && integers.has_16 && controls.rounds_even16;

    std::uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    for (std::uint32_t i = 0; i < count && queue_family == kNoQueue; ++i) {
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) queue_family = i;
    }
    VkPhysicalDeviceMemoryProperties heaps{};
    vkGetPhysicalDeviceMemoryProperties(device, &heaps);
    for (std::uint32_t i = 0; i < heaps.memoryHeapCount; ++i) {
        const bool is_own = heaps.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        if (is_own) memory = std::max(memory, std::int64_t(heaps.memoryHeaps[i].size));
    }
    is_memory_seen =
        host_sees_memory(heaps, properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
    // Where the host sees it nothing is copied. Queues of video copy too, and are for that.
    for (std::uint32_t i = 0; i < count && !is_memory_seen; ++i) {
        constexpr VkQueueFlags kAlso = VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
        const bool only_copies = (families[i].queueFlags & ~kAlso) == VK_QUEUE_TRANSFER_BIT;
        if (only_copies && transfer_family == kNoQueue) transfer_family = i;
    }
}

/// The size that Vulkan says is that of every pipeline only where a driver has no other: Intel's
/// choose one for each, and say the largest. They can be told, or have no subgroups.
void Abilities::find_subgroups(VkPhysicalDevice device, VkDriverId driver) {
    const bool has_sizes = has_extension(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT feature{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                       .pNext = &feature};
    VkPhysicalDeviceSubgroupProperties subgroups{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
        .pNext = has_sizes ? &sizes : nullptr};
    VkPhysicalDeviceProperties2 about{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                      .pNext = &subgroups};
    if (has_sizes) vkGetPhysicalDeviceFeatures2(device, &features);
    vkGetPhysicalDeviceProperties2(device, &about);
    const VkPhysicalDeviceLimits& limits = properties.limits;
    group = std::min({std::max(kGroup, subgroups.subgroupSize),
                      limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]});
    constexpr VkShaderStageFlags compute = VK_SHADER_STAGE_COMPUTE_BIT;
    const bool has_exchange = (subgroups.supportedStages & compute) &&
                              (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    if (!has_exchange) return;
    const bool has_one_size = driver == VK_DRIVER_ID_NVIDIA_PROPRIETARY ||
                              driver == VK_DRIVER_ID_MESA_LLVMPIPE ||
                              driver == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    if (feature.subgroupSizeControl && (sizes.requiredSubgroupSizeStages & compute)) {
        sets_subgroup = true;
        has_full_subgroups = feature.computeFullSubgroups;
        subgroup =
            std::clamp(std::uint32_t(kGroups.lanes), sizes.minSubgroupSize, sizes.maxSubgroupSize);
        // Rows of lanes in subgroups of that size may be too many.
        const std::uint32_t most = kGroups.lanes * kGroups.rows;
        if (sizes.maxComputeWorkgroupSubgroups * subgroup < most) {
            sets_subgroup = has_full_subgroups = false;
            subgroup = 1;
        }
    } else if (has_sizes && sizes.minSubgroupSize == sizes.maxSubgroupSize) {
        subgroup = sizes.minSubgroupSize;
    } else if (has_one_size) {
        subgroup = subgroups.subgroupSize;
    }
    if (!std::has_single_bit(subgroup)) subgroup = 1;
}

/// Those of float16 with sums of float32. Elements of 16 bits must be integers too, since that is
/// what they are elsewhere in a module, and Vulkan's memory model is what matrices are defined in.
void Abilities::find_atoms(VkPhysicalDevice device) {
    const bool has_rest = v12.shaderFloat16 && core.shaderInt16 && has_full_subgroups &&
                          subgroup > 1 && buffers == BuffersAre::Addressed;
    const VkInstance instance = volkGetLoadedInstance();
    const auto rows_of = reinterpret_cast<GetCooperativeMatrixRows>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    if (!has_rest || !rows_of || !has_extension(device, kCooperativeMatrix)) return;
    CooperativeMatrixFeatures feature;
    VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                       .pNext = &feature};
    CooperativeMatrixProperties stages;
    VkPhysicalDeviceProperties2 about{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                      .pNext = &stages};
    vkGetPhysicalDeviceFeatures2(device, &features);
    vkGetPhysicalDeviceProperties2(device, &about);
    const bool is_compute = stages.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    if (!feature.cooperativeMatrix || !is_compute) return;
    std::uint32_t count = 0;
    rows_of(device, &count, nullptr);
    std::vector<CooperativeMatrixRow> rows(count);
    rows_of(device, &count, rows.data());
    rows.resize(count);
    for (const CooperativeMatrixRow& row : rows) {
        constexpr std::uint32_t float16 = 0, float32 = 1;
        const bool is_of_subgroup = row.scope == std::uint32_t(spv::Scope::Subgroup);
        const bool has_types = row.AType == float16 && row.BType == float16 &&
                               row.CType == float32 && row.ResultType == float32;
        const auto [least, most] = std::minmax({row.MSize, row.NSize, row.KSize});
        const bool has_sizes = least > 0 && most <= kMostOfMatrix;
        if (!is_of_subgroup || !has_types || !has_sizes || row.saturatingAccumulation) continue;
        atoms.push_back({std::uint16_t(row.MSize), std::uint16_t(row.NSize),
                         std::uint16_t(row.KSize), DType::Float16, DType::Float32});
    }
    if (!atoms.empty()) matrices.cooperativeMatrix = VK_TRUE;
    const auto elements = [](const lir::Atom& a) { return a.rows * a.columns * a.depth; };
    std::ranges::stable_sort(atoms, std::ranges::greater(), elements);
}

std::uint32_t Abilities::most_bindings() const {
    const VkPhysicalDeviceLimits& limits = properties.limits;
    return std::min({limits.maxPerStageDescriptorStorageBuffers,
                     limits.maxDescriptorSetStorageBuffers, limits.maxPerStageResources});
}

const char* Abilities::name_of_most_bindings() const {
    const VkPhysicalDeviceLimits& limits = properties.limits;
    const std::uint32_t most = most_bindings();
    if (limits.maxPerStageDescriptorStorageBuffers == most) {
        return "maxPerStageDescriptorStorageBuffers";
    }
    return limits.maxDescriptorSetStorageBuffers == most ? "maxDescriptorSetStorageBuffers"
                                                         : "maxPerStageResources";
}

std::uint32_t Abilities::window_bits() const {
    const auto range = std::min(properties.limits.maxStorageBufferRange, std::uint32_t{1} << 31);
    return std::uint32_t(std::bit_width(range)) - 1;
}

std::uint64_t Abilities::largest_buffer(std::uint32_t windows) const {
    // A buffer begins where the device lets it begin, which is up to so many bytes before its
    // first, and ends with a whole word. Elements have numbers of 31 bits in a binding, and bytes
    // of 32 in all of them.
    constexpr std::uint64_t most = std::uint64_t{1} << 31, before = 256;
    const std::uint64_t one =
        std::min<std::uint64_t>(properties.limits.maxStorageBufferRange, most) / 4 * 4;
    const std::uint64_t all = std::min(std::uint64_t{windows} << window_bits(), 2 * most);
    return (windows == 1 ? one : all) - before;
}

std::uint32_t Abilities::group_bytes() const {
    // A GPU's processors share what they have among groups, which larger ones leave fewer. No GPU
    // was measured.
    constexpr std::uint32_t kMost = 48 << 10;
    return std::min(properties.limits.maxComputeSharedMemorySize, kMost);
}

std::uint32_t Abilities::windows_for(std::uint64_t bytes) const {
    if (buffers == BuffersAre::Addressed) return 1;
    // By powers of two, since the code is for that number.
    const std::uint32_t most = std::uint32_t{1} << (32 - window_bits());
    std::uint32_t windows = 1;
    while (windows < most && largest_buffer(windows) < bytes) windows *= 2;
    return windows;
}

std::string Abilities::driver() const {
    std::string text = std::string(properties.deviceName) + ", driver " +
                       std::to_string(properties.driverVersion) + " ";
    for (const std::uint8_t byte : properties.pipelineCacheUUID) {
        for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
    }
    return text;
}

std::string Abilities::missing() const {
    if (properties.apiVersion < VK_API_VERSION_1_2) {
        return "Vulkan 1.2: it has " + std::to_string(VK_API_VERSION_MAJOR(properties.apiVersion)) +
               "." + std::to_string(VK_API_VERSION_MINOR(properties.apiVersion));
    }
    if (queue_family == kNoQueue) return "a queue for compute";
    for (const Feature& feature : kFeatures) {
        if (feature.is_needed && !flag(*this, feature)) return feature.name;
    }
    return {};
}

std::string Abilities::lacks(std::span<const std::uint32_t> module) const {
    for (std::size_t at = kHeaderWords; at + 1 < module.size(); at += module[at] >> 16) {
        if (spv::Op(module[at] & 0xffff) != spv::Op::OpCapability) break;
        for (const Feature& feature : kFeatures) {
            const bool is_it = std::uint32_t(feature.capability) == module[at + 1];
            if (is_it && !flag(*this, feature)) return feature.name;
        }
    }
    return {};
}

}  // namespace quern::vulkan
