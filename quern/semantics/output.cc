#include <fmt/format.h>

#include <algorithm>

#include "quern/semantics/lowering.h"

// What a kernel stores, and the shape and dtype that its result has.

namespace quern::semantics {

using ir::BinaryOp;
using ir::StmtKind;

Value Lowering::then_applied(Value value, Span span) {
    for (const Piped& piped : request_.then) {
        const Span at = piped.span.length > 0 ? piped.span : span;
        if (auto applied = unary_function(piped.name, value, at)) {
            value = std::move(*applied);
        } else {
            report(Code::E0407, at, fmt::format("'{}' is not a function of one value", piped.name));
        }
    }
    return value;
}

bool Lowering::type_out(const Value& value, int rank, Span span) {
    Value stored = value;
    stored.dtype = value.nominal;
    stored.tile = nullptr;
    if (!out_is_typed_) {
        out_is_typed_ = true;
        next_out_type_ = VarType{stored.dtype, stored.dtype, stored.weak, false, 0, {}};
    }
    const bool changed = changed_;
    if (!join(next_out_type_, stored, span)) return false;
    changed_ = changed;
    if (next_out_rank_ < 0) next_out_rank_ = rank;
    if (next_out_rank_ != rank) {
        report(Code::E0502, span,
               fmt::format("expected a store of rank {} as before, got rank {}", next_out_rank_,
                           rank));
        return false;
    }
    out_candidates_.resize(std::size_t(rank));
    return true;
}

void Lowering::add_candidate(std::size_t position, ExprId extent, ExprId runs) {
    extent = simplify(extent);
    for (auto& [other, condition] : out_candidates_[position]) {
        if (condition != runs) continue;
        if (ir::proves_at_least(kernel_, other, extent)) return;
        if (ir::proves_at_least(kernel_, extent, other)) {
            other = extent;
            return;
        }
    }
    out_candidates_[position].emplace_back(extent, runs);
}

void Lowering::finish_out(Value value, const std::vector<ExprId>& place,
                          const std::vector<ExprId>& shape, Span span) {
    value = then_applied(value, span);
    if (value.poisoned || !type_out(value, static_cast<int>(place.size()), span)) return;
    for (std::size_t p = 0; p < shape.size(); ++p) add_candidate(p, shape[p]);
    const DType dtype = kernel_.buffers[kernel_.output()].dtype;
    const ExprId element = convert(value, dtype).expr;
    ir::Stmt& store = push(StmtKind::Store, span);
    store.buffer = kernel_.output();
    store.indices = place;
    store.value = kernel_.cast(element, dtype, span);
}

ExprId Lowering::loops_run(ExprId at, ExprId extent) {
    bool plain = false;
    ExprId runs = ir::kNoExpr;
    std::vector<ExprId> counts{at};
    // Innermost first, since a loop that the index does not name may say how far another one runs.
    for (std::size_t i = loops_.size(); i-- > 0;) {
        const LoopScope& loop = loops_[i];
        const bool counts_here = std::ranges::any_of(
            counts, [&](ExprId each) { return ir::depends_on(kernel_, each, loop.range.symbol); });
        if (!counts_here) continue;
        plain = plain ||
                (kernel_.symbol(loop.range.symbol) == at && loop.from_zero &&
                 kernel_.is_constant(loop.range.step, 1) && extent == simplify(loop.range.end));
        const auto& [begin, end] = std::pair{loop.range.begin, loop.range.end};
        counts.insert(counts.end(), {begin, end});
        ExprId runs_here = kernel_.binary(BinaryOp::Less, begin, end);
        if (!is_fixed(kernel_, runs_here)) {
            const ExprId most = most_iterations(loop.range);
            if (!exists(most)) continue;
            runs_here = kernel_.binary(BinaryOp::Less, zero(), most);
        }
        runs = exists(runs) ? kernel_.binary(BinaryOp::And, runs_here, runs) : runs_here;
    }
    // A bare index has the loop's end as its extent, which is 0 by itself.
    return plain && ir::proves_at_least(kernel_, extent, zero()) ? ir::kNoExpr : runs;
}

bool Lowering::out_index(NodeId s, std::vector<OutIndex>& place, Access& access) {
    const bool slice = tree_[s].kind == Kind::Slice;
    const NodeId begin = slice ? tree_[s].first : s;
    const NodeId end = slice ? tree_[begin].next : -1;
    if (slice && (tree_[begin].kind == Kind::Empty || tree_[end].kind == Kind::Empty)) {
        report(Code::E0415, span_of(s), "a slice of 'out' needs both ends: v:v+64");
        return false;
    }
    OutIndex result;
    result.is_slice = slice;
    result.length = one();
    if (slice) {
        bool bad = false;
        result.at = slice_end(begin, ir::kNoExpr, bad);
        const ExprId stop = slice_end(end, ir::kNoExpr, bad);
        if (bad) return false;
        result.length = slice_length(result.at, stop, span_of(s));
        if (!exists(result.length)) return false;
    } else {
        const Value index = element_index(begin);
        if (index.poisoned) return false;
        result.at = simplify(kernel_.cast(index.expr, DType::Int64));
    }
    if (!out_extent(result, span_of(s))) return false;
    access.index.push_back(result.at);
    access.index_spans.push_back(span_of(s));
    access.slice_length.push_back(slice ? result.length : ir::kNoExpr);
    place.push_back(result);
    return true;
}

bool Lowering::out_extent(OutIndex& index, Span span) {
    if (index.is_slice) {
        for (const LoopScope& loop : loops_) {
            if (kernel_.symbol(loop.range.symbol) == index.at && loop.from_zero &&
                loop.range.step == index.length) {
                const bool is_bare = is_fixed(kernel_, loop.range.end);
                index.extent = is_bare ? loop.range.end : over_loops(loop.range.end, loops_, true);
                if (!is_bare && exists(index.extent)) {
                    index.runs = loops_run(index.at, index.extent);
                }
            }
        }
    } else if (kernel_[index.at].kind == ir::ExprKind::Binary) {
        index.extent = run_of(index.at, loops_);
        if (exists(index.extent)) index.runs = loops_run(index.at, index.extent);
    }
    const ExprId low = over_loops(index.at, loops_, false);
    const ExprId high = over_loops(index.at, loops_, true);
    if (!exists(index.extent)) {
        if (!exists(high) || !exists(low)) {
            const bool is_of_data =
                depends_on_data(index.at) ||
                std::ranges::any_of(loops_, [&](const LoopScope& loop) {
                    return depends_on_data(loop.range.begin) || depends_on_data(loop.range.end);
                });
            const char* const why = is_of_data ? "depends on data" : "is not seen";
            report(
                Code::E0503, span,
                fmt::format("the largest index of 'out' {} here, so the extent has no value", why))
                .help("store at a sum of loop variables times numbers");
            return false;
        }
        index.extent = simplify(kernel_.binary(BinaryOp::Add, high, index.length));
        index.runs = loops_run(index.at, index.extent);
    }
    const ExprId least = attained_over_loops(index.at, loops_, false);
    if (exists(least) && ir::proves_less(kernel_, least, zero())) {
        report(Code::E0507, span, "the smallest index of 'out' is negative");
        return false;
    }
    return true;
}

void Lowering::store_out(NodeId id, NodeId target, Op op, NodeId node) {
    const Span span = span_of(id);
    if (is_reduce_) {
        report(Code::E0502, span_of(target),
               "'out' of a reduce kernel is what it yields, got a store as well")
            .help("yield the value, or write the loops as @kernel custom");
        return;
    }
    Value value = expression(node);
    const bool whole = tree_[target].kind != Kind::Index;
    if (value.is_row && !value.poisoned) value = scalar(node, "'out'");
    std::vector<OutIndex> place;
    Access access;
    access.buffer = kernel_.output();
    access.loops = loops_;
    access.guarded = guarded_ > 0;
    access.conditions = guarded_;
    access.is_store = true;
    access.span = span_of(target);
    bool good = !value.poisoned;
    for (NodeId s = whole ? -1 : tree_[tree_[target].first].next; s >= 0; s = tree_[s].next) {
        good = out_index(s, place, access) && good;
    }
    // What is stored may be made of elements of 'out', which have their rank from here.
    const auto say_rank = [&] {
        if (!unranked_read_ || next_out_rank_ >= 0 || whole) return;
        if (value.poisoned) {
            next_out_rank_ = tree_.child_count(target) - 1;
        } else {
            type_out(value, tree_.child_count(target) - 1, span);
        }
    };
    if (!good) {
        if (value.poisoned) say_rank();
        return;
    }
    if (op != Op::Set) {
        const Value old = subscript(target);
        if (old.poisoned) return say_rank();
        const BinaryOp operation = compound_operator(op);
        value = arithmetic(operation, old, value, span);
    }
    value = then_applied(value, span);
    if (value.poisoned) return;
    const auto slices = std::size_t(std::count_if(
        place.begin(), place.end(), [](const OutIndex& index) { return index.is_slice; }));
    const std::size_t own = value.tile ? value.tile->axes.size() : 0;
    if (own < slices && value.tile) {
        report(Code::E0502, span,
               fmt::format("expected a tile of rank {}, got rank {}", slices, own));
        return;
    }
    const std::size_t rank = place.size() + (own > slices ? own - slices : 0);
    if (!type_out(value, static_cast<int>(rank), span)) return;
    for (std::size_t p = 0; p < rank; ++p) {
        if (p < place.size()) {
            add_candidate(p, place[p].extent, place[p].runs);
        } else {
            const bool fixed = whole && is_axis_loop(p);
            add_candidate(
                p, fixed ? axis_loops_[p].range.end : value.tile->axes[own - (rank - p)].capacity);
        }
    }
    accesses_.push_back(access);
    store_lanes(value, place, slices, span);
}

void Lowering::store_lanes(const Value& value, const std::vector<OutIndex>& place,
                           std::size_t slices, Span span) {
    const std::size_t own = value.tile ? value.tile->axes.size() : 0;
    std::vector<Axis> axes;
    for (const OutIndex& index : place) {
        if (!index.is_slice) continue;
        const ExprId room = simplify(kernel_.binary(BinaryOp::Sub, index.extent, index.at));
        Axis axis{index.length, minimum(index.length, room)};
        if (value.tile) {
            const Axis& from = value.tile->axes[axes.size()];
            if (kernel_.is_constant(from.capacity, 1)) {
                axis = spread(from, axis);
            } else {
                require(from.capacity, axis.capacity, ir::Rule::Tile, Code::E0502, span);
                axis.extent = minimum(from.extent, axis.extent);
            }
        }
        axes.push_back(axis);
    }
    for (std::size_t p = slices; p < own; ++p) axes.push_back(value.tile->axes[p]);
    const std::size_t rank = place.size() + axes.size() - slices;
    const DType dtype = kernel_.buffers[kernel_.output()].dtype;
    const Value converted = convert(value, dtype);
    for_each(axes, [&](const std::vector<ExprId>& index) {
        ExprId element = converted.expr;
        if (converted.tile) {
            std::vector<ExprId> at(index.begin(), index.begin() + std::ptrdiff_t(own));
            for (std::size_t p = 0; p < own; ++p) {
                if (kernel_.is_constant(converted.tile->axes[p].capacity, 1)) at[p] = zero();
            }
            element = converted.tile->at(at);
        }
        std::vector<ExprId> where;
        std::size_t free = 0;
        for (std::size_t p = 0; p < rank; ++p) {
            if (p >= place.size()) {
                const bool fixed = place.empty() && is_axis_loop(p);
                where.push_back(fixed ? kernel_.symbol(axis_loops_[p].range.symbol) : index[free]);
                ++free;
            } else if (place[p].is_slice) {
                where.push_back(kernel_.binary(BinaryOp::Add, place[p].at, index[free++]));
            } else {
                where.push_back(place[p].at);
            }
        }
        ir::Stmt& store = push(StmtKind::Store, span);
        store.buffer = kernel_.output();
        store.indices = where;
        store.value = kernel_.cast(element, dtype, span);
    });
}

}  // namespace quern::semantics
