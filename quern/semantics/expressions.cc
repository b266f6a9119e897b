#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "quern/lang/mends.h"
#include "quern/semantics/lowering.h"

// Names, literals and operators.

namespace quern::semantics {

using ir::BinaryOp;
using ir::UnaryOp;

Value Lowering::expression(NodeId id) {
    switch (tree_[id].kind) {
        case Kind::Int:
        case Kind::Float:
            return number(id);
        case Kind::Name:
        case Kind::Member:
            return name(id);
        case Kind::Unary:
            return unary(id);
        case Kind::Binary:
            return binary(id);
        case Kind::Call:
            return call(id);
        case Kind::Index:
            return subscript(id);
        case Kind::Tuple:
            report(Code::E0415, span_of(id), "expected a single value, got a tuple");
            return poison(span_of(id));
        default:
            report(Code::E0417, span_of(id), "this belongs to the host, not into a kernel");
            return poison(span_of(id));
    }
}

Value Lowering::scalar(NodeId id, std::string_view what) {
    const Value value = expression(id);
    return value.poisoned || !value.tile ? value : not_a_scalar(id, value, what);
}

Value Lowering::not_a_scalar(NodeId id, const Value& value, std::string_view what) {
    if (value.is_row) {
        NodeId object = id;
        int given = 0;
        if (tree_[id].kind == Kind::Index) {
            object = tree_[id].first;
            given = tree_.child_count(id) - 1;
        }
        const int rank = static_cast<int>(value.tile->axes.size()) + given;
        report(
            Code::E0402, span_of(id),
            fmt::format(
                "expected a scalar for {}; {}-D operand '{}' indexed with {} {} gives a row", what,
                rank, compact_text(tree_, object), given, given == 1 ? "index" : "indices"))
            .help("give an index for each axis, or reduce the row: dot(a, b), reduce(+, row)");
    } else {
        report(Code::E0402, span_of(id),
               fmt::format("expected a scalar for {}, got a tile of rank {}", what,
                           value.tile->axes.size()));
    }
    return poison(span_of(id));
}

Value Lowering::number(NodeId id) {
    const std::string_view text = tree_.text_of(id);
    if (tree_[id].kind == Kind::Int) {
        std::int64_t value = 0;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return make_scalar(kernel_.integer(value, span_of(id)), span_of(id), true);
    }
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return make_scalar(kernel_.floating(value, DType::Float32, span_of(id)), span_of(id), true);
}

Value Lowering::local_value(Local& local, Span span) {
    switch (local.kind) {
        case Local::Kind::Loop:
            return make_scalar(kernel_.symbol(local.symbol, span), span, true);
        case Local::Kind::Let: {
            Value value = local.value;
            value.span = span;
            return value;
        }
        case Local::Kind::Var:
            if (untyped_vars_.contains(local.declaration)) return poison(span);
            // What was assigned before in this round may have changed the dtype, of which what was
            // declared will be in the next.
            if (local.buffer == ir::kNone) {
                const VarType& type = var_types_[local.declaration];
                Value value = make_scalar(
                    kernel_.cast(kernel_.symbol(local.symbol, span), type.dtype, span), span);
                value.nominal = type.nominal;
                value.weak = type.weak;
                value.lifted = type.lifted;
                return value;
            }
            break;
        case Local::Kind::Shared:
            break;
    }
    Value value;
    value.dtype = kernel_.buffers[local.buffer].dtype;
    value.nominal = value.dtype;
    if (local.declaration >= 0) {
        const VarType& type = var_types_[local.declaration];
        value.dtype = type.dtype;
        value.nominal = type.nominal;
        value.weak = type.weak;
        value.lifted = type.lifted;
    }
    value.span = span;
    auto tile = std::make_shared<Tile>();
    tile->axes = local.axes;
    for (std::size_t p = 0; p < local.extents.size(); ++p) {
        if (local.extents[p] != ir::kNone) tile->axes[p].extent = kernel_.symbol(local.extents[p]);
    }
    tile->direct = {local.buffer};
    tile->at = [this, buffer = local.buffer, dtype = value.dtype,
                span](const std::vector<ExprId>& index) {
        return kernel_.cast(kernel_.load(buffer, index, span), dtype, span);
    };
    value.tile = tile;
    return value;
}

Value Lowering::name(NodeId id) {
    if (tree_[id].kind == Kind::Name) {
        const std::string_view text = tree_.text_of(id);
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            for (auto local = scope->rbegin(); local != scope->rend(); ++local) {
                if (local->name == text) return local_value(*local, span_of(id));
            }
        }
    }
    return free_name(id);
}

Value Lowering::operand_value(std::uint32_t operand, Span span) {
    const ir::Buffer& buffer = kernel_.buffers[operand];
    Value value;
    value.dtype = value.nominal = buffer.dtype;
    value.span = span;
    const std::size_t rank = buffer.shape.size();
    if (rank == 0) {
        value.expr = kernel_.load(operand, {}, span);
        return value;
    }
    // Of its axes no loop over those of `out` is one.
    if (int(rank) > out_rank_) axes_are_separable_ = false;
    auto tile = std::make_shared<Tile>();
    tile->is_view = true;
    const std::size_t shift = axis_loops_.size() > rank ? axis_loops_.size() - rank : 0;
    std::vector<ExprId> fixed(rank, ir::kNoExpr);
    for (std::size_t p = 0; p < rank; ++p) {
        const ExprId extent = kernel_.extent(operand, std::uint32_t(p));
        tile->axes.push_back({extent, extent});
        if (!is_axis_loop(p + shift)) continue;
        fixed[p] = kernel_.symbol(axis_loops_[p + shift].range.symbol);
        tile->axes[p] = {one(), one()};
        require(axis_loops_[p + shift].range.end, extent, ir::Rule::SameShape, Code::E0502, span);
    }
    tile->at = [this, operand, span, fixed](const std::vector<ExprId>& index) {
        std::vector<ExprId> own = index;
        for (std::size_t p = 0; p < own.size(); ++p) {
            if (exists(fixed[p])) own[p] = fixed[p];
        }
        return kernel_.load(operand, own, span);
    };
    value.tile = tile;
    value.is_row = !loops_.empty();
    return value;
}

Value Lowering::free_name(NodeId id) {
    const Span span = span_of(id);
    const std::string text = compact_text(tree_, id);
    for (std::size_t i = 0; i < operand_names_.size(); ++i) {
        if (operand_names_[i] == text) return operand_value(std::uint32_t(i), span);
    }
    if (text == "out") {
        report(Code::E0421, span, "'out' is read as a whole; index it");
        return poison(span);
    }
    if (const auto tile = tile_names_.find(text); tile != tile_names_.end()) {
        return make_scalar(kernel_.integer(tile->second, span), span, true);
    }
    if (dim_names_.count(text)) return make_scalar(dim_named(text, span), span, true);
    const bool plain = tree_[id].kind == Kind::Name && text != "inf";
    if (plain && is_new_dimension(text)) {
        dim_names_.insert(text);
        changed_ = true;
        return make_scalar(dim_named(text, span), span, true);
    }
    if (const auto value = host_number(text, plain && request_.assume_scalars, span)) return *value;
    if (text == "inf") {
        return make_scalar(
            kernel_.floating(std::numeric_limits<double>::infinity(), DType::Float32, span), span,
            true);
    }
    return undefined_name(text, tree_[id].kind == Kind::Name, span);
}

bool Lowering::is_new_dimension(const std::string& name) {
    if (not_dims_.count(name)) return false;
    const auto number = numbers_.find(name);
    if (number != numbers_.end()) {
        return extent_context_ && std::holds_alternative<std::int64_t>(number->second);
    }
    if (extent_context_) return true;
    if (!guard_context_ && !slice_context_) return false;
    guard_names_.insert(name);
    return true;
}

std::optional<Value> Lowering::host_number(const std::string& name, bool assumed, Span span) {
    const auto number = numbers_.find(name);
    if (number == numbers_.end() && !assumed) return std::nullopt;
    if (number != numbers_.end()) {
        if (const auto* i = std::get_if<std::int64_t>(&number->second)) {
            return make_scalar(kernel_.integer(*i, span), span, true);
        }
        if (const auto* b = std::get_if<bool>(&number->second)) {
            return make_scalar(kernel_.boolean(*b, span), span);
        }
    }
    std::uint32_t index = 0;
    while (index < kernel_.scalars.size() && kernel_.scalars[index].name != name) ++index;
    const bool is_integer = assumed && request_.assumed_integers.contains(name);
    const DType dtype = is_integer ? DType::Int64 : DType::Float64;
    if (index == kernel_.scalars.size()) kernel_.scalars.push_back({name, dtype, span});
    const ExprId scalar = kernel_.scalar(index, span);
    return make_scalar(is_integer ? scalar : kernel_.cast(scalar, DType::Float32, span), span,
                       true);
}

Value Lowering::undefined_name(const std::string& name, bool bindable, Span span) {
    auto entry = report(
        Code::E0411, span,
        fmt::format("undefined name '{}': not an operand, loop variable, dimension or bound value",
                    name));
    std::vector<std::string> known = operand_names_;
    for (const auto& scope : scopes_) {
        for (const Local& local : scope) known.push_back(local.name);
    }
    if (!operand_names_.empty()) {
        entry.note(fmt::format("the operands are {}", fmt::join(operand_names_, ", ")));
    }
    if (const auto mend = lang::mend_of_path(name); !mend.empty()) {
        entry.help(std::string(mend));
    } else if (const auto close = lang::nearest(name, known); !close.empty()) {
        entry.help(fmt::format("did you mean '{}'?", close[0]));
    }
    if (name == "true" || name == "false") {
        entry.help(fmt::format("write bool({})", int(name == "true")));
    } else if (bindable) {
        entry.help(fmt::format("bind it: arg(\"{}\", value) in C++, --arg {}=VALUE for a script",
                               name, name));
    }
    return poison(span);
}

Value Lowering::unary(NodeId id) {
    const Span span = span_of(id);
    const NodeId operand = tree_[id].first;
    if (tree_[id].op == Op::Not) {
        const Value a = truth(expression(operand), operand);
        if (a.poisoned) return a;
        Value result = elementwise(a, DType::Bool, DType::Bool, a.weak, [this, span](ExprId x) {
            return kernel_.unary(UnaryOp::Not, x, span);
        });
        result.span = span;
        return result;
    }
    Value a = expression(operand);
    if (a.poisoned) return a;
    if (a.is_row) return scalar(operand, "'-'");
    return apply_unary(UnaryOp::Neg, false, a, span);
}

Value Lowering::binary(NodeId id) {
    const NodeId left = tree_[id].first, right = tree_[left].next;
    const Span span = span_of(id);
    const Op op = tree_[id].op;
    if (op == Op::And || op == Op::Or) return logical(id);
    const bool guards = guard_context_;
    if (op < Op::Less || op > Op::NotEqual) guard_context_ = false;
    contracted_ = ir::kNoExpr;
    Value a = expression(left);
    const ExprId contracted = contracted_;
    Value b = expression(right);
    guard_context_ = guards;
    contracted_ = ir::kNoExpr;
    if (op == Op::Div && exists(contracted)) bind_scale(right, contracted);
    if (op == Op::MatMul) return contract(a, b, span);
    if (a.is_row && !a.poisoned) a = scalar(left, "an operator");
    if (b.is_row && !b.poisoned) b = scalar(right, "an operator");
    if (a.poisoned || b.poisoned) return poison(span);
    switch (op) {
        case Op::Add:
            return arithmetic(BinaryOp::Add, a, b, span);
        case Op::Sub:
            return arithmetic(BinaryOp::Sub, a, b, span);
        case Op::Mul:
            return arithmetic(BinaryOp::Mul, a, b, span);
        case Op::Div:
            return arithmetic(BinaryOp::Div, a, b, span);
        case Op::Rem:
            return arithmetic(BinaryOp::Rem, a, b, span);
        default:
            return comparison(op, a, b, span);
    }
}

void Lowering::bind_scale(NodeId divisor, ExprId contracted) {
    // Scores are divided by the root of the width that made them: dot(q, k) / sqrt(head_dim).
    if (tree_[divisor].kind != Kind::Call || tree_.text_of(tree_[divisor].first) != "sqrt") return;
    const NodeId width = tree_.child(divisor, 1);
    const std::string name(tree_.text_of(width));
    if (tree_[width].kind != Kind::Name || !dim_names_.count(name)) return;
    require(dim_named(name, span_of(width)), contracted, ir::Rule::Tile, Code::E0501,
            span_of(width));
}

Value Lowering::arithmetic(BinaryOp op, Value a, Value b, Span span) {
    if (a.poisoned || b.poisoned) return poison(span);
    DType nominal = a.nominal;
    bool weak = false;
    if (!unify(a, b, span, nominal, weak)) return poison(span);
    if (op == BinaryOp::Rem && is_floating(a.dtype)) {
        report(Code::E0415, span, fmt::format("'%' is for integers, got {}", to_string(a.dtype)))
            .help("x - floor(x / y) * y is the remainder of floats");
        return poison(span);
    }
    Value result = elementwise2(
        a, b, a.dtype, nominal, weak, span,
        [this, op, span](ExprId x, ExprId y) { return kernel_.binary(op, x, y, span); });
    result.lifted = a.lifted;
    return result;
}

Value Lowering::comparison(Op op, Value a, Value b, Span span) {
    DType nominal = a.nominal;
    bool weak = false;
    if (a.dtype == DType::Bool && b.dtype == DType::Bool) {
        if (op != Op::Equal && op != Op::NotEqual) {
            a = convert(a, DType::Int64);
            b = convert(b, DType::Int64);
        }
    } else if (!unify(a, b, span, nominal, weak)) {
        return poison(span);
    }
    BinaryOp compare = BinaryOp::Less;
    switch (op) {
        case Op::Less:
        case Op::Greater:
            compare = BinaryOp::Less;
            break;
        case Op::LessEqual:
        case Op::GreaterEqual:
            compare = BinaryOp::LessEqual;
            break;
        case Op::Equal:
            compare = BinaryOp::Equal;
            break;
        default:
            compare = BinaryOp::NotEqual;
            break;
    }
    if (op == Op::Greater || op == Op::GreaterEqual) std::swap(a, b);
    return elementwise2(
        a, b, DType::Bool, DType::Bool, false, span,
        [this, compare, span](ExprId x, ExprId y) { return kernel_.binary(compare, x, y, span); });
}

Value Lowering::truth(const Value& value, NodeId id) {
    if (value.poisoned || value.dtype == DType::Bool) return value;
    if (is_floating(value.dtype)) {
        report(Code::E0405, span_of(id),
               fmt::format("expected a bool or an integer, got {}", to_string(value.dtype)))
            .help(fmt::format("compare it: {} != 0.0", compact_text(tree_, id)));
        return poison(span_of(id));
    }
    return elementwise(value, DType::Bool, DType::Bool, false,
                       [this](ExprId x) { return kernel_.cast(x, DType::Bool, kernel_[x].span); });
}

Value Lowering::logical(NodeId id) {
    const NodeId left = tree_[id].first, right = tree_[left].next;
    const Span span = span_of(id);
    const BinaryOp op = tree_[id].op == Op::And ? BinaryOp::And : BinaryOp::Or;
    const bool guards = guard_context_;
    if (op == BinaryOp::And) guard_context_ = true;
    Value a = truth(expression(left), left);
    guard_context_ = guards;
    const std::size_t outer = guards_.size();
    if (op == BinaryOp::And) guard_by(a);
    std::vector<ir::Stmt> steps;
    Value b;
    {
        const BlockScope scope(*this, steps);
        ++guarded_;
        b = truth(expression(right), right);
        --guarded_;
    }
    guards_.resize(outer);
    if (a.poisoned || b.poisoned) return poison(span);
    if (a.is_row) a = scalar(left, "'and'");
    if (b.is_row) b = scalar(right, "'and'");
    if (a.poisoned || b.poisoned) return poison(span);
    if (steps.empty() || a.tile || b.tile) {
        block_->insert(block_->end(), std::make_move_iterator(steps.begin()),
                       std::make_move_iterator(steps.end()));
        return elementwise2(
            a, b, DType::Bool, DType::Bool, false, span,
            [this, op, span](ExprId x, ExprId y) { return kernel_.binary(op, x, y, span); });
    }
    // The right side takes statements of its own, which run only if its value counts.
    ir::Stmt& var = push(ir::StmtKind::Var, span);
    const SymbolId symbol = kernel_.add_symbol(ir::SymbolKind::Var, DType::Bool,
                                               fmt::format("t{}", kernel_.symbols.size()), span);
    var.symbol = symbol;
    var.value = a.expr;
    ir::Stmt choice;
    choice.kind = ir::StmtKind::If;
    choice.span = span;
    choice.value = kernel_.symbol(symbol, span);
    if (op == BinaryOp::Or) choice.value = kernel_.unary(UnaryOp::Not, choice.value, span);
    choice.body = std::move(steps);
    ir::Stmt assign;
    assign.kind = ir::StmtKind::Assign;
    assign.span = span;
    assign.symbol = symbol;
    assign.value = b.expr;
    choice.body.push_back(std::move(assign));
    block_->push_back(std::move(choice));
    return make_scalar(kernel_.symbol(symbol, span), span);
}

}  // namespace quern::semantics
