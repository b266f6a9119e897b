// What the mock loader is told, and the loader that it stands for.
#pragma once

#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace quern::mock {

struct Order {
    std::string function;
    int call = 0;
    int result = 0;
};

inline Order parse(const std::string& text) {
    Order o;
    char name[64] = {};
    const bool fails = std::sscanf(text.c_str(), "vk%60s %d %d", name, &o.call, &o.result) == 3;
    o.function = fails ? std::string("vk") + name : text;
    return o;
}

inline const std::vector<Order>& orders() {
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

inline bool say_here() {
    std::fputs("mock: here\n", stderr);
    return true;
}

inline const Order* order(const char* what) {
    for (const Order& o : orders()) {
        if (o.function == what) return &o;
    }
    return nullptr;
}

inline bool is(const char* what) { return order(what) != nullptr; }

inline PFN_vkGetInstanceProcAddr real_instance_function() {
    static const auto function = [] {
        void* const library = dlopen(QUERN_VULKAN_LOADER, RTLD_NOW | RTLD_LOCAL);
        return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(
                             dlsym(library, "vkGetInstanceProcAddr"))
                       : nullptr;
    }();
    return function;
}

inline VkInstance the_instance = VK_NULL_HANDLE;
inline PFN_vkGetDeviceProcAddr real_device_function = nullptr;

/// For any device: the loader's own finds which by its handle.
template <class Function>
Function real(const char* name) {
    return reinterpret_cast<Function>(real_instance_function()(the_instance, name));
}

/// What stands for a function by "memory of its own" or "transfer queue", or null.
PFN_vkVoidFunction of_hardware(const char* name);

/// The same by an order that says that there is an extension, and what such a one has beside the
/// driver's own.
PFN_vkVoidFunction of_extensions(const char* name);
void properties_of_extensions(VkPhysicalDevice device, VkPhysicalDeviceProperties2* got);
void features_of_extensions(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* got);
bool hides_portable_devices();

}  // namespace quern::mock
