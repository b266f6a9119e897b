#define VOLK_IMPLEMENTATION
#include <volk.h>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/backend/common/image_of.h"
#include "quern/backend/vulkan/device.h"
#include "quern/backend/vulkan/limits.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/backend/vulkan/validate.h"
#include "quern/lir/iterations.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/schedule/plan.h"

namespace quern::vulkan {
namespace {

class LoadedPipelines : public Pipelines {
public:
    explicit LoadedPipelines(GpuDevice& device) : device_(device) {}
    ~LoadedPipelines() override {
        for (const GpuDevice::Stage& stage : stages) device_.destroy(stage);
    }
    LoadedPipelines(const LoadedPipelines&) = delete;
    LoadedPipelines& operator=(const LoadedPipelines&) = delete;

    GpuDevice& device() const { return device_; }

    std::vector<GpuDevice::Stage> stages;
    bool may_fail = false;

    /// Of the stages.
    std::vector<lir::Function> functions;

    /// What a point of each takes in a launch.
    std::vector<lir::Bounds> bounds_of(const ReadyLaunch& launch) const {
        std::vector<lir::Bounds> all;
        for (std::size_t i = 0; i < functions.size(); ++i) {
            all.push_back(lir::bounds_of(functions[i], launch.stages[i].words));
        }
        return all;
    }

private:
    GpuDevice& device_;
};

void end_all();
void leave_all_to_parent();

/// Throws VulkanError.
std::vector<VkPhysicalDevice> devices_of(VkInstance instance) {
    std::vector<VkPhysicalDevice> all;
    VkResult result = VK_INCOMPLETE;
    // One may come between the two calls.
    while (result == VK_INCOMPLETE) {
        std::uint32_t count = 0;
        result = vkEnumeratePhysicalDevices(instance, &count, nullptr);
        all.resize(count);
        if (result != VK_SUCCESS || count == 0) break;
        result = vkEnumeratePhysicalDevices(instance, &count, all.data());
        all.resize(count);
    }
    check(result, "vkEnumeratePhysicalDevices");
    return all;
}

class VulkanDriver : public Driver {
public:
    /// Why there is none, or empty.
    std::string start() {
        if (volkInitialize() != VK_SUCCESS) return "there is no Vulkan loader (libvulkan.so.1)";
        if (volkGetInstanceVersion() < VK_API_VERSION_1_2)
            return "the Vulkan loader is older than 1.2";
        const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                            .pEngineName = "Quern",
                                            .apiVersion = VK_API_VERSION_1_2};
        VkInstanceCreateInfo about{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                   .pApplicationInfo = &application};
        // Of systems whose driver is another interface underneath, as MoltenVK's.
        static constexpr const char* kPortability = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        if (has_extension(VK_NULL_HANDLE, kPortability)) {
            about.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
            about.enabledExtensionCount = 1;
            about.ppEnabledExtensionNames = &kPortability;
        }
        // A start that threw bad_alloc is tried again.
        abilities_.clear();
        descriptions_.clear();
        VkInstance instance = VK_NULL_HANDLE;
        check(vkCreateInstance(&about, nullptr, &instance), "vkCreateInstance");
        // Never destroyed, also where the start fails, since drivers would be unloaded, which have
        // left handlers for the end of threads and of the process.
        volkLoadInstanceOnly(instance);
        list(instance);
        return physical_.empty() ? "no driver has a device" : std::string();
    }

    const std::vector<DeviceDescription>& devices() const override { return descriptions_; }

    std::uint32_t windows_for(std::size_t device, std::uint64_t bytes) const override {
        return abilities_[device].windows_for(bytes);
    }

    Compiled compile(std::size_t device, const ir::Kernel& kernel, const ir::Facts& facts,
                     Numerics numerics, const Variant& variant, const DriverCode* kept) override {
        try {
            return compile_chosen(device, kernel, facts, numerics, variant, kept);
        } catch (...) {
            Compiled none;
            none.failure = this_failure();
            return none;
        }
    }

    Memory allocate(std::size_t device, std::size_t bytes) override {
        try {
            return opened(device).allocate(bytes);
        } catch (...) {
            Memory none;
            none.failure = this_failure();
            return none;
        }
    }

    void free(std::size_t device, const Memory& memory, std::uint64_t ticket) noexcept override {
        opened_[device]->free(memory, ticket);
    }

    Pool* pool(std::size_t device, Failure& failure) override {
        try {
            return opened(device).pool(failure);
        } catch (...) {
            failure = this_failure();
            return nullptr;
        }
    }

    Failure wait(std::size_t device, std::uint64_t ticket) override {
        try {
            GpuDevice* const gpu = opened_if_used(device);
            return gpu ? gpu->wait(ticket) : Failure{};
        } catch (...) {
            return this_failure();
        }
    }

    Outcome upload(std::size_t device, const Memory& memory) override {
        return or_failure([&] { return opened_[device]->upload(memory); });
    }

    Outcome fetch(std::size_t device, const Memory& memory) override {
        return or_failure([&] { return opened_[device]->fetch(memory); });
    }

    void wait_for_all() noexcept override {
        for (std::size_t i = 0; i < opened_.size(); ++i) {
            if (GpuDevice* const gpu = opened_if_used(i)) gpu->wait_for_all();
        }
    }

    void leave_to_parent() noexcept {
        new (&mutex_) std::mutex;
        for (const auto& gpu : opened_) {
            if (gpu) gpu->leave_to_parent();
        }
    }

    /// Drivers' threads must be at rest when the process takes their libraries down.
    void end() noexcept {
        for (std::size_t i = 0; i < opened_.size(); ++i) {
            if (GpuDevice* const gpu = opened_if_used(i)) gpu->end();
        }
    }

    Outcome run(const std::shared_ptr<const Pipelines>& pipelines, const KernelImage& image,
                const ReadyLaunch& launch, std::span<const Range> operands, Range output,
                bool keeps_output) override {
        const auto& loaded = static_cast<const LoadedPipelines&>(*pipelines);
        return or_failure([&] {
            const std::vector<lir::Bounds> bounds = loaded.bounds_of(launch);
            const bool may_be_cut =
                loaded.device().cuts_loops() && std::ranges::any_of(bounds, [](const auto& b) {
                    return b.iterations >= kMostIterations;
                });
            return loaded.device().run({.stages = loaded.stages,
                                        .image = image,
                                        .launch = launch,
                                        .operands = operands,
                                        .output = output,
                                        .keeps_output = keeps_output,
                                        .bounds = bounds,
                                        .may_fail = loaded.may_fail || may_be_cut,
                                        .code = pipelines});
        });
    }

private:
    void list(VkInstance instance) {
        physical_ = devices_of(instance);
        opened_.resize(physical_.size());
        for (const VkPhysicalDevice device : physical_) {
            const Abilities& abilities = abilities_.emplace_back(device);
            descriptions_.push_back({abilities.properties.deviceName, abilities.memory,
                                     abilities.largest_allocation, abilities.is_memory_seen,
                                     abilities.driver(), abilities.missing()});
        }
    }

    Compiled compile_chosen(std::size_t device, const ir::Kernel& kernel, const ir::Facts& facts,
                            Numerics numerics, const Variant& variant, const DriverCode* kept) {
        Variant chosen = variant;
        const auto as = [&](PointsAre points) {
            chosen.points = points;
            return compile_as(device, kernel, facts, numerics, chosen, kept);
        };
        if (variant.points != PointsAre::Chosen) return as(variant.points);
        if (abilities_[device].is_processor()) return as(PointsAre::Invocations);
        Compiled groups = as(PointsAre::Groups);
        if (groups.refusal.empty()) return groups;
        // Code of lanes is longer, which limits are on.
        Compiled alone = as(PointsAre::Invocations);
        return alone.refusal.empty() ? alone : groups;
    }

    /// `variant` says what points are.
    Compiled compile_as(std::size_t device, const ir::Kernel& kernel, const ir::Facts& facts,
                        Numerics numerics, const Variant& variant, const DriverCode* kept) {
        const Abilities& abilities = abilities_[device];
        const Windows windows{abilities.window_bits(), variant.windows};
        const auto [target, integers, has_float16] =
            code_for(variant, {.integers = abilities.integers,
                               .has_float64 = bool(abilities.core.shaderFloat64),
                               .has_float16 = abilities.controls.has_float16,
                               .is_processor = abilities.is_processor(),
                               .subgroup = abilities.subgroup,
                               .group_bytes = abilities.group_bytes(),
                               .atoms = abilities.atoms});
        FloatControls controls = abilities.controls;
        controls.has_float16 = has_float16;
        controls.folds_wrongly |= variant.hides_floats;
        const bool is_bound = abilities.buffers == BuffersAre::Bound;
        Compiled result;
        result.hides_floats = controls.folds_wrongly;
        try {
            result.refusal = schedule::legal(kernel);
            if (!result.refusal.empty()) return result;
            const auto [plan, functions] = lowered(kernel, facts, numerics, target);
            result.is_small = plan.is_small;
            result.image = image_of(plan, {});
            GpuDevice& gpu = opened(device);
            auto pipelines = std::make_shared<LoadedPipelines>(gpu);
            pipelines->stages.reserve(plan.stages.size());
            for (std::size_t i = 0; i < functions.size(); ++i) {
                const lir::Function& function = functions[i];
                const std::uint32_t bindings = bindings_of(function, windows).count();
                if (is_bound && bindings > abilities.most_bindings()) {
                    const char* const why =
                        variant.windows.empty()
                            ? ""
                            : ", since buffers above maxStorageBufferRange are several";
                    result.refusal = "a kernel of " + std::to_string(bindings) + " bindings" + why +
                                     ": it has " + std::to_string(abilities.most_bindings()) +
                                     " (" + abilities.name_of_most_bindings() + ")";
                    return result;
                }
                const auto words = emit(function, controls, integers, abilities.buffers, windows);
                result.refusal = too_long(function, words, controls.has_few_places);
                if (!result.refusal.empty()) return result;
                const std::string lacks = abilities.lacks(words);
                if (!lacks.empty()) {
                    result.refusal = "a kernel that needs " + lacks;
                    return result;
                }
                result.groups.push_back(groups_of(function, integers, abilities.group));
                result.groups.back().has_soft_float64 = plan.stages[i].has_soft_float64;
                result.has_float16 |= has_float16 && has_halves(function);
                result.has_packets |= has_packets(function);
                result.has_quotients |= has_quotients(function);
                result.is_fused |= is_fused(function);
                const std::string why = invalid(words, result.groups.back().atom.rows > 0);
                if (!why.empty()) {
                    result.failure = {Failure::Kind::Error, why};
                    return result;
                }
                pipelines->may_fail |= may_fail(function);
                pipelines->functions.push_back(plan.stages[i].as_lowered());
                const Groups& groups = result.groups.back();
                pipelines->stages.push_back(gpu.stage(function, words, groups, windows, kept));
            }
            result.pipelines = std::move(pipelines);
        } catch (const VulkanError& error) {
            result.failure = error.failure();
            result.is_of_code = error.kind() == Failure::Kind::Error;
        }
        return result;
    }

    /// Of the exception that is being handled.
    static Failure this_failure() noexcept {
        try {
            try {
                throw;
            } catch (const VulkanError& error) {
                return error.failure();
            } catch (const std::exception& error) {
                if (!dynamic_cast<const std::bad_alloc*>(&error)) {
                    return {Failure::Kind::Error, error.what()};
                }
            }
        } catch (...) {
            // There is no memory to say what.
        }
        return {Failure::Kind::HostIsFull, {}};
    }

    template <class Work>
    static Outcome or_failure(const Work& work) {
        try {
            return work();
        } catch (...) {
            Outcome outcome;
            outcome.failure = this_failure();
            return outcome;
        }
    }

    GpuDevice* opened_if_used(std::size_t device) {
        const std::lock_guard lock(mutex_);
        return opened_[device].get();
    }

    GpuDevice& opened(std::size_t device) {
        const std::lock_guard lock(mutex_);
        auto& gpu = opened_[device];
        if (gpu) return *gpu;
        gpu = std::make_unique<GpuDevice>(physical_[device], abilities_[device]);
        // Handlers run in reverse order: before those that the driver has registered until now.
        std::atexit(end_all);
        watch_forks();
        return *gpu;
    }

    static void watch_forks() {
#if defined(__unix__) || defined(__APPLE__)
        static const int handler = ::pthread_atfork(nullptr, nullptr, leave_all_to_parent);
        static_cast<void>(handler);
#endif
    }

    std::vector<VkPhysicalDevice> physical_;
    std::vector<Abilities> abilities_;
    std::vector<DeviceDescription> descriptions_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<GpuDevice>> opened_;
};

VulkanDriver& the_driver() {
    // Never destroyed: drivers may be gone when the process's own objects end.
    static VulkanDriver& driver = *new VulkanDriver;
    return driver;
}

void end_all() { the_driver().end(); }
void leave_all_to_parent() { the_driver().leave_to_parent(); }

}  // namespace
}  // namespace quern::vulkan

extern "C" __attribute__((visibility("default"))) quern::vulkan::Driver* quern_vulkan_driver(
    std::string& why) {
    using quern::vulkan::the_driver;
    static const std::string reason = [] {
        try {
            return the_driver().start();
        } catch (const std::bad_alloc&) {
            throw;
        } catch (const std::exception& error) {
            return std::string(error.what());
        }
    }();
    why = reason;
    return reason.empty() ? &the_driver() : nullptr;
}

extern "C" __attribute__((visibility("default"))) const char* quern_vulkan_code_version() {
    return quern::cpu::code_version();
}
