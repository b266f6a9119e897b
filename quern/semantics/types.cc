#include <fmt/format.h>

#include <algorithm>

#include "quern/semantics/lowering.h"
#include "quern/support/convert.h"

// Dtypes of expressions, and how values of two dtypes or two shapes meet.

namespace quern::semantics {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

DType promote_floats(DType a, DType b) {
    if (a == b) return a;
    if (a == DType::Float64 || b == DType::Float64) return DType::Float64;
    return DType::Float32;
}

/// The smallest integer dtype that holds both; none for uint64 with a signed one.
std::optional<DType> promote_integers(DType a, DType b) {
    if (a == b) return a;
    if (is_signed_integer(a) == is_signed_integer(b)) return size_of(a) > size_of(b) ? a : b;
    const DType s = is_signed_integer(a) ? a : b, u = is_signed_integer(a) ? b : a;
    if (size_of(s) > size_of(u)) return s;
    switch (size_of(u)) {
        case 1:
            return DType::Int16;
        case 2:
            return DType::Int32;
        case 4:
            return DType::Int64;
        default:
            return std::nullopt;
    }
}

/// A float for another reason than a literal.
bool is_float_by_itself(const Value& value) {
    return is_floating(value.dtype) && !value.weak && !value.lifted;
}

}  // namespace

DType Lowering::widened(DType dtype) {
    if (dtype == DType::Float16 || dtype == DType::BFloat16) return DType::Float32;
    if (dtype == DType::Bool || is_signed_integer(dtype)) return DType::Int64;
    if (is_unsigned_integer(dtype)) return DType::UInt64;
    return dtype;
}

Value Lowering::poison(Span span) {
    Value value;
    value.poisoned = true;
    value.expr = kernel_.floating(0, DType::Float32);
    value.weak = true;
    value.span = span;
    return value;
}

Value Lowering::make_scalar(ExprId expr, Span span, bool weak) {
    Value value;
    value.expr = expr;
    value.dtype = value.nominal = kernel_[expr].dtype;
    value.weak = weak;
    value.span = span;
    return value;
}

void Lowering::warn_of_quotient(ExprId expr) {
    const Expr e = kernel_[expr];
    if (is_floating(e.dtype)) return;
    if (e.kind == ExprKind::Unary && static_cast<ir::UnaryOp>(e.op) == ir::UnaryOp::Neg) {
        return warn_of_quotient(ExprId{e.a});
    }
    if (e.kind != ExprKind::Binary) return;
    const auto op = static_cast<BinaryOp>(e.op);
    if (op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul) {
        // x / n * n is the multiple of n below x: what was cut off is meant to be.
        if (op == BinaryOp::Mul &&
            (divides(ExprId{e.a}, ExprId{e.b}) || divides(ExprId{e.b}, ExprId{e.a}))) {
            return;
        }
        warn_of_quotient(ExprId{e.a});
        return warn_of_quotient(ExprId{e.b});
    }
    if (op != BinaryOp::Div) return;
    report(Code::W0703, e.span, "the quotient of two integers is truncated, then used as a float")
        .help("convert one side first: f32(a) / b");
}

bool Lowering::divides(ExprId quotient, ExprId divisor) const {
    const Expr& e = kernel_[quotient];
    return e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Div &&
           ExprId{e.b} == divisor;
}

namespace {

/// Whether an operation may give what neither of its operands is, but for the sign.
bool rounds(const Expr& e) {
    if (e.kind == ExprKind::Unary) {
        const auto op = static_cast<ir::UnaryOp>(e.op);
        return op != ir::UnaryOp::Neg && op != ir::UnaryOp::Abs;
    }
    if (e.kind != ExprKind::Binary) return false;
    const auto op = static_cast<BinaryOp>(e.op);
    return op != BinaryOp::Min && op != BinaryOp::Max;
}

}  // namespace

ExprId Lowering::convert(ExprId expr, DType from, DType to) {
    if (from == to) return expr;
    const Expr e = kernel_[expr];
    if (is_floating(to) && e.dtype == DType::Int64) {
        if (e.kind == ExprKind::Const) {
            const std::int64_t value = kernel_.integer_value(expr);
            return kernel_.floating(to == DType::Float64 ? double(value) : rounded_to_odd(value),
                                    to, e.span);
        }
        warn_of_quotient(expr);
        return kernel_.cast(expr, to, e.span);
    }
    if (!is_floating(from) || !is_floating(to)) return kernel_.cast(expr, to, e.span);

    // A weak float is made again in a wider dtype that it meets. In a narrower one its parts would
    // be rounded too, and may be too large for it: what it is is rounded then, and numbers once.
    const auto again = [&](std::uint32_t id) {
        const ExprId child{id};
        return kernel_[child].dtype == from ? convert(child, from, to) : child;
    };
    if (size_of(to) < size_of(from) && rounds(e)) return kernel_.cast(expr, to, e.span);
    switch (e.kind) {
        case ExprKind::Const:
            return kernel_.floating(kernel_.floating_value(expr), to, e.span);
        case ExprKind::Cast:
            return kernel_.cast(ExprId{e.a}, to, e.span);
        case ExprKind::Unary:
            return kernel_.unary(static_cast<ir::UnaryOp>(e.op), again(e.a), e.span);
        case ExprKind::Binary:
            return kernel_.binary(static_cast<BinaryOp>(e.op), again(e.a), again(e.b), e.span);
        case ExprKind::Select:
            return kernel_.select(ExprId{e.a}, again(e.b), again(e.c), e.span);
        default:
            return kernel_.cast(expr, to, e.span);
    }
}

Value Lowering::convert(const Value& value, DType dtype) {
    if (value.dtype == dtype) return value;
    Value result = value;
    result.dtype = dtype;
    if (value.weak) result.nominal = dtype;
    const bool weak = value.weak;
    const DType from = value.dtype;
    const auto one = [this, weak, from, dtype](ExprId e) {
        if (weak) return convert(e, from, dtype);
        if (is_floating(dtype)) warn_of_quotient(e);
        return kernel_.cast(e, dtype, kernel_[e].span);
    };
    if (value.tile) {
        auto tile = std::make_shared<Tile>(*value.tile);
        tile->at = [at = value.tile->at, one](const std::vector<ExprId>& i) { return one(at(i)); };
        result.tile = tile;
    } else {
        result.expr = one(value.expr);
    }
    return result;
}

bool Lowering::unify(Value& a, Value& b, Span span, DType& nominal, bool& weak) {
    weak = a.weak && b.weak;
    const bool lifted = !weak && !is_float_by_itself(a) && !is_float_by_itself(b);
    DType dtype = a.dtype;
    const bool floats = is_floating(a.dtype) || is_floating(b.dtype);
    const Value& real = is_floating(a.dtype) ? a : b;
    if (weak) {
        dtype = floats ? DType::Float32 : DType::Int64;
    } else if (a.weak != b.weak) {
        const Value& strong = a.weak ? b : a;
        const Value& literal = a.weak ? a : b;
        dtype = strong.dtype;
        if (is_floating(literal.dtype) && !is_floating(dtype)) dtype = DType::Float32;
        if (dtype == DType::Bool) dtype = DType::Int64;
    } else if (is_floating(a.dtype) && is_floating(b.dtype)) {
        dtype = promote_floats(a.dtype, b.dtype);
    } else if (a.dtype == DType::Bool || b.dtype == DType::Bool) {
        dtype = a.dtype == DType::Bool ? b.dtype : a.dtype;
        if (dtype == DType::Bool) dtype = DType::Int64;
    } else if (floats && real.lifted) {
        dtype = real.dtype;
    } else if (floats) {
        report(Code::E0404, span,
               fmt::format("expected operands of one kind, got {} and {}", to_string(a.dtype),
                           to_string(b.dtype)))
            .help(fmt::format("convert the integers: {}(...)", to_string(real.dtype)));
        return false;
    } else if (const auto both = promote_integers(a.dtype, b.dtype)) {
        dtype = *both;
    } else {
        report(Code::E0415, span,
               fmt::format("no integer dtype holds both {} and {}", to_string(a.dtype),
                           to_string(b.dtype)))
            .help("convert one side: i64(x)");
        return false;
    }
    if (!is_floating(dtype)) {
        nominal = dtype;
    } else if (a.weak != b.weak) {
        const Value& strong = a.weak ? b : a;
        nominal = is_floating(strong.nominal) ? strong.nominal : dtype;
    } else if (is_floating(a.nominal) && is_floating(b.nominal)) {
        nominal = promote_floats(a.nominal, b.nominal);
    } else {
        nominal = is_floating(a.nominal) ? a.nominal : is_floating(b.nominal) ? b.nominal : dtype;
    }
    a = convert(a, dtype);
    b = convert(b, dtype);
    a.lifted = b.lifted = lifted && is_floating(dtype);
    return true;
}

bool Lowering::join_strong(VarType& joined, const Value& value, Span span) {
    const bool mixed = is_floating(joined.dtype) != is_floating(value.dtype);
    const bool has_bool = joined.dtype == DType::Bool || value.dtype == DType::Bool;
    if (mixed && joined.lifted && !is_floating(value.dtype)) return true;
    if (mixed && value.lifted && !has_bool) {
        joined.dtype = joined.nominal = value.dtype;
        joined.lifted = true;
    } else if (joined.dtype == value.dtype) {
        if (is_floating(joined.nominal) && is_floating(value.nominal)) {
            joined.nominal = promote_floats(joined.nominal, value.nominal);
        }
    } else if (!mixed && is_floating(value.dtype)) {
        joined.dtype = promote_floats(joined.dtype, value.dtype);
        joined.nominal = promote_floats(joined.nominal, value.nominal);
    } else if (has_bool) {
        joined.dtype = joined.nominal = joined.dtype == DType::Bool ? value.dtype : joined.dtype;
    } else if (mixed) {
        report(Code::E0404, span,
               fmt::format("expected a value of dtype {}, got {}", to_string(joined.dtype),
                           to_string(value.dtype)))
            .help(fmt::format("convert it: {}(...)", to_string(joined.dtype)));
        return false;
    } else if (const auto both = promote_integers(joined.dtype, value.dtype)) {
        joined.dtype = joined.nominal = *both;
    } else {
        report(Code::E0415, span,
               fmt::format("no integer dtype holds both {} and {}", to_string(joined.dtype),
                           to_string(value.dtype)));
        return false;
    }
    return true;
}

bool Lowering::join_dtype(VarType& joined, const Value& value, Span span) {
    if (!joined.weak && !value.weak) return join_strong(joined, value, span);
    if (joined.weak && value.weak) {
        if (is_floating(value.dtype) && !is_floating(joined.dtype)) {
            joined.dtype = joined.nominal = DType::Float32;
        }
        return true;
    }
    const DType strong = joined.weak ? value.dtype : joined.dtype;
    const DType nominal = joined.weak ? value.nominal : joined.nominal;
    const DType literal = joined.weak ? joined.dtype : value.dtype;
    const bool lifts = is_floating(literal) && !is_floating(strong);
    joined.lifted = joined.lifted || lifts || (joined.weak && value.lifted);
    joined.dtype = lifts ? DType::Float32 : strong;
    joined.nominal = lifts ? DType::Float32 : nominal;
    joined.weak = false;
    return true;
}

void Lowering::join_shape(VarType& joined, const Tile& tile) {
    if (joined.capacities.size() < tile.axes.size()) {
        joined.capacities.insert(joined.capacities.begin(),
                                 tile.axes.size() - joined.capacities.size(), one());
    }
    const std::size_t shift = joined.capacities.size() - tile.axes.size();
    for (std::size_t p = 0; p < tile.axes.size(); ++p) {
        ExprId& have = joined.capacities[p + shift];
        const Axis& axis = tile.axes[p];
        if (kernel_.is_constant(have, 1)) have = axis.capacity;
        if (is_ragged(axis)) joined.ragged |= axis_bit(int(p + shift));
    }
}

bool Lowering::join(VarType& type, const Value& value, Span span) {
    if (value.poisoned) return true;
    VarType joined = type;
    if (!join_dtype(joined, value, span)) return false;
    if (value.tile) join_shape(joined, *value.tile);
    if (joined != type) {
        type = joined;
        changed_ = true;
    }
    return true;
}

ExprId Lowering::widen(ExprId expr, DType wide, bool is_cast) {
    const Expr e = kernel_[expr];
    if (e.dtype == wide) return expr;
    const bool product =
        !is_cast && e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Mul;
    if (!product) return kernel_.cast(expr, wide, e.span);
    return kernel_.binary(BinaryOp::Mul, kernel_.cast(ExprId{e.a}, wide, e.span),
                          kernel_.cast(ExprId{e.b}, wide, e.span), e.span);
}

bool Lowering::changes(ExprId id) const {
    return std::ranges::any_of(ir::reachable(kernel_, id), [&](ExprId each) {
        const Expr& e = kernel_[each];
        const bool is_var =
            e.kind == ExprKind::Symbol && kernel_.symbols[e.a].kind == ir::SymbolKind::Var;
        const bool is_array =
            e.kind == ExprKind::Load && kernel_.buffers[e.a].kind != ir::BufferKind::Operand;
        return is_var || is_array;
    });
}

bool Lowering::at_most(ExprId a, ExprId b) const {
    // By how a was made: the lesser of b and more, perhaps under a name.
    if (a == b) return true;
    const Expr e = kernel_[a];
    if (e.kind == ExprKind::Symbol) {
        const auto extent = tile_extents_.find(e.a);
        return extent != tile_extents_.end() && at_most(extent->second, b);
    }
    if (e.kind != ExprKind::Binary || static_cast<BinaryOp>(e.op) != BinaryOp::Min) return false;
    return at_most(ExprId{e.a}, b) || at_most(ExprId{e.b}, b);
}

ExprId Lowering::minimum(ExprId a, ExprId b) {
    if (at_most(a, b)) return a;
    if (at_most(b, a)) return b;
    const Expr e = kernel_[a];
    if (e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Min) {
        return minimum(ExprId{e.a}, minimum(ExprId{e.b}, b));
    }
    const Expr f = kernel_[b];
    if (f.kind == ExprKind::Binary && static_cast<BinaryOp>(f.op) == BinaryOp::Min) {
        if (at_most(a, ExprId{f.a})) return minimum(a, ExprId{f.b});
        if (at_most(a, ExprId{f.b})) return minimum(a, ExprId{f.a});
    }
    const ExprId lesser = ir::lesser_of(kernel_, a, b);
    return exists(lesser) ? lesser : kernel_.binary(BinaryOp::Min, a, b);
}

Axis Lowering::meet(const Axis& a, const Axis& b) {
    // Their capacities are equal and no extent passes them.
    if (a.extent == a.capacity) return {a.capacity, b.extent == b.capacity ? a.capacity : b.extent};
    if (b.extent == b.capacity) return a;
    return {a.capacity, minimum(a.extent, b.extent)};
}

Axis Lowering::spread(const Axis& one, const Axis& axis) {
    if (!is_ragged(one)) return axis;
    const ExprId as_many = kernel_.binary(ir::BinaryOp::Mul, one.extent, axis.capacity);
    return {axis.capacity, minimum(axis.extent, simplify(as_many))};
}

void Lowering::for_each(const std::vector<Axis>& axes,
                        const std::function<void(const std::vector<ExprId>&)>& body) {
    std::vector<ExprId> index(axes.size());
    const std::function<void(std::size_t)> level = [&](std::size_t p) {
        if (p == axes.size()) return body(index);
        if (kernel_.is_constant(axes[p].extent, 1)) {
            index[p] = zero();
            return level(p + 1);
        }
        ir::Stmt loop;
        loop.kind = ir::StmtKind::For;
        loop.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64,
                                         fmt::format("r{}", kernel_.symbols.size()));
        loop.value = zero();
        loop.end = axes[p].extent;
        loop.step = one();
        index[p] = kernel_.symbol(loop.symbol);
        {
            const BlockScope scope(*this, loop.body);
            level(p + 1);
        }
        block_->push_back(std::move(loop));
    };
    level(0);
}

Value Lowering::materialise(const Value& value, const std::string& name) {
    if (!value.tile || value.poisoned) return value;
    has_tiles_ = true;
    ir::Buffer buffer;
    buffer.kind = ir::BufferKind::Local;
    buffer.dtype = value.dtype;
    buffer.name = name;
    buffer.span = value.span;
    std::vector<Axis> axes = value.tile->axes;
    for (Axis& axis : axes) {
        buffer.shape.push_back(axis.capacity);
        if (!changes(axis.extent)) continue;
        ir::Stmt& let = push(ir::StmtKind::Let, value.span);
        let.symbol = kernel_.add_symbol(ir::SymbolKind::Let, DType::Int64, name + ".extent");
        let.value = axis.extent;
        tile_extents_[let.symbol] = axis.extent;
        axis.extent = kernel_.symbol(let.symbol);
    }
    const auto id = static_cast<BufferId>(kernel_.buffers.size());
    kernel_.buffers.push_back(std::move(buffer));
    push(ir::StmtKind::Alloc, value.span).buffer = id;
    for_each(axes, [&](const std::vector<ExprId>& index) {
        const ExprId element = value.tile->at(index);
        ir::Stmt& store = push(ir::StmtKind::Store, value.span);
        store.buffer = id;
        store.indices = index;
        store.value = element;
    });
    Value result = value;
    auto tile = std::make_shared<Tile>();
    tile->axes = std::move(axes);
    tile->direct = {id};
    tile->at = [this, id, span = value.span](const std::vector<ExprId>& index) {
        return kernel_.load(id, index, span);
    };
    result.tile = tile;
    result.is_row = false;
    return result;
}

}  // namespace quern::semantics
