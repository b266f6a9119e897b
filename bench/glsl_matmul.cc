// A product of two square matrices by a shader that somebody wrote by hand, on the device of that
// number: prints the least seconds of a run, from submission to the end. Or the same of a copy from
// the device's memory to it.
//
//     bench_glsl_matmul SHADER.spv DEVICE EXTENT
//     bench_glsl_matmul copy DEVICE BYTES

#if __has_include(<volk.h>)
#define VK_NO_PROTOTYPES
#define VOLK_IMPLEMENTATION
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <volk.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

/// Extent of the part of the result that a work-group does, and how often it is run.
constexpr std::uint32_t kTile = 64;
constexpr int kRuns = 12;

void must(VkResult result, const char* what) {
    if (result == VK_SUCCESS) return;
    std::fprintf(stderr, "%s: VkResult %d\n", what, int(result));
    std::exit(1);
}

struct Buffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    float* data = nullptr;
};

/// Device, queue and memory that the host sees; all of it ends with the program.
class Gpu {
public:
    explicit Gpu(std::size_t number) {
        must(volkInitialize(), "volkInitialize");
        const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                            .apiVersion = VK_API_VERSION_1_2};
        const VkInstanceCreateInfo about{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &application};
        VkInstance instance = VK_NULL_HANDLE;
        must(vkCreateInstance(&about, nullptr, &instance), "vkCreateInstance");
        volkLoadInstance(instance);
        std::uint32_t count = 0;
        vkEnumeratePhysicalDevices(instance, &count, nullptr);
        std::vector<VkPhysicalDevice> all(count);
        vkEnumeratePhysicalDevices(instance, &count, all.data());
        if (number >= count) must(VK_ERROR_INITIALIZATION_FAILED, "no such device");
        vkGetPhysicalDeviceMemoryProperties(all[number], &memory_);
        const float priority = 1;
        const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority};
        const VkDeviceCreateInfo with{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue};
        must(vkCreateDevice(all[number], &with, nullptr, &device), "vkCreateDevice");
        volkLoadDevice(device);
        vkGetDeviceQueue(device, 0, 0, &queue_);
    }

    static constexpr VkMemoryPropertyFlags kSeen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

    /// In memory that is `like` that.
    Buffer buffer(std::size_t elements, VkMemoryPropertyFlags like = kSeen) const {
        Buffer made;
        constexpr VkBufferUsageFlags copied =
            VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        const VkBufferCreateInfo about{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                       .size = elements * sizeof(float),
                                       .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | copied};
        must(vkCreateBuffer(device, &about, nullptr, &made.buffer), "vkCreateBuffer");
        VkMemoryRequirements needs{};
        vkGetBufferMemoryRequirements(device, made.buffer, &needs);
        std::uint32_t type = 0;
        while ((needs.memoryTypeBits >> type & 1) == 0 ||
               (memory_.memoryTypes[type].propertyFlags & like) != like) {
            ++type;
        }
        const VkMemoryAllocateInfo from{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .allocationSize = needs.size,
                                        .memoryTypeIndex = type};
        VkDeviceMemory memory = VK_NULL_HANDLE;
        must(vkAllocateMemory(device, &from, nullptr, &memory), "vkAllocateMemory");
        must(vkBindBufferMemory(device, made.buffer, memory, 0), "vkBindBufferMemory");
        if ((like & kSeen) != kSeen) return made;
        void* mapped = nullptr;
        must(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
        made.data = static_cast<float*>(mapped);
        return made;
    }

    /// Seconds.
    double run(VkCommandBuffer commands) const {
        const VkSubmitInfo submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                  .commandBufferCount = 1,
                                  .pCommandBuffers = &commands};
        const auto start = std::chrono::steady_clock::now();
        must(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
        must(vkQueueWaitIdle(queue_), "vkQueueWaitIdle");
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    VkDevice device = VK_NULL_HANDLE;

private:
    VkPhysicalDeviceMemoryProperties memory_{};
    VkQueue queue_ = VK_NULL_HANDLE;
};

VkCommandBuffer begun(const Gpu& gpu) {
    const VkCommandPoolCreateInfo about{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandPool pool = VK_NULL_HANDLE;
    must(vkCreateCommandPool(gpu.device, &about, nullptr, &pool), "commands");
    const VkCommandBufferAllocateInfo buffer{
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    must(vkAllocateCommandBuffers(gpu.device, &buffer, &commands), "commands");
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    must(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    return commands;
}

/// Of the device's own memory, from one buffer to another.
double least_of_copy(const Gpu& gpu, std::size_t bytes) {
    const std::size_t elements = bytes / sizeof(float);
    const Buffer from = gpu.buffer(elements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    const Buffer to = gpu.buffer(elements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    const VkCommandBuffer commands = begun(gpu);
    const VkBufferCopy whole{0, 0, elements * sizeof(float)};
    vkCmdCopyBuffer(commands, from.buffer, to.buffer, 1, &whole);
    must(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    double least = 1e30;
    for (int run = 0; run < kRuns; ++run) least = std::min(least, gpu.run(commands));
    return least;
}

/// One dispatch of the shader over three buffers.
VkCommandBuffer commands_of(const Gpu& gpu, const std::vector<char>& code, std::uint32_t extent,
                            const std::vector<Buffer>& buffers) {
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (std::uint32_t i = 0; i < buffers.size(); ++i) {
        bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT});
    }
    const auto count = std::uint32_t(buffers.size());
    const VkDescriptorSetLayoutCreateInfo set_about{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = count,
        .pBindings = bindings.data()};
    VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
    must(vkCreateDescriptorSetLayout(gpu.device, &set_about, nullptr, &set_layout), "layout");
    const VkPushConstantRange pushed{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof extent};
    const VkPipelineLayoutCreateInfo layout_about{
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &pushed};
    VkPipelineLayout layout = VK_NULL_HANDLE;
    must(vkCreatePipelineLayout(gpu.device, &layout_about, nullptr, &layout), "layout");
    const VkShaderModuleCreateInfo shader{
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = code.size(),
        .pCode = reinterpret_cast<const std::uint32_t*>(code.data())};
    VkComputePipelineCreateInfo about{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                      .layout = layout};
    about.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .pName = "main"};
    must(vkCreateShaderModule(gpu.device, &shader, nullptr, &about.stage.module), "shader");
    VkPipeline pipeline = VK_NULL_HANDLE;
    must(vkCreateComputePipelines(gpu.device, VK_NULL_HANDLE, 1, &about, nullptr, &pipeline),
         "vkCreateComputePipelines");

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count};
    const VkDescriptorPoolCreateInfo pool_about{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    must(vkCreateDescriptorPool(gpu.device, &pool_about, nullptr, &pool), "descriptors");
    const VkDescriptorSetAllocateInfo one{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                          .descriptorPool = pool,
                                          .descriptorSetCount = 1,
                                          .pSetLayouts = &set_layout};
    VkDescriptorSet set = VK_NULL_HANDLE;
    must(vkAllocateDescriptorSets(gpu.device, &one, &set), "descriptors");
    for (std::uint32_t i = 0; i < count; ++i) {
        const VkDescriptorBufferInfo whole{buffers[i].buffer, 0, VK_WHOLE_SIZE};
        const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                         .dstSet = set,
                                         .dstBinding = i,
                                         .descriptorCount = 1,
                                         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                         .pBufferInfo = &whole};
        vkUpdateDescriptorSets(gpu.device, 1, &write, 0, nullptr);
    }

    const VkCommandBuffer commands = begun(gpu);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0,
                            nullptr);
    vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof extent, &extent);
    vkCmdDispatch(commands, extent / kTile, extent / kTile, 1);
    must(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
}

/// Some elements against sums in double.
bool is_right(const std::vector<Buffer>& buffers, std::uint32_t n) {
    for (std::uint32_t probe = 0; probe < 200; ++probe) {
        const std::uint32_t i = probe * 7919 % n, j = probe * 104729 % n;
        double sum = 0;
        for (std::uint32_t k = 0; k < n; ++k) {
            sum += double(buffers[0].data[i * n + k]) * double(buffers[1].data[k * n + j]);
        }
        // n products of at most 1, each sum rounded.
        if (!(std::abs(sum - double(buffers[2].data[i * n + j])) < 1e-7 * n)) return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 1;
    if (std::string(argv[1]) == "copy") {
        const Gpu gpu(std::strtoul(argv[2], nullptr, 10));
        std::printf("%.9f\n", least_of_copy(gpu, std::strtoul(argv[3], nullptr, 10)));
        return 0;
    }
    std::ifstream file(argv[1], std::ios::binary);
    const std::vector<char> code{std::istreambuf_iterator<char>(file), {}};
    const auto extent = std::uint32_t(std::strtoul(argv[3], nullptr, 10)) / kTile * kTile;
    if (code.empty() || extent == 0) return 1;
    const Gpu gpu(std::strtoul(argv[2], nullptr, 10));
    std::vector<Buffer> buffers;
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> number(-1, 1);
    for (int b = 0; b < 3; ++b) {
        buffers.push_back(gpu.buffer(std::size_t(extent) * extent));
        std::generate_n(buffers.back().data, std::size_t(extent) * extent,
                        [&] { return number(engine); });
    }
    const VkCommandBuffer commands = commands_of(gpu, code, extent, buffers);
    double least = 1e30;
    for (int run = 0; run < kRuns; ++run) least = std::min(least, gpu.run(commands));
    if (!is_right(buffers, extent)) {
        std::fprintf(stderr, "wrong result\n");
        return 1;
    }
    std::printf("%.6f\n", least);
    return 0;
}
#else
int main() { return 3; }
#endif
