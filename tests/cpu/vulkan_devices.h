// The devices of this machine that run kernels by Vulkan, and what their drivers lack.
#pragma once

#include <string>
#include <vector>

#include "quern/device.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

struct VulkanDevice {
    Device device;

    /// It has integers of 32 bits only, and takes 0 for numbers below the least normal one.
    bool is_swiftshader = false;

    /// Whether these are the bits that it gives where they should be the interpreter's.
    bool gives(const Tensor& got, const Tensor& expected) const {
        return is_swiftshader ? same_normal_numbers(got, expected) : same_numbers(got, expected);
    }
};

/// Every device of this machine that runs kernels by Vulkan.
inline const std::vector<VulkanDevice>& vulkan_devices() {
    static const std::vector<VulkanDevice> here = [] {
        std::vector<VulkanDevice> list;
        for (const DeviceInfo& device : devices()) {
            if (device.type != "vulkan") continue;
            list.push_back(
                {Device(device.id), device.name.find("SwiftShader") != std::string::npos});
        }
        return list;
    }();
    return here;
}

}  // namespace quern::cpu_test
