#pragma once

#include <cstdint>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::vulkan {

/// What a device promises of its arithmetic, where code may ask for it.
struct FloatControls {
    bool keeps_nan32 = false, keeps_nan64 = false;
    bool rounds_even32 = false, rounds_even64 = false;
    bool keeps_denormals32 = false, keeps_denormals64 = false;
};

/// Invocations of a work-group.
inline constexpr std::uint32_t kGroup = 64;

/// What an invocation says that ends early: an assertion does not hold; the driver left a loop
/// before its end, as Mesa's llvmpipe does after 65535 iterations.
inline constexpr std::uint32_t kAssertionFailed = 1, kLoopCut = 2;

/// What a dispatch pushes. Invocation number i does point `begin` + i, if that is below `end`.
struct Push {
    /// Of the value of each parameter as 64 bits.
    std::uint64_t words = 0;

    /// Of the address of each buffer, 64 bits each; 0 for one of a lane.
    std::uint64_t buffers = 0;

    /// Memory for the arrays of lanes, `scratch_bytes` for each invocation.
    std::uint64_t scratch = 0;
    std::uint64_t scratch_bytes = 0;

    /// 32 bits that become kAssertionFailed or kLoopCut.
    std::uint64_t failed = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    /// A zero that drivers do not know to be one: Mesa's llvmpipe makes 0 of 0 * x and x of x + 0,
    /// which loses NaN and signs.
    std::uint64_t zero = 0;
};

/// A function of LIR of one lane as a SPIR-V module with the entry point "main". Needs Vulkan 1.2
/// with bufferDeviceAddress and shaderInt64, and whatever else its capabilities say.
std::vector<std::uint32_t> emit(const lir::Function& function, const FloatControls& controls);

}  // namespace quern::vulkan
