#include <bit>
#include <utility>

#include "quern/ir/doubles.h"
#include "quern/math/exponential.h"
#include "quern/schedule/functions.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"
#include "quern/support/check.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprKind;
using ir::UnaryOp;
using lir::Op;

namespace {

bool is_narrow(DType dtype) { return dtype == DType::Float16 || dtype == DType::BFloat16; }

std::uint64_t bits_of(double value, DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return float16_from_double(value);
        case DType::BFloat16:
            return bfloat16_from_double(value);
        case DType::Float32:
            return std::bit_cast<std::uint32_t>(static_cast<float>(value));
        default:
            return std::bit_cast<std::uint64_t>(value);
    }
}

}  // namespace

ValueId Lowerer::at(const Bundle& bundle, const Copy& copy) const {
    std::size_t index = 0;
    for (std::size_t axis = 0; axis < unrolls_.size(); ++axis) {
        if ((bundle.axes >> axis & 1) == 0) continue;
        index = index * std::size_t(unrolls_[axis]) + std::size_t(copy[axis]);
    }
    return bundle.copies[index];
}

ValueId Lowerer::mask_at(const Copy& copy, std::uint16_t lanes) const {
    if (!has_mask_) return lir::kNone;
    return const_cast<lir::Builder&>(b_).splat(at(mask_, copy), lanes);
}

ValueId Lowerer::has_lane_at(const Copy& copy) {
    const ValueId mask = has_mask_ ? at(mask_, copy) : lir::kNone;
    return !exists(mask) || mask == rest_ ? lir::kNone : b_.any(mask);
}

void Lowerer::assert_where_active(ValueId holds, const Copy& copy, lang::Span span) {
    ValueId mask = has_mask_ ? at(mask_, copy) : lir::kNone;
    if (mask == rest_ && b_.type(holds).lanes == 1) mask = lir::kNone;
    const std::uint16_t lanes =
        std::max(b_.type(holds).lanes, exists(mask) ? b_.type(mask).lanes : std::uint16_t(1));
    if (exists(mask)) mask = b_.splat(mask, lanes);
    b_.assert_that(b_.splat(holds, lanes), mask, span);
}

Bundle Lowerer::masked(const Bundle& condition) {
    if (!has_mask_) return condition;
    return map(mask_, condition, [&](ValueId m, ValueId c) { return b_.binary(Op::And, m, c); });
}

ValueId Lowerer::number(double value, DType dtype) {
    return b_.constant(
        dtype, is_floating(dtype) ? bits_of(value, dtype) : std::uint64_t(std::int64_t(value)));
}

Bundle Lowerer::first_lane(ExprId id) {
    const bool before = at_first_lane_;
    at_first_lane_ = true;
    Bundle result = expr(id);
    at_first_lane_ = before;
    return result;
}

ValueId Lowerer::single(ExprId id) {
    const Bundle bundle = first_lane(id);
    QUERN_CHECK(bundle.is_single() && b_.type(bundle.copies[0]).lanes == 1,
                "one value for all copies and lanes");
    return bundle.copies[0];
}

Bundle Lowerer::expr(ExprId id) {
    const auto node = std::uint32_t(id);
    const int mode = at_first_lane_ ? 1 : 0;
    for (std::size_t i = memo_.size(); i-- > 0;) {
        const auto found = memo_[i][std::size_t(mode)].find(node);
        if (found != memo_[i][std::size_t(mode)].end()) return found->second;
    }
    Bundle result = compute(id);
    bool may_change = has_effects(k_, id);
    for (const ExprId child : ir::reachable(k_, id)) {
        const ir::Expr& e = k_[child];
        may_change |= e.kind == ExprKind::Symbol && k_.symbols[e.a].kind == ir::SymbolKind::Var;
    }
    if (!may_change) memo_.back()[std::size_t(mode)][node] = result;
    return result;
}

Bundle Lowerer::compute(ExprId id) {
    const ir::Expr e = k_[id];
    switch (e.kind) {
        case ExprKind::Const:
            if (is_floating(e.dtype)) return Bundle(number(k_.floating_value(id), e.dtype));
            return Bundle(b_.constant(e.dtype, std::uint64_t(k_.integer_value(id))));
        case ExprKind::Dim:
            if (facts_.dims[e.a].is_one) return Bundle(b_.integer(1));
            return Bundle(b_.parameter({lir::ParameterKind::Dim, e.a, 0}));
        case ExprKind::Extent: {
            const ExprId alias = extent_of(k_, e.a, e.b);
            if (alias != id) return expr(alias);
            return Bundle(b_.parameter({lir::ParameterKind::Extent, e.a, e.b}));
        }
        case ExprKind::Scalar:
            return Bundle(b_.parameter({lir::ParameterKind::Scalar, e.a, 0}, e.dtype));
        case ExprKind::Symbol:
            return symbol(e);
        case ExprKind::Load:
            return load(id);
        case ExprKind::Unary:
            return unary(e);
        case ExprKind::Binary:
            return binary(e);
        case ExprKind::Select:
            return select(e);
        case ExprKind::Cast:
            if (ir::is_rounded_scalar(k_, e)) {
                const std::uint32_t scalar = k_[ExprId{e.a}].a;
                return Bundle(b_.parameter(
                    {lir::ParameterKind::ScalarAs, scalar, std::uint32_t(e.dtype)}, e.dtype));
            }
            return map(expr(ExprId{e.a}), [&](ValueId v) { return b_.cast(v, e.dtype); });
    }
    QUERN_CHECK(false, "a kind of node that is known");
    return {};
}

Bundle Lowerer::symbol(const ir::Expr& e) {
    const auto found = names_.find(e.a);
    if (found == names_.end()) {
        return Bundle(b_.load(slot(e.a), b_.integer(0), 1));
    }
    const Name& name = found->second;
    switch (name.kind) {
        case Name::Kind::Register:
            return map(name.bundle, [&](ValueId v) { return b_.get(v); });
        case Name::Kind::Value:
            return name.bundle;
        case Name::Kind::Lane:
            break;
    }
    if (at_first_lane_) return name.bundle;
    const ValueId steps = b_.mul(b_.iota(all_lanes()), b_.integer(name.step));
    return map(name.bundle, [&](ValueId v) { return b_.add(v, steps); });
}

Bundle Lowerer::unary(const ir::Expr& e) {
    const auto op = static_cast<UnaryOp>(e.op);
    const DType operand = k_[ExprId{e.a}].dtype;
    const Bundle a = expr(ExprId{e.a});
    const auto one = [&](ValueId v) -> ValueId {
        if (op == UnaryOp::IsNan) return b_.compare(Op::NotEqual, v, v);
        if (op == UnaryOp::Not) return b_.unary(Op::Not, v);
        const bool is_int = !is_floating(operand);
        if (is_int) {
            const ValueId negated = b_.sub(number(0, operand), v);
            if (op == UnaryOp::Neg) return negated;
            if (is_unsigned_integer(operand)) return v;
            return b_.select(b_.compare(Op::Less, v, number(0, operand)), negated, v);
        }
        if (op == UnaryOp::Neg) return b_.unary(Op::Neg, v);
        if (op == UnaryOp::Abs) return b_.unary(Op::Abs, v);
        const ValueId x = is_narrow(operand) ? b_.cast(v, DType::Float32) : v;
        const ValueId y = exactly([&](const FunctionPlace& f) { return function(f, op, x); });
        return b_.cast(y, operand);
    };
    return in_turn([&] { return map(a, one); });
}

ValueId Lowerer::arithmetic(BinaryOp op, ValueId a, ValueId b) {
    const DType dtype = b_.type(a).dtype;
    const auto as = [&](Op each) -> ValueId {
        if (!is_narrow(dtype)) return b_.binary(each, a, b);
        return b_.cast(b_.binary(each, b_.cast(a, DType::Float32), b_.cast(b, DType::Float32)),
                       dtype);
    };
    switch (op) {
        case BinaryOp::Add:
            return dtype == DType::Bool ? b_.binary(Op::Or, a, b) : as(Op::Add);
        case BinaryOp::Sub:
            return as(Op::Sub);
        case BinaryOp::Mul:
            return dtype == DType::Bool ? b_.binary(Op::And, a, b) : as(Op::Mul);
        case BinaryOp::Div:
            return as(Op::Div);
        case BinaryOp::Min:
        case BinaryOp::Max: {
            const bool is_max = op == BinaryOp::Max;
            if (dtype == DType::Bool) return b_.binary(is_max ? Op::Or : Op::And, a, b);
            return as(is_max ? Op::Max : Op::Min);
        }
        case BinaryOp::Pow: {
            const auto raised = [&](ValueId x, ValueId y) {
                return exactly([&](const FunctionPlace& f) { return power(f, x, y); });
            };
            if (!is_narrow(dtype)) return raised(a, b);
            return b_.cast(raised(b_.cast(a, DType::Float32), b_.cast(b, DType::Float32)), dtype);
        }
        case BinaryOp::And:
            return b_.binary(Op::And, a, b);
        case BinaryOp::Or:
            return b_.binary(Op::Or, a, b);
        case BinaryOp::Less:
            return b_.compare(Op::Less, a, b);
        case BinaryOp::LessEqual:
            return b_.compare(Op::LessEqual, a, b);
        case BinaryOp::Equal:
            return b_.compare(Op::Equal, a, b);
        case BinaryOp::NotEqual:
            return b_.compare(Op::NotEqual, a, b);
        default:
            QUERN_CHECK(false, "an operator that legal() allows");
    }
    return lir::kNone;
}

/// x if the expression is 1 + tanh(x) of fast mode, which GELU and the logistic function are made
/// of, else none.
ExprId Lowerer::logistic_operand(const ir::Expr& e) const {
    const bool is_sum = e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Add;
    const bool is_meant = plan_.tiling.numerics == Numerics::Fast &&
                          (e.dtype == DType::Float32 || e.dtype == DType::Float64);
    if (!is_sum || !is_meant) return ir::kNoExpr;
    for (const auto& [one, other] :
         {std::pair(ExprId{e.a}, ExprId{e.b}), {ExprId{e.b}, ExprId{e.a}}}) {
        const bool is_one = k_[one].kind == ExprKind::Const && k_.floating_value(one) == 1;
        const ir::Expr& t = k_[other];
        const bool is_tanh =
            t.kind == ExprKind::Unary && static_cast<UnaryOp>(t.op) == UnaryOp::Tanh;
        if (is_one && is_tanh) return ExprId{t.a};
    }
    return ir::kNoExpr;
}

/// 1 + tanh(x) as 2 / (1 + 2^(-2 x / ln 2)), in which fewer operations wait for one another.
/// Nothing cancels where tanh is near -1, but the power has the rounding of its exponent, which is
/// 2^-24 |2 x| of it in float32.
Bundle Lowerer::logistic(ExprId id) {
    const DType dtype = k_[id].dtype;
    const auto one = [&](ValueId x) {
        const ValueId exponent = b_.mul(x, number(-2 * math::kLog2E, dtype));
        const ValueId power =
            exactly([&](const FunctionPlace& f) { return function(f, UnaryOp::Exp2, exponent); });
        return b_.binary(Op::Div, number(2, dtype), b_.add(power, number(1, dtype)));
    };
    const Bundle x = expr(id);
    return in_turn([&] { return map(x, one); });
}

Bundle Lowerer::binary(const ir::Expr& e) {
    const auto op = static_cast<BinaryOp>(e.op);
    if (const ExprId x = logistic_operand(e); exists(x)) return logistic(x);
    const bool is_division = op == BinaryOp::Div || op == BinaryOp::Rem || op == BinaryOp::FloorDiv;
    if ((op == BinaryOp::And || op == BinaryOp::Or) && has_effects(k_, ExprId{e.b})) {
        return logical(e);
    }
    const Bundle a = expr(ExprId{e.a});
    const Bundle b = expr(ExprId{e.b});
    if (is_division && !is_floating(e.dtype)) return divide(op, a, b, e.span);
    if (op == BinaryOp::Pow && !is_floating(e.dtype)) return integer_powers(a, b, e.span);
    return in_turn(
        [&] { return map(a, b, [&](ValueId x, ValueId y) { return arithmetic(op, x, y); }); });
}

/// The right operand only where the left asks for it.
Bundle Lowerer::logical(const ir::Expr& e) {
    const bool is_and = static_cast<BinaryOp>(e.op) == BinaryOp::And;
    const Bundle a = expr(ExprId{e.a});
    const Bundle asks = is_and ? a : map(a, [&](ValueId v) { return b_.unary(Op::Not, v); });
    const Bundle mask = mask_;
    const bool had_mask = has_mask_;
    mask_ = masked(asks);
    has_mask_ = true;
    const Bundle b = expr(ExprId{e.b});
    mask_ = mask;
    has_mask_ = had_mask;
    return map(a, b,
               [&](ValueId x, ValueId y) { return b_.binary(is_and ? Op::And : Op::Or, x, y); });
}

Bundle Lowerer::select(const ir::Expr& e) {
    const Bundle condition = expr(ExprId{e.a});
    const auto side = [&](std::uint32_t id, bool is_chosen) {
        if (!has_effects(k_, ExprId{id})) return expr(ExprId{id});
        const Bundle mask = mask_;
        const bool had_mask = has_mask_;
        mask_ = masked(is_chosen ? condition
                                 : map(condition, [&](ValueId v) { return b_.unary(Op::Not, v); }));
        has_mask_ = true;
        Bundle result = expr(ExprId{id});
        mask_ = mask;
        has_mask_ = had_mask;
        return result;
    };
    const Bundle a = side(e.b, true);
    const Bundle b = side(e.c, false);
    return map(condition, a, b,
               [&](ValueId c, ValueId x, ValueId y) { return b_.select(c, x, y); });
}

/// Integers. A divisor of zero fails where the mask is true, and divides by 1 elsewhere; the least
/// value divided by -1 wraps.
Bundle Lowerer::divide(BinaryOp op, const Bundle& a, const Bundle& b, lang::Span span) {
    // The mask says which divisors count, but not what quotients are.
    const auto is_constant = [&](ValueId y) { return b_.constant_of(y).value_or(0) != 0; };
    const bool may_fail = !std::all_of(b.copies.begin(), b.copies.end(), is_constant);
    for_each_copy(may_fail ? b.axes | (has_mask_ ? mask_.axes : 0) : 0, [&](const Copy& copy) {
        const ValueId y = at(b, copy);
        if (is_constant(y)) return;
        const ValueId is_zero = b_.compare(Op::Equal, y, number(0, b_.type(y).dtype));
        assert_where_active(b_.unary(Op::Not, is_zero), copy, span);
    });
    return map(a, b, [&](ValueId x, ValueId y) { return quotient(op, x, y); });
}

/// By 1 instead of zero.
ValueId Lowerer::quotient(BinaryOp op, ValueId x, ValueId y) {
    const DType dtype = b_.type(x).dtype;
    const ValueId zero = number(0, dtype), one = number(1, dtype);
    const std::int64_t constant = b_.constant_of(y).value_or(0);
    ValueId divisor = y;
    if (op == BinaryOp::FloorDiv && constant > 0 && std::has_single_bit(std::uint64_t(constant))) {
        const auto shift = std::countr_zero(std::uint64_t(constant));
        return shift == 0 ? x : b_.binary(Op::ShiftRight, x, b_.integer(shift));
    }
    if (constant == 0) divisor = b_.select(b_.compare(Op::Equal, y, zero), one, y);
    const bool may_wrap = !is_unsigned_integer(dtype) && (constant == 0 || constant == -1);
    const ValueId wraps = may_wrap ? b_.compare(Op::Equal, divisor, number(-1, dtype)) : lir::kNone;
    if (may_wrap) divisor = b_.select(wraps, one, divisor);
    ValueId result = b_.binary(op == BinaryOp::Rem ? Op::Rem : Op::Div, x, divisor);
    if (may_wrap) {
        result = b_.select(wraps, op == BinaryOp::Rem ? zero : b_.sub(zero, x), result);
    }
    if (op != BinaryOp::FloorDiv || is_unsigned_integer(dtype)) return result;
    // x - q * y is the remainder; one less where it has the other sign than y.
    const ValueId rest = b_.sub(x, b_.mul(result, y));
    const ValueId differs = b_.binary(
        Op::And, b_.compare(Op::NotEqual, rest, zero),
        b_.binary(Op::Xor, b_.compare(Op::Less, rest, zero), b_.compare(Op::Less, y, zero)));
    return b_.select(differs, b_.sub(result, one), result);
}

/// Integers. A negative exponent fails where the mask is true.
Bundle Lowerer::integer_powers(const Bundle& x, const Bundle& n, lang::Span span) {
    const DType dtype = b_.type(n.copies[0]).dtype;
    if (!is_unsigned_integer(dtype)) {
        for_each_copy(n.axes | (has_mask_ ? mask_.axes : 0), [&](const Copy& copy) {
            const ValueId holds = b_.compare(Op::LessEqual, number(0, dtype), at(n, copy));
            assert_where_active(holds, copy, span);
        });
    }
    return map(x, n,
               [&](ValueId base, ValueId exponent) { return integer_power(b_, base, exponent); });
}

}  // namespace quern::schedule
