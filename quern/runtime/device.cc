#include "quern/device.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "quern/error.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern {
namespace {

constexpr std::string_view kInterpreter = "interpreter";
constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kVulkan = "vulkan";

struct Default {
    Mutex mutex;
    std::string id;
};

/// Never destroyed: destructors of the program's static objects may still make tensors.
Default& default_device() {
    static Default& instance = *new Default;
    return instance;
}

/// Of "cpu:0" and so on, which share the processor's cores and memory.
constexpr std::size_t kLogicalCpus = 64;

/// N of "type:N"; none if it is not so.
std::optional<std::size_t> number_of(std::string_view id, std::string_view type) noexcept {
    if (!id.starts_with(type) || id.size() <= type.size() || id[type.size()] != ':') return {};
    const std::string_view number = id.substr(type.size() + 1);
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_plain = number == "0" || (!number.empty() && number[0] != '0');
    if (error != std::errc() || end != number.data() + number.size() || !is_plain) return {};
    return value;
}

bool is_logical_cpu(std::string_view id) {
    const auto number = number_of(id, kCpu);
    return number && *number < kLogicalCpus;
}

constexpr const char* kNoPlugin =
    "the compiler plug-in that it needs is neither beside the program or its library, nor where "
    "the system looks for libraries, nor where QUERN_PLUGINS says";

std::string lack_of(const vulkan::DeviceDescription& device) {
    return device.missing.empty() ? std::string() : device.name + " lacks " + device.missing;
}

/// What keeps a device "vulkan:N" from being used, or empty.
std::string why_no_vulkan(std::size_t number) {
    std::string why;
    const vulkan::Driver* const driver = vulkan::driver(why);
    if (!driver) return why;
    if (number >= driver->devices().size()) {
        return "drivers have " + std::to_string(driver->devices().size()) + " devices";
    }
    return lack_of(driver->devices()[number]);
}

[[noreturn]] void no_such_device(std::string_view id, std::string_view origin) {
    std::string message = "[device] E0601: no device '" + std::string(id) + "'";
    message += origin;
    if (const std::string why = why_absent(id); !why.empty()) message += ": " + why;
    message += "; there are: ";
    const char* separator = "";
    for (const DeviceInfo& device : devices()) {
        message += separator + device.id;
        separator = ", ";
    }
    raise(DeviceError(std::move(message)));
}

bool has_cpu() {
    return cpu::has(cpu::kSimdLevels[0]) && (!cpu::plugin_path().empty() || has_loaded_kernels());
}

/// Whether "auto" became the interpreter, and somebody was told.
enum class Want : std::uint8_t { None, Untold, Told };
std::atomic<Want> want_of_compiler{Want::None};

std::string resolve(std::string_view id, std::string_view origin = {}) {
    if (id == "auto") {
        if (has_cpu()) return std::string(kCpu);
        Want none = Want::None;
        want_of_compiler.compare_exchange_strong(none, Want::Untold);
        return std::string(kInterpreter);
    }
    if (!has_device(id)) no_such_device(id, origin);
    return std::string(id);
}

std::string resolve_default() {
    {
        Default& state = default_device();
        const Lock lock(state.mutex);
        if (!state.id.empty()) return state.id;
    }
    const char* id = std::getenv("QUERN_DEVICE");
    if (id == nullptr || *id == '\0') return resolve("auto");
    return resolve(id, " (from QUERN_DEVICE)");
}

}  // namespace

void warn_if_chosen_for_want_of_compiler() {
#if QUERN_EXCEPTIONS
    // A build without exceptions has no compiler.
    // Kernels that were loaded since need no compiler.
    if (want_of_compiler.load() != Want::Untold || has_cpu()) return;
    Want untold = Want::Untold;
    if (!want_of_compiler.compare_exchange_strong(untold, Want::Told)) return;
    Diagnostic diagnostic;
    diagnostic.severity = Severity::Warning;
    diagnostic.message = fmt::format(
        "[device] kernels run on the interpreter: expected {} beside the program or its library, "
        "where the system looks for the program's libraries, or where QUERN_PLUGINS says, got none",
        cpu::kPluginName);
    warn(diagnostic);
#endif
}

// Without a list of all devices, which would allocate: every tensor asks.
bool has_device(std::string_view id) {
    if (const auto number = vulkan_number(id)) return why_no_vulkan(*number).empty();
    return id == "auto" || id == kInterpreter || ((id == kCpu || is_logical_cpu(id)) && has_cpu());
}

std::string why_absent(std::string_view id) {
    if (id == kCpu || is_logical_cpu(id)) return kNoPlugin;
    if (id.starts_with("cpu:")) {
        return "logical devices of the cpu are cpu:0 to cpu:" + std::to_string(kLogicalCpus - 1);
    }
    const auto number = vulkan_number(id);
    return number ? why_no_vulkan(*number) : std::string();
}

Device::Device() : id_(or_out_of_memory("device", [] { return resolve_default(); })) {}

Device::Device(std::string_view id)
    : id_(or_out_of_memory("device", [&] { return resolve(id); })) {}

namespace {

std::vector<DeviceInfo> list_of_devices() {
    std::vector<DeviceInfo> list;
    if (has_cpu()) {
        list.push_back({.id = std::string(kCpu),
                        .type = std::string(kCpu),
                        .name = std::string("LLVM, ") + cpu::to_string(cpu::chosen_simd()),
                        .cores = hardware_threads(),
                        .memory = 0});
    }
    std::string why;
    if (const vulkan::Driver* const driver = vulkan::driver(why)) {
        for (std::size_t i = 0; i < driver->devices().size(); ++i) {
            const vulkan::DeviceDescription& device = driver->devices()[i];
            if (!device.missing.empty()) continue;
            list.push_back({.id = std::string(kVulkan) + ":" + std::to_string(i),
                            .type = std::string(kVulkan),
                            .name = device.name,
                            .cores = 0,
                            .memory = device.memory});
        }
    }
    list.push_back({.id = std::string(kInterpreter),
                    .type = std::string(kInterpreter),
                    .name = "reference interpreter",
                    .cores = hardware_threads(),
                    .memory = 0});
    return list;
}

std::vector<MissingDevice> list_of_missing() {
    std::vector<MissingDevice> list;
    if (!has_cpu()) list.push_back({std::string(kCpu), kNoPlugin});
    std::string why;
    const vulkan::Driver* const driver = vulkan::driver(why);
    if (!driver) list.push_back({std::string(kVulkan), why});
    for (std::size_t i = 0; driver && i < driver->devices().size(); ++i) {
        std::string lack = lack_of(driver->devices()[i]);
        if (lack.empty()) continue;
        list.push_back({std::string(kVulkan) + ":" + std::to_string(i), std::move(lack)});
    }
    return list;
}

}  // namespace

std::vector<DeviceInfo> devices() {
    return or_out_of_memory("device", [] { return list_of_devices(); });
}

std::vector<MissingDevice> missing_devices() {
    return or_out_of_memory("device", [] { return list_of_missing(); });
}

bool has_host_memory(std::string_view id) noexcept {
    return id == "auto" || id == kInterpreter || id == kCpu || id.starts_with("cpu:");
}

bool share_memory(std::string_view a, std::string_view b) noexcept {
    return a == b || (has_host_memory(a) && has_host_memory(b));
}

std::optional<std::size_t> vulkan_number(std::string_view id) noexcept {
    return number_of(id, kVulkan);
}

bool Device::is_vulkan() const noexcept { return vulkan_number(id_).has_value(); }

bool Device::is_cpu() const noexcept { return id_ == kCpu || id_.starts_with("cpu:"); }

void synchronize(const Device& device) {
    const auto number = vulkan_number(device.id());
    if (number) vulkan::wait_for(*number, vulkan::kEverything);
}

void set_default_device(std::string_view id) {
    std::string resolved = or_out_of_memory("device", [&] { return resolve(id); });
    // What came before was for nobody's kernels yet.
    if (id != "auto") want_of_compiler.store(Want::None);
    Default& state = default_device();
    const Lock lock(state.mutex);
    state.id = std::move(resolved);
}

}  // namespace quern
