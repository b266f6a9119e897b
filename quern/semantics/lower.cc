#include <fmt/format.h>

#include <algorithm>

#include "quern/lang/workspace.h"
#include "quern/semantics/bind.h"
#include "quern/semantics/lowering.h"

// From a Compute node to CIR: header and decorators, then rounds over the body until the types of
// vars, the dtype of the output and the set of dimensions stay the same, then the checks.

namespace quern::semantics {

namespace {

/// And some more for each var, whose type rises a few times, one after the other in a chain.
constexpr int kMostRounds = 24, kMostRoundsOfAVar = 8;

bool has_loop_or_yield(const lang::Tree& tree, NodeId id) {
    if (tree[id].kind == Kind::For || tree[id].kind == Kind::Yield) return true;
    for (NodeId c = tree[id].first; c >= 0; c = tree[c].next) {
        if (has_loop_or_yield(tree, c)) return true;
    }
    return false;
}

}  // namespace

std::string compact_text(const lang::Tree& tree, NodeId id) {
    std::string text;
    bool space = false;
    for (const char c : tree.text_of(id)) {
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            space = true;
            continue;
        }
        if (space && !text.empty()) text += ' ';
        space = false;
        text += c;
    }
    return text;
}

bool occurs(const lang::Tree& tree, NodeId id, std::string_view name) {
    const Kind kind = tree[id].kind;
    if ((kind == Kind::Name || kind == Kind::Member) && compact_text(tree, id) == name) return true;
    for (NodeId c = tree[id].first; c >= 0; c = tree[c].next) {
        if (occurs(tree, c, name)) return true;
    }
    return false;
}

std::string operand_name(const lang::Tree& tree, NodeId operand) {
    const NodeId alias = tree[operand].first;
    return compact_text(tree, tree[alias].kind == Kind::Empty ? tree[alias].next : alias);
}

Lowering::Lowering(const Request& request, const Limits& limits, lang::Diagnostics& diagnostics)
    : request_(request),
      limits_(limits),
      diagnostics_(diagnostics),
      tree_(request.source.tree()),
      kernel_(result_.kernel),
      zero_(kernel_.integer(0)),
      one_(kernel_.integer(1)),
      numbers_(request.arguments) {}

ir::Stmt& Lowering::push(ir::StmtKind kind, Span span) {
    ir::Stmt statement;
    statement.kind = kind;
    statement.span = span;
    block_->push_back(std::move(statement));
    return block_->back();
}

std::int64_t Lowering::constant_of(NodeId id, std::string_view what, std::int64_t otherwise) {
    const Value value = expression(id);
    if (value.poisoned) return otherwise;
    if (!value.tile && kernel_[value.expr].dtype == DType::Int64) {
        const ExprId simple = simplify(value.expr);
        if (kernel_.is_constant(simple)) return kernel_.integer_value(simple);
    }
    report(Code::E0313, span_of(id), fmt::format("expected a constant integer as {}", what));
    return otherwise;
}

void Lowering::read_decorators(NodeId decorators) {
    for (NodeId d = tree_[decorators].first; d >= 0; d = tree_[d].next) {
        const NodeId name_node = tree_[d].first;
        const std::string_view name = tree_.text_of(name_node);
        std::vector<NodeId> arguments;
        for (NodeId a = tree_[name_node].next; a >= 0; a = tree_[a].next) arguments.push_back(a);
        if (name == "workgroup") {
            std::int64_t points = 1;
            for (std::size_t i = 0; i < arguments.size() && i < 3; ++i) {
                kernel_.workgroup[i] = constant_of(arguments[i], "work-group size");
                const std::int64_t size = kernel_.workgroup[i];
                if (size > 0 && points <= limits_.workgroup) {
                    points = size > limits_.workgroup ? size : points * size;
                }
            }
            if (points > limits_.workgroup) {
                report(Code::E0605, span_of(d),
                       fmt::format("expected at most {} points in a work-group, got {}",
                                   limits_.workgroup, points));
            }
        } else if (name == "shared" && !arguments.empty()) {
            shared_hint_ = arguments[0];
        } else if (name == "tile") {
            for (const NodeId a : arguments) {
                if (tree_[a].kind != Kind::NamedArg) continue;
                const std::string tile(tree_.text_of(tree_[a].first));
                if (tile_names_.contains(tile)) {
                    report(Code::E0313, span_of(a), fmt::format("'{}' is given twice", tile));
                    continue;
                }
                tile_names_[tile] = constant_of(tree_.child(a, 1), "tile size");
                tile_order_.emplace_back(tile, span_of(a));
            }
        } else if (name == "broadcast") {
            broadcasts_.push_back(d);
        } else if (name == "kernel" && !arguments.empty()) {
            read_kind(arguments);
        }
    }
}

void Lowering::read_kind(const std::vector<NodeId>& arguments) {
    kernel_.kind = std::string(tree_.text_of(arguments[0]));
    kind_span_ = stride_span_ = span_of(arguments[0]);
    is_reduce_ = kernel_.kind == "reduce";
    std::set<std::string> stated;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const NodeId a = arguments[i];
        if (tree_[a].kind != Kind::NamedArg) {
            if (!is_reduce_ || !reduce_op_.empty()) {
                report(Code::E0313, span_of(a),
                       fmt::format("'@kernel {}' expects NAME=VALUE, got '{}'", kernel_.kind,
                                   tree_.text_of(a)))
                    .help("as in conv2d(stride=2, padding=1)");
                continue;
            }
            reduce_op_ = std::string(tree_.text_of(a));
            is_arg_reduce_ = reduce_op_ == "argmin" || reduce_op_ == "argmax";
            continue;
        }
        const std::string key(tree_.text_of(tree_[a].first));
        const NodeId value = tree_.child(a, 1);
        const bool of_conv2d = kernel_.kind == "conv2d" && (key == "stride" || key == "padding");
        if (is_reduce_ && key == "axis") {
            reduce_axis_ = value;
        } else if (!of_conv2d && !occurs(tree_, body_, key)) {
            report(Code::E0313, span_of(a), fmt::format("the body has no name '{}'", key));
        } else if (!stated.insert(key).second) {
            report(Code::E0313, span_of(a), fmt::format("'{}' is given twice", key));
        } else {
            numbers_[key] = constant_of(value, key);
            if (key == "stride") stride_span_ = span_of(value);
        }
    }
}

void Lowering::read_conv2d() {
    for (const auto& [name, value] : {std::pair{"stride", 1}, std::pair{"padding", 0}}) {
        if (numbers_.count(name)) continue;
        numbers_[name] = std::int64_t(value);
        defaults_.emplace_back(fmt::format("'{}' is {}", name, value));
    }
    for (const char* name : {"stride", "padding"}) {
        const semantics::Number& number = numbers_[name];
        if (std::holds_alternative<std::int64_t>(number)) continue;
        const auto* const truth = std::get_if<bool>(&number);
        report(Code::E0309, kind_span_,
               fmt::format("expected an integer as {}, got {}", name,
                           truth ? fmt::format("{}", *truth)
                                 : fmt::format("{}", std::get<double>(number))));
    }
    const auto* stride = std::get_if<std::int64_t>(&numbers_["stride"]);
    if (stride && *stride <= 0) {
        report(Code::E0309, stride_span_,
               fmt::format("expected a positive stride, got {}", *stride));
    }
    // Twice as much is added to an extent, of which int64 holds the sum.
    constexpr std::int64_t kMostPadding = std::int64_t{1} << 31;
    const auto* padding = std::get_if<std::int64_t>(&numbers_["padding"]);
    if (padding && (*padding > kMostPadding || *padding < -kMostPadding)) {
        report(Code::E0309, kind_span_,
               fmt::format("expected a padding from {} to {}, got {}", -kMostPadding, kMostPadding,
                           *padding));
    }
}

void Lowering::read_header() {
    const NodeId operands = tree_.child(request_.compute, 0);
    for (NodeId o = tree_[operands].first; o >= 0; o = tree_[o].next) {
        operand_nodes_.push_back(o);
        operand_names_.push_back(operand_name(tree_, o));
    }
    kernel_.operand_count = std::uint32_t(operand_names_.size());
    body_ = tree_.child(request_.compute, 3);
    kernel_.kind = "custom";
    // Decorators may name an operand where a number belongs.
    declare_operands();
    std::vector<ir::Stmt> ignored;
    const BlockScope scope(*this, ignored);
    read_decorators(tree_.child(request_.compute, 2));
    kernel_.name = kernel_.kind;
    if (kernel_.kind == "conv2d") read_conv2d();
    is_loop_free_ = !is_reduce_ && !has_loop_or_yield(tree_, body_);

    // One loop over len reads operands of any rank by their row-major position.
    const NodeId loop = tree_[body_].first;
    const bool single = loop >= 0 && tree_[loop].next < 0 && tree_[loop].kind == Kind::For &&
                        tree_.child_count(loop) == 2;
    if (single && (kernel_.kind == "elementwise" || is_reduce_)) {
        const NodeId range = tree_[loop].first;
        const bool over_len = compact_text(tree_, tree_.child(range, 2)) == "len" &&
                              compact_text(tree_, tree_.child(range, 1)) == "0";
        const auto& operands = request_.operands;
        const bool has_more = std::ranges::any_of(operands, [](auto& o) { return o.rank > 1; });
        are_scalars_ = std::ranges::all_of(operands, [](auto& o) { return o.rank == 0; });
        flat_ = over_len && (has_more || are_scalars_);
    }
}

void Lowering::declare_operands() {
    kernel_.buffers.clear();
    for (std::size_t i = 0; i < operand_names_.size(); ++i) {
        const OperandType& type = request_.operands[i];
        ir::Buffer buffer;
        buffer.dtype = type.dtype;
        buffer.name = operand_names_[i];
        buffer.flat = flat_ && (type.rank > 0 || are_scalars_);
        buffer.span = span_of(operand_nodes_[i]);
        // Each axis is a loop where the whole operand is used.
        if (type.rank > lang::kMaxDepth && !buffer.flat) {
            report(Code::E0104, buffer.span,
                   fmt::format("expected an operand of at most {} axes, got '{}' of rank {}",
                               lang::kMaxDepth, buffer.name, type.rank));
        }
        const int rank = buffer.flat ? 1 : std::min(type.rank, lang::kMaxDepth);
        for (int p = 0; p < rank; ++p) {
            buffer.shape.push_back(kernel_.extent(std::uint32_t(i), std::uint32_t(p)));
        }
        if (type.dtype == DType::Float8E4M3 || type.dtype == DType::Float8E5M2) {
            report(Code::E0606, buffer.span,
                   fmt::format("'{}' is {}, which is for storage; convert it before", buffer.name,
                               to_string(type.dtype)));
        }
        kernel_.buffers.push_back(std::move(buffer));
    }
    ir::Buffer out;
    out.kind = ir::BufferKind::Output;
    out.name = "out";
    out.dtype = is_floating(out_type_.dtype) || !out_type_.weak ? out_type_.dtype : DType::Int64;
    out.shape = out_shape_;
    kernel_.buffers.push_back(std::move(out));
}

void Lowering::begin_round() {
    changed_ = false;
    out_is_typed_ = false;
    next_out_rank_ = -1;
    unranked_read_.reset();
    kernel_.symbols.clear();
    kernel_.constraints.clear();
    kernel_.body.clear();
    declare_operands();
    scopes_.clear();
    loops_.clear();
    axis_loops_.clear();
    guards_.clear();
    guarded_ = 0;
    accesses_.clear();
    strided_.clear();
    steps_.clear();
    opaque_.clear();
    slices_.clear();
    result_.reasons.clear();
    first_yield_ = {};
    tile_extents_.clear();
    out_candidates_.clear();
    has_tiles_ = has_shared_ = false;
    barriers_.clear();
    hidden_loops_.clear();
    yield_var_ = yield_index_ = ir::kNone;
    next_reduced_axes_ = 0;
    axes_are_separable_ = true;
    for (std::uint32_t i = 0; i < operand_names_.size(); ++i) {
        const ir::Buffer& buffer = kernel_.buffers[i];
        if (!buffer.flat) continue;
        const ExprId elements = kernel_.extent(i, 0);
        require(elements, dim_named("len", buffer.span), ir::Rule::Declared, Code::E0501,
                buffer.span);
    }
    for (const auto& [name, number] : numbers_) {
        const auto* value = std::get_if<std::int64_t>(&number);
        if (!value || !dim_names_.count(name)) continue;
        const ExprId dim = dim_named(name, {});
        const Span span = kernel_[dim].span;
        require(dim, kernel_.integer(*value), ir::Rule::Declared, Code::E0501, span);
    }
}

void Lowering::body_over_axes() {
    // Axes that nothing reduces are loops of their own, so that rows are independent points.
    if (!loops_over_axes_) return block(body_);
    axis_loops_.assign(std::size_t(out_rank_), LoopScope{});
    const std::function<void(int)> level = [&](int p) {
        if (p == out_rank_) return block(body_);
        if (reduced_axes_ >> p & 1) return level(p + 1);
        ir::Stmt loop;
        loop.kind = ir::StmtKind::For;
        loop.parallel = true;
        loop.span = span_of(body_);
        loop.symbol =
            kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, fmt::format("axis{}", p));
        loop.value = zero();
        loop.step = one();
        loop.end = out_shape_[std::size_t(p)];
        axis_loops_[std::size_t(p)].range = {loop.symbol, loop.value, loop.end, loop.step};
        {
            const BlockScope scope(*this, loop.body);
            level(p + 1);
        }
        block_->push_back(std::move(loop));
    };
    level(0);
}

void Lowering::round() {
    const BlockScope scope(*this, kernel_.body);
    for (std::size_t i = 0; i < operand_nodes_.size(); ++i) {
        const NodeId dims = tree_.child(operand_nodes_[i], 2);
        if (dims < 0 || tree_[dims].kind != Kind::Dims) continue;
        const int declared = tree_.child_count(dims);
        if (declared != request_.operands[i].rank) {
            report(Code::E0504, span_of(operand_nodes_[i]),
                   fmt::format("expected '{}' of rank {}, got rank {}", operand_names_[i], declared,
                               request_.operands[i].rank));
            continue;
        }
        int p = 0;
        for (NodeId d = tree_[dims].first; d >= 0 && !kernel_.buffers[i].flat;
             d = tree_[d].next, ++p) {
            require(extent_expression(d, true), kernel_.extent(std::uint32_t(i), std::uint32_t(p)),
                    ir::Rule::Declared, Code::E0501, span_of(d));
        }
    }
    if (diagnostics_.has_errors()) return;
    const NodeId only = tree_[body_].first;
    if (is_reduce_) {
        reduce_kernel(body_);
    } else if (is_loop_free_) {
        body_over_axes();
    } else if (only >= 0 && tree_[only].next < 0 && tree_[only].kind == Kind::For) {
        for_loop(only, 0, true);
    } else {
        block(body_);
    }
    bind_strided();
    shape_output();
}

bool Lowering::next_round() {
    const std::set<std::uint32_t> bound = bound_dims();
    for (const std::string& name : guard_names_) {
        if (!dim_names_.count(name) || numbers_.count(name)) continue;
        const ir::Expr dim = kernel_[dim_named(name, {})];
        const auto sliced = [&](const Slice& slice) { return stop_term(slice, dim.a).has_value(); };
        if (bound.count(dim.a) || std::any_of(slices_.begin(), slices_.end(), sliced)) continue;
        dim_names_.erase(name);
        not_dims_.insert(name);
        changed_ = true;
    }
    if (diagnostics_.has_errors() && next_out_rank_ < 0 && out_rank_ >= 0) {
        // Whose stores fail has the rank and shape by which they were found to.
        return changed_;
    }
    const std::vector<ExprId>& shape = kernel_.buffers[kernel_.output()].shape;
    if (is_loop_free_ && out_rank_ > 0 && out_rank_ <= lang::kMaxDepth) {
        const bool separable = axes_are_separable_ && accesses_.size() <= 1;
        const AxisBits all = axis_bit(out_rank_) - 1;
        const bool over_axes = separable && (next_reduced_axes_ & all) != all;
        if (!loops_over_axes_ && over_axes && out_shape_ == shape) {
            loops_over_axes_ = true;
            reduced_axes_ = next_reduced_axes_;
            changed_ = true;
        }
    }
    if (out_rank_ != next_out_rank_) {
        out_rank_ = next_out_rank_;
        changed_ = true;
    }
    if (out_is_typed_ &&
        (out_type_.dtype != next_out_type_.dtype || out_type_.weak != next_out_type_.weak)) {
        out_type_ = next_out_type_;
        changed_ = true;
    }
    if (out_shape_ != shape) {
        out_shape_ = shape;
        changed_ = true;
    }
    return changed_;
}

std::optional<Lowered> Lowering::run() {
    const int wanted = tree_.child_count(tree_.child(request_.compute, 0));
    if (request_.operands.size() != static_cast<std::size_t>(wanted)) {
        report(Code::E0504, span_of(request_.compute),
               fmt::format("expected {} operand{}, got {}", wanted, wanted == 1 ? "" : "s",
                           request_.operands.size()));
        return std::nullopt;
    }
    out_type_.dtype = DType::Float32;
    read_header();
    if (diagnostics_.has_errors()) return std::nullopt;
    const std::size_t before = diagnostics_.size();
    for (int n = 0;; ++n) {
        diagnostics_.truncate(before);
        begin_round();
        round();
        if (!next_round()) break;
        // An error may make what depends on it come and go.
        const bool settles = n < kMostRounds + kMostRoundsOfAVar * int(var_types_.size());
        if (!settles && diagnostics_.has_errors()) break;
        QUERN_CHECK(settles, "types of vars settle");
    }
    if (unranked_read_ && !diagnostics_.has_errors()) {
        report(Code::E0421, *unranked_read_, "'out' is read and nothing stores it before");
    }
    if (!defaults_.empty()) {
        report(Code::N0803, kind_span_, fmt::format("by default {}", fmt::join(defaults_, " and ")))
            .help("the caller binds them, or the kernel: @kernel conv2d(stride=2, padding=1)");
    }
    if (diagnostics_.has_errors()) return std::nullopt;
    bind_ranges();
    if (diagnostics_.has_errors()) return std::nullopt;
    check_bounds();
    check_races();
    check_steps();
    for (const NodeId decorator : broadcasts_) check_broadcast(decorator);
    if (diagnostics_.has_errors()) return std::nullopt;
    mark_reductions();
    check_barriers();
    check_coverage();
    if (shared_hint_ >= 0 && has_shared_) {
        std::vector<ir::Stmt> ignored;
        const BlockScope scope(*this, ignored);
        result_.shared_hint = {extent_expression(shared_hint_, false), span_of(shared_hint_)};
    }
    if (diagnostics_.has_errors()) return std::nullopt;
    for (const Slice& s : slices_) {
        result_.slices.push_back({s.operand, s.axis, s.start, s.has_stop, s.span});
    }
    name_extents();
    std::vector<ExprId*> roots{&result_.shared_hint.bytes};
    for (SliceStart& slice : result_.slices) roots.push_back(&slice.start);
    kernel_.compact(roots);
    check_shared(result_, nullptr, limits_, diagnostics_);
    if (diagnostics_.has_errors()) return std::nullopt;
    return std::move(result_);
}

std::optional<Lowered> lower(const Request& request, const Limits& limits,
                             lang::Diagnostics& diagnostics) {
    return Lowering(request, limits, diagnostics).run();
}

}  // namespace quern::semantics
