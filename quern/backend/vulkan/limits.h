#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quern/lir/lir.h"

namespace quern::vulkan {

/// A driver compiles as many for several seconds, so more are refused.
inline constexpr std::size_t kMostInstructions = 90000;

/// The bound of a module's results that every driver takes (SPIR-V, universal limits). Where a
/// buffer is bound in many pieces an access of LIR is many instructions.
inline constexpr std::uint32_t kMostBound = 4194303;

/// Places of 16 bytes that SwiftShader's code has on its stack; it ends the process where a
/// function needs more.
inline constexpr std::size_t kPlaces = 32768;

/// Instructions of LIR that SwiftShader is given in one block. What finds no register in a block
/// has a place of its own until it ends, less than one for each: cos of float64 takes 1,700 with
/// blocks of this length.
inline constexpr std::uint32_t kMostOfBlock = 4000;

/// Places that a module needs besides those of its longest block, at most.
std::size_t places_of(std::span<const std::uint32_t> words);

/// Why a driver is not given the words of a function, or empty. `has_few_places`: it is
/// SwiftShader.
std::string too_long(const lir::Function& function, std::span<const std::uint32_t> words,
                     bool has_few_places);

}  // namespace quern::vulkan
