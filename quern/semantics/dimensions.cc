#include <fmt/format.h>

#include <algorithm>

#include "quern/semantics/bind.h"
#include "quern/semantics/lowering.h"

// Named dimensions: the rules of specification section 8 that give them values.

namespace quern::semantics {

using ir::BinaryOp;
using ir::ExprKind;
using ir::Rule;

namespace {

bool contains(const ir::Kernel& kernel, ExprId id, ExprKind kind) {
    return std::ranges::any_of(ir::reachable(kernel, id),
                               [&](ExprId each) { return kernel[each].kind == kind; });
}

}  // namespace

bool is_fixed(const ir::Kernel& kernel, ExprId id) {
    return !contains(kernel, id, ExprKind::Symbol) && !contains(kernel, id, ExprKind::Load);
}

std::vector<ir::LoopRange> ranges_in(const std::vector<LoopScope>& loops) {
    std::vector<ir::LoopRange> ranges;
    for (const LoopScope& loop : loops) ranges.push_back(loop.range);
    return ranges;
}

ExprId Lowering::dim_named(const std::string& name, Span span) {
    std::uint32_t index = 0;
    while (index < kernel_.dims.size() && kernel_.dims[index].name != name) ++index;
    if (index == kernel_.dims.size()) kernel_.dims.push_back({name, span});
    return kernel_.dim(index, span);
}

ExprId Lowering::opaque_dim(ExprId expr, NodeId id) {
    const Span span = span_of(id);
    for (const auto& [dim, parts] : opaque_) {
        if (parts == expr) return kernel_.dim(dim, span);
    }
    const auto is_taken = [&](const std::string& name) {
        return std::ranges::any_of(
            opaque_, [&](const auto& entry) { return kernel_.dims[entry.first].name == name; });
    };
    // As it is written, but that a `let` may have the name of a dimension, or of another `let`.
    std::string name = compact_text(tree_, id);
    if (tree_[id].kind == Kind::Name || is_taken(name)) name = describe(kernel_, expr);
    const std::string plain = name;
    for (int n = 2; is_taken(name); ++n) name = fmt::format("{} #{}", plain, n);
    const ExprId dim = dim_named(name, span);
    // What is made of another such extent is made of its dimension, too.
    const auto link = [&](ExprId whole, ExprId parts, ExprId other, ExprId inside) {
        const ExprId with_dim = ir::rewrite(
            kernel_, parts, [&](ExprId node) { return node == inside ? other : ir::kNoExpr; });
        if (with_dim == parts) return;
        require(simplify(with_dim), whole, Rule::Declared, Code::E0501, span);
    };
    const auto others = opaque_;
    for (const auto& [index, parts] : others) {
        const ExprId other = kernel_.dim(index, span);
        link(dim, expr, other, parts);
        link(other, parts, dim, expr);
    }
    opaque_[kernel_[dim].a] = expr;
    return dim;
}

/// In an extent that is more than `len`, that is the length of the kernel's vector if it has one
/// and no larger operand. By itself it is a dimension, whose uses say what it is.
void Lowering::tie_len(ExprId extent, Span span) {
    if (flat_ || numbers_.contains("len") || !dim_names_.contains("len")) return;
    const ExprId len = dim_named("len", span);
    const ir::ExprIds nodes = ir::reachable(kernel_, extent);
    if (std::ranges::find(nodes, len) == nodes.end()) return;
    const auto is_more = [](const OperandType& operand) { return operand.rank > 0; };
    const auto& operands = request_.operands;
    const auto vector = std::ranges::find_if(operands, is_more);
    if (vector == operands.end() || vector->rank != 1) return;
    if (std::ranges::count_if(operands, is_more) > 1) return;
    require(len, kernel_.extent(std::uint32_t(vector - operands.begin()), 0), Rule::Declared,
            Code::E0501, span);
}

ExprId Lowering::extent_expression(NodeId id, bool may_be_opaque) {
    extent_context_ = true;
    const Value value = scalar(id, "an extent");
    extent_context_ = false;
    if (value.poisoned) return one();
    if (is_floating(value.dtype) || value.dtype == DType::Bool) {
        report(Code::E0412, span_of(id),
               fmt::format("expected an integer as extent, got {}", to_string(value.dtype)));
        return one();
    }
    const ExprId expr = simplify(kernel_.cast(value.expr, DType::Int64));
    if (kernel_[expr].kind != ExprKind::Dim) tie_len(expr, span_of(id));
    if (!may_be_opaque) return expr;
    for (const ir::Term& term : ir::affine_of(kernel_, expr).terms) {
        if (kernel_[term.atom].kind == ExprKind::Dim ||
            !contains(kernel_, term.atom, ExprKind::Dim) || !is_fixed(kernel_, term.atom)) {
            continue;
        }
        const ExprId opaque = opaque_dim(expr, id);
        require(expr, opaque, Rule::Declared, Code::E0501, span_of(id));
        return opaque;
    }
    return expr;
}

void Lowering::require(ExprId left, ExprId right, Rule rule, Code code, Span span) {
    if (left == right) return;
    const bool names_a_dim =
        contains(kernel_, left, ExprKind::Dim) || contains(kernel_, right, ExprKind::Dim);
    if (code == Code::E0502 && names_a_dim) code = Code::E0501;
    if (kernel_.is_constant(left) && kernel_.is_constant(right)) {
        report(code == Code::E0501 ? Code::E0502 : code, span,
               fmt::format("expected extents that agree, got {} and {}",
                           kernel_.integer_value(left), kernel_.integer_value(right)));
        return;
    }
    if (!is_fixed(kernel_, left) || !is_fixed(kernel_, right)) return;
    for (const ir::Constraint& c : kernel_.constraints) {
        if ((c.left == left && c.right == right) || (c.left == right && c.right == left)) return;
    }
    kernel_.constraints.push_back({left, right, rule, code, span});
}

bool Lowering::is_part_of_declared(ExprId end, ExprId extent) {
    const auto declared = std::ranges::find_if(kernel_.constraints, [&](const ir::Constraint& c) {
        return c.rule == Rule::Declared && c.right == extent;
    });
    if (declared == kernel_.constraints.end() || declared->left == end) return false;
    const std::set<std::uint32_t> known =
        bound_by([](const ir::Constraint& c) { return c.rule == Rule::Declared; });
    std::set<std::uint32_t> whole = dims_of(declared->left);
    for (const auto& [opaque, parts] : opaque_) {
        if (whole.count(opaque)) whole.merge(dims_of(parts));
    }
    return std::ranges::all_of(dims_of(end), [&](std::uint32_t dim) {
        return whole.count(dim) > 0 || known.count(dim) > 0;
    });
}

void Lowering::require_whole(ExprId end, ExprId extent, Rule rule, Span span) {
    if (!is_part_of_declared(end, extent)) require(end, extent, rule, Code::E0501, span);
}

void Lowering::bind_index(std::uint32_t operand, int axis, ExprId index, Span span) {
    const ExprId extent = kernel_.extent(operand, std::uint32_t(axis));
    bool is_guarded = false, below_number = false;
    for (const auto& [guarded, limit] : guards_) {
        if (guarded != index) continue;
        if (kernel_.is_constant(limit)) below_number = true;
        if (kernel_[limit].kind != ExprKind::Dim) continue;
        require_whole(limit, extent, Rule::Guard, span);
        is_guarded = true;
    }
    if (is_guarded) return;
    if (kernel_.is_constant(index)) return;
    if (kernel_[index].kind == ExprKind::Binary) {
        const ExprId run = run_of(index, loops_);
        if (exists(run) && contains(kernel_, run, ExprKind::Dim)) {
            return require_whole(run, extent, Rule::BareIndex, span);
        }
    }
    const ir::Affine form =
        is_leaf(index) ? ir::Affine{0, {{index, 1}}} : ir::affine_of(kernel_, index);
    if (form.terms.size() != 1) return;
    const auto [atom, coefficient] = form.terms[0];
    for (const LoopScope& loop : loops_) {
        if (kernel_.symbol(loop.range.symbol) != atom || !loop.from_zero ||
            !is_fixed(kernel_, loop.range.end)) {
            continue;
        }
        // Below a number, how far a loop to another number runs says nothing of the operand.
        if (below_number && kernel_.is_constant(loop.range.end)) continue;
        if (coefficient == 1 && form.constant == 0) {
            require_whole(loop.range.end, extent, Rule::BareIndex, span);
        } else if (coefficient > 1 && form.constant >= 0 && form.constant < coefficient) {
            Strided& group = strided_[{operand, axis, loop.range.symbol, coefficient}];
            group.offsets.insert(form.constant);
            group.end = loop.range.end;
            group.span = span;
        }
    }
}

ExprId Lowering::run_of(ExprId index, const std::vector<LoopScope>& loops) {
    const ir::Expr e = kernel_[index];
    if (e.kind == ExprKind::Symbol) {
        for (const LoopScope& loop : loops) {
            if (loop.range.symbol != e.a || !loop.from_zero || !is_fixed(kernel_, loop.range.end) ||
                !kernel_.is_constant(loop.range.step, 1)) {
                continue;
            }
            const ir::Expr& end = kernel_[loop.range.end];
            const auto opaque = end.kind == ExprKind::Dim ? opaque_.find(end.a) : opaque_.end();
            return opaque == opaque_.end() ? loop.range.end : opaque->second;
        }
        return ir::kNoExpr;
    }
    if (e.kind != ExprKind::Binary) return ir::kNoExpr;
    const auto op = static_cast<BinaryOp>(e.op);
    if (op != BinaryOp::Div && op != BinaryOp::FloorDiv && op != BinaryOp::Rem) return ir::kNoExpr;
    const ExprId divisor{e.b}, whole = run_of(ExprId{e.a}, loops);
    if (!exists(whole) || !is_fixed(kernel_, divisor)) return ir::kNoExpr;
    const ExprId quotient = ir::exact_quotient(kernel_, whole, divisor);
    return exists(quotient) && op == BinaryOp::Rem ? divisor : quotient;
}

bool Lowering::bind_slice(const Slice& slice) {
    bool is_step = false;
    const ExprId extent = kernel_.extent(slice.operand, std::uint32_t(slice.axis));
    for (const LoopScope& loop : loops_) {
        const ExprId symbol = kernel_.symbol(loop.range.symbol);
        const ExprId next = simplify(kernel_.binary(BinaryOp::Add, symbol, loop.range.step));
        if (slice.start == symbol && slice.stop == next && loop.from_zero) {
            require(loop.range.end, extent, Rule::Slice, Code::E0501, slice.span);
            is_step = is_step || is_fixed(kernel_, loop.range.end);
        }
    }
    if (is_fixed(kernel_, slice.start) && guarded_ == 0) slices_.push_back(slice);
    return is_step;
}

std::optional<ir::Term> Lowering::stop_term(const Slice& slice, std::uint32_t dim) {
    if (!slice.has_stop || !is_fixed(kernel_, slice.stop)) return std::nullopt;
    const ExprId atom = kernel_.dim(dim);
    const auto below = ir::reachable(kernel_, slice.start);
    if (std::find(below.begin(), below.end(), atom) != below.end()) return std::nullopt;
    for (const ir::Term& term : ir::affine_of(kernel_, slice.stop).terms) {
        if (term.atom == atom && term.coefficient > 0) return term;
    }
    return std::nullopt;
}

void Lowering::bind_strided() {
    for (const auto& [key, group] : strided_) {
        const auto& [operand, axis, symbol, stride] = key;
        if (std::int64_t(group.offsets.size()) != stride) continue;
        const ExprId whole =
            simplify(kernel_.binary(BinaryOp::Mul, kernel_.integer(stride), group.end));
        require(whole, kernel_.extent(operand, std::uint32_t(axis)), Rule::Strided, Code::E0508,
                group.span);
    }
}

std::set<std::uint32_t> Lowering::dims_of(ExprId id) const {
    std::set<std::uint32_t> dims;
    for (const ExprId each : ir::reachable(kernel_, id)) {
        if (kernel_[each].kind == ExprKind::Dim) dims.insert(kernel_[each].a);
    }
    return dims;
}

bool Lowering::is_multiple_of(ExprId id, std::uint32_t dim) const {
    const ir::Expr& e = kernel_[id];
    if (e.kind == ExprKind::Dim) return e.a == dim;
    return e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Mul &&
           (is_multiple_of(ExprId{e.a}, dim) || is_multiple_of(ExprId{e.b}, dim));
}

std::set<std::uint32_t> Lowering::bound_dims() const {
    return bound_by([](const ir::Constraint&) { return true; });
}

std::set<std::uint32_t> Lowering::bound_by(bool (*counts)(const ir::Constraint&)) const {
    // As binding solves: a constraint gives the one dim that is left in it.
    std::set<std::uint32_t> bound;
    for (bool progress = true; progress;) {
        progress = false;
        for (const ir::Constraint& c : kernel_.constraints) {
            if (!counts(c)) continue;
            std::set<std::uint32_t> unknown = dims_of(c.left);
            unknown.merge(dims_of(c.right));
            std::erase_if(unknown, [&](std::uint32_t dim) { return bound.count(dim) > 0; });
            if (unknown.size() != 1) continue;
            for (const ExprId side : {c.left, c.right}) {
                for (const ir::Term& term : ir::linear(kernel_, side).terms) {
                    if (!is_multiple_of(term.atom, *unknown.begin())) continue;
                    progress = bound.insert(*unknown.begin()).second || progress;
                }
            }
        }
    }
    return bound;
}

ExprId Lowering::attained_over_loops(ExprId expr, const std::vector<LoopScope>& loops, bool upper) {
    if (kernel_.is_constant(expr)) return expr;
    for (const LoopScope& loop : loops) {
        if (kernel_[expr].kind != ExprKind::Symbol || kernel_[expr].a != loop.range.symbol)
            continue;
        const ExprId limit = upper ? loop.range.end : loop.range.begin;
        if (!kernel_.is_constant(loop.range.step, 1) || !is_fixed(kernel_, limit)) break;
        return upper ? simplify(kernel_.binary(BinaryOp::Sub, limit, one())) : limit;
    }
    if (contains(kernel_, expr, ExprKind::Load)) return ir::kNoExpr;
    const std::vector<ir::LoopRange> ranges = ranges_in(loops);
    const ExprId bound =
        upper ? ir::upper_bound(kernel_, expr, ranges) : ir::lower_bound(kernel_, expr, ranges);
    return exists(bound) && is_fixed(kernel_, bound) ? bound : ir::kNoExpr;
}

bool Lowering::depends_on_data(ExprId id) const {
    return std::ranges::any_of(ir::reachable(kernel_, id), [&](ExprId node) {
        const ir::Expr& e = kernel_[node];
        const bool is_symbol = e.kind == ExprKind::Symbol;
        return e.kind == ExprKind::Load ||
               (is_symbol && kernel_.symbols[e.a].kind != ir::SymbolKind::Loop);
    });
}

ExprId Lowering::stated_limit(ExprId id) {
    if (!depends_on_data(id)) {
        // A number of the operand's dtype is a conversion.
        const auto number = ir::evaluate(kernel_, id, {});
        return number ? kernel_.integer(*number) : kernel_.cast(id, DType::Int64);
    }
    const ir::Expr e = kernel_[id];
    const ExprId a{e.a}, b{e.b};
    const auto both = [&](BinaryOp op, ExprId left, ExprId right) {
        return exists(left) && exists(right) ? kernel_.binary(op, left, right, e.span)
                                             : ir::kNoExpr;
    };
    if (e.kind == ExprKind::Cast) {
        const DType from = kernel_[a].dtype;
        const bool is_kept = e.dtype == DType::Int64 && !is_floating(from) && from != DType::UInt64;
        return is_kept ? stated_limit(a) : ir::kNoExpr;
    }
    if (e.kind == ExprKind::Select) {
        return both(BinaryOp::Max, stated_limit(b), stated_limit(ExprId{e.c}));
    }
    if (e.kind != ExprKind::Binary) return ir::kNoExpr;
    const auto op = static_cast<BinaryOp>(e.op);
    const ExprId left = stated_limit(a), right = stated_limit(b);
    const auto least_zero = [&](ExprId number) {
        return exists(number) && kernel_.is_constant(number) && kernel_.integer_value(number) >= 0;
    };
    switch (op) {
        case BinaryOp::Min:
            return exists(left) && exists(right) ? both(op, left, right)
                   : exists(left)                ? left
                                                 : right;
        case BinaryOp::Max:
        case BinaryOp::Add:
            return both(op, left, right);
        case BinaryOp::Sub:
            return depends_on_data(b) ? ir::kNoExpr : both(op, left, right);
        case BinaryOp::Mul:
            return (least_zero(left) && !depends_on_data(a)) ||
                           (least_zero(right) && !depends_on_data(b))
                       ? both(op, left, right)
                       : ir::kNoExpr;
        case BinaryOp::Rem:
            return least_zero(right) && !kernel_.is_constant(right, 0) && !depends_on_data(b)
                       ? kernel_.integer(kernel_.integer_value(right) - 1)
                       : ir::kNoExpr;
        default:
            return ir::kNoExpr;
    }
}

ExprId Lowering::over_loops(ExprId expr, const std::vector<LoopScope>& loops, bool upper) {
    const ExprId attained = attained_over_loops(expr, loops, upper);
    if (exists(attained) || contains(kernel_, expr, ExprKind::Load)) return attained;
    // A remainder is not monotonic, but it stays below its divisor.
    std::vector<ir::LoopRange> ranges = ranges_in(loops);
    if (upper) {
        for (ir::LoopRange& range : ranges) range.end = stated_limit(range.end);
        std::erase_if(ranges, [](const ir::LoopRange& range) { return !exists(range.end); });
        expr = stated_limit(expr);
        if (!exists(expr)) return expr;
    }
    const ir::Range range = ir::range_of(kernel_, expr, ir::ranges_of(kernel_, ranges));
    const std::int64_t limit = upper ? range.high : range.low;
    const bool is_known = limit != ir::kInfinity && limit != ir::kMinusInfinity;
    return is_known ? kernel_.integer(limit) : ir::kNoExpr;
}

ExprId Lowering::most_iterations(const ir::LoopRange& range) {
    const ExprId length = simplify(kernel_.binary(BinaryOp::Sub, range.end, range.begin));
    return is_fixed(kernel_, length) ? length : attained_over_loops(length, loops_, true);
}

void Lowering::add_range(Answers& answers, std::uint32_t dim, std::int64_t factor, ExprId room,
                         Span span) {
    // factor * dim <= room
    const ExprId largest =
        simplify(kernel_.binary(BinaryOp::FloorDiv, room, kernel_.integer(factor)));
    const auto [it, fresh] = answers.emplace(dim, std::make_pair(largest, span));
    if (!fresh) it->second.first = minimum(it->second.first, largest);
}

void Lowering::range_of_read(const Access& access, const LoopScope& loop, Answers& answers) {
    const std::uint32_t dim = kernel_[loop.range.end].a;
    const ExprId symbol = kernel_.symbol(loop.range.symbol);
    for (std::size_t p = 0; p < access.index.size(); ++p) {
        if (exists(access.slice_length[p])) continue;
        const ir::Affine form = ir::affine_of(kernel_, access.index[p]);
        const auto term = std::find_if(form.terms.begin(), form.terms.end(),
                                       [&](const ir::Term& t) { return t.atom == symbol; });
        if (term == form.terms.end() || term->coefficient <= 0) {
            // Of an index that runs down, or whose loop another one bounds: the whole axis.
            const ExprId last = attained_over_loops(access.index[p], access.loops, true);
            const ExprId past = simplify(kernel_.binary(BinaryOp::Sub, loop.range.end, one()));
            if (last == past) {
                add_range(answers, dim, 1, kernel_.extent(access.buffer, std::uint32_t(p)),
                          access.index_spans[p]);
            }
            continue;
        }
        const std::int64_t factor = term->coefficient;
        const ExprId rest = simplify(
            kernel_.binary(BinaryOp::Sub, access.index[p],
                           kernel_.binary(BinaryOp::Mul, kernel_.integer(factor), symbol)));
        const ExprId most = over_loops(rest, access.loops, true);
        if (!exists(most) || contains(kernel_, most, ExprKind::Load)) continue;
        // factor * (dim - 1) + most <= extent - 1
        const ExprId room =
            kernel_.binary(BinaryOp::Sub, kernel_.extent(access.buffer, std::uint32_t(p)),
                           kernel_.binary(BinaryOp::Add, most, kernel_.integer(1 - factor)));
        add_range(answers, dim, factor, room, access.index_spans[p]);
    }
}

void Lowering::bind_ranges() {
    Answers answers;
    std::map<std::uint32_t, Span> wanted;
    const std::set<std::uint32_t> bound = bound_dims();
    for (const Access& access : accesses_) {
        for (const LoopScope& loop : access.loops) {
            const ir::Expr end = kernel_[loop.range.end];
            if (end.kind != ExprKind::Dim || bound.count(end.a)) continue;
            wanted.emplace(end.a, end.span);
            const bool is_of_operand = access.buffer < operand_names_.size();
            if (is_of_operand && !access.is_store && !access.guarded)
                range_of_read(access, loop, answers);
        }
    }
    for (const Slice& slice : slices_) {
        for (std::uint32_t dim = 0; dim < kernel_.dims.size(); ++dim) {
            const auto term = bound.count(dim) ? std::nullopt : stop_term(slice, dim);
            if (!term) continue;
            const ExprId others = kernel_.binary(
                BinaryOp::Sub, slice.stop,
                kernel_.binary(BinaryOp::Mul, kernel_.integer(term->coefficient), term->atom));
            const ExprId extent = kernel_.extent(slice.operand, std::uint32_t(slice.axis));
            add_range(answers, dim, term->coefficient,
                      kernel_.binary(BinaryOp::Sub, extent, others), slice.span);
        }
    }
    for (const auto& [dim, answer] : answers) {
        require(kernel_.dim(dim), answer.first, Rule::Range, Code::E0501, answer.second);
    }
    bind_schema();
    // A text without a caller may yet get the number.
    if (request_.assume_scalars) return;
    const std::set<std::uint32_t> now_bound = bound_dims();
    for (const auto& [dim, span] : wanted) {
        if (now_bound.count(dim)) continue;
        // Of an opaque extent that others of its dims have values: the first one without.
        std::uint32_t wrong = dim;
        if (const auto parts = opaque_.find(dim); parts != opaque_.end()) {
            const std::set<std::uint32_t> all = dims_of(parts->second);
            std::set<std::uint32_t> unbound = all;
            std::erase_if(unbound, [&](std::uint32_t d) { return now_bound.count(d) > 0; });
            if (!unbound.empty() && unbound.size() < all.size()) wrong = *unbound.begin();
        }
        const std::string name = kernel_.dims[wrong].name;
        report(Code::E0503, span, fmt::format("dimension '{}' has no value", name))
            .help(fmt::format("declare it with an operand's shape, compute(x: [{}]), or bind it: "
                              "arg(\"{}\", value)",
                              name, name));
    }
}

void Lowering::bind_schema() {
    if (kernel_.kind != "conv2d") return;
    static constexpr std::array<std::array<const char*, 3>, 2> kAxes = {
        {{"out_h", "in_h", "kernel_h"}, {"out_w", "in_w", "kernel_w"}}};
    for (const auto& [out, in, window] : kAxes) {
        if (!dim_names_.count(out) || !dim_names_.count(in) || !dim_names_.count(window)) continue;
        const auto integer = [&](const char* name) {
            const auto it = numbers_.find(name);
            const auto* value =
                it == numbers_.end() ? nullptr : std::get_if<std::int64_t>(&it->second);
            return value ? *value : std::int64_t(std::string_view(name) == "stride");
        };
        const ExprId target = dim_named(out, {});
        const ExprId padded = kernel_.binary(BinaryOp::Add, dim_named(in, {}),
                                             kernel_.integer(2 * integer("padding")));
        const ExprId room = kernel_.binary(BinaryOp::Sub, padded, dim_named(window, {}));
        const std::int64_t stride = integer("stride");
        const ExprId value = kernel_.binary(
            BinaryOp::Add, kernel_.binary(BinaryOp::FloorDiv, room, kernel_.integer(stride)),
            one());
        require(target, value, Rule::Schema, Code::E0501, kernel_[target].span);
    }
}

void Lowering::shape_output() {
    ir::Buffer& out = kernel_.buffers[kernel_.output()];
    out.shape.clear();
    for (const auto& candidates : out_candidates_) {
        ExprId extent = ir::kNoExpr;
        for (auto [candidate, runs] : candidates) {
            // A multiple of one extent is 0 by itself where a loop from 0 to that is empty.
            const ir::Affine form = ir::affine_of(kernel_, candidate);
            const bool vanishes =
                form.constant == 0 && form.terms.size() == 1 &&
                runs == kernel_.binary(BinaryOp::Less, zero(), form.terms[0].atom);
            if (exists(runs) && !vanishes) candidate = kernel_.select(runs, candidate, zero());
            if (!exists(extent) || ir::proves_at_least(kernel_, candidate, extent)) {
                extent = candidate;
            } else if (!ir::proves_at_least(kernel_, extent, candidate)) {
                extent = kernel_.binary(BinaryOp::Max, extent, candidate);
            }
        }
        kernel_.buffers[kernel_.output()].shape.push_back(exists(extent) ? extent : zero());
    }
    // Of the operands' shape if it has as many elements.
    const bool is_over_len = flat_ && !is_reduce_ && out_candidates_.size() == 1;
    kernel_.buffers[kernel_.output()].flat =
        is_over_len && kernel_.buffers[kernel_.output()].shape[0] == dim_named("len", {});
}

namespace {

using Named = std::vector<std::pair<ExprId, ExprId>>;

ExprId dim_of(const Named& named, ExprId extent) {
    for (const auto& [known, dim] : named) {
        if (known == extent) return dim;
    }
    return ir::kNoExpr;
}

/// Extents that constraints equate with a dim, each with the first such dim.
Named named_extents(const ir::Kernel& kernel) {
    Named named;
    for (bool progress = true; progress;) {
        progress = false;
        for (const ir::Constraint& c : kernel.constraints) {
            for (const auto& [side, other] : {std::pair{c.left, c.right}, {c.right, c.left}}) {
                if (kernel[side].kind != ExprKind::Extent || exists(dim_of(named, side))) continue;
                const ExprKind kind = kernel[other].kind;
                const ExprId dim = kind == ExprKind::Dim      ? other
                                   : kind == ExprKind::Extent ? dim_of(named, other)
                                                              : ir::kNoExpr;
                if (!exists(dim)) continue;
                named.emplace_back(side, dim);
                progress = true;
            }
        }
    }
    return named;
}

/// The node with its operands replaced.
ExprId rebuilt(ir::Kernel& kernel, const ir::Expr& e, const std::vector<ExprId>& moved) {
    switch (e.kind) {
        case ExprKind::Unary:
            return kernel.unary(static_cast<ir::UnaryOp>(e.op), moved[e.a], e.span);
        case ExprKind::Binary: {
            const auto op = static_cast<BinaryOp>(e.op);
            const ExprId result = kernel.binary(op, moved[e.a], moved[e.b], e.span);
            // What was the lesser of two names of one extent is one of them.
            const bool lesser = op == BinaryOp::Min && e.dtype == DType::Int64;
            return lesser && !contains(kernel, result, ExprKind::Load)
                       ? ir::simplify(kernel, result)
                       : result;
        }
        case ExprKind::Select:
            return kernel.select(moved[e.a], moved[e.b], moved[e.c], e.span);
        case ExprKind::Cast:
            return kernel.cast(moved[e.a], e.dtype, e.span);
        default:
            break;
    }
    std::vector<ExprId> indices;
    for (int p = 0; p < e.count; ++p)
        indices.push_back(moved[std::uint32_t(kernel.index_of(e, p))]);
    return kernel.load(e.a, indices, e.span);
}

}  // namespace

void Lowering::name_extents() {
    const Named named = named_extents(kernel_);
    if (named.empty()) return;
    const std::size_t count = kernel_.exprs.size();
    std::vector<ExprId> moved(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const ir::Expr e = kernel_.exprs[i];
        moved[i] = ExprId{i};
        bool changed = false;
        ir::for_each_child(kernel_, ExprId{i}, [&](ExprId child) {
            changed = changed || moved[std::uint32_t(child)] != child;
        });
        if (e.kind == ExprKind::Extent) {
            if (const ExprId dim = dim_of(named, ExprId{i}); exists(dim)) moved[i] = dim;
        }
        if (changed) moved[i] = rebuilt(kernel_, e, moved);
    }
    const auto move = [&](ExprId& id) {
        if (std::uint32_t(id) < count) id = moved[std::uint32_t(id)];
    };
    const std::function<void(std::vector<ir::Stmt>&)> block = [&](std::vector<ir::Stmt>& body) {
        for (ir::Stmt& s : body) {
            ir::for_each_expr(s, move);
            block(s.body);
            block(s.otherwise);
        }
    };
    block(kernel_.body);
    for (std::size_t b = kernel_.operand_count; b < kernel_.buffers.size(); ++b) {
        for (ExprId& extent : kernel_.buffers[b].shape) move(extent);
    }
    move(result_.shared_hint.bytes);
}

}  // namespace quern::semantics
