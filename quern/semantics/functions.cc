#include "quern/math/functions.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/lang/words.h"
#include "quern/semantics/lowering.h"
#include "quern/support/short_vector.h"

// Calls of functions.def, casts, and what applies element by element.

namespace quern::semantics {

using ir::BinaryOp;
using ir::UnaryOp;

namespace {

struct UnaryRow {
    std::string_view name;
    UnaryOp op;
    bool wants_float;
};

constexpr bool Float = true;
constexpr bool Number = false;
constexpr UnaryRow kUnary[] = {
#define UNARY(name, op, operand, value) {#name, UnaryOp::op, operand},
#include "quern/lang/functions.def"
};

}  // namespace

bool is_zero_of_zero(std::string_view function) {
    [[maybe_unused]] const math::Native<double> x = {0};
#define UNARY(name, op, operand, value) \
    if (function == #name) return (value).number == 0;
#include "quern/lang/functions.def"
    return function != "sigmoid";
}

Value Lowering::elementwise(Value a, DType dtype, DType nominal, bool weak,
                            std::function<ExprId(ExprId)> f) {
    Value result = std::move(a);
    result.dtype = dtype;
    result.nominal = nominal;
    result.weak = weak;
    result.is_cast = false;
    if (!result.tile) {
        result.expr = f(result.expr);
        return result;
    }
    auto tile = std::make_shared<Tile>(*result.tile);
    tile->is_view = false;
    tile->at = [at = std::move(tile->at), f = std::move(f)](const std::vector<ExprId>& i) {
        return f(at(i));
    };
    result.tile = tile;
    return result;
}

Value Lowering::elementwise2(Value a, Value b, DType dtype, DType nominal, bool weak, Span span,
                             std::function<ExprId(ExprId, ExprId)> f) {
    Value result;
    result.dtype = dtype;
    result.nominal = nominal;
    result.weak = weak;
    result.span = span;
    if (!a.tile && !b.tile) {
        result.expr = f(a.expr, b.expr);
        return result;
    }
    const std::size_t ra = a.tile ? a.tile->axes.size() : 0, rb = b.tile ? b.tile->axes.size() : 0;
    const std::size_t rank = std::max(ra, rb);
    auto tile = std::make_shared<Tile>();
    using Axes = ShortVector<bool, 8>;
    Axes fixed_a, fixed_b;
    for (std::size_t p = 0; p < ra; ++p) fixed_a.push_back(false);
    for (std::size_t p = 0; p < rb; ++p) fixed_b.push_back(false);
    for (std::size_t p = 0; p < rank; ++p) {
        const bool in_a = p + ra >= rank, in_b = p + rb >= rank;
        const std::size_t pa = p + ra - rank, pb = p + rb - rank;
        if (!in_a || !in_b) {
            tile->axes.push_back(in_a ? a.tile->axes[pa] : b.tile->axes[pb]);
            continue;
        }
        const Axis& x = a.tile->axes[pa];
        const Axis& y = b.tile->axes[pb];
        fixed_a[pa] = kernel_.is_constant(x.capacity, 1);
        fixed_b[pb] = kernel_.is_constant(y.capacity, 1);
        if (fixed_a[pa] != fixed_b[pb]) {
            tile->axes.push_back(fixed_a[pa] ? spread(x, y) : spread(y, x));
            continue;
        }
        if (fixed_a[pa]) fixed_a[pa] = fixed_b[pb] = false;
        require(x.capacity, y.capacity, ir::Rule::Tile, Code::E0502, span);
        tile->axes.push_back(meet(x, y));
    }
    const auto merge = [&](const Value& v, std::size_t r, const Axes& fixed) {
        if (!v.tile) return;
        const bool moved = r != rank || std::find(fixed.begin(), fixed.end(), true) != fixed.end();
        (moved ? tile->shuffled : tile->direct)
            .insert(v.tile->direct.begin(), v.tile->direct.end());
        tile->shuffled.insert(v.tile->shuffled.begin(), v.tile->shuffled.end());
    };
    merge(a, ra, fixed_a);
    merge(b, rb, fixed_b);
    const auto pick = [this](const Value& v, const Axes& fixed) {
        return [this, v, fixed](const std::vector<ExprId>& index) {
            if (!v.tile) return v.expr;
            std::vector<ExprId> own(index.end() - std::ptrdiff_t(fixed.size()), index.end());
            for (std::size_t p = 0; p < own.size(); ++p) {
                if (fixed[p]) own[p] = zero();
            }
            return v.tile->at(own);
        };
    };
    tile->at = [f = std::move(f), x = pick(a, fixed_a), y = pick(b, fixed_b)](
                   const std::vector<ExprId>& index) { return f(x(index), y(index)); };
    result.tile = tile;
    return result;
}

Value Lowering::apply_unary(UnaryOp op, bool wants_float, Value a, Span span) {
    if (a.poisoned) return a;
    if (wants_float && !is_floating(a.dtype)) {
        a = convert(a, DType::Float32);
        a.nominal = DType::Float32;
    }
    if (a.dtype == DType::Bool) {
        a = convert(a, DType::Int64);
        a.nominal = DType::Int64;
    }
    Value result = elementwise(a, a.dtype, a.nominal, a.weak,
                               [this, op, span](ExprId x) { return kernel_.unary(op, x, span); });
    result.lifted = a.lifted && !wants_float;
    result.span = span;
    return result;
}

std::optional<Value> Lowering::unary_function(std::string_view name, Value a, Span span) {
    for (const UnaryRow& row : kUnary) {
        if (row.name == name) return apply_unary(row.op, row.wants_float, a, span);
    }
    if (name == "relu") {
        return arithmetic(BinaryOp::Max, a, make_scalar(zero(), span, true), span);
    }
    if (name == "sigmoid") {
        const Value unit = make_scalar(kernel_.floating(1, DType::Float32), span, true);
        const Value negated = apply_unary(UnaryOp::Neg, true, a, span);
        const Value e = apply_unary(UnaryOp::Exp, true, negated, span);
        return arithmetic(BinaryOp::Div, unit, arithmetic(BinaryOp::Add, unit, e, span), span);
    }
    if (name != "isnan") return std::nullopt;
    if (a.poisoned) return a;
    if (!is_floating(a.dtype)) a = convert(a, DType::Float32);
    Value result = elementwise(a, DType::Bool, DType::Bool, false, [this, span](ExprId x) {
        return kernel_.unary(UnaryOp::IsNan, x, span);
    });
    result.span = span;
    return result;
}

bool Lowering::refuse_storage(DType dtype, Span span) {
    if (dtype != DType::Float8E4M3 && dtype != DType::Float8E5M2) return false;
    report(Code::E0606, span,
           fmt::format("expected a dtype that kernels compute with, got {}, which is for storage",
                       to_string(dtype)))
        .help("compute in float16 and convert the result: y.to(DType::...)");
    return true;
}

Value Lowering::call(NodeId id) {
    const Span span = span_of(id);
    const NodeId callee = tree_[id].first;
    const std::string_view function = tree_.text_of(callee);
    std::vector<NodeId> arguments;
    for (NodeId a = tree_[callee].next; a >= 0; a = tree_[a].next) arguments.push_back(a);

    if (const auto dtype = dtype_from_string(function)) {
        const Value a = expression(arguments[0]);
        if (a.poisoned) return a;
        const DType to = *dtype;
        if (refuse_storage(to, span_of(callee))) return poison(span);
        Value result = elementwise(a, to, to, false, [this, to, span](ExprId x) {
            if (is_floating(to)) warn_of_quotient(x);
            return kernel_.cast(x, to, span);
        });
        if (a.weak) {
            result = convert(a, to);
            result.weak = false;
        }
        result.lifted = false;
        result.is_cast = true;
        result.span = span;
        return result;
    }
    if (lang::is_unary_function(function)) {
        const Value a = expression(arguments[0]);
        return *unary_function(function, a.is_row ? not_a_scalar(arguments[0], a, function) : a,
                               span);
    }
    return special(function, id, arguments);
}

Value Lowering::power(Value a, Value b, Span span) {
    // A power of integers is one; beside a float they are floats.
    if (is_floating(a.dtype) || is_floating(b.dtype)) {
        for (Value* x : {&a, &b}) {
            if (!is_floating(x->dtype) && !x->weak) *x = convert(*x, DType::Float32);
        }
        if (a.weak && !is_floating(a.dtype)) a = convert(a, DType::Float32);
    }
    return arithmetic(BinaryOp::Pow, a, b, span);
}

Value Lowering::select(const std::vector<NodeId>& arguments, Span span) {
    const bool guards = std::exchange(guard_context_, true);
    const Value c = truth(expression(arguments[0]), arguments[0]);
    guard_context_ = guards;
    const std::size_t outer = guards_.size();
    guard_by(c);
    ++guarded_;
    Value a = expression(arguments[1]);
    guards_.resize(outer);
    Value b = expression(arguments[2]);
    --guarded_;
    if (a.poisoned || b.poisoned || c.poisoned) return poison(span);
    DType nominal = a.nominal;
    bool weak = false;
    if (a.dtype == DType::Bool && b.dtype == DType::Bool) {
        nominal = DType::Bool;
    } else if (!unify(a, b, span, nominal, weak)) {
        return poison(span);
    }
    if (!a.tile && !b.tile && !c.tile) {
        Value result = make_scalar(kernel_.select(c.expr, a.expr, b.expr, span), span, weak);
        result.nominal = nominal;
        result.lifted = a.lifted;
        return result;
    }
    // The condition meets the first side, and both the second: shapes join as for a sum.
    const auto left = [](ExprId x, ExprId) { return x; };
    const auto right = [](ExprId, ExprId x) { return x; };
    const Value chosen = elementwise2(c, a, a.dtype, nominal, weak, span, right);
    const Value shape = elementwise2(chosen, b, a.dtype, nominal, weak, span, left);
    const Value conditions = elementwise2(c, shape, DType::Bool, DType::Bool, false, span, left);
    const Value others = elementwise2(b, shape, a.dtype, nominal, weak, span, left);
    Value result = shape;
    auto tile = std::make_shared<Tile>(*shape.tile);
    tile->at = [this, span, conditions, shape, others](const std::vector<ExprId>& i) {
        return kernel_.select(conditions.tile->at(i), shape.tile->at(i), others.tile->at(i), span);
    };
    for (const Value& v : {conditions, others}) {
        tile->direct.insert(v.tile->direct.begin(), v.tile->direct.end());
        tile->shuffled.insert(v.tile->shuffled.begin(), v.tile->shuffled.end());
    }
    result.tile = tile;
    return result;
}

Value Lowering::reduce_rows(BinaryOp op, const Value& a, std::string_view function, Span span) {
    if (a.poisoned) return a;
    if (!a.tile || a.tile->axes.empty()) {
        report(Code::E0415, span, fmt::format("[{}] expected a tile, got a scalar", function));
        return poison(span);
    }
    const int last = static_cast<int>(a.tile->axes.size()) - 1;
    next_reduced_axes_ |= axis_bit(last);
    if (last + 1 != out_rank_) axes_are_separable_ = false;
    return reduce_tile(op, a, {last}, true, true, span);
}

Value Lowering::special(std::string_view function, NodeId id,
                        const std::vector<NodeId>& arguments) {
    const Span span = span_of(id);
    const auto numbers = [&] {
        std::vector<Value> values;
        for (const NodeId a : arguments) {
            Value v = expression(a);
            if (v.is_row && !v.poisoned) v = scalar(a, function);
            values.push_back(std::move(v));
        }
        return values;
    };
    if (function == "max" || function == "min") {
        auto v = numbers();
        return arithmetic(function == "max" ? BinaryOp::Max : BinaryOp::Min, v[0], v[1], span);
    }
    if (function == "pow") {
        auto v = numbers();
        return v[0].poisoned || v[1].poisoned ? poison(span) : power(v[0], v[1], span);
    }
    if (function == "clamp") {
        auto v = numbers();
        return arithmetic(BinaryOp::Min, arithmetic(BinaryOp::Max, v[0], v[1], span), v[2], span);
    }
    if (function == "select") return select(arguments, span);
    if (function == "dot") {
        const Value a = expression(arguments[0]), b = expression(arguments[1]);
        return dot(a, b, span);
    }
    if (function == "transpose") return transpose(expression(arguments[0]), span);
    if (function == "zeros") return zeros(arguments, span);
    if (function == "row_max" || function == "row_sum") {
        const BinaryOp op = function == "row_max" ? BinaryOp::Max : BinaryOp::Add;
        return reduce_rows(op, expression(arguments[0]), function, span);
    }
    if (function == "reduce") return reduce_call(id, arguments);
    if (function == "barrier") {
        report(Code::E0415, span, "barrier() has no value; write it as a statement");
        return poison(span);
    }
    report(Code::E0407, span_of(tree_[id].first), fmt::format("no function '{}'", function));
    return poison(span);
}

Value Lowering::reduce_call(NodeId id, const std::vector<NodeId>& arguments) {
    const Span span = span_of(id);
    static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
        {"+", BinaryOp::Add},   {"*", BinaryOp::Mul},   {"min", BinaryOp::Min},
        {"max", BinaryOp::Max}, {"and", BinaryOp::And}, {"or", BinaryOp::Or}};
    const std::string_view name = tree_.text_of(arguments[0]);
    const auto* row = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const auto& r) { return r.first == name; });
    if (row == std::end(kOps)) {
        report(Code::E0310, span_of(arguments[0]),
               fmt::format("'{}' is not an operator that reduce() takes", name))
            .help("reduce takes +, *, min, max, and, or");
        return poison(span);
    }
    Value value = expression(arguments[1]);
    if (value.poisoned) return value;
    const int rank = value.tile ? static_cast<int>(value.tile->axes.size()) : 0;
    std::vector<int> axes;
    bool keep = false;
    if (arguments.size() == 3) {
        NodeId axis_node = arguments[2];
        if (tree_[axis_node].kind == Kind::NamedArg) axis_node = tree_.child(axis_node, 1);
        std::int64_t axis = constant_of(axis_node, "axis", 0);
        if (axis < -rank || axis >= rank) {
            report(Code::E0432, span_of(axis_node),
                   fmt::format("expected an axis from {} to {}, got {}", -rank, rank - 1, axis));
            return poison(span);
        }
        axes = {static_cast<int>(axis < 0 ? axis + rank : axis)};
        keep = true;
    } else {
        for (int p = 0; p < rank; ++p) axes.push_back(p);
    }
    for (const int p : axes) next_reduced_axes_ |= axis_bit(p);
    if (rank != out_rank_) axes_are_separable_ = false;
    return reduce_tile(row->second, value, axes, keep, false, span);
}

Value Lowering::zeros(const std::vector<NodeId>& arguments, Span span) {
    axes_are_separable_ = false;
    auto tile = std::make_shared<Tile>();
    for (const NodeId a : arguments) {
        ExprId extent = extent_expression(a, false);
        if (!is_fixed(kernel_, extent)) {
            report(Code::E0415, span_of(a), "expected an extent that is the same at every point");
            extent = one();
        }
        tile->axes.push_back({extent, extent});
    }
    const ExprId nothing = kernel_.floating(0, DType::Float32);
    tile->at = [nothing](const std::vector<ExprId>&) { return nothing; };
    Value value;
    value.weak = true;
    value.tile = tile;
    value.span = span;
    return value;
}

Value Lowering::transpose(const Value& a, Span span) {
    if (a.poisoned) return a;
    axes_are_separable_ = false;
    if (!a.tile || a.tile->axes.size() < 2) {
        report(Code::E0415, span,
               fmt::format("[transpose] expected a tile of rank 2, got rank {}",
                           a.tile ? a.tile->axes.size() : 0));
        return poison(span);
    }
    Value result = a;
    auto tile = std::make_shared<Tile>(*a.tile);
    const std::size_t last = tile->axes.size() - 1;
    std::swap(tile->axes[last], tile->axes[last - 1]);
    tile->shuffled.insert(tile->direct.begin(), tile->direct.end());
    tile->direct.clear();
    tile->at = [at = a.tile->at, last](const std::vector<ExprId>& index) {
        std::vector<ExprId> own = index;
        std::swap(own[last], own[last - 1]);
        return at(own);
    };
    result.tile = tile;
    result.is_row = false;
    result.span = span;
    return result;
}

}  // namespace quern::semantics
