// Kernels compiled for each SIMD level and held against the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern::cpu_test {

/// Within `tolerance` of each other, relative to `scale`.
inline void expect_near(const Tensor& got, const Tensor& expected, double tolerance, double scale) {
    ASSERT_EQ(got.shape(), expected.shape());
    const std::vector<double> x = got.values(), y = expected.values();
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i]) && std::isnan(y[i])) continue;
        if (x[i] == y[i]) continue;
        ASSERT_LE(std::abs(x[i] - y[i]), tolerance * std::max(scale, std::abs(y[i])))
            << "element " << i;
    }
}

/// What a launch throws, or "no error".
inline std::string message_of(const Kernel& kernel, std::span<const Tensor> operands) {
    try {
        kernel.run(operands);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// Whether a device of Vulkan may refuse the kernel, for a reason that is the driver's.
inline bool may_refuse(const Refusal& refusal) {
    // llvmpipe's loops end.
    return refusal.reason().find("iterations, all that") != std::string::npos;
}

/// Lane by lane, as work-groups and as invocations run it, with numbers of 64 bits and without.
inline void expect_agreement_on_lanes(const Case& c, const Tensor& expected, double tolerance,
                                      double scale) {
    for (schedule::Target target : {vulkan::kGroups, vulkan::kInvocations}) {
        for (const auto& [has_int64, has_float64] :
             {std::pair{true, true}, {false, false}, {true, false}}) {
            target.native.int64 = has_int64;
            target.native.float64 = has_float64;
            target.native.int8 = target.native.int16 = has_int64;
            if (has_int64 && !has_float64 && !c.has_float64()) continue;
            SCOPED_TRACE(std::to_string(target.lanes) + (has_int64 ? " lanes" : " lanes, 32 bits") +
                         (has_float64 ? "" : ", float64 as integers"));
            const LanesRun run = run_on_lanes(c, Numerics::Reproducible, target);
            EXPECT_EQ(run.mistake, "");
            ASSERT_TRUE(run.result.has_value());
            EXPECT_TRUE(same_numbers(*run.result, expected))
                << to_string(*run.result) << "\nexpected\n"
                << to_string(expected);
            schedule::Target small = target;
            small.is_small = true;
            const LanesRun narrow = run_on_lanes(c, Numerics::Reproducible, small);
            EXPECT_EQ(narrow.mistake, "");
            ASSERT_TRUE(narrow.result.has_value());
            EXPECT_TRUE(same_numbers(*narrow.result, expected)) << "with small numbers";
            if (!has_int64) continue;
            // Of a work-group, of a part of it, and of more.
            for (const std::uint32_t subgroup : {4u, 16u, 64u}) {
                if (target.lanes == 1) break;
                SCOPED_TRACE("subgroups of " + std::to_string(subgroup));
                const LanesRun together = run_on_lanes(c, Numerics::Reproducible, target, subgroup);
                EXPECT_EQ(together.mistake, "");
                ASSERT_TRUE(together.result.has_value());
                EXPECT_TRUE(same_numbers(*together.result, expected));
            }
            const LanesRun strict = run_on_lanes(c, Numerics::Strict, target);
            EXPECT_EQ(strict.mistake, "");
            ASSERT_TRUE(strict.result.has_value());
            expect_near(*strict.result, expected, tolerance, scale);
        }
    }
}

/// Runs the kernel by Vulkan and compares it with the interpreter's result.
inline void expect_agreement_on(const VulkanDevice& vulkan, const Case& c, const Tensor& expected,
                                double tolerance, double scale) {
    const Device& device = vulkan.device;
    const auto expect_bits = [&](vulkan::PointsAre points, bool may_be_small) {
        const auto exact = c.on_vulkan(device, Numerics::Reproducible, points, may_be_small);
        ASSERT_TRUE(exact.has_value());
        EXPECT_TRUE(vulkan.gives(*exact, expected)) << to_string(*exact) << "\nexpected\n"
                                                    << to_string(expected);
    };
    expect_bits(vulkan::PointsAre::Chosen, true);
    if (kSanitized) return;
    if (!vulkan.is_swiftshader) {
        SCOPED_TRACE("by 64 bits");
        expect_bits(vulkan::PointsAre::Chosen, false);
    }
    if (!vulkan.is_swiftshader) {
        SCOPED_TRACE("by 32 bits");
        expect_bits(vulkan::PointsAre::InvocationsOf32, false);
    }
    const auto close = c.on_vulkan(device, Numerics::Strict);
    ASSERT_TRUE(close.has_value());
    expect_near(*close, expected, tolerance, scale);
}

/// Reproducible code gives the interpreter's numbers to the bit on every level and device; strict
/// code within `tolerance` of them, relative to `scale`, since sums are taken in another order; so
/// does fast code, on the best level here.
inline void expect_agreement(const Case& c, double tolerance = 1e-5, double scale = 1) {
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected.has_value());
    for (const cpu::Simd simd : levels_here()) {
        SCOPED_TRACE(cpu::to_string(simd));
        const auto exact = c.compiled(Numerics::Reproducible, simd);
        ASSERT_TRUE(exact.has_value());
        EXPECT_TRUE(same_numbers(*exact, *expected)) << to_string(*exact) << "\nexpected\n"
                                                     << to_string(*expected);
        for (const Numerics numerics : {Numerics::Strict, Numerics::Fast}) {
            if (numerics == Numerics::Fast && simd != cpu::chosen_simd()) continue;
            SCOPED_TRACE(to_string(numerics));
            const auto close = c.compiled(numerics, simd);
            ASSERT_TRUE(close.has_value());
            expect_near(*close, *expected, tolerance, scale);
        }
    }
    // The passes that these take run under a sanitizer in tests/lir and tests/schedule.
    if (!kSanitized) {
        const auto narrow = c.without_int64(Numerics::Reproducible, cpu::chosen_simd());
        ASSERT_TRUE(narrow.has_value());
        EXPECT_TRUE(same_numbers(*narrow, *expected))
            << "without int64: " << to_string(*narrow) << "\nexpected\n"
            << to_string(*expected);
        expect_agreement_on_lanes(c, *expected, tolerance, scale);
    }
    for (const VulkanDevice& vulkan : vulkan_devices()) {
        SCOPED_TRACE(vulkan.device.id());
        try {
            expect_agreement_on(vulkan, c, *expected, tolerance, scale);
        } catch (const Refusal& refusal) {
            ASSERT_TRUE(may_refuse(refusal)) << refusal.what();
            std::cout << "skipped on " << vulkan.device.id() << ": " << refusal.what() << '\n';
        }
    }
}

/// Says aloud why nothing is tested where LLVM is not.
class Compiled : public testing::Test {
protected:
    void SetUp() override {
        if (cpu::plugin_path().empty()) GTEST_SKIP() << "no plug-in with LLVM 19";
    }
};

}  // namespace quern::cpu_test
