#pragma once

#include "quern/schedule/plan.h"

namespace quern::vulkan {

// What schedules are made for where an invocation does a point, and where a work-group does.
// Devices need not round a product and a sum at once. An invocation has sums of 8 x 8 elements,
// which share loads: drivers on processors load lane by lane. For groups drivers take long to
// compile large bodies.
inline const schedule::Target kInvocations{.lanes = 1, .has_fma = false, .registers = 128};
inline const schedule::Target kGroups{
    .lanes = 16, .rows = 8, .has_packets = true, .has_fma = false, .registers = 8};

}  // namespace quern::vulkan
