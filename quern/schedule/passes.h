#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"
#include "quern/ir/index.h"
#include "quern/schedule/tiling.h"

// Rewrites of CIR that keep its meaning to the bit.

namespace quern::schedule {

using ir::kChunk;

/// Steps of this size and more leave a loop one iteration; sums with it are within int64.
inline constexpr std::int64_t kLargeStep = std::int64_t{1} << 61;

/// What stands for the iterations of a loop between data that are further apart than int64 tells:
/// it fails in its first one, or never ends.
inline constexpr std::int64_t kEndless = std::int64_t{1} << 62;

/// What facts say of dims, and of extents that a dim names.
ir::RangeOf ranges_of(const ir::Kernel& kernel, const ir::Facts& facts);

/// The expression over dims that an operand's extent equals in every launch, or the extent itself.
ir::ExprId extent_of(ir::Kernel& kernel, std::uint32_t operand, std::uint32_t axis);

/// The same of an axis of any buffer, or its shape as it is declared.
ir::ExprId extent_of_axis(ir::Kernel& kernel, ir::BufferId buffer, std::size_t axis);

/// What the interpreter watches while a kernel runs and what is not seen to hold before becomes
/// Checks: that an element of a shared variable or of the output is written before it is read, by
/// an array of marks; that no two points write one element, by an array that says whose it is, and
/// one point after the other. Shared variables become arrays of the point. A Check that fails does
/// not say that the kernel is wrong: the interpreter judges.
/// Requires: points that read the output use elements of their own (why_points_meet).
void watch(ir::Kernel& kernel);

/// let i = a + 1; x[i] -> x[a + 1], for integer lets without loads.
/// Numerics: exact.
void inline_index_lets(ir::Kernel& kernel);

/// for v in 0..n step c: ... min(c, n - v) ... -> ... c ... where the facts say that c divides n,
/// and integers that then are one number wherever they are assigned -> that number. Numerics:
/// exact.
void whole_tiles(ir::Kernel& kernel, const ir::Facts& facts);

/// for i in 0..n reduces s { s += f } ->
/// for c in 0..(n + 4095) / 4096 { t = 0; for i in chunk c reduces t { t += f }; x[c] = t };
/// for c reduces s { s += x[c] }
/// where n may pass one chunk, so that each loop that reduces is one chunk. The chunks of a
/// reduction outside of all parallel loops are parallel; those inside are split only if `inside`.
/// Where n depends on loops or on what is in memory, so that x would have no size before they run:
/// for c reduces s { for i in chunk c reduces s { s += f } }
/// Numerics: exact, the tree is that of the definition.
void split_long_reductions(ir::Kernel& kernel, const ir::Facts& facts, bool inside);

/// for i reduces s { for j reduces s { s += f } } ->
/// parallel for i { t = 0; for j reduces t { t += f }; x[i] = t }; for i reduces s { s += x[i] }
/// outside of all parallel loops.
/// Numerics: exact, an inner loop's result is one contribution.
void spread_nested_reductions(ir::Kernel& kernel);

/// for i in 0..n { best, at = the better of (best, at) and (f(i), g(i)) } ->
/// for c in 0..(n + 4095) / 4096 { m = the extreme f of chunk c; p = the least i of it with f(i) =
/// m; best, at = the better of (best, at) and (f(p), g(p)) } so that both loops over i reduce.
/// Outside of all parallel loops the chunks are parallel, and what they found goes through arrays.
/// Numerics: exact.
void chunk_arg_reductions(ir::Kernel& kernel);

/// for i: t[i] = a[i] - b; ... t[j] ... -> ... a[j] - b ...
/// inside of parallel loops, where nothing in between changes what the array holds and each index
/// is seen to be within its axis: what is out of bounds is an error also where nobody reads it.
/// Numerics: exact.
void forward_arrays(ir::Kernel& kernel);

/// for i, j, k: ... exp(f(i, k)) ... -> for i, k: x[i, k] = exp(f(i, k)); for i, j, k: ... x[i, k]
/// ... for i, j { for k reduces s: s += f(i, k) * y[j, k] } -> for k, j: t[k, j] = y[j, k]; for i,
/// j { for k reduces s: s += f(i, k) * t[k, j] } inside of parallel loops, where the arrays are
/// small. Numerics: exact.
void keep_tiles(ir::Kernel& kernel, const ir::Facts& facts);

/// What a load will read: so many indices further on an axis.
struct Ahead {
    std::size_t axis;
    std::int64_t distance;
};

/// Of the loops of a grid: the loads of operands to which it pays to look ahead. Those are what
/// the lanes inside of the innermost loop read again (while one row is worked on, the next can
/// come), and what lanes with copies read (their loads come in bursts, far apart).
std::map<ir::ExprId, Ahead> loads_to_prefetch(ir::Kernel& kernel, const Tiling& tiling,
                                              std::span<const ir::Stmt* const> grid);

/// True if every launch knows the value before it begins: it depends on no loop and no element.
bool is_of_launch(const ir::Kernel& kernel, ir::ExprId id);

/// The number of iterations of a loop, or what is not positive if there are none.
ir::ExprId trips_of(ir::Kernel& kernel, const ir::Stmt& loop);

/// The most iterations that a loop may have within those around it; ir::kInfinity if nobody knows.
std::int64_t most_trips(ir::Kernel& kernel, const ir::Stmt& loop,
                        std::span<const ir::LoopRange> around, const ir::RangeOf& ranges);

/// Whether the begin and the end of a loop are not so far apart that the difference wraps. What
/// data says may be: INT64_MAX begins an empty segment.
bool is_span_exact(const ir::Kernel& kernel, const ir::Stmt& loop);

/// Whether it is far below kEndless.
bool is_span_small(const ir::Kernel& kernel, const ir::Stmt& loop);

/// Loops outside of all parallel ones whose iterations are independent become parallel.
/// Numerics: exact.
void mark_parallel(ir::Kernel& kernel);

}  // namespace quern::schedule
