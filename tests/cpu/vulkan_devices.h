// The devices of this machine that run kernels by Vulkan, and what their drivers lack.
#pragma once

#include <string>
#include <vector>

#include "quern/device.h"
#include "quern/kernel.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

struct VulkanDevice {
    Device device;

    /// It has integers of 32 bits only.
    bool is_swiftshader = false;

    /// It takes 0 for numbers below the least normal one, as SwiftShader and newer llvmpipes do.
    bool has_no_denormals = false;

    /// Whether these are the bits that it gives where they should be the interpreter's.
    bool gives(const Tensor& got, const Tensor& expected) const {
        return has_no_denormals ? same_normal_numbers(got, expected) : same_numbers(got, expected);
    }
};

inline bool has_no_denormals(const Device& device) {
    const Kernel twice("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] + x[i]\n}");
    const Tensor least = Tensor::from({1}, {0x1p-149}).to(DType::Float32);
    return twice.on(device).run(std::vector{least}, {}).values()[0] == 0;
}

/// Every device of this machine that runs kernels by Vulkan.
inline const std::vector<VulkanDevice>& vulkan_devices() {
    static const std::vector<VulkanDevice> here = [] {
        std::vector<VulkanDevice> list;
        for (const DeviceInfo& device : devices()) {
            if (device.type != "vulkan") continue;
            const Device each(device.id);
            list.push_back({each, device.name.find("SwiftShader") != std::string::npos,
                            has_no_denormals(each)});
        }
        return list;
    }();
    return here;
}

}  // namespace quern::cpu_test
