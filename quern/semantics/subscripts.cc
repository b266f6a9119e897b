#include <fmt/format.h>

#include <utility>

#include "quern/semantics/lowering.h"

// Subscripts: which integer a name in an index is, elements, rows and slices.

namespace quern::semantics {

using ir::BinaryOp;

void Lowering::uses_to_rename(NodeId id, std::string_view name, const Local& local,
                              std::vector<Span>& uses) const {
    const lang::Node& node = tree_[id];
    const bool holds = node.span.begin <= local.span.begin && local.span.end() <= node.span.end();
    if (node.span.end() <= local.span.begin) return;
    for (NodeId c = node.first; c >= 0; c = tree_[c].next) {
        const bool is_subscript = node.kind == Kind::Index && c != node.first;
        if (tree_[c].kind != Kind::Name || tree_.text_of(c) != name) {
            uses_to_rename(c, name, local, uses);
        } else if (!is_subscript && tree_[c].span.begin > local.span.begin) {
            uses.push_back(tree_[c].span);
        }
    }
    // Behind the block that holds the declaration the name means something else again.
    if (holds && node.kind == Kind::Block) {
        std::erase_if(uses, [&](const Span use) { return use.begin >= node.span.end(); });
    }
}

/// A local integer that has the name of a loop variable around it. Where one is no integer, indices
/// skip it, so the text's own checks leave both to this.
void Lowering::warn_of_hidden_loop(const Local& local) {
    if (local.kind != Local::Kind::Let && local.kind != Local::Kind::Var) return;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        for (auto outer = scope->rbegin(); outer != scope->rend(); ++outer) {
            if (outer->name != local.name || &*outer == &local) continue;
            if (outer->kind != Local::Kind::Loop) return;
            if (!hidden_loops_.insert(local.span.begin).second) return;
            report(Code::W0701, local.span, fmt::format("'{}' shadows another name", local.name))
                .note_at(outer->span, "the name that it hides is declared here");
            return;
        }
    }
}

Value Lowering::element_index(NodeId id) {
    // A name in an index means the innermost integer of that name.
    if (tree_[id].kind == Kind::Name) {
        const std::string_view text = tree_.text_of(id);
        Local* skipped = nullptr;
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            for (auto local = scope->rbegin(); local != scope->rend(); ++local) {
                if (local->name != text) continue;
                const Value value = local_value(*local, span_of(id));
                if (value.poisoned) return value;
                if (value.tile || is_floating(value.dtype) || value.dtype == DType::Bool) {
                    if (!skipped) skipped = &*local;
                    continue;
                }
                if (skipped) {
                    auto entry = report(
                        request_.pedantic ? Code::E0412 : Code::W0702, span_of(id),
                        fmt::format(
                            "as an index, '{}' is the integer of an outer block, not the nearer "
                            "one of dtype {}",
                            text, to_string(local_value(*skipped, {}).dtype)));
                    entry.note_at(skipped->span, "the nearer one is declared here");
                    entry.help(fmt::format("rename it: '{}_value'", text));
                    const std::string renamed = fmt::format("{}_value", text);
                    entry.fix(skipped->span, renamed);
                    std::vector<Span> uses;
                    uses_to_rename(body_, text, *skipped, uses);
                    for (const Span use : uses) entry.fix(use, renamed);
                } else {
                    warn_of_hidden_loop(*local);
                }
                return value;
            }
        }
        if (skipped) {
            report(Code::E0412, span_of(id),
                   fmt::format("expected an integer as index, got {}",
                               to_string(local_value(*skipped, {}).dtype)));
            return poison(span_of(id));
        }
    }
    Value value = scalar(id, "an index");
    if (value.poisoned) return value;
    if (is_floating(value.dtype) || value.dtype == DType::Bool) {
        report(Code::E0412, span_of(id),
               fmt::format("expected an integer as index, got {}", to_string(value.dtype)))
            .help("convert it: i64(x)");
        return poison(span_of(id));
    }
    return value;
}

Value Lowering::subscript(NodeId id) {
    const NodeId object = tree_[id].first;
    const Span span = span_of(id);
    const std::string text = compact_text(tree_, object);
    if (tree_[object].kind == Kind::Name) {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            for (auto local = scope->rbegin(); local != scope->rend(); ++local) {
                if (local->name != text) continue;
                const Value value = local_value(*local, span_of(object));
                return index_of(id, value, text, ir::kNone);
            }
        }
    }
    for (std::size_t i = 0; i < operand_names_.size(); ++i) {
        if (operand_names_[i] == text) {
            const auto kept = std::move(loops_);
            loops_.clear();
            const auto axes = std::move(axis_loops_);
            axis_loops_.clear();
            Value value = operand_value(std::uint32_t(i), span_of(object));
            loops_ = kept;
            axis_loops_ = axes;
            return index_of(id, value, text, std::uint32_t(i));
        }
    }
    if (text == "out") {
        if (out_rank_ < 0) {
            unranked_read_ = span;
            return poison(span);
        }
        Value value;
        value.dtype = kernel_.buffers[kernel_.output()].dtype;
        value.nominal = out_type_.nominal;
        value.weak = out_type_.weak;
        value.lifted = out_type_.lifted;
        auto tile = std::make_shared<Tile>();
        tile->axes.assign(std::size_t(out_rank_), Axis{one(), one()});
        for (int p = 0; p < out_rank_ && p < int(out_shape_.size()); ++p) {
            tile->axes[p] = {out_shape_[p], out_shape_[p]};
        }
        tile->direct = {kernel_.output()};
        tile->at = [this, span](const std::vector<ExprId>& index) {
            return kernel_.load(kernel_.output(), index, span);
        };
        value.tile = tile;
        value.span = span_of(object);
        return index_of(id, value, text, ir::kNone);
    }
    const Value value = expression(object);
    if (value.poisoned) return value;
    return index_of(id, value, text, ir::kNone);
}

void Lowering::index_position(NodeId node, int position, std::uint32_t operand, Indexed& indexed) {
    const bool outer = std::exchange(slice_context_, false);
    const Value index = element_index(node);
    slice_context_ = outer;
    if (index.poisoned) {
        indexed.bad = true;
        return;
    }
    const ExprId at = simplify(kernel_.cast(index.expr, DType::Int64));
    indexed.start[std::size_t(position)] = at;
    indexed.moving = indexed.moving || changes(at);
    indexed.access.index.push_back(at);
    indexed.access.slice_length.push_back(ir::kNoExpr);
    indexed.access.index_spans.push_back(span_of(node));
    if (operand != ir::kNone) bind_index(operand, position, at, span_of(node));
}

ExprId Lowering::slice_end(NodeId node, ExprId absent, bool& bad) {
    if (tree_[node].kind == Kind::Empty) return absent;
    const bool outer = std::exchange(slice_context_, true);
    const Value value = element_index(node);
    slice_context_ = outer;
    bad = bad || value.poisoned;
    return value.poisoned ? absent : simplify(kernel_.cast(value.expr, DType::Int64));
}

ExprId Lowering::slice_length(ExprId start, ExprId stop, Span span) {
    const ExprId length = simplify(kernel_.binary(BinaryOp::Sub, stop, start, span));
    if (!is_fixed(kernel_, length)) {
        report(Code::E0415, span, "expected a slice of constant length")
            .help("write v:v+64, with the same start on both sides");
        return ir::kNoExpr;
    }
    if (kernel_.is_constant(length) && kernel_.integer_value(length) < 1) {
        report(Code::E0415, span,
               fmt::format("expected a slice of at least one element, got {}",
                           kernel_.integer_value(length)));
        return ir::kNoExpr;
    }
    return length;
}

void Lowering::slice_position(NodeId node, int position, const Axis& whole, std::uint32_t operand,
                              Indexed& indexed) {
    indexed.sliced = true;
    has_tiles_ = true;
    const NodeId begin = tree_[node].first, end = tree_[begin].next, step = tree_[end].next;
    const bool has_begin = tree_[begin].kind != Kind::Empty;
    const bool has_end = tree_[end].kind != Kind::Empty;
    const Span span = span_of(node);
    const ExprId start = slice_end(begin, zero(), indexed.bad);
    const ExprId stop = slice_end(end, whole.extent, indexed.bad);
    if (step >= 0 && tree_[step].kind != Kind::Empty) {
        report(Code::E0415, span_of(step), "a slice in a kernel has no step");
        indexed.bad = true;
    }
    if (indexed.bad) return;
    const ExprId length = slice_length(start, stop, span);
    if (!exists(length)) {
        indexed.bad = true;
        return;
    }
    Axis axis = whole;
    if (has_begin || has_end) {
        axis.capacity = axis.extent = length;
        const ExprId room = simplify(kernel_.binary(BinaryOp::Sub, whole.extent, start));
        const bool is_step =
            operand != ir::kNone && bind_slice({operand, position, start, stop, has_end, span});
        // A step of one is there as long as its loop goes on.
        const bool is_there = is_step && kernel_.is_constant(length, 1);
        if (has_end && !is_there) axis.extent = minimum(length, room);
    }
    indexed.start[std::size_t(position)] = start;
    indexed.moving = indexed.moving || changes(start);
    indexed.free.push_back(position);
    indexed.axes.push_back(axis);
    indexed.access.index.push_back(start);
    indexed.access.slice_length.push_back(axis.capacity);
    indexed.access.index_spans.push_back(span);
}

Value Lowering::index_of(NodeId id, const Value& object, const std::string& object_name,
                         std::uint32_t operand) {
    const Span span = span_of(id);
    if (object.poisoned) return object;
    const int rank = object.tile ? static_cast<int>(object.tile->axes.size()) : 0;
    Indexed indexed;
    indexed.start.resize(std::size_t(rank), ir::kNoExpr);
    indexed.access.loops = loops_;
    indexed.access.guarded = guarded_ > 0;
    indexed.access.span = span;
    int position = 0;
    for (NodeId s = tree_[tree_[id].first].next; s >= 0; s = tree_[s].next, ++position) {
        if (position >= rank) {
            const int given = tree_.child_count(id) - 1;
            report(
                Code::E0403, span_of(s),
                fmt::format("'{}' has {} {}, got {} {}", object_name, rank,
                            rank == 1 ? "axis" : "axes", given, given == 1 ? "index" : "indices"));
            return poison(span);
        }
        if (tree_[s].kind == Kind::Slice) {
            const Axis whole = object.tile->axes[std::size_t(position)];
            slice_position(s, position, whole, operand, indexed);
        } else {
            index_position(s, position, operand, indexed);
        }
    }
    if (indexed.bad) return poison(span);
    const bool partial = position < rank;
    for (; position < rank; ++position) {
        indexed.free.push_back(position);
        indexed.start[std::size_t(position)] = zero();
        indexed.axes.push_back(object.tile->axes[std::size_t(position)]);
    }
    if (operand != ir::kNone || object_name == "out") {
        indexed.access.buffer = operand != ir::kNone ? operand : kernel_.output();
        accesses_.push_back(indexed.access);
    }
    Value result = object;
    result.span = span;
    result.is_row = partial && !indexed.sliced;
    if (rank == 0) return result;
    if (indexed.free.empty()) {
        result.tile = nullptr;
        result.is_row = false;
        result.expr = operand != ir::kNone ? kernel_.load(operand, indexed.start, span)
                                           : object.tile->at(indexed.start);
        return result;
    }
    result.tile = part_of(*object.tile, indexed, operand != ir::kNone, span);
    return result;
}

std::shared_ptr<const Tile> Lowering::part_of(const Tile& object, const Indexed& indexed,
                                              bool is_operand, Span span) {
    auto tile = std::make_shared<Tile>(object);
    tile->axes = indexed.axes;
    tile->shuffled.insert(tile->direct.begin(), tile->direct.end());
    tile->direct.clear();
    tile->is_view = is_operand && !indexed.moving;
    tile->at = [this, at = object.at, start = indexed.start, free = indexed.free,
                span](const std::vector<ExprId>& index) {
        std::vector<ExprId> own = start;
        for (std::size_t p = 0; p < free.size(); ++p) {
            const std::size_t q = std::size_t(free[p]);
            own[q] = kernel_.binary(BinaryOp::Add, start[q], index[p], span);
        }
        return at(own);
    };
    return tile;
}

}  // namespace quern::semantics
