// The functions of the language on every driver: those of float32 compute in float32 alone.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpu/case.h"
#include "tests/cpu/definitions.h"
#include "tests/cpu/vulkan_devices.h"
#include "tests/math/validation_sets.h"

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

/// As far as the driver has the numbers: see has_no_denormals.
TEST(VulkanFunctions, OfStrictModeAreWithinTheBoundsOfNumpysValidationSets) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    // sinh takes the half of it.
    const auto is_small = [](float x) { return x != 0 && std::abs(x) < 0x1p-125f; };
    std::size_t count = 0;
    for (const char* name : cpu_test::kFunctions) {
        const auto rows = math::testing::validation_rows<float>(name);
        if (rows.empty()) continue;
        count += rows.size();
        Tensor x = Tensor::empty({std::int64_t(rows.size())}, DType::Float32);
        for (std::size_t i = 0; i < rows.size(); ++i) x.data<float>()[i] = rows[i].x;
        const Case c(cpu_test::text_of(name), {x});
        for (const VulkanDevice& vulkan : vulkan_devices()) {
            const auto got = c.on_vulkan(vulkan.device, Numerics::Strict);
            ASSERT_TRUE(got.has_value());
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const auto& [number, result, bound] = rows[i];
                if (vulkan.has_no_denormals && (is_small(number) || is_small(result))) continue;
                const float y = std::as_const(*got).data<float>()[i];
                EXPECT_LE(math::testing::steps(y, result), bound)
                    << name << "(" << number << ") is " << y << ", expected " << result << " on "
                    << vulkan.device.id();
            }
        }
    }
    if (count == 0) GTEST_SKIP() << "no validation sets";
}

/// By the device's float16 where it has it.
TEST(VulkanFunctions, OfEveryFloat16HaveTheInterpretersBits) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const Tensor x = cpu_test::every_number(DType::Float16);
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

/// float32 that round to float16: exact ones, halves between two and their neighbours, what is
/// denormal there, too large or too small.
Tensor near_float16() {
    std::vector<float> numbers;
    const Tensor exact = cpu_test::every_number(DType::Float16).to(DType::Float32);
    for (std::int64_t i = 0; i < exact.element_count(); ++i) {
        const float x = exact.data<float>()[i];
        const float after = exact.data<float>()[(i + 1) % exact.element_count()];
        const float between = x / 2 + after / 2;
        for (const float y : {x, between}) {
            numbers.insert(numbers.end(),
                           {std::nextafter(y, -INFINITY), y, std::nextafter(y, INFINITY)});
        }
    }
    for (const float y : {65519.0f, 65520.0f, 65536.0f, 1e10f, 0x1p-25f, 0x1.000002p-25f, 1e-20f}) {
        numbers.insert(numbers.end(), {y, -y});
    }
    std::erase_if(numbers, [](float x) { return x != 0 && std::abs(x) < 0x1p-126f; });
    return Tensor::from<float>({std::int64_t(numbers.size())}, std::move(numbers));
}

/// On a device that has float16, and by integers.
TEST(VulkanConversions, BetweenFloat16AndFloat32AreThoseOfEveryNumber) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const std::string head = "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = ";
    const Case wider(head + "f32(x[i])\n}", {cpu_test::every_number(DType::Float16)});
    const Case narrower(head + "f16(x[i])\n}", {near_float16()});
    for (const VulkanDevice& vulkan : vulkan_devices()) {
        expect_bits(vulkan, wider);
        expect_bits(vulkan, narrower);
    }
}

/// Each number with those at several distances, which takes every exponent with every other.
TEST(VulkanConversions, SumsAndProductsOfFloat16AreRoundedAsTheirOwn) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    const Tensor x = cpu_test::every_number(DType::Float16);
    for (const std::int64_t distance : {1, 1023, 1024, 3001, 15361, 32769, 40007}) {
        SCOPED_TRACE(distance);
        const auto bits = [](Tensor& t) { return static_cast<std::uint16_t*>(t.data()); };
        Tensor y = cpu_test::every_number(DType::Float16);
        for (std::int64_t i = 0; i < (1 << 16); ++i) {
            bits(y)[i] = std::uint16_t(i * 3 + distance);
        }
        for (const char* op : {"+", "-", "*"}) {
            const Case c("compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] " +
                             std::string(op) + " y[i]\n}",
                         {x, y});
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

/// Halfway between two numbers of float32, and beside it: SwiftShader's own conversion rounds
/// twice.
TEST(VulkanConversions, OfUnsignedIntegersAreRoundedOnce) {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan driver";
    std::vector<std::int64_t> numbers = {0, 1, 65535, 65536, 4294967295};
    for (const std::int64_t first :
         {0x80000000L, 0xC0000000L, 0xFFFF0000L, 0x40000000L, 0x01000000L}) {
        for (const std::int64_t low : {127, 128, 129, 255, 383, 384, 385, 32897, 0xABCD}) {
            numbers.push_back(first + low);
        }
    }
    const Tensor all = Tensor::from<std::int64_t>({std::int64_t(numbers.size())}, numbers);
    for (const char* dtype : {"u32", "i64", "u64"}) {
        const Case c("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = f32(" +
                         std::string(dtype) + "(x[i]))\n}",
                     {all});
        for (const VulkanDevice& vulkan : vulkan_devices()) expect_bits(vulkan, c);
    }
}

}  // namespace
}  // namespace quern
