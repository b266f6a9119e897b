#pragma once

#include "quern/runtime/cpu_plugin.h"
#include "quern/schedule/plan.h"

namespace quern::cpu {

/// Registers of 512, 256 and 128 bits hold a vector of 16 floats, half of one and a quarter.
inline schedule::Target target_of(Simd simd) {
    switch (simd) {
        case Simd::Avx512:
            return {.lanes = 16, .has_fma = true, .has_scale = true, .registers = 32};
        case Simd::Avx2:
            return {.lanes = 16, .has_fma = true, .registers = 8};
        case Simd::Sse41:
            return {.lanes = 16, .has_fma = false, .registers = 4};
        case Simd::Neon:
            return {.lanes = 16, .has_fma = true, .registers = 8};
        case Simd::Scalar:
            break;
    }
    return {.lanes = 1, .has_fma = false, .registers = 16};
}

}  // namespace quern::cpu
