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

/// Those of a device's atoms that a variant of code may have.
inline std::vector<lir::Atom> atoms_for(const Variant& variant, std::vector<lir::Atom> atoms) {
    if (variant.atom.rows > 0) {
        std::erase_if(atoms, [&](const lir::Atom& atom) { return atom != variant.atom; });
    }
    return atoms;
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
