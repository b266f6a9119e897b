#include <algorithm>
#include <bit>
#include <utility>

#include "quern/lir/lanes.h"
#include "quern/schedule/lowerer.h"

// Loops whose reads the lanes of a work-group share. Lane by lane the group copies what some
// iterations read to arrays of its own, then all lanes compute from those.

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using ir::SymbolId;
using lir::Op;

namespace {

/// The loads that each evaluation of an expression makes.
void always_loaded(const ir::Kernel& kernel, ExprId id, std::vector<ExprId>& loads) {
    const ir::Expr& e = kernel[id];
    switch (e.kind) {
        case ExprKind::Load:
            loads.push_back(id);
            return;
        case ExprKind::Unary:
        case ExprKind::Cast:
        case ExprKind::Select:
            return always_loaded(kernel, ExprId{e.a}, loads);
        case ExprKind::Binary: {
            always_loaded(kernel, ExprId{e.a}, loads);
            const auto op = static_cast<BinaryOp>(e.op);
            if (op != BinaryOp::And && op != BinaryOp::Or) {
                always_loaded(kernel, ExprId{e.b}, loads);
            }
            return;
        }
        default:
            return;
    }
}

bool declares(const std::vector<Stmt>& block, SymbolId symbol) {
    return std::ranges::any_of(block, [&](const Stmt& s) {
        const bool is_declaration = s.kind == StmtKind::Let || s.kind == StmtKind::Var;
        return (is_declaration && s.symbol == symbol) || declares(s.body, symbol) ||
               declares(s.otherwise, symbol);
    });
}

}  // namespace

/// Whether what lanes share of a buffer is worth a copy in the group's memory. What loops in lanes
/// write there none of them reads for others, and smaller arrays of a point are there already.
bool Lowerer::is_far(ir::BufferId buffer) {
    const std::int64_t near = group_bytes_ / 4;
    if (buffer < k_.output()) return true;
    if (buffer == k_.output() || shared_arrays_.count(buffer) != 0) return false;
    // Narrow elements take 32 bits there.
    std::int64_t bytes = std::int64_t(std::max<std::size_t>(size_of(k_.buffers[buffer].dtype), 4));
    for (const ExprId extent : k_.buffers[buffer].shape) {
        if (!k_.is_constant(extent)) return true;
        bytes = bytes > near ? bytes : bytes * k_.integer_value(extent);
    }
    return bytes > near;
}

/// How a load in the body of a staged loop is shared, or none: it must be seen to be in bounds,
/// since lanes make it for others, and read what the loop and one axis of the lanes choose.
std::optional<Lowerer::Staged> Lowerer::staged(ExprId load, const Stmt& s) {
    const ir::Expr e = k_[load];
    if (e.dtype == DType::Bool || e.count == 0 || !is_far(e.a)) return std::nullopt;
    Staged tile;
    bool moves = false;
    const auto is_same_for_all = [&](SymbolId symbol) {
        if (declares(s.body, symbol)) return false;
        const auto found = names_.find(symbol);
        if (found == names_.end()) return slots_.count(symbol) != 0;
        const Name& name = found->second;
        return name.kind == Name::Kind::Value && name.bundle.is_single() &&
               b_.type(name.bundle.copies[0]).lanes == 1;
    };
    const std::vector<ExprId> guards = std::exchange(guards_, {});
    bool is_shared = true;
    for (int p = 0; p < e.count; ++p) {
        const ExprId index = k_.index_of(e, p);
        for (const ExprId node : ir::reachable(k_, index)) {
            const ir::Expr& leaf = k_[node];
            is_shared = is_shared && leaf.kind != ExprKind::Load;
            if (leaf.kind != ExprKind::Symbol) continue;
            if (leaf.a == s.symbol) {
                moves = true;
            } else if (sharing_.count(leaf.a) != 0) {
                is_shared = is_shared && (tile.across == ir::kNone || tile.across == leaf.a);
                tile.across = leaf.a;
            } else {
                is_shared = is_shared && is_same_for_all(leaf.a);
            }
        }
        is_shared = is_shared && is_proven(index, extent(e.a, std::size_t(p)));
    }
    guards_ = guards;
    if (!is_shared || !moves || tile.across == ir::kNone) return std::nullopt;
    const Pass& across = sharing_.at(tile.across);
    tile.depth = plan_.tiling.factor(s.symbol, Level::Stage);
    tile.extent = std::int64_t(across.unroll) * across.axis.width();
    tile.is_along_loop = !ir::depends_on(k_, k_.index_of(e, e.count - 1), tile.across);
    // Lanes that read one element of each row would ask the same banks for all of them.
    const bool reads_rows = tile.is_along_loop && across.axis.rows == 1;
    const bool has_matrices = plan_.tiling.has(s.symbol, Level::Matrix);
    tile.pitch = tile.row() + (reads_rows && !has_matrices);
    return tile;
}

/// The element that each lane's values of some loops' variables choose, as if no loop around had
/// copies or a mask.
ValueId Lowerer::read_apart(ExprId load, const std::map<SymbolId, ValueId>& at, ValueId mask) {
    const ir::Expr e = k_[load];
    std::vector<ExprId> indices;
    for (int p = 0; p < e.count; ++p) indices.push_back(k_.index_of(e, p));
    auto memo = std::exchange(memo_, decltype(memo_)(1));
    auto unrolls = std::exchange(unrolls_, {});
    auto guards = std::exchange(guards_, {});
    auto names = names_;
    const bool had_mask = std::exchange(has_mask_, false);
    for (const auto& [symbol, value] : at) names_[symbol] = {Name::Kind::Value, Bundle(value), 1};
    const Place where = place(e.a, indices, e.span);
    const ValueId offset = b_.splat(where.offset.copies[0], active_lanes());
    has_mask_ = had_mask;
    names_ = std::move(names);
    guards_ = std::move(guards);
    unrolls_ = std::move(unrolls);
    memo_ = std::move(memo);
    return b_.gather(e.a, offset, mask);
}

/// Fills the array, a vector of its elements after the other. `along` is the pass of the staged
/// loop, whose iterations are `depth`, or as many as are left.
void Lowerer::fill(ExprId load, const Staged& tile, const Pass& along) {
    const Pass& across = sharing_.at(tile.across);
    const std::int64_t lanes = active_lanes();
    const ValueId first = b_.begin_for(b_.integer(0), b_.integer(tile.depth * tile.extent),
                                       std::uint64_t(lanes), true);
    const ValueId element = b_.add(b_.splat(first, active_lanes()), b_.iota(active_lanes()));
    const std::int64_t row = tile.row();
    const bool is_power = std::has_single_bit(std::uint64_t(row));
    const ValueId column = is_power ? b_.binary(Op::And, element, b_.integer(row - 1))
                                    : b_.binary(Op::Rem, element, b_.integer(row));
    const ValueId number = is_power ? b_.binary(Op::ShiftRight, element,
                                                b_.integer(std::countr_zero(std::uint64_t(row))))
                                    : b_.binary(Op::Div, element, b_.integer(row));
    std::map<SymbolId, ValueId> at;
    ValueId mask = lir::kNone;
    for (const Pass* pass : {&across, &along}) {
        const bool is_column = (pass == &along) == tile.is_along_loop;
        const ValueId own = is_column ? column : number;
        const Axis& axis = pass->axis;
        at[axis.loop->symbol] = b_.add(axis.begin, b_.mul(b_.add(own, pass->trip), axis.step));
        if (!exists(pass->left)) continue;
        const ValueId is_left = b_.compare(Op::Less, own, pass->left);
        mask = exists(mask) ? b_.binary(Op::And, mask, is_left) : is_left;
    }
    const ValueId value = read_apart(load, at, mask);
    if (tile.pitch == row) {
        b_.store(tile.array, first, value);
    } else {
        b_.scatter(tile.array, b_.add(b_.mul(number, b_.integer(tile.pitch)), column), value);
    }
    b_.end_for();
}

Bundle Lowerer::load_staged(const Staged& tile) {
    const Pass& across = sharing_.at(tile.across);
    const ValueId own = numbers(across.axis);
    Bundle result;
    result.axes = names_.at(tile.across).bundle.axes;
    for (int u = 0; u < across.unroll; ++u) {
        const ValueId mine = b_.add(own, b_.integer(std::int64_t(u) * across.axis.width()));
        const ValueId offset = tile.is_along_loop
                                   ? b_.add(b_.mul(mine, b_.integer(tile.pitch)), staged_number_)
                                   : b_.add(mine, b_.mul(staged_number_, b_.integer(tile.pitch)));
        result.copies.push_back(b_.gather(tile.array, offset));
    }
    return result;
}

void Lowerer::staged_loop(const Stmt& s, const Axis& axis) {
    const std::int64_t depth = plan_.tiling.factor(s.symbol, Level::Stage);
    std::vector<ExprId> loads;
    for (const Stmt& inner : s.body) {
        const bool is_evaluated = inner.kind == StmtKind::Let || inner.kind == StmtKind::Accumulate;
        if (is_evaluated) always_loaded(k_, inner.value, loads);
    }
    for (const ExprId load : loads) {
        std::optional<Staged> tile = staged_.count(load) == 0 ? staged(load, s) : std::nullopt;
        if (!tile) continue;
        // Passes of other widths, whole ones and what is left, take turns.
        const auto [array, is_new] = stage_arrays_.try_emplace(load);
        if (is_new) {
            array->second = b_.buffer(k_.buffers[k_[load].a].name + ".stage", k_[load].dtype,
                                      lir::Space::Lane, true);
        }
        tile->array = array->second;
        b_.alloc(tile->array, b_.integer(tile->elements()));
        staged_.emplace(load, *tile);
    }
    const ValueId count = trips(s, axis);
    const std::optional<Matrices> m = matrices(s);
    const auto stages = [&](ValueId begin, ValueId end) {
        const ValueId first = b_.begin_for(begin, end, std::uint64_t(depth));
        Pass some{axis, first};
        ValueId width = b_.integer(depth);
        if (axis.divisor % depth != 0) {
            some.left = b_.sub(count, first);
            width = b_.binary(Op::Min, width, some.left);
        }
        for (const auto& [load, tile] : staged_) fill(load, tile, some);
        if (m) {
            multiply(*m);
        } else {
            const ValueId number = b_.begin_for(b_.integer(0), width, 1);
            const ValueId before = std::exchange(staged_number_, number);
            pass({axis, b_.add(first, number)}, [&] { block(s.body); });
            staged_number_ = before;
            b_.end_for();
        }
        b_.end_for();
    };
    if (!m && kBlock % depth == 0 && has_long_sums(s)) {
        sums_of_blocks(s, count, stages);
    } else {
        stages(b_.integer(0), count);
    }
    if (m) add_up(*m);
    staged_.clear();
}

}  // namespace quern::schedule
