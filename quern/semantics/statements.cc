#include <fmt/format.h>

#include "quern/lang/workspace.h"
#include "quern/semantics/lowering.h"

// Statements of a kernel body.

namespace quern::semantics {

using ir::BinaryOp;
using ir::StmtKind;

namespace {

std::vector<std::pair<ExprId, ExprId>> upper_limits(const ir::Kernel& kernel, ExprId condition) {
    const ir::Expr& e = kernel[condition];
    if (e.kind != ir::ExprKind::Binary) return {};
    const auto op = static_cast<BinaryOp>(e.op);
    if (op == BinaryOp::Less) return {{ExprId{e.a}, ExprId{e.b}}};
    if (op != BinaryOp::And) return {};
    auto left = upper_limits(kernel, ExprId{e.a});
    const auto right = upper_limits(kernel, ExprId{e.b});
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

}  // namespace

void Lowering::block(NodeId id) {
    for (NodeId s = tree_[id].first; s >= 0; s = tree_[s].next) statement(s);
}

void Lowering::statement(NodeId id) {
    switch (tree_[id].kind) {
        case Kind::For:
            return for_loop(id, 0, false);
        case Kind::If:
            return if_statement(id);
        case Kind::Yield:
            return yield(id);
        case Kind::Shared:
            return shared_declaration(id);
        case Kind::Decl:
            return declaration(id);
        case Kind::Assign:
            return assignment(id);
        case Kind::ExprStmt:
            return expression_statement(id);
        case Kind::Block:
            return block(id);
        case Kind::Ellipsis:
            report(Code::E0406, span_of(id), "the body is not written");
            return;
        default:
            report(Code::E0417, span_of(id), "this belongs to the host, not into a kernel");
    }
}

void Lowering::for_loop(NodeId id, int first_loop, bool parallel) {
    const NodeId child = tree_.child(id, first_loop);
    if (tree_[child].kind == Kind::Loop) {
        open_loop(child, parallel, [&] { for_loop(id, first_loop + 1, parallel); });
        return;
    }
    const NodeId only = tree_[child].first;
    if (parallel && only >= 0 && tree_[only].next < 0 && tree_[only].kind == Kind::For) {
        return for_loop(only, 0, true);
    }
    block(child);
}

void Lowering::open_loop(NodeId loop, bool parallel, const std::function<void()>& body) {
    if (loops_.size() == std::size_t(lang::kMaxDepth)) {
        report(Code::E0104, span_of(loop),
               fmt::format("loops nested more than {} deep", lang::kMaxDepth));
        return;
    }
    const NodeId name = tree_[loop].first, begin = tree_[name].next, end = tree_[begin].next,
                 step = tree_[end].next;
    ir::Stmt statement;
    statement.kind = StmtKind::For;
    statement.parallel = parallel;
    statement.span = span_of(loop);
    statement.value = extent_expression(begin, false);
    statement.end = extent_expression(end, true);
    statement.step = one();
    if (step >= 0 && tree_[step].kind != Kind::Empty) {
        const std::int64_t by = constant_of(step, "step");
        if (by <= 0) {
            report(Code::E0309, span_of(step), fmt::format("expected a positive step, got {}", by));
        } else {
            statement.step = kernel_.integer(by);
            steps_.emplace_back(by, span_of(step));
        }
    }
    const std::string text(tree_.text_of(name));
    statement.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, text, span_of(name));
    LoopScope scope;
    scope.range = {statement.symbol, statement.value, statement.end, statement.step};
    scope.parallel = parallel;
    scope.from_zero = kernel_.is_constant(statement.value, 0);
    scope.name = text;
    scope.span = span_of(loop);
    loops_.push_back(scope);
    {
        const BlockScope inner(*this, statement.body);
        Local local;
        local.kind = Local::Kind::Loop;
        local.name = text;
        local.symbol = statement.symbol;
        local.span = span_of(name);
        scopes_.back().push_back(local);
        body();
    }
    loops_.pop_back();
    block_->push_back(std::move(statement));
}

void Lowering::guard_by(const Value& condition) {
    if (condition.poisoned || condition.tile || condition.is_row) return;
    for (const auto& [index, limit] : upper_limits(kernel_, condition.expr)) {
        if (kernel_[index].dtype == DType::Int64) guards_.emplace_back(simplify(index), limit);
    }
}

void Lowering::if_statement(NodeId id) {
    const NodeId condition = tree_[id].first, then = tree_[condition].next,
                 otherwise = tree_[then].next;
    guard_context_ = true;
    Value value = scalar(condition, "a condition");
    guard_context_ = false;
    value = truth(value, condition);
    ir::Stmt statement;
    statement.kind = StmtKind::If;
    statement.span = span_of(id);
    statement.value = value.poisoned ? kernel_.boolean(true) : value.expr;
    const std::size_t guards = guards_.size();
    guard_by(value);
    ++guarded_;
    const std::size_t before = accesses_.size();
    {
        const BlockScope scope(*this, statement.body);
        block(then);
    }
    const std::size_t between = accesses_.size();
    guards_.resize(guards);
    if (otherwise >= 0 && tree_[otherwise].kind != Kind::Empty) {
        const BlockScope scope(*this, statement.otherwise);
        if (tree_[otherwise].kind == Kind::If) {
            if_statement(otherwise);
        } else {
            block(otherwise);
        }
    }
    for (std::size_t a = before; a < between; ++a) {
        Access& store = accesses_[a];
        const bool both = store.is_store && store.conditions == guarded_ &&
                          std::any_of(accesses_.begin() + std::ptrdiff_t(between), accesses_.end(),
                                      [&](const Access& other) {
                                          return other.is_store && other.conditions == guarded_ &&
                                                 other.index == store.index &&
                                                 other.slice_length == store.slice_length;
                                      });
        if (both) --store.conditions;
    }
    --guarded_;
    block_->push_back(std::move(statement));
}

std::optional<DType> Lowering::declared_dtype(NodeId type) {
    const std::string_view text = tree_.text_of(type);
    const auto dtype = dtype_from_string(text);
    if (!dtype) {
        report(Code::E0416, span_of(type), fmt::format("expected a dtype, got '{}'", text));
        return std::nullopt;
    }
    if (refuse_storage(*dtype, span_of(type))) return std::nullopt;
    return dtype;
}

void Lowering::declaration(NodeId id) {
    const NodeId target = tree_[id].first, type = tree_[target].next, node = tree_[type].next;
    Value value = expression(node);
    if (tree_[type].kind != Kind::Empty) {
        if (const auto dtype = declared_dtype(type)) {
            value = convert(value, *dtype);
            value.nominal = *dtype;
            value.weak = value.lifted = false;
        } else {
            value = poison(span_of(target));
        }
    }
    Local local;
    local.name = std::string(tree_.text_of(target));
    local.span = span_of(target);
    if (tree_[id].op == Op::Let) {
        declare_let(std::move(local), std::move(value), span_of(id));
    } else {
        if (value.is_row && !value.poisoned) value = scalar(node, "a var");
        declare_var(std::move(local), value, id);
    }
}

void Lowering::declare_let(Local local, Value value, Span span) {
    local.kind = Local::Kind::Let;
    if (value.tile && !value.tile->is_view) {
        value = materialise(value, local.name);
    } else if (!value.poisoned && !value.tile && !is_let(value.expr) &&
               (!value.weak || changes(value.expr) || ir::is_long(kernel_, value.expr))) {
        ir::Stmt& let = push(StmtKind::Let, span);
        let.symbol = kernel_.add_symbol(ir::SymbolKind::Let, value.dtype, local.name, local.span);
        let.value = value.expr;
        value.expr = kernel_.symbol(let.symbol, local.span);
        value.weak = value.weak && !is_floating(value.dtype);
    }
    local.value = value;
    scopes_.back().push_back(std::move(local));
}

void Lowering::declare_var(Local local, const Value& value, NodeId id) {
    local.kind = Local::Kind::Var;
    local.declaration = id;
    const bool is_untyped = value.poisoned && unranked_read_;
    if (!is_untyped && untyped_vars_.erase(id) > 0) {
        var_types_.erase(id);
        changed_ = true;
    }
    if (!var_types_.count(id)) {
        if (is_untyped) untyped_vars_.insert(id);
        VarType& type = var_types_[id];
        type.dtype = value.dtype;
        type.nominal = value.nominal;
        type.weak = value.weak;
        type.lifted = value.lifted;
        if (value.weak && !is_floating(value.dtype)) type.dtype = type.nominal = DType::Int64;
    }
    join(var_types_[id], value, local.span);
    const VarType var = var_types_[id];
    if (!var.capacities.empty()) return declare_tile_var(std::move(local), value, var, span_of(id));
    ir::Stmt& statement = push(StmtKind::Var, span_of(id));
    statement.symbol = kernel_.add_symbol(ir::SymbolKind::Var, var.dtype, local.name, local.span);
    statement.value = convert(value, var.dtype).expr;
    local.symbol = statement.symbol;
    scopes_.back().push_back(std::move(local));
}

void Lowering::declare_tile_var(Local local, const Value& value, const VarType& var, Span span) {
    has_tiles_ = true;
    local.buffer = static_cast<BufferId>(kernel_.buffers.size());
    kernel_.buffers.push_back(
        {ir::BufferKind::Local, var.dtype, local.name, var.capacities, false, local.span});
    push(StmtKind::Alloc, span).buffer = local.buffer;
    for (std::size_t p = 0; p < var.capacities.size(); ++p) {
        const ExprId capacity = var.capacities[p];
        local.axes.push_back({capacity, capacity});
        const bool is_ragged = (var.ragged & axis_bit(int(p))) != 0;
        local.extents.push_back(
            is_ragged ? kernel_.add_symbol(ir::SymbolKind::Var, DType::Int64,
                                           fmt::format("{}.extent{}", local.name, p), local.span)
                      : ir::kNone);
    }
    assign_tile_var(local, convert(value, var.dtype), span, StmtKind::Var);
    scopes_.back().push_back(std::move(local));
}

void Lowering::shared_declaration(NodeId id) {
    const NodeId target = tree_[id].first, dims = tree_[target].next, type = tree_[dims].next;
    has_shared_ = true;
    const bool typed = type >= 0 && tree_[type].kind != Kind::Empty;
    const auto dtype = typed ? declared_dtype(type) : std::nullopt;
    if (!var_types_.count(id)) {
        VarType& t = var_types_[id];
        t.dtype = t.nominal = dtype.value_or(DType::Int64);
        t.weak = !dtype;
    }
    Local local;
    local.kind = Local::Kind::Shared;
    local.name = std::string(tree_.text_of(target));
    local.span = span_of(target);
    local.declaration = id;
    local.buffer = static_cast<BufferId>(kernel_.buffers.size());
    ir::Buffer buffer{ir::BufferKind::Shared, var_types_[id].dtype, local.name, {}, false,
                      span_of(target)};
    for (NodeId d = tree_[dims].first; d >= 0; d = tree_[d].next) {
        ExprId extent = extent_expression(d, false);
        if (!is_fixed(kernel_, extent)) {
            report(Code::E0415, span_of(d),
                   fmt::format("expected an extent of '{}' that is the same at every point",
                               local.name));
            extent = one();
        }
        buffer.shape.push_back(extent);
        local.axes.push_back({extent, extent});
    }
    kernel_.buffers.push_back(std::move(buffer));
    push(StmtKind::Alloc, span_of(id)).buffer = local.buffer;
    scopes_.back().push_back(std::move(local));
}

void Lowering::assignment(NodeId id) {
    const NodeId target = tree_[id].first, value = tree_[target].next;
    const Op op = tree_[id].op;
    const NodeId object = tree_[target].kind == Kind::Index ? tree_[target].first : target;
    const std::string text = compact_text(tree_, object);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        for (auto local = scope->rbegin(); local != scope->rend(); ++local) {
            if (local->name != text) continue;
            if (local->kind == Local::Kind::Loop) {
                report(Code::E0413, span_of(target),
                       fmt::format("loop variable '{}' is assigned", text));
                return;
            }
            if (local->kind == Local::Kind::Let) {
                report(Code::E0414, span_of(target), fmt::format("'{}' is a let; use var", text));
                return;
            }
            // The body may declare more names, which moves the scope's own.
            Local copy = *local;
            if (object != target) return store_element(id, copy, target, op, value);
            if (copy.kind == Local::Kind::Shared) {
                report(Code::E0402, span_of(target),
                       fmt::format("expected an element of shared '{}'; index it", text));
                return;
            }
            return assign_var(id, copy, op, value);
        }
    }
    if (text == "out") return store_out(id, target, op, value);
    for (const std::string& operand : operand_names_) {
        if (operand == text) {
            report(Code::E0420, span_of(target), fmt::format("operand '{}' is written", text));
            return;
        }
    }
    report(Code::E0411, span_of(object), fmt::format("'{}' is not declared", text))
        .help(fmt::format("declare it: var {} = ...", text));
}

void Lowering::assign_var(NodeId id, Local& var, Op op, NodeId node) {
    const Span span = span_of(id);
    const bool is_scalar = var_types_[var.declaration].capacities.empty();
    if (is_scalar && (op == Op::AddSet || op == Op::SubSet || op == Op::MulSet)) {
        const BinaryOp sum = op == Op::MulSet ? BinaryOp::Mul : BinaryOp::Add;
        return contribute(var, sum, node, span, op == Op::SubSet);
    }
    if (is_scalar && op == Op::Set && accumulate(var, node)) return;
    Value value = expression(node);
    if (value.is_row && !value.poisoned) value = scalar(node, "a var");
    if (value.poisoned) return;
    if (op != Op::Set) {
        const BinaryOp operation = compound_operator(op);
        value = arithmetic(operation, local_value(var, span), value, span);
    }
    set_var(var, value, span);
}

void Lowering::set_var(Local& var, Value value, Span span) {
    if (value.poisoned) return;
    VarType& type = var_types_[var.declaration];
    if (!join(type, value, span)) return;
    if (changed_ && var.buffer == ir::kNone && !type.capacities.empty()) return;
    value = convert(value, type.dtype);
    if (var.buffer != ir::kNone) return assign_tile_var(var, value, span, StmtKind::Assign);
    ir::Stmt& statement = push(StmtKind::Assign, span);
    statement.symbol = var.symbol;
    // In this round the symbol may still have a narrower dtype; the next round mends it.
    statement.value = kernel_.cast(value.expr, kernel_.symbols[var.symbol].dtype, span);
}

bool Lowering::accumulate(Local& var, NodeId node) {
    const auto is_var = [&](NodeId n) {
        return tree_[n].kind == Kind::Name && tree_.text_of(n) == var.name;
    };
    if (tree_[node].kind == Kind::Call && tree_.child_count(node) == 3) {
        const NodeId callee = tree_[node].first, a = tree_[callee].next, b = tree_[a].next;
        const std::string_view function = tree_.text_of(callee);
        if (function != "max" && function != "min") return false;
        if (is_var(a) == is_var(b)) return false;
        contribute(var, function == "max" ? BinaryOp::Max : BinaryOp::Min, is_var(a) ? b : a,
                   span_of(node));
        return true;
    }
    if (tree_[node].kind == Kind::Binary &&
        (tree_[node].op == Op::And || tree_[node].op == Op::Or) && is_var(tree_[node].first) &&
        var_types_[var.declaration].dtype == DType::Bool) {
        contribute(var, tree_[node].op == Op::And ? BinaryOp::And : BinaryOp::Or,
                   tree_.child(node, 1), span_of(node));
        return true;
    }
    return false;
}

void Lowering::contribute(Local& var, BinaryOp op, NodeId node, Span span, bool is_negated) {
    Value value = expression(node);
    const bool yields = var.declaration == body_;
    if (value.tile && (value.is_row || yields))
        value = not_a_scalar(node, value, "an accumulation");
    if (op == BinaryOp::And || op == BinaryOp::Or) value = truth(value, node);
    if (value.poisoned) return;
    if (value.tile) {
        // The var is a tile, which accumulates in order.
        const Value old = local_value(var, span);
        if (op != BinaryOp::And && op != BinaryOp::Or) {
            const BinaryOp operation = is_negated ? BinaryOp::Sub : op;
            return set_var(var, arithmetic(operation, old, value, span), span);
        }
        return set_var(var,
                       elementwise2(old, value, DType::Bool, DType::Bool, false, span,
                                    [this, op, span](ExprId x, ExprId y) {
                                        return kernel_.binary(op, x, y, span);
                                    }),
                       span);
    }
    const bool widens = op == BinaryOp::Add || op == BinaryOp::Mul;
    if (widens && !value.weak && widened(value.dtype) != value.dtype) {
        // What is taken from nothing is negative.
        const bool has_sign = is_negated && is_unsigned_integer(value.dtype);
        const DType wide = has_sign ? DType::Int64 : widened(value.dtype);
        value.expr = widen(value.expr, wide, value.is_cast);
        value.dtype = wide;
        if (!is_floating(wide)) value.nominal = wide;
    }
    if (is_negated) value.expr = kernel_.unary(ir::UnaryOp::Neg, value.expr, span);
    VarType& type = var_types_[var.declaration];
    const bool is_arithmetic = op != BinaryOp::And && op != BinaryOp::Or;
    if (is_arithmetic && type.dtype == DType::Bool && !is_floating(value.dtype) &&
        (value.weak || value.dtype == DType::Bool)) {
        // Arithmetic on truth values is on integers.
        value = convert(value, DType::Int64);
        value.nominal = DType::Int64;
        value.weak = false;
    }
    if (!join(type, value, span)) return;
    value = convert(value, type.dtype);
    ir::Stmt& statement = push(StmtKind::Accumulate, span);
    statement.symbol = var.symbol;
    statement.op = op;
    statement.value = kernel_.cast(value.expr, kernel_.symbols[var.symbol].dtype, span);
}

void Lowering::assign_tile_var(Local& var, const Value& value, Span span, StmtKind extents) {
    Value source = value;
    if (source.poisoned) return;
    if (source.tile && source.tile->shuffled.count(var.buffer)) {
        source = materialise(source, var.name + ".next");
    }
    const std::size_t rank = var.axes.size();
    const std::size_t own = source.tile ? source.tile->axes.size() : 0;
    std::vector<Axis> axes = var.axes;
    for (std::size_t p = rank - own; p < rank; ++p) {
        const Axis& from = source.tile->axes[p - (rank - own)];
        if (kernel_.is_constant(from.capacity, 1)) {
            axes[p] = spread(from, axes[p]);
            continue;
        }
        require(var.axes[p].capacity, from.capacity, ir::Rule::Tile, Code::E0502, span);
        if (is_ragged(from)) axes[p].extent = from.extent;
    }
    const DType dtype = kernel_.buffers[var.buffer].dtype;
    for_each(axes, [&](const std::vector<ExprId>& index) {
        ExprId element = source.expr;
        if (source.tile) {
            std::vector<ExprId> at(index.end() - std::ptrdiff_t(own), index.end());
            for (std::size_t p = 0; p < own; ++p) {
                if (kernel_.is_constant(source.tile->axes[p].capacity, 1)) at[p] = zero();
            }
            element = source.tile->at(at);
        }
        ir::Stmt& store = push(StmtKind::Store, span);
        store.buffer = var.buffer;
        store.indices = index;
        store.value = kernel_.cast(element, dtype, span);
    });
    for (std::size_t p = 0; p < rank; ++p) {
        if (var.extents[p] == ir::kNone) continue;
        ir::Stmt& extent = push(extents, span);
        extent.symbol = var.extents[p];
        extent.value = axes[p].extent;
    }
}

void Lowering::store_element(NodeId id, Local& target, NodeId index, Op op, NodeId node) {
    const Span span = span_of(id);
    const Value object = local_value(target, span_of(index));
    if (!object.tile) {
        report(Code::E0403, span_of(index),
               fmt::format("'{}' is a scalar; it has no elements", target.name));
        return;
    }
    const Value place = index_of(index, object, target.name, ir::kNone);
    if (place.poisoned) return;
    if (place.tile) {
        report(Code::E0402, span_of(index),
               fmt::format("expected one element of '{}', got a row; give an index for each axis",
                           target.name));
        return;
    }
    Value value = scalar(node, "an element");
    if (value.poisoned) return;
    if (op != Op::Set) {
        const BinaryOp operation = compound_operator(op);
        value = arithmetic(operation, place, value, span);
        if (value.poisoned) return;
    }
    if (!join(var_types_[target.declaration], value, span)) return;
    value = convert(value, var_types_[target.declaration].dtype);
    ir::Expr load = kernel_[place.expr];
    if (load.kind == ir::ExprKind::Cast) load = kernel_[ExprId{load.a}];
    ir::Stmt& store = push(StmtKind::Store, span);
    store.buffer = target.buffer;
    for (int p = 0; p < load.count; ++p) store.indices.push_back(kernel_.index_of(load, p));
    store.value = kernel_.cast(value.expr, kernel_.buffers[target.buffer].dtype, span);
}

void Lowering::expression_statement(NodeId id) {
    const NodeId node = tree_[id].first;
    if (tree_[node].kind == Kind::Call && tree_.text_of(tree_[node].first) == "barrier") {
        push(StmtKind::Barrier, span_of(id));
        barriers_.push_back(span_of(id));
        return;
    }
    const Value value = expression(node);
    if (!value.poisoned) report(Code::E0415, span_of(id), "this statement has no effect");
}

}  // namespace quern::semantics
