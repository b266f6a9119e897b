// The functions of the language on every driver: those of float32 compute in float32 alone.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cpu/case.h"
#include "tests/cpu/definitions.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern {
namespace {

using cpu_test::Case;
using cpu_test::vulkan_devices;
using cpu_test::VulkanDevice;

/// What no driver takes as zero.
Tensor normal_arguments() {
    std::vector<double> x;
    for (const double v : cpu_test::arguments(DType::Float32).values()) {
        if (v == 0 || !(std::abs(v) < 0x1p-126)) x.push_back(v);
    }
    return Tensor::from({std::int64_t(x.size())}, x).to(DType::Float32);
}

void expect_bits(const VulkanDevice& vulkan, const Case& c) {
    SCOPED_TRACE(vulkan.device.id());
    const auto expected = c.interpreted();
    const auto got = c.on_vulkan(vulkan.device, Numerics::Reproducible);
    ASSERT_TRUE(expected.has_value());
    ASSERT_TRUE(got.has_value());
    EXPECT_TRUE(vulkan.gives(*got, *expected));
}

TEST(VulkanFunctions, OfFloat32HaveTheInterpretersBitsWithoutFloat64) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const Tensor x = normal_arguments();
    for (const char* name : cpu_test::kFunctions) {
        SCOPED_TRACE(name);
        for (const VulkanDevice& vulkan : vulkan_devices()) {
            expect_bits(vulkan, Case(cpu_test::text_of(name), {x}));
        }
    }
}

TEST(VulkanFunctions, PowerOfFloat32HasTheInterpretersBitsWithoutFloat64) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const Tensor x = normal_arguments();
    std::vector<double> y = x.values();
    // Exponents that leave results finite, and whole ones.
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (std::isfinite(y[i])) y[i] = i % 3 == 0 ? double(i % 17) - 8 : std::fmod(y[i], 30);
    }
    const Tensor exponents = Tensor::from(x.shape(), y).to(DType::Float32);
    for (const VulkanDevice& vulkan : vulkan_devices()) {
        expect_bits(vulkan, Case(cpu_test::kPower, {x, exponents}));
    }
}

/// Compilers of drivers compare in fewer bits what was made wider.
TEST(VulkanIntegers, ThatBecameWiderCompareWithConstants) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    std::vector<double> numbers;
    for (int n = -128; n < 128; ++n) numbers.push_back(n);
    for (const DType dtype : {DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8,
                              DType::UInt16, DType::UInt32, DType::UInt64}) {
        for (const std::string wide : {"i32", "i64", "u32", "u64"}) {
            std::string sum;
            int flag = 1;
            for (const char* constant : {"0", "1", "100", "-1"}) {
                if (wide[0] == 'u' && constant[0] == '-') continue;
                const std::string x = wide + "(x[i])", c = wide + "(" + constant + ")";
                for (const std::string& holds : {x + " < " + c, c + " < " + x, x + " <= " + c,
                                                 c + " <= " + x, x + " == " + c}) {
                    sum += (sum.empty() ? "" : " + ") + std::string("select(") + holds + ", " +
                           std::to_string(flag) + ", 0)";
                    flag *= 2;
                }
            }
            SCOPED_TRACE(std::string(to_string(dtype)) + " as " + wide);
            const Case c("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = " + sum +
                             " + 0 * i64(x[i])\n}",
                         {Tensor::from<double>({256}, numbers).to(dtype)});
            for (const VulkanDevice& vulkan : vulkan_devices()) expect_bits(vulkan, c);
        }
    }
}

/// Compilers of drivers take two conversions for one.
TEST(VulkanConversions, OneAfterAnotherAreEachRounded) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    // What is exact, between two numbers, and nearly there, in every format.
    std::vector<std::int64_t> numbers;
    for (const int last : {3, 7, 10, 11, 23, 24, 36, 37, 52}) {
        for (const std::int64_t low : {-1, 0, 1}) {
            const std::int64_t odd = (std::int64_t{1} << last) + low;
            for (const int first : {8, 12, 15, 25, 37, 53, 60, 62}) {
                if (first > last) numbers.push_back((std::int64_t{1} << first) + odd);
            }
        }
    }
    const Tensor all =
        Tensor::from<std::int64_t>({std::int64_t(numbers.size())}, std::move(numbers));
    for (const DType dtype : {DType::Int64, DType::UInt64, DType::Float64}) {
        for (const std::string first : {"f64", "f32", "f16", "bf16", "i64"}) {
            for (const std::string next : {"f64", "f32", "f16", "i64", "u64", "i32"}) {
                const std::string chain = next + "(" + first + "(x[i]))";
                SCOPED_TRACE(std::string(to_string(dtype)) + ": " + chain);
                const Case c(
                    "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = " + chain + "\n}",
                    {all.to(dtype)});
                for (const VulkanDevice& vulkan : vulkan_devices()) expect_bits(vulkan, c);
            }
        }
    }
}

}  // namespace
}  // namespace quern
