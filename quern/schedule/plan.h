#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"
#include "quern/lir/legalise.h"
#include "quern/lir/lir.h"
#include "quern/schedule/observer.h"
#include "quern/schedule/tiling.h"

namespace quern::schedule {

/// One loop of a grid. A grid point does Block iterations of each axis; the first axis is the
/// slowest.
struct GridAxis {
    /// How many iterations the loop has, over dims and extents.
    ir::ExprId trips = ir::kNoExpr;

    /// Blocks should be multiples of it.
    std::int64_t multiple = 1;
};

/// One function, called once (no grid) or for every point of a grid, in any order and at once.
struct Stage {
    lir::Function function;
    std::vector<GridAxis> grid;

    /// How many iterations the loops of a point of the grid do, about; 1 if it has none.
    ir::ExprId iterations = ir::kNoExpr;

    /// Its arithmetic of float64 is arithmetic on bits.
    bool has_soft_float64 = false;

    /// What the function was before its numbers became 32 bits, of the same parameters: whose loops
    /// have bounds that are easier to see. None if it is as it was.
    std::optional<lir::Function> wide = std::nullopt;
    const lir::Function& as_lowered() const { return wide ? *wide : function; }
};

/// An array that stages share, or that each thread has for itself.
struct Scratch {
    lir::BufferId buffer = 0;
    DType dtype = DType::Float32;

    /// Over dims and extents; of a thread's array also over loop variables.
    std::vector<ir::ExprId> shape;
};

/// A kernel as a device runs it: stages in order. Buffers of every stage: those of the kernel, then
/// one element for each scalar that stages share.
struct Plan {
    /// The kernel that shapes and trips are expressions of.
    ir::Kernel kernel;
    Tiling tiling;
    std::vector<Stage> stages;
    std::vector<Scratch> shared;
    std::vector<Scratch> local;

    /// The functions take for granted that the launch's numbers are small.
    bool is_small = false;
};

/// What the schedule must know of a processor.
struct Target {
    /// Lanes of a vector of the language; the emitter splits those that are wider than its
    /// registers. 1 gives scalar code.
    int lanes = 16;

    /// How many rows of lanes a vector may have; 1 where vectors are registers.
    int rows = 1;

    /// A lane loads and stores several neighbours at once.
    bool has_packets = false;

    lir::Native native = {};

    /// How many vectors of the language its registers hold.
    int registers = 32;

    /// Code is for launches of which has_small_numbers holds (runtime/compiled.h).
    bool is_small = false;

    /// What `subgroup` lanes of a row multiply at once, the best first; 1 if none do.
    std::vector<lir::Atom> atoms = {};
    std::uint32_t subgroup = 1;

    /// What the lanes of a work-group share, in bytes; kGroupBytes at least.
    std::uint32_t group_bytes = lir::kGroupBytes;
};

/// Why no processor runs a kernel, or empty.
std::string legal(const ir::Kernel& kernel);

/// Applies the passes on CIR: the result has the loops that a tiling is of. `observer`, if it is
/// there, sees the kernel after each.
ir::Kernel prepare(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                   Observer* observer = nullptr);

/// Why a processor does not run a prepared kernel by a tiling, as "j: it assigns 's'", or empty.
std::string legal(ir::Kernel& prepared, const Target& target, const Tiling& tiling);

/// The default schedule: one loop of each nest becomes lanes, chosen by the cost of the memory that
/// it touches; the outermost parallel loops become the grid.
Tiling choose(ir::Kernel& prepared, const ir::Facts& facts, Numerics numerics,
              const Target& target);

/// Lowers a prepared kernel for launches of which `facts` hold.
/// Requires: the tiling is legal.
Plan lower(ir::Kernel prepared, const ir::Facts& facts, const Target& target, Tiling tiling);

/// All of it, by the default schedule.
Plan plan(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics, const Target& target,
          Observer* observer = nullptr);

/// The functions of a plan, each for the lanes of a work-group (lir/lanes.h).
std::vector<lir::Function> for_lanes(const Plan& plan, std::uint32_t subgroup,
                                     std::uint32_t group_bytes = lir::kGroupBytes);

}  // namespace quern::schedule
