#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"
#include "quern/schedule/tiling.h"

// What the loops of a kernel allow.

namespace quern::schedule {

struct Access {
    ir::BufferId buffer;
    std::vector<ir::ExprId> index;
    bool is_store;
};

/// Every load and store of a block, also of those inside.
std::vector<Access> accesses_of(const ir::Kernel& kernel, const std::vector<ir::Stmt>& block);

/// How an index moves with a loop: index = step * variable + what the loop does not change. None if
/// it is not so.
std::optional<std::int64_t> step_of(ir::Kernel& kernel, ir::ExprId index, ir::SymbolId loop);

/// The loops of a perfect nest of parallel ones whose bounds are known before it begins.
std::vector<const ir::Stmt*> grid_nest(const ir::Kernel& kernel, const ir::Stmt& outermost);

/// A power of two, at most 2^7, that divides an integer in every launch of which the facts hold.
std::int64_t divisor_of(ir::Kernel& kernel, const ir::Facts& facts, ir::ExprId id);

/// Why iterations of the loop may not run at the same time, or empty: no iteration reads or writes
/// what another writes. `parallel` loops and those that only reduce are so by their meaning.
std::string why_not_independent(ir::Kernel& kernel, const ir::Stmt& loop);

/// Why neighbouring iterations may not be the lanes of one vector, or empty.
std::string why_not_lanes(ir::Kernel& kernel, const ir::Stmt& loop);

/// Whether a loop of a block has lanes.
bool holds_lanes(const Tiling& tiling, std::span<const ir::Stmt> block);

/// The rows of lanes of the loops of a block; 1 if none has any.
int rows_of(const Tiling& tiling, std::span<const ir::Stmt> block);

/// Why two points of the parallel nest that begins here may use an element that one of them writes,
/// or empty: each loop of the nest moves an axis of every use of what is written that no other loop
/// moves.
std::string why_points_meet(ir::Kernel& kernel, const ir::Stmt& outermost);

/// True if evaluating the expression may fail or read outside a buffer: it holds a load or an
/// integer division.
bool has_effects(const ir::Kernel& kernel, ir::ExprId id);

}  // namespace quern::schedule
