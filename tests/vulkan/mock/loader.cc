// A libvulkan.so.1 that is the system's, but for what QUERN_MOCK_VULKAN says, one or several of
// these with "; " between them:
//   "vkQueueSubmit 2 -4"  the second call of that function does nothing and gives that VkResult,
//                         which is said, as "mock: failed"; 0 is each call; where it says that the
//                         device is lost, so do all calls behind it
//   "other quotients"     code that divides multiplies
//   "say submissions"     each submission is said, as "mock: submission"
//   "watch pipelines"     one that is destroyed before a wait for what uses it has ended is said,
//   as
//                         "mock: a pipeline in use goes"
//   "watch barriers"      a submission that ends without a barrier to the host is said, as
//                         "mock: the host does not see a submission", and work without one between
//                         it and what came before, as "mock: beside the one before"
//   "say modules"         each module that is made is said, as "mock: module"
//   "wide subgroups"      subgroups are said to be four times as wide as they are
//   "one wide subgroup"   subgroups are said to have 128 invocations, which exchange nothing
//   "no shuffles"         code whose lanes exchange values is not compiled
//   "other sums"          products and sums in one forget the sum
//   "no packets"          code that loads or stores two or four words at once is not compiled
//   "no meeting"          code whose lanes wait for each other is not compiled
//   "no matrices"         products of matrices are said to be there, and not compiled
//   "portability"         devices are said to be subsets, as by MoltenVK: whoever does not ask for
//                         such sees none, and none is made without VK_KHR_portability_subset
//   "told subgroups"      pipelines say how many invocations their subgroups have, which is said,
//                         as "mock: subgroups of 8" or "mock: subgroups of 8, full"
//   "other halves"        code that has float16 subtracts where it adds
//   "few subgroups"       a work-group is said to have at most 2 subgroups
//   "memory of its own"   no memory of the device's own is seen by the host, and what is not cannot
//                         be mapped; copies between the two are said, as "mock: 64 bytes to the
//                         device" or "from the device"
//   "little staging"      no piece of memory of the host is larger than 64 KiB
//   "uncached memory"     the host sees no memory through its caches
//   "divided memory"      two thirds are the device's own, which the host sees past its caches, the
//                         rest is the host's; of which something is, is said, as "mock: memory of
//                         type 1"
//   "integrated"          no device is said to have memory that is not the host's
//   "transfer queue"      there is a family of one queue that only copies. What either queue is
//   given
//                         it does when somebody waits for it, the host or what the other does;
//                         what only copies is said, as "mock: a transfer", what waits for it,
//                         as "mock: a wait for a transfer", and what of it waits for the other, as
//                         "mock: a transfer that waits for launches"
//   "quick transfers"     what only copies has ended when it has been given
//   "vkHang 2 0"          the second submission and those behind it do nothing; their timeline says
//                         that they have ended, and waits for them that the device is lost; with
//                         another number than 0 the timeline says any number and waits nothing
//   "dependent widths"    modes of floats are said to be those of all widths
//   "dependent halves"    those of 16 and 64 bits are
//   "no float64 modes"    float64 is said to have none
//   "keeps code"          what is compiled is code of 64 bytes for a cache of pipelines; with how
//                         many a cache begins is said, as "mock: cache of 96 bytes"
//   "keeps foreign code"  the same, whose header is that of another device
//   "small pieces"        no piece of memory is larger than 48 MiB
//   "small bindings"      no storage buffer that is bound is larger than 48 MiB
//   "coarse bindings"     one begins at a multiple of 4096
//   "no barriers"         commands do not wait for those before them
//   "graphics card"       no device is said to be a processor
//   "few groups"          a dispatch has at most 8
//   "few bindings"        a kernel has at most 2 of them
//   "another version"     drivers are said to be of the version after theirs
//   "unknown driver"      drivers are said to be one that nothing is known of
//   "no queue"            no queue computes
//   "old loader"          the loader has Vulkan 1.1
//   "no devices", "old", "no timelines", "no addresses", "no memory model"
//                         what devices there are, and what they have
// It writes "mock: here" to standard error when something of that has happened.

#include <vulkan/vulkan.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tests/vulkan/mock/orders.h"

namespace quern::mock {
namespace {

bool is_lost = false;

/// What this call of a function gives if it is one that fails.
std::optional<VkResult> failure(const char* name, int& calls) {
    if (is_lost) return VK_ERROR_DEVICE_LOST;
    const Order* const o = order(name);
    if (!o || (o->call != 0 && ++calls != o->call)) return std::nullopt;
    is_lost = o->result == VK_ERROR_DEVICE_LOST;
    std::fputs("mock: failed\n", stderr);
    say_here();
    return VkResult(o->result);
}

#define FAILING(list)                                                                              \
    list(vkCreateInstance) list(vkCreateDevice) list(vkCreateCommandPool)                          \
        list(vkAllocateCommandBuffers) list(vkCreatePipelineLayout) list(vkCreateSemaphore)        \
            list(vkCreateBuffer) list(vkAllocateMemory) list(vkBindBufferMemory) list(vkMapMemory) \
                list(vkCreateShaderModule) list(vkCreateComputePipelines)                          \
                    list(vkCreatePipelineCache) list(vkGetPipelineCacheData)                       \
                        list(vkCreateDescriptorSetLayout) list(vkCreateDescriptorPool)             \
                            list(vkAllocateDescriptorSets) list(vkResetCommandPool)                \
                                list(vkBeginCommandBuffer) list(vkEndCommandBuffer)                \
                                    list(vkQueueSubmit) list(vkWaitSemaphores)                     \
                                        list(vkGetSemaphoreCounterValue)

/// Pipelines that commands have been recorded with since the host last saw work end.
struct InUse {
    std::mutex mutex;
    std::set<VkPipeline> pipelines;
};

InUse& in_use() {
    static InUse all;
    return all;
}

VKAPI_ATTR void VKAPI_CALL bind_watched(VkCommandBuffer to, VkPipelineBindPoint point,
                                        VkPipeline pipeline) {
    {
        const std::lock_guard lock(in_use().mutex);
        in_use().pipelines.insert(pipeline);
    }
    real<PFN_vkCmdBindPipeline>("vkCmdBindPipeline")(to, point, pipeline);
}

VKAPI_ATTR void VKAPI_CALL destroy_watched(VkDevice device, VkPipeline pipeline,
                                           const VkAllocationCallbacks* from) {
    {
        const std::lock_guard lock(in_use().mutex);
        if (in_use().pipelines.erase(pipeline) > 0) {
            std::fputs("mock: a pipeline in use goes\n", stderr);
        }
    }
    real<PFN_vkDestroyPipeline>("vkDestroyPipeline")(device, pipeline, from);
}

/// What came last in each command buffer.
enum class Last : std::uint8_t { Work, Barrier, BarrierToHost };

struct Watched {
    std::mutex mutex;
    std::map<VkCommandBuffer, Last> last;
};

Watched& watched() {
    static Watched all;
    return all;
}

void note_last(VkCommandBuffer commands, Last what) {
    const std::lock_guard lock(watched().mutex);
    const auto [last, is_new] = watched().last.emplace(commands, what);
    if (!is_new && last->second == Last::Work && what == Last::Work) {
        std::fputs("mock: beside the one before\n", stderr);
    }
    last->second = what;
}

VKAPI_ATTR void VKAPI_CALL watched_barrier(VkCommandBuffer to, VkPipelineStageFlags before,
                                           VkPipelineStageFlags after, VkDependencyFlags flags,
                                           std::uint32_t count, const VkMemoryBarrier* barriers,
                                           std::uint32_t buffers, const VkBufferMemoryBarrier* b,
                                           std::uint32_t images, const VkImageMemoryBarrier* i) {
    constexpr VkAccessFlags kBoth = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
    const bool is_of_host = count > 0 && (after & VK_PIPELINE_STAGE_HOST_BIT) != 0 &&
                            (before & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) != 0 &&
                            (barriers[0].srcAccessMask & VK_ACCESS_SHADER_WRITE_BIT) != 0 &&
                            (barriers[0].dstAccessMask & kBoth) == kBoth;
    note_last(to, is_of_host ? Last::BarrierToHost : Last::Barrier);
    real<PFN_vkCmdPipelineBarrier>("vkCmdPipelineBarrier")(to, before, after, flags, count,
                                                           barriers, buffers, b, images, i);
}

VKAPI_ATTR void VKAPI_CALL watched_dispatch(VkCommandBuffer to, std::uint32_t x, std::uint32_t y,
                                            std::uint32_t z) {
    note_last(to, Last::Work);
    real<PFN_vkCmdDispatch>("vkCmdDispatch")(to, x, y, z);
}

VKAPI_ATTR VkResult VKAPI_CALL watched_submit(VkQueue queue, std::uint32_t count,
                                              const VkSubmitInfo* all, VkFence fence) {
    {
        const std::lock_guard lock(watched().mutex);
        say_here();
        if (watched().last[all->pCommandBuffers[0]] != Last::BarrierToHost) {
            std::fputs("mock: the host does not see a submission\n", stderr);
        }
    }
    return real<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, all, fence);
}

void note_end(const char* function, VkResult result) {
    if (result != VK_SUCCESS || std::strcmp(function, "vkWaitSemaphores") != 0) return;
    const std::lock_guard lock(in_use().mutex);
    in_use().pipelines.clear();
}

/// What stands for a function by another order, or null.
PFN_vkVoidFunction of_order(const char* name);

/// The function, but for the call that fails.
template <class Function>
struct Wrapped;
template <class... Arguments>
struct Wrapped<VkResult(VKAPI_PTR*)(Arguments...)> {
    template <const char* const& kName>
    static VKAPI_ATTR VkResult VKAPI_CALL call(Arguments... arguments) {
        static int calls = 0;
        if (is("say submissions") && std::strcmp(kName, "vkQueueSubmit") == 0) {
            std::fputs("mock: submission\n", stderr);
        }
        if (is("say modules") && std::strcmp(kName, "vkCreateShaderModule") == 0) {
            std::fputs("mock: module\n", stderr);
        }
        if (const auto failed = failure(kName, calls)) return *failed;
        using Function = VkResult(VKAPI_PTR*)(Arguments...);
        const PFN_vkVoidFunction other = of_order(kName);
        const auto next = other ? reinterpret_cast<Function>(other) : real<Function>(kName);
        const VkResult result = next(arguments...);
        note_end(kName, result);
        if (std::strcmp(kName, "vkCreateInstance") == 0) note(result, arguments...);
        return result;
    }

private:
    template <class... All>
    static void note(VkResult, All...) {}
    static void note(VkResult result, const VkInstanceCreateInfo*, const VkAllocationCallbacks*,
                     VkInstance* made) {
        if (result == VK_SUCCESS) the_instance = *made;
    }
};

#define NAME(function) const char* const name_of_##function = #function;
FAILING(NAME)
#undef NAME

VKAPI_ATTR VkResult VKAPI_CALL old_loader(std::uint32_t* version) {
    *version = VK_API_VERSION_1_1;
    say_here();
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL no_queue(VkPhysicalDevice device, std::uint32_t* count,
                                    VkQueueFamilyProperties* got) {
    real<PFN_vkGetPhysicalDeviceQueueFamilyProperties>("vkGetPhysicalDeviceQueueFamilyProperties")(
        device, count, got);
    for (std::uint32_t i = 0; got && i < *count; ++i) got[i].queueFlags &= ~VK_QUEUE_COMPUTE_BIT;
    say_here();
}

VKAPI_ATTR VkResult VKAPI_CALL devices(VkInstance instance, std::uint32_t* count,
                                       VkPhysicalDevice* list) {
    static int calls = 0;
    if (const auto failed = failure("vkEnumeratePhysicalDevices", calls)) return *failed;
    if ((is("no devices") || hides_portable_devices()) && say_here()) {
        *count = 0;
        return VK_SUCCESS;
    }
    return real<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(instance, count,
                                                                              list);
}

VKAPI_ATTR VkResult VKAPI_CALL create_other_halves(VkDevice device,
                                                   const VkShaderModuleCreateInfo* about,
                                                   const VkAllocationCallbacks* from,
                                                   VkShaderModule* made) {
    constexpr std::uint32_t kHeader = 5, kCapability = 2 << 16 | 17, kHalf = 9;
    constexpr std::uint32_t kAdd = 5 << 16 | 129, kSubtract = 5 << 16 | 131;
    std::vector<std::uint32_t> words(about->pCode, about->pCode + about->codeSize / 4);
    bool has_halves = false;
    for (std::size_t at = kHeader; words[at] == kCapability; at += 2) {
        has_halves |= words[at + 1] == kHalf;
    }
    for (std::size_t at = kHeader; has_halves && at < words.size(); at += words[at] >> 16) {
        if (words[at] == kAdd && say_here()) words[at] = kSubtract;
    }
    VkShaderModuleCreateInfo other = *about;
    other.pCode = words.data();
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, &other, from, made);
}

constexpr std::uint32_t kOfShuffles = 65, kOfMatrices = 6022;

/// Code with that capability is not compiled.
template <std::uint32_t capability>
VKAPI_ATTR VkResult VKAPI_CALL create_without(VkDevice device,
                                              const VkShaderModuleCreateInfo* about,
                                              const VkAllocationCallbacks* from,
                                              VkShaderModule* made) {
    constexpr std::uint32_t kHeader = 5, kCapability = 2 << 16 | 17;
    for (std::size_t at = kHeader; about->pCode[at] == kCapability; at += 2) {
        if (about->pCode[at + 1] == capability && say_here()) return VK_ERROR_UNKNOWN;
    }
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, about, from, made);
}

/// Code with an instruction for which `is_it` says so is not compiled.
template <bool (*is_it)(const std::uint32_t*)>
VKAPI_ATTR VkResult VKAPI_CALL create_unless(VkDevice device, const VkShaderModuleCreateInfo* about,
                                             const VkAllocationCallbacks* from,
                                             VkShaderModule* made) {
    constexpr std::uint32_t kHeader = 5;
    for (std::size_t at = kHeader; at < about->codeSize / 4; at += about->pCode[at] >> 16) {
        if (is_it(about->pCode + at) && say_here()) return VK_ERROR_UNKNOWN;
    }
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, about, from, made);
}

bool is_barrier(const std::uint32_t* words) { return (words[0] & 0xffff) == 224; }
bool is_vector_of_words(const std::uint32_t* words) {
    return words[0] == (4 << 16 | 23) && words[3] % 2 == 0;
}

/// What timelines say of submissions that do nothing, since the device hangs.
struct Hung {
    std::mutex mutex;
    int calls = 0;
    std::map<VkSemaphore, std::uint64_t> last;
};

Hung& hung() {
    static Hung all;
    return all;
}

VKAPI_ATTR VkResult VKAPI_CALL submit_until_it_hangs(VkQueue queue, std::uint32_t count,
                                                     const VkSubmitInfo* all, VkFence fence) {
    const auto* const timeline = static_cast<const VkTimelineSemaphoreSubmitInfo*>(all->pNext);
    const std::lock_guard lock(hung().mutex);
    if (++hung().calls < order("vkHang")->call) {
        return real<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, all, fence);
    }
    std::fputs("mock: failed\n", stderr);
    say_here();
    hung().last[all->pSignalSemaphores[0]] =
        order("vkHang")->result == 0 ? timeline->pSignalSemaphoreValues[0] : ~std::uint64_t{0};
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL counter_of_hung(VkDevice device, VkSemaphore semaphore,
                                               std::uint64_t* value) {
    const std::lock_guard lock(hung().mutex);
    const auto found = hung().last.find(semaphore);
    if (found == hung().last.end()) {
        return real<PFN_vkGetSemaphoreCounterValue>("vkGetSemaphoreCounterValue")(device, semaphore,
                                                                                  value);
    }
    *value = found->second;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_hung(VkDevice device, const VkSemaphoreWaitInfo* about,
                                             std::uint64_t most) {
    {
        const std::lock_guard lock(hung().mutex);
        if (hung().last.contains(about->pSemaphores[0])) {
            return order("vkHang")->result == 0 ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
        }
    }
    return real<PFN_vkWaitSemaphores>("vkWaitSemaphores")(device, about, most);
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* got) {
    real<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(device, got);
    if (is("old") && say_here()) got->apiVersion = VK_API_VERSION_1_1;
    if (is("another version") && say_here()) ++got->driverVersion;
    if (is("small bindings") && say_here()) got->limits.maxStorageBufferRange = 48 << 20;
    if (is("tiny bindings") && say_here()) got->limits.maxStorageBufferRange = 4096;
    if (is("coarse bindings") && say_here()) got->limits.minStorageBufferOffsetAlignment = 4096;
    if (is("few groups") && say_here()) got->limits.maxComputeWorkGroupCount[0] = 8;
    if (is("few bindings") && say_here()) got->limits.maxPerStageDescriptorStorageBuffers = 2;
    if (is("graphics card") && say_here()) {
        got->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
    if (is("integrated") && say_here()) {
        got->deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    }
}

VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* got) {
    properties_of_extensions(device, got);
    if (is("old") && say_here()) got->properties.apiVersion = VK_API_VERSION_1_1;
    if (is("another version") && say_here()) ++got->properties.driverVersion;
    if (is("graphics card") && say_here()) {
        got->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
    for (auto* next = static_cast<VkBaseOutStructure*>(got->pNext); next; next = next->pNext) {
        if (is("unknown driver") &&
            next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) {
            reinterpret_cast<VkPhysicalDeviceDriverProperties*>(next)->driverID =
                VK_DRIVER_ID_MAX_ENUM;
            say_here();
        }
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES) {
            auto& floats = *reinterpret_cast<VkPhysicalDeviceFloatControlsProperties*>(next);
            if (is("dependent widths") && say_here()) {
                floats.roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
                floats.denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
            }
            if (is("dependent halves") && say_here()) {
                floats.roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
                floats.denormBehaviorIndependence =
                    VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
            }
            if (is("no float64 modes") && say_here()) {
                floats.shaderRoundingModeRTEFloat64 = VK_FALSE;
                floats.shaderDenormPreserveFloat64 = VK_FALSE;
            }
        }
        if (is("small pieces") &&
            next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
            reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)
                ->maxMemoryAllocationSize = 48 << 20;
            say_here();
        }
        if (is("one wide subgroup") &&
            next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            auto& subgroups = *reinterpret_cast<VkPhysicalDeviceSubgroupProperties*>(next);
            subgroups.subgroupSize = 128;
            subgroups.supportedOperations = 0;
            say_here();
        }
        if (is("few subgroups") &&
            next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT) {
            auto& sizes =
                *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlPropertiesEXT*>(next);
            sizes.maxComputeWorkgroupSubgroups = 2;
            if (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) say_here();
        }
        if (!is("wide subgroups")) continue;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            reinterpret_cast<VkPhysicalDeviceSubgroupProperties*>(next)->subgroupSize *= 4;
            say_here();
        }
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT) {
            continue;
        }
        // And cannot be told to be others.
        auto& sizes = *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlPropertiesEXT*>(next);
        sizes.minSubgroupSize *= 4;
        sizes.maxSubgroupSize *= 4;
        sizes.requiredSubgroupSizeStages = 0;
    }
}

VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* got) {
    features_of_extensions(device, got);
    if (is("no float64") && say_here()) got->features.shaderFloat64 = VK_FALSE;
    for (auto* next = static_cast<VkBaseOutStructure*>(got->pNext); next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) continue;
        auto& has = *reinterpret_cast<VkPhysicalDeviceVulkan12Features*>(next);
        if (is("no addresses") && say_here()) has.bufferDeviceAddress = VK_FALSE;
        if (is("no timelines") && say_here()) has.timelineSemaphore = VK_FALSE;
        if (is("no memory model") && say_here()) has.vulkanMemoryModel = VK_FALSE;
    }
}

/// The module, with products where it has quotients.
VKAPI_ATTR VkResult VKAPI_CALL other_module(VkDevice device, const VkShaderModuleCreateInfo* about,
                                            const VkAllocationCallbacks* from,
                                            VkShaderModule* made) {
    constexpr std::uint32_t kQuotient = 136, kProduct = 133, kHeader = 5;
    std::vector<std::uint32_t> words(about->pCode, about->pCode + about->codeSize / 4);
    for (std::size_t at = kHeader; at < words.size(); at += words[at] >> 16) {
        if ((words[at] & 0xffff) != kQuotient) continue;
        words[at] = (words[at] & 0xffff0000) | kProduct;
        say_here();
    }
    VkShaderModuleCreateInfo other = *about;
    other.pCode = words.data();
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, &other, from, made);
}

/// The module, with products where it has products and sums in one.
VKAPI_ATTR VkResult VKAPI_CALL other_sums(VkDevice device, const VkShaderModuleCreateInfo* about,
                                          const VkAllocationCallbacks* from, VkShaderModule* made) {
    constexpr std::uint32_t kFunction = 8 << 16 | 12, kFma = 50, kProduct = 5 << 16 | 133,
                            kNothing = 1 << 16, kHeader = 5;
    std::vector<std::uint32_t> words(about->pCode, about->pCode + about->codeSize / 4);
    for (std::size_t at = kHeader; at < words.size(); at += words[at] >> 16) {
        if (words[at] != kFunction || words[at + 4] != kFma) continue;
        words[at] = kProduct;
        words[at + 3] = words[at + 5];
        words[at + 4] = words[at + 6];
        std::fill_n(&words[at + 5], 3, kNothing);
        say_here();
    }
    VkShaderModuleCreateInfo other = *about;
    other.pCode = words.data();
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, &other, from, made);
}

VKAPI_ATTR void VKAPI_CALL no_barrier(VkCommandBuffer, VkPipelineStageFlags, VkPipelineStageFlags,
                                      VkDependencyFlags, std::uint32_t, const VkMemoryBarrier*,
                                      std::uint32_t, const VkBufferMemoryBarrier*, std::uint32_t,
                                      const VkImageMemoryBarrier*) {
    say_here();
}

VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo* about,
                                            const VkAllocationCallbacks* from,
                                            VkPipelineCache* made) {
    std::fprintf(stderr, "mock: cache of %zu bytes\n", about->initialDataSize);
    VkPipelineCacheCreateInfo other = *about;
    other.initialDataSize = 0;
    return real<PFN_vkCreatePipelineCache>("vkCreatePipelineCache")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice device, VkPipelineCache cache, std::size_t* size,
                                          void* data) {
    VkPipelineCacheHeaderVersionOne header;
    std::size_t header_size = sizeof header;
    real<PFN_vkGetPipelineCacheData>("vkGetPipelineCacheData")(device, cache, &header_size,
                                                               &header);
    if (is("keeps foreign code")) ++header.deviceID;
    const std::size_t all = sizeof header + 64;
    if (data) {
        std::memset(data, 'x', all);
        std::memcpy(data, &header, sizeof header);
        say_here();
    }
    *size = all;
    return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name);

PFN_vkVoidFunction of_order(const char* name) {
    const auto is_name = [&](const char* other) { return std::strcmp(name, other) == 0; };
    if (is("watch pipelines")) {
        if (is_name("vkCmdBindPipeline")) return PFN_vkVoidFunction(&bind_watched);
        if (is_name("vkDestroyPipeline")) return PFN_vkVoidFunction(&destroy_watched);
    }
    if (is("watch barriers")) {
        if (is_name("vkCmdPipelineBarrier")) return PFN_vkVoidFunction(&watched_barrier);
        if (is_name("vkCmdDispatch")) return PFN_vkVoidFunction(&watched_dispatch);
        if (is_name("vkQueueSubmit")) return PFN_vkVoidFunction(&watched_submit);
    }
    if (is("other quotients") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&other_module);
    }
    if (is("other sums") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&other_sums);
    }
    if (is("other halves") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_other_halves);
    }
    if (is("vkHang")) {
        if (is_name("vkQueueSubmit")) return PFN_vkVoidFunction(&submit_until_it_hangs);
        if (is_name("vkGetSemaphoreCounterValue")) return PFN_vkVoidFunction(&counter_of_hung);
        if (is_name("vkWaitSemaphores")) return PFN_vkVoidFunction(&wait_for_hung);
    }
    if (is("no packets") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_unless<is_vector_of_words>);
    }
    if (is("no meeting") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_unless<is_barrier>);
    }
    if (is("no matrices") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_without<kOfMatrices>);
    }
    if (const auto other = of_extensions(name)) return other;
    if (is("no shuffles") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_without<kOfShuffles>);
    }
    if (is("keeps code") || is("keeps foreign code")) {
        if (is_name("vkCreatePipelineCache")) return PFN_vkVoidFunction(&create_cache);
        if (is_name("vkGetPipelineCacheData")) return PFN_vkVoidFunction(&cache_data);
    }
    return of_hardware(name);
}

PFN_vkVoidFunction ours(const char* name) {
    const auto is_name = [&](const char* other) { return std::strcmp(name, other) == 0; };
#define OURS(function)                                                    \
    if (is_name(#function)) {                                             \
        return reinterpret_cast<PFN_vkVoidFunction>(                      \
            &Wrapped<PFN_##function>::template call<name_of_##function>); \
    }
    FAILING(OURS)
#undef OURS
    if (const auto other = of_order(name)) return other;
    if (is("old loader") && is_name("vkEnumerateInstanceVersion")) {
        return PFN_vkVoidFunction(&old_loader);
    }
    if (is("no queue") && is_name("vkGetPhysicalDeviceQueueFamilyProperties")) {
        return PFN_vkVoidFunction(&no_queue);
    }
    if (is("no barriers") && is_name("vkCmdPipelineBarrier")) {
        return PFN_vkVoidFunction(&no_barrier);
    }
    if (is_name("vkEnumeratePhysicalDevices")) return PFN_vkVoidFunction(&devices);
    if (is_name("vkGetPhysicalDeviceProperties")) return PFN_vkVoidFunction(&properties);
    if (is_name("vkGetPhysicalDeviceProperties2")) return PFN_vkVoidFunction(&properties2);
    if (is_name("vkGetPhysicalDeviceFeatures2")) return PFN_vkVoidFunction(&features2);
    if (is_name("vkGetDeviceProcAddr")) return PFN_vkVoidFunction(&device_function);
    return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
    if (const auto found = ours(name)) return found;
    return real_device_function(device, name);
}

}  // namespace
}  // namespace quern::mock

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
    using namespace quern::mock;
    if (!real_instance_function()) return nullptr;
    if (instance && !real_device_function) {
        real_device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(
            real_instance_function()(instance, "vkGetDeviceProcAddr"));
    }
    if (const auto found = ours(name)) return found;
    return real_instance_function()(instance, name);
}
