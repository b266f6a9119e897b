// What tests of launches on a device "vulkan:N" share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "quern/kernel.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern {

/// A test on the device of a number, which is skipped where there is none.
class OnDevice : public testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override {
        if (GetParam() >= cpu_test::vulkan_devices().size()) {
            GTEST_SKIP() << "no device vulkan:" << GetParam();
        }
    }

    static const Device& device() { return cpu_test::vulkan_devices()[GetParam()].device; }

    /// An element-wise kernel on the device.
    static Kernel each(const std::string& operands, const std::string& value) {
        return Kernel("compute(" + operands +
                      ") {\n@kernel custom\nfor i in 0..n: out[i] = " + value + "\n}")
            .on(device())
            .with(Numerics::Reproducible);
    }

    /// Takes a while, and gives what it got.
    static Kernel slow() {
        std::string value = "x[i]";
        for (int i = 0; i < 6; ++i) value += " + 0.0 * exp(x[i] - " + std::to_string(i) + ".0)";
        return each("x", value);
    }

    static bool is_all(const Tensor& tensor, float value) {
        const float* const data = tensor.data<float>();
        return std::all_of(data, data + tensor.element_count(),
                           [&](float element) { return element == value; });
    }
};

}  // namespace quern
