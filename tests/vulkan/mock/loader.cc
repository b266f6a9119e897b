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
//   "say modules"         each module that is made is said, as "mock: module"
//   "wide subgroups"      subgroups are said to be four times as wide as they are
//   "one wide subgroup"   subgroups are said to have 128 invocations, which exchange nothing
//   "no matrices"         products of matrices are said to be there, and not compiled
//   "other halves"        code that has float16 subtracts where it adds
//   "few subgroups"       a work-group is said to have at most 2 subgroups
//   "memory of its own"   no memory of the device's own is seen by the host, and what is not cannot
//                         be mapped; copies between the two are said, as "mock: 64 bytes to the
//                         device" or "from the device"
//   "transfer queue"      there is a family of one queue that only copies. What either queue is
//   given
//                         it does when somebody waits for it, the host or what the other does;
//                         what only copies is said, as "mock: a transfer"
//   "keeps code"          what is compiled is code of 64 bytes for a cache of pipelines; with how
//                         many a cache begins is said, as "mock: cache of 96 bytes"
//   "keeps foreign code"  the same, whose header is that of another device
//   "small pieces"        no piece of memory is larger than 48 MiB
//   "small bindings"      no storage buffer that is bound is larger than 48 MiB
//   "coarse bindings"     one begins at a multiple of 4096
//   "no barriers"         commands do not wait for those before them
//   "graphics card"       no device is said to be a processor
//   "few bindings"        a kernel has at most 2 of them
//   "another version"     drivers are said to be of the version after theirs
//   "no queue"            no queue computes
//   "old loader"          the loader has Vulkan 1.1
//   "no devices", "old", "no timelines", "no addresses", "no memory model"
//                         what devices there are, and what they have
// It writes "mock: here" to standard error when something of that has happened.

#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace {

struct Order {
    std::string function;
    int call = 0;
    int result = 0;
};

Order parse(const std::string& text) {
    Order o;
    char name[64] = {};
    const bool fails = std::sscanf(text.c_str(), "vk%60s %d %d", name, &o.call, &o.result) == 3;
    o.function = fails ? std::string("vk") + name : text;
    return o;
}

const std::vector<Order>& orders() {
    static const std::vector<Order> given = [] {
        std::vector<Order> all;
        const char* const said = std::getenv("QUERN_MOCK_VULKAN");
        std::string text = said ? said : "";
        while (!text.empty()) {
            const std::size_t end = text.find("; ");
            all.push_back(parse(text.substr(0, end)));
            text.erase(0, end == std::string::npos ? end : end + 2);
        }
        return all;
    }();
    return given;
}

bool say_here() {
    std::fputs("mock: here\n", stderr);
    return true;
}

const Order* order(const char* what) {
    for (const Order& o : orders()) {
        if (o.function == what) return &o;
    }
    return nullptr;
}

bool is(const char* what) { return order(what) != nullptr; }

PFN_vkGetInstanceProcAddr real_instance_function() {
    static const auto function = [] {
        void* const library = dlopen(QUERN_VULKAN_LOADER, RTLD_NOW | RTLD_LOCAL);
        return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(
                             dlsym(library, "vkGetInstanceProcAddr"))
                       : nullptr;
    }();
    return function;
}

VkInstance the_instance = VK_NULL_HANDLE;
PFN_vkGetDeviceProcAddr real_device_function = nullptr;

/// For any device: the loader's own finds which by its handle.
template <class Function>
Function real(const char* name) {
    return reinterpret_cast<Function>(real_instance_function()(the_instance, name));
}

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
    if (is("no devices") && say_here()) {
        *count = 0;
        return VK_SUCCESS;
    }
    return real<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(instance, count,
                                                                              list);
}

/// VK_KHR_cooperative_matrix, which is newer than the headers.
constexpr const char* kMatrices = "VK_KHR_cooperative_matrix";
constexpr auto kMatrixFeatures = VkStructureType(1000506000);
constexpr auto kMatrixProperties = VkStructureType(1000506002);

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

/// 8 x 8 x 8 of float16 in float32, of a subgroup.
VKAPI_ATTR VkResult VKAPI_CALL matrix_rows(VkPhysicalDevice, std::uint32_t* count, void* rows) {
    *count = 1;
    auto* const row = static_cast<MatrixRow*>(rows);
    if (row) *row = {row->type, row->next, 8, 8, 8, 0, 0, 1, 1, VK_FALSE, 3};
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char* layer,
                                          std::uint32_t* count, VkExtensionProperties* all) {
    const auto real_extensions =
        real<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties");
    std::uint32_t own = 0;
    real_extensions(device, layer, &own, nullptr);
    if (all) {
        real_extensions(device, layer, &own, all);
        std::strcpy(all[own].extensionName, kMatrices);
    }
    *count = own + 1;
    return VK_SUCCESS;
}

/// Without the extension and its features.
VKAPI_ATTR VkResult VKAPI_CALL create_without_matrices(VkPhysicalDevice device,
                                                       const VkDeviceCreateInfo* about,
                                                       const VkAllocationCallbacks* from,
                                                       VkDevice* made) {
    VkDeviceCreateInfo other = *about;
    std::vector<const char*> names;
    for (std::uint32_t i = 0; i < about->enabledExtensionCount; ++i) {
        const char* const name = about->ppEnabledExtensionNames[i];
        if (std::strcmp(name, kMatrices) != 0) names.push_back(name);
    }
    other.enabledExtensionCount = std::uint32_t(names.size());
    other.ppEnabledExtensionNames = names.data();
    taken_out(&other, kMatrixFeatures);
    return real<PFN_vkCreateDevice>("vkCreateDevice")(device, &other, from, made);
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

VKAPI_ATTR VkResult VKAPI_CALL create_no_matrices(VkDevice device,
                                                  const VkShaderModuleCreateInfo* about,
                                                  const VkAllocationCallbacks* from,
                                                  VkShaderModule* made) {
    constexpr std::uint32_t kHeader = 5, kCapability = 2 << 16 | 17, kOfMatrices = 6022;
    for (std::size_t at = kHeader; about->pCode[at] == kCapability; at += 2) {
        if (about->pCode[at + 1] == kOfMatrices && say_here()) return VK_ERROR_UNKNOWN;
    }
    return real<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device, about, from, made);
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* got) {
    real<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(device, got);
    if (is("old") && say_here()) got->apiVersion = VK_API_VERSION_1_1;
    if (is("another version") && say_here()) ++got->driverVersion;
    if (is("small bindings") && say_here()) got->limits.maxStorageBufferRange = 48 << 20;
    if (is("tiny bindings") && say_here()) got->limits.maxStorageBufferRange = 4096;
    if (is("coarse bindings") && say_here()) got->limits.minStorageBufferOffsetAlignment = 4096;
    if (is("few bindings") && say_here()) got->limits.maxPerStageDescriptorStorageBuffers = 2;
    if (is("graphics card") && say_here()) {
        got->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
}

VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* got) {
    VkBaseOutStructure* const matrices =
        is("no matrices") ? taken_out(got, kMatrixProperties) : nullptr;
    real<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(device, got);
    if (matrices) {
        reinterpret_cast<MatrixProperties*>(matrices)->stages = VK_SHADER_STAGE_COMPUTE_BIT;
        put_back(got, matrices);
    }
    if (is("old") && say_here()) got->properties.apiVersion = VK_API_VERSION_1_1;
    if (is("another version") && say_here()) ++got->properties.driverVersion;
    if (is("graphics card") && say_here()) {
        got->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
    for (auto* next = static_cast<VkBaseOutStructure*>(got->pNext); next; next = next->pNext) {
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

/// The first type of memory that the host sees, as two: the device's own, unseen, and the host's.
struct TwoMemories {
    std::uint32_t real = 0;
    std::mutex mutex;
    std::set<VkDeviceMemory> unseen;
    std::set<VkBuffer> own_buffers;

    static constexpr std::uint32_t kOwn = 0, kHost = 1;
};

TwoMemories& two_memories() {
    static TwoMemories memories;
    return memories;
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceMemoryProperties* got) {
    real<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(device,
                                                                                         got);
    if (!is("memory of its own")) return;
    say_here();
    constexpr VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    std::uint32_t& real = two_memories().real;
    for (real = 0; (got->memoryTypes[real].propertyFlags & seen) != seen;) ++real;
    const VkMemoryHeap heap = got->memoryHeaps[got->memoryTypes[real].heapIndex];
    got->memoryTypeCount = got->memoryHeapCount = 2;
    got->memoryTypes[TwoMemories::kOwn] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    got->memoryTypes[TwoMemories::kHost] = {seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
    got->memoryHeaps[0] = {heap.size, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    got->memoryHeaps[1] = {heap.size, 0};
}

VKAPI_ATTR void VKAPI_CALL requirements_of_two(VkDevice device, VkBuffer buffer,
                                               VkMemoryRequirements* got) {
    real<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(device, buffer, got);
    got->memoryTypeBits = 3;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_of_two(VkDevice device, const VkMemoryAllocateInfo* about,
                                               const VkAllocationCallbacks* from,
                                               VkDeviceMemory* made) {
    VkMemoryAllocateInfo other = *about;
    other.memoryTypeIndex = two_memories().real;
    const VkResult result =
        real<PFN_vkAllocateMemory>("vkAllocateMemory")(device, &other, from, made);
    const std::lock_guard lock(two_memories().mutex);
    two_memories().unseen.erase(*made);
    if (about->memoryTypeIndex == TwoMemories::kOwn) two_memories().unseen.insert(*made);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL bind_of_two(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
    {
        const std::lock_guard lock(two_memories().mutex);
        two_memories().own_buffers.erase(buffer);
        if (two_memories().unseen.contains(memory)) two_memories().own_buffers.insert(buffer);
    }
    return real<PFN_vkBindBufferMemory>("vkBindBufferMemory")(device, buffer, memory, offset);
}

VKAPI_ATTR void VKAPI_CALL copy_of_two(VkCommandBuffer to, VkBuffer src, VkBuffer dst,
                                       std::uint32_t count, const VkBufferCopy* regions) {
    {
        const std::lock_guard lock(two_memories().mutex);
        const bool is_to_device = two_memories().own_buffers.contains(dst);
        for (std::uint32_t i = 0; i < count; ++i) {
            std::fprintf(stderr, "mock: %llu bytes %s the device\n",
                         static_cast<unsigned long long>(regions[i].size),
                         is_to_device ? "to" : "from");
        }
    }
    real<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer")(to, src, dst, count, regions);
}

VKAPI_ATTR VkResult VKAPI_CALL map_of_two(VkDevice device, VkDeviceMemory memory,
                                          VkDeviceSize offset, VkDeviceSize size,
                                          VkMemoryMapFlags flags, void** data) {
    {
        const std::lock_guard lock(two_memories().mutex);
        if (two_memories().unseen.contains(memory)) return VK_ERROR_MEMORY_MAP_FAILED;
    }
    return real<PFN_vkMapMemory>("vkMapMemory")(device, memory, offset, size, flags, data);
}

/// Two queues of which the driver has one. What has been submitted waits here, in the order of each
/// queue, until a value of the timeline that it signals is asked for.
struct LateQueues {
    struct Late {
        VkQueue queue = VK_NULL_HANDLE;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        VkSemaphore waits = VK_NULL_HANDLE, signals = VK_NULL_HANDLE;
        std::uint64_t until = 0, value = 0;
        VkPipelineStageFlags stages = 0;
    };

    /// Of the family that the driver does not have.
    std::uint32_t family = 0;
    std::mutex mutex;

    /// What stands for each device's other queue, and the driver's queue that does its work.
    std::deque<int> others;
    std::map<VkQueue, VkQueue> real_ones;
    std::map<VkSemaphore, std::deque<Late>> late;

    VkResult run(const Late& what) {
        const VkTimelineSemaphoreSubmitInfo timeline{
            VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
            nullptr,
            what.waits ? 1u : 0u,
            &what.until,
            1,
            &what.value};
        const VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                  &timeline,
                                  what.waits ? 1u : 0u,
                                  &what.waits,
                                  &what.stages,
                                  1,
                                  &what.commands,
                                  1,
                                  &what.signals};
        return real<PFN_vkQueueSubmit>("vkQueueSubmit")(what.queue, 1, &submit, VK_NULL_HANDLE);
    }

    /// All of a queue up to a value, behind what that waits for.
    VkResult run_until(VkSemaphore semaphore, std::uint64_t value) {
        std::deque<Late>& mine = late[semaphore];
        while (!mine.empty() && mine.front().value <= value) {
            const Late next = mine.front();
            mine.pop_front();
            VkResult result = VK_SUCCESS;
            if (next.waits) result = run_until(next.waits, next.until);
            if (result == VK_SUCCESS) result = run(next);
            if (result != VK_SUCCESS) return result;
        }
        return VK_SUCCESS;
    }
};

LateQueues& late_queues() {
    static LateQueues queues;
    return queues;
}

VKAPI_ATTR void VKAPI_CALL families_of_two(VkPhysicalDevice device, std::uint32_t* count,
                                           VkQueueFamilyProperties* got) {
    const auto real_families = real<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(
        "vkGetPhysicalDeviceQueueFamilyProperties");
    std::uint32_t own = 0;
    real_families(device, &own, nullptr);
    late_queues().family = own;
    if (got) {
        real_families(device, &own, got);
        // Behind it one of video.
        constexpr VkQueueFlags kVideo = 0x20;
        got[own] = {VK_QUEUE_TRANSFER_BIT, 1, 0, {1, 1, 1}};
        got[own + 1] = {VK_QUEUE_TRANSFER_BIT | kVideo, 1, 0, {1, 1, 1}};
    }
    *count = own + 2;
}

VKAPI_ATTR VkResult VKAPI_CALL create_with_one_queue(VkPhysicalDevice device,
                                                     const VkDeviceCreateInfo* about,
                                                     const VkAllocationCallbacks* from,
                                                     VkDevice* made) {
    VkDeviceCreateInfo other = *about;
    std::vector<VkDeviceQueueCreateInfo> queues;
    for (std::uint32_t i = 0; i < about->queueCreateInfoCount; ++i) {
        const VkDeviceQueueCreateInfo& queue = about->pQueueCreateInfos[i];
        if (queue.queueFamilyIndex != late_queues().family) queues.push_back(queue);
    }
    if (queues.size() < about->queueCreateInfoCount) say_here();
    other.queueCreateInfoCount = std::uint32_t(queues.size());
    other.pQueueCreateInfos = queues.data();
    return real<PFN_vkCreateDevice>("vkCreateDevice")(device, &other, from, made);
}

VKAPI_ATTR void VKAPI_CALL queue_of_two(VkDevice device, std::uint32_t family, std::uint32_t index,
                                        VkQueue* got) {
    const bool is_other = family == late_queues().family;
    real<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(device, is_other ? 0 : family, index, got);
    if (!is_other) return;
    const std::lock_guard lock(late_queues().mutex);
    const auto other = reinterpret_cast<VkQueue>(&late_queues().others.emplace_back());
    late_queues().real_ones.emplace(other, *got);
    *got = other;
}

VKAPI_ATTR VkResult VKAPI_CALL pool_of_two(VkDevice device, const VkCommandPoolCreateInfo* about,
                                           const VkAllocationCallbacks* from, VkCommandPool* made) {
    VkCommandPoolCreateInfo other = *about;
    if (other.queueFamilyIndex == late_queues().family) other.queueFamilyIndex = 0;
    return real<PFN_vkCreateCommandPool>("vkCreateCommandPool")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL buffer_of_one_family(VkDevice device,
                                                    const VkBufferCreateInfo* about,
                                                    const VkAllocationCallbacks* from,
                                                    VkBuffer* made) {
    VkBufferCreateInfo other = *about;
    if (other.sharingMode != VK_SHARING_MODE_CONCURRENT) {
        std::fputs("mock: a buffer of one family\n", stderr);
    }
    other.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    other.queueFamilyIndexCount = 0;
    return real<PFN_vkCreateBuffer>("vkCreateBuffer")(device, &other, from, made);
}

VKAPI_ATTR VkResult VKAPI_CALL submit_late(VkQueue queue, std::uint32_t, const VkSubmitInfo* submit,
                                           VkFence) {
    const auto* const timeline = static_cast<const VkTimelineSemaphoreSubmitInfo*>(submit->pNext);
    const std::lock_guard lock(late_queues().mutex);
    const auto other = late_queues().real_ones.find(queue);
    if (other != late_queues().real_ones.end()) std::fputs("mock: a transfer\n", stderr);
    LateQueues::Late late;
    late.queue = other == late_queues().real_ones.end() ? queue : other->second;
    late.commands = submit->pCommandBuffers[0];
    late.signals = submit->pSignalSemaphores[0];
    late.value = timeline->pSignalSemaphoreValues[0];
    if (submit->waitSemaphoreCount > 0) {
        late.waits = submit->pWaitSemaphores[0];
        late.until = timeline->pWaitSemaphoreValues[0];
        late.stages = submit->pWaitDstStageMask[0];
    }
    late_queues().late[late.signals].push_back(late);
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_late(VkDevice device, const VkSemaphoreWaitInfo* about,
                                             std::uint64_t most) {
    {
        const std::lock_guard lock(late_queues().mutex);
        const VkResult result = late_queues().run_until(about->pSemaphores[0], about->pValues[0]);
        if (result != VK_SUCCESS) return result;
    }
    return real<PFN_vkWaitSemaphores>("vkWaitSemaphores")(device, about, most);
}

VKAPI_ATTR VkResult VKAPI_CALL idle_behind_late(VkDevice device) {
    {
        const std::lock_guard lock(late_queues().mutex);
        for (auto& [semaphore, late] : late_queues().late) {
            if (!late.empty()) late_queues().run_until(semaphore, late.back().value);
        }
    }
    return real<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device);
}

VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* got) {
    VkBaseOutStructure* const matrices =
        is("no matrices") ? taken_out(got, kMatrixFeatures) : nullptr;
    real<PFN_vkGetPhysicalDeviceFeatures2>("vkGetPhysicalDeviceFeatures2")(device, got);
    if (matrices) {
        reinterpret_cast<MatrixFeatures*>(matrices)->has = VK_TRUE;
        put_back(got, matrices);
    }
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
    if (is("other quotients") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&other_module);
    }
    if (is("other halves") && is_name("vkCreateShaderModule")) {
        return PFN_vkVoidFunction(&create_other_halves);
    }
    if (is("no matrices")) {
        if (is_name("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")) {
            return PFN_vkVoidFunction(&matrix_rows);
        }
        if (is_name("vkEnumerateDeviceExtensionProperties")) {
            return PFN_vkVoidFunction(&extensions);
        }
        if (is_name("vkCreateDevice")) return PFN_vkVoidFunction(&create_without_matrices);
        if (is_name("vkCreateShaderModule")) return PFN_vkVoidFunction(&create_no_matrices);
    }
    if (is("keeps code") || is("keeps foreign code")) {
        if (is_name("vkCreatePipelineCache")) return PFN_vkVoidFunction(&create_cache);
        if (is_name("vkGetPipelineCacheData")) return PFN_vkVoidFunction(&cache_data);
    }
    if (is("transfer queue")) {
        if (is_name("vkGetPhysicalDeviceQueueFamilyProperties")) {
            return PFN_vkVoidFunction(&families_of_two);
        }
        if (is_name("vkCreateDevice")) return PFN_vkVoidFunction(&create_with_one_queue);
        if (is_name("vkGetDeviceQueue")) return PFN_vkVoidFunction(&queue_of_two);
        if (is_name("vkCreateCommandPool")) return PFN_vkVoidFunction(&pool_of_two);
        if (is_name("vkCreateBuffer")) return PFN_vkVoidFunction(&buffer_of_one_family);
        if (is_name("vkQueueSubmit")) return PFN_vkVoidFunction(&submit_late);
        if (is_name("vkWaitSemaphores")) return PFN_vkVoidFunction(&wait_for_late);
        if (is_name("vkDeviceWaitIdle")) return PFN_vkVoidFunction(&idle_behind_late);
    }
    if (is("memory of its own")) {
        if (is_name("vkGetBufferMemoryRequirements")) {
            return PFN_vkVoidFunction(&requirements_of_two);
        }
        if (is_name("vkAllocateMemory")) return PFN_vkVoidFunction(&allocate_of_two);
        if (is_name("vkBindBufferMemory")) return PFN_vkVoidFunction(&bind_of_two);
        if (is_name("vkCmdCopyBuffer")) return PFN_vkVoidFunction(&copy_of_two);
        if (is_name("vkMapMemory")) return PFN_vkVoidFunction(&map_of_two);
        if (is_name("vkGetPhysicalDeviceMemoryProperties")) {
            return PFN_vkVoidFunction(&memory_properties);
        }
    }
    return nullptr;
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

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
    if (!real_instance_function()) return nullptr;
    if (instance && !real_device_function) {
        real_device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(
            real_instance_function()(instance, "vkGetDeviceProcAddr"));
    }
    if (const auto found = ours(name)) return found;
    return real_instance_function()(instance, name);
}
