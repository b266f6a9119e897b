#pragma once

#include "quern/runtime/cpu_plugin.h"
#include "quern/schedule/plan.h"

namespace quern::cpu {

/// Of scalar code and SSE4.1.
inline constexpr lir::Native kLeastNative{.fma = false, .half_casts = false};

/// Registers of 512, 256 and 128 bits hold a vector of 16 floats, half of one and a quarter.
inline schedule::Target target_of(Simd simd) {
    switch (simd) {
        case Simd::Avx512:
            return {.lanes = 16, .native = {.scale = true}, .registers = 32};
        case Simd::Avx2:
            return {.lanes = 16, .registers = 8};
        case Simd::Sse41:
            return {.lanes = 16, .native = kLeastNative, .registers = 4};
        case Simd::Neon:
            // LLVM 19 makes them of two conversions.
            return {.lanes = 16, .native = {.wide_to_float32 = false}, .registers = 8};
        case Simd::Scalar:
            break;
    }
    return {.lanes = 1, .native = kLeastNative, .registers = 16};
}

}  // namespace quern::cpu
