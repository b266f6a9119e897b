#include <algorithm>
#include <limits>

#include "quern/ir/index.h"
#include "quern/ir/intervals.h"

// Walks over index expressions: values, substitution, occurrence. All go through the nodes in the
// order of their ids, so that depth costs no stack.

namespace quern::ir {
namespace {

/// Reduces a value to what an integer dtype keeps of it.
std::int64_t wrapped(std::int64_t v, DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return v != 0;
        case DType::Int8:
            return static_cast<std::int8_t>(v);
        case DType::Int16:
            return static_cast<std::int16_t>(v);
        case DType::Int32:
            return static_cast<std::int32_t>(v);
        case DType::UInt8:
            return static_cast<std::uint8_t>(v);
        case DType::UInt16:
            return static_cast<std::uint16_t>(v);
        case DType::UInt32:
            return static_cast<std::uint32_t>(v);
        default:
            return v;
    }
}

struct Value {
    std::int64_t value = 0;
    bool known = false;
    Fault fault = Fault::Unknown;
};

Value known(std::int64_t value) { return {value, true, {}}; }
Value failed(Fault fault) { return {0, false, fault}; }

template <class Container>
Value at(const Container& values, std::size_t index) {
    if (index >= values.size() || values[index] == kUnknown) return failed(Fault::Unknown);
    return known(values[index]);
}

Value apply(BinaryOp op, std::int64_t x, std::int64_t y) {
    std::int64_t r = 0;
    switch (op) {
        case BinaryOp::Add:
            return __builtin_add_overflow(x, y, &r) ? failed(Fault::Overflow) : known(r);
        case BinaryOp::Sub:
            return __builtin_sub_overflow(x, y, &r) ? failed(Fault::Overflow) : known(r);
        case BinaryOp::Mul:
            return __builtin_mul_overflow(x, y, &r) ? failed(Fault::Overflow) : known(r);
        case BinaryOp::Div:
        case BinaryOp::Rem:
        case BinaryOp::FloorDiv:
            if (y == 0) return failed(Fault::DivisionByZero);
            if (y == -1 && x == std::numeric_limits<std::int64_t>::min()) {
                return op == BinaryOp::Rem ? known(0) : failed(Fault::Overflow);
            }
            return known(op == BinaryOp::Div   ? x / y
                         : op == BinaryOp::Rem ? x % y
                                               : floor_div(x, y));
        case BinaryOp::Less:
            return known(x < y);
        case BinaryOp::LessEqual:
            return known(x <= y);
        case BinaryOp::Equal:
            return known(x == y);
        case BinaryOp::NotEqual:
            return known(x != y);
        case BinaryOp::Max:
            return known(std::max(x, y));
        case BinaryOp::Min:
            return known(std::min(x, y));
        default:
            return failed(Fault::Unknown);
    }
}

class Evaluator {
public:
    Evaluator(const Kernel& kernel, const Environment& environment, ExprId id)
        : kernel_(kernel), environment_(environment), ids_(reachable(kernel, id)) {
        values_.reserve(ids_.size());
        for (const ExprId each : ids_) values_.push_back(value_of(kernel_[each], each));
    }

    Value result() const { return values_.back(); }

private:
    Value of(std::uint32_t id) const {
        const auto found = std::lower_bound(ids_.begin(), ids_.end(), ExprId{id});
        return values_[static_cast<std::size_t>(found - ids_.begin())];
    }

    Value value_of(const Expr& e, ExprId id) const {
        if (is_floating(e.dtype)) return failed(Fault::Unknown);
        switch (e.kind) {
            case ExprKind::Const:
                return known(kernel_.integer_value(id));
            case ExprKind::Dim:
                return at(environment_.dims, e.a);
            case ExprKind::Extent:
                if (e.a >= environment_.shapes.size()) return failed(Fault::Unknown);
                return at(environment_.shapes[e.a], e.b);
            case ExprKind::Scalar:
                return at(environment_.scalars, e.a);
            case ExprKind::Symbol: {
                const auto found = environment_.symbols.find(e.a);
                return found == environment_.symbols.end() ? failed(Fault::Unknown)
                                                           : known(found->second);
            }
            case ExprKind::Load:
                return failed(Fault::Unknown);
            case ExprKind::Unary:
                return unary(e);
            case ExprKind::Binary:
                return binary(e);
            case ExprKind::Select: {
                const Value condition = of(e.a);
                return condition.known ? of(condition.value ? e.b : e.c) : condition;
            }
            case ExprKind::Cast: {
                const Value x = of(e.a);
                return x.known ? known(wrapped(x.value, e.dtype)) : x;
            }
        }
        return failed(Fault::Unknown);
    }

    Value unary(const Expr& e) const {
        const Value x = of(e.a);
        if (!x.known) return x;
        switch (static_cast<UnaryOp>(e.op)) {
            case UnaryOp::Not:
                return known(!x.value);
            case UnaryOp::Neg:
                return e.dtype == DType::Int64 ? apply(BinaryOp::Sub, 0, x.value)
                                               : known(wrapped(-x.value, e.dtype));
            case UnaryOp::Abs:
                if (x.value >= 0) return x;
                return e.dtype == DType::Int64 ? apply(BinaryOp::Sub, 0, x.value)
                                               : known(wrapped(-x.value, e.dtype));
            default:
                return failed(Fault::Unknown);
        }
    }

    Value binary(const Expr& e) const {
        const auto op = static_cast<BinaryOp>(e.op);
        const Value x = of(e.a), y = of(e.b);
        if (!x.known) return x;
        if (op == BinaryOp::And || op == BinaryOp::Or) {
            return (x.value != 0) == (op == BinaryOp::Or) ? x : y;
        }
        if (!y.known) return y;
        // Of the other dtypes only what needs no wrap-around has a value here.
        const DType operands = kernel_[ExprId{e.a}].dtype;
        if (operands != DType::Int64 && operands != DType::Bool) return failed(Fault::Unknown);
        return apply(op, x.value, y.value);
    }

    const Kernel& kernel_;
    const Environment& environment_;
    ExprIds ids_;
    std::vector<Value> values_;
};

}  // namespace

ExprIds reachable(const Kernel& kernel, ExprId id) {
    ExprIds found;
    found.push_back(id);
    // Small expressions are the rule: a linear search beats a set until they grow.
    std::vector<bool> seen;
    constexpr std::size_t few = 24;
    const auto is_new = [&](ExprId child) {
        if (found.size() <= few) return std::find(found.begin(), found.end(), child) == found.end();
        if (seen.empty()) {
            seen.resize(kernel.exprs.size());
            for (const ExprId each : found) seen[static_cast<std::uint32_t>(each)] = true;
        }
        const bool fresh = !seen[static_cast<std::uint32_t>(child)];
        seen[static_cast<std::uint32_t>(child)] = true;
        return fresh;
    };
    for (std::size_t i = 0; i < found.size(); ++i) {
        for_each_child(kernel, found[i], [&](ExprId child) {
            if (is_new(child)) found.push_back(child);
        });
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::optional<std::int64_t> evaluate(const Kernel& kernel, ExprId id,
                                     const Environment& environment, Fault* why) {
    const Value result = Evaluator(kernel, environment, id).result();
    if (result.known) return result.value;
    if (why) *why = result.fault;
    return std::nullopt;
}

bool depends_on(const Kernel& kernel, ExprId id, SymbolId symbol) {
    for (const ExprId each : reachable(kernel, id)) {
        if (kernel[each].kind == ExprKind::Symbol && kernel[each].a == symbol) return true;
    }
    return false;
}

bool reads_var(const Kernel& kernel, ExprId id) {
    for (const ExprId each : reachable(kernel, id)) {
        const Expr& e = kernel[each];
        if (e.kind == ExprKind::Symbol && kernel.symbols[e.a].kind == SymbolKind::Var) return true;
    }
    return false;
}

ExprId rewrite(Kernel& kernel, ExprId id, const std::function<ExprId(ExprId)>& replacement) {
    const ExprIds ids = reachable(kernel, id);
    ExprIds made = ids;
    const auto replaced = [&](std::uint32_t child) {
        const auto found = std::lower_bound(ids.begin(), ids.end(), ExprId{child});
        return made[static_cast<std::size_t>(found - ids.begin())];
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (const ExprId other = replacement(ids[i]); exists(other)) {
            made[i] = other;
            continue;
        }
        const Expr e = kernel[ids[i]];
        bool changes = false;
        for_each_child(kernel, ids[i], [&](ExprId child) {
            changes = changes || replaced(static_cast<std::uint32_t>(child)) != child;
        });
        if (!changes) continue;
        switch (e.kind) {
            case ExprKind::Load: {
                std::vector<ExprId> indices;
                for (int p = 0; p < e.count; ++p) {
                    indices.push_back(replaced(static_cast<std::uint32_t>(kernel.index_of(e, p))));
                }
                made[i] = kernel.load(e.a, indices, e.span);
                break;
            }
            case ExprKind::Unary:
                made[i] = kernel.unary(static_cast<UnaryOp>(e.op), replaced(e.a), e.span);
                break;
            case ExprKind::Binary:
                made[i] = kernel.binary(static_cast<BinaryOp>(e.op), replaced(e.a), replaced(e.b),
                                        e.span);
                break;
            case ExprKind::Select:
                made[i] = kernel.select(replaced(e.a), replaced(e.b), replaced(e.c), e.span);
                break;
            case ExprKind::Cast:
                made[i] = kernel.cast(replaced(e.a), e.dtype, e.span);
                break;
            default:
                break;
        }
    }
    return made.back();
}

ExprId substitute(Kernel& kernel, ExprId id, SymbolId symbol, ExprId value) {
    return rewrite(kernel, id, [&](ExprId node) {
        const Expr& e = kernel[node];
        return e.kind == ExprKind::Symbol && e.a == symbol ? value : kNoExpr;
    });
}

}  // namespace quern::ir
