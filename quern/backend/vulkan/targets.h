#pragma once

#include "quern/backend/vulkan/emit.h"
#include "quern/schedule/plan.h"

namespace quern::vulkan {

/// What SPIR-V has no instruction for, or does not define for every operand.
inline constexpr lir::Native kNative{.fma = false,
                                     .half_casts = false,
                                     .saturating_casts = false,
                                     .extremes = false,
                                     .signed_remainders = false};

/// What a device with these integers and floats computes.
inline lir::Native native_of(const Integers& integers, bool has_float64, bool has_float16 = false) {
    lir::Native native = kNative;
    native.int8 = integers.has_8;
    native.int16 = integers.has_16;
    native.int64 = integers.has_64;
    native.float64 = integers.has_64 && has_float64;
    native.half_casts = has_float16;
    return native;
}

// What schedules are made for where an invocation does a point, and where a work-group does. An
// invocation has sums of 8 x 8 elements, of large products 16 x 8, which share loads: drivers on
// processors load lane by lane, which takes most of the time (512 x 512 on llvmpipe with AVX2: 145
// ms with 8 x 8, 116 with 16 x 8). For groups drivers take long to compile large bodies.
inline const schedule::Target kInvocations{.lanes = 1, .native = kNative, .registers = 256};
inline const schedule::Target kGroups{
    .lanes = 16, .rows = 8, .has_packets = true, .native = kNative, .registers = 8};

}  // namespace quern::vulkan
