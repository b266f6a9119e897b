#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "quern/backend/vulkan/emit.h"
#include "quern/lir/lanes.h"
#include "quern/schedule/plan.h"

namespace quern::vulkan {

/// What SPIR-V has no instruction for, or does not define for every operand.
inline constexpr lir::Native kNative{.fma = false,
                                     .half_casts = false,
                                     .saturating_casts = false,
                                     .extremes = false,
                                     .signed_remainders = false};

/// What a device with these integers and floats computes. The processors among them divide as IEEE
/// 754 says, and take longer for a product and sum in one.
inline lir::Native native_of(const Integers& integers, bool has_float64, bool has_float16 = false,
                             bool is_processor = true) {
    lir::Native native = kNative;
    native.loose_fma = !is_processor;
    native.large_divisors = is_processor;
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

/// What code may use of a device.
struct Features {
    Integers integers = {};
    bool has_float64 = false;
    bool has_float16 = false;

    /// Its invocations are no lanes (Abilities::is_processor).
    bool is_processor = false;

    /// Invocations of a subgroup; 1 if they exchange nothing.
    std::uint32_t subgroup = 1;

    /// What the lanes of a group share.
    std::uint32_t group_bytes = lir::kGroupBytes;

    /// What a subgroup multiplies at once.
    std::vector<lir::Atom> atoms = {};
};

/// What code is made for.
struct CodeFor {
    schedule::Target target;
    Integers integers;

    /// Float16 is the device's own.
    bool has_float16 = false;
};

/// Of a variant whose points are not to be chosen any more.
inline CodeFor code_for(const Variant& variant, Features device) {
    const PointsAre points = variant.points;
    const bool has_subgroups = points == PointsAre::Groups || points == PointsAre::GroupsByLanes;
    const bool are_groups = has_subgroups || points == PointsAre::GroupsByMemory;
    CodeFor code{are_groups ? kGroups : kInvocations, device.integers};
    schedule::Target& target = code.target;
    if (has_subgroups) target.subgroup = device.subgroup;
    target.group_bytes = device.group_bytes;
    if (points == PointsAre::Groups) target.atoms = std::move(device.atoms);
    if (variant.atom.rows > 0) {
        std::erase_if(target.atoms, [&](const lir::Atom& atom) { return atom != variant.atom; });
    }
    if (points == PointsAre::InvocationsOf32) {
        code.integers = {.has_8 = false, .has_16 = false, .has_64 = false};
    }
    code.has_float16 = device.has_float16 && code.integers.has_16 && variant.may_have_float16;
    target.native =
        native_of(code.integers, device.has_float64, code.has_float16, device.is_processor);
    target.native.loose_fma &= variant.may_fuse;
    target.has_packets &= variant.may_have_packets;
    target.is_small = variant.may_be_small;
    return code;
}

/// A kernel as invocations of a device run it.
struct Lowered {
    schedule::Plan plan;

    /// Of its stages, legalised.
    std::vector<lir::Function> functions;
};

/// By the default schedule. Without `target.atoms` where their matrices find no room. Requires:
/// schedule::legal.
inline Lowered lowered(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                       schedule::Target target) {
    const auto make = [&] {
        schedule::Plan plan = schedule::plan(kernel, facts, numerics, target);
        auto functions = schedule::for_lanes(plan, target.subgroup, target.group_bytes);
        return Lowered{std::move(plan), std::move(functions)};
    };
    Lowered result = make();
    if (!std::ranges::all_of(result.functions, lir::has_room_for_matrices)) {
        target.atoms.clear();
        result = make();
    }
    for (lir::Function& function : result.functions) {
        function = lir::legalise(std::move(function), target.native);
    }
    return result;
}

}  // namespace quern::vulkan
