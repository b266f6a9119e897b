#pragma once

#include <cstdint>
#include <spirv/unified1/spirv.hpp11>

// SPV_KHR_cooperative_matrix (2023), which headers of Vulkan 1.3.239 (Debian 12) lack. Names and
// numbers are Khronos's.

namespace quern::vulkan::spirv {

inline constexpr const char* kCooperativeMatrix = "SPV_KHR_cooperative_matrix";
inline constexpr auto kCooperativeMatrixCapability = spv::Capability(6022);

inline constexpr auto kTypeCooperativeMatrix = spv::Op(4456);
inline constexpr auto kCooperativeMatrixLoad = spv::Op(4457);
inline constexpr auto kCooperativeMatrixStore = spv::Op(4458);
inline constexpr auto kCooperativeMatrixMulAdd = spv::Op(4459);

/// How elements lie in memory.
inline constexpr std::uint32_t kRowMajor = 0, kColumnMajor = 1;

/// What a matrix is for.
inline constexpr std::uint32_t kMatrixA = 0, kMatrixB = 1, kMatrixAccumulator = 2;

}  // namespace quern::vulkan::spirv
