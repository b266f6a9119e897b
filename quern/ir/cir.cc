#include "quern/ir/cir.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "quern/support/check.h"

namespace quern::ir {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
    return (h ^ v) * 0x9e3779b97f4a7c15ull + (h >> 29);
}

std::uint64_t hash(const Expr& e) {
    std::uint64_t h = static_cast<std::uint64_t>(e.kind) << 24 | std::uint64_t(e.op) << 16 |
                      static_cast<std::uint64_t>(e.dtype) << 8 | e.count;
    h = mix(mix(mix(h, e.a), e.b), e.c);
    // The product of two numbers says most in its upper half.
    return h ^ h >> 32;
}

bool equal(const Expr& x, const Expr& y) {
    return x.kind == y.kind && x.op == y.op && x.dtype == y.dtype && x.count == y.count &&
           x.a == y.a && x.b == y.b && x.c == y.c;
}

std::uint32_t raw(ExprId id) { return static_cast<std::uint32_t>(id); }

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Less && op <= BinaryOp::NotEqual; }

std::int64_t wrap(std::uint64_t v) { return static_cast<std::int64_t>(v); }

/// Folds an int64 operation of constants. Division by zero and what overflows a quotient stay, so
/// that they fail at run time with their place.
bool fold(BinaryOp op, std::int64_t x, std::int64_t y, std::int64_t& result) {
    const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
    const bool divides = y != 0 && !(x == std::numeric_limits<std::int64_t>::min() && y == -1);
    switch (op) {
        case BinaryOp::Add:
            result = wrap(ux + uy);
            return true;
        case BinaryOp::Sub:
            result = wrap(ux - uy);
            return true;
        case BinaryOp::Mul:
            result = wrap(ux * uy);
            return true;
        case BinaryOp::Max:
            result = x > y ? x : y;
            return true;
        case BinaryOp::Min:
            result = x < y ? x : y;
            return true;
        case BinaryOp::Div:
            if (divides) result = x / y;
            return divides;
        case BinaryOp::Rem:
            if (divides) result = x % y;
            return divides;
        case BinaryOp::FloorDiv:
            if (divides) result = x / y - (x % y != 0 && (x < 0) != (y < 0));
            return divides;
        default:
            return false;
    }
}

}  // namespace

std::string_view to_string(UnaryOp op) {
    switch (op) {
        case UnaryOp::Neg:
            return "neg";
        case UnaryOp::Not:
            return "not";
        case UnaryOp::IsNan:
            return "isnan";
#define UNARY(name, op, operand, value) \
    case UnaryOp::op:                   \
        return #name;
#include "quern/lang/functions.def"
    }
    return "?";
}

std::string_view to_string(BinaryOp op) {
    switch (op) {
        case BinaryOp::Add:
            return "add";
        case BinaryOp::Sub:
            return "sub";
        case BinaryOp::Mul:
            return "mul";
        case BinaryOp::Div:
            return "div";
        case BinaryOp::Rem:
            return "rem";
        case BinaryOp::FloorDiv:
            return "floordiv";
        case BinaryOp::Less:
            return "lt";
        case BinaryOp::LessEqual:
            return "le";
        case BinaryOp::Equal:
            return "eq";
        case BinaryOp::NotEqual:
            return "ne";
        case BinaryOp::And:
            return "and";
        case BinaryOp::Or:
            return "or";
#define BINARY(name, op, value) \
    case BinaryOp::op:          \
        return #name;
#include "quern/lang/functions.def"
    }
    return "?";
}

void Kernel::grow_shared() {
    constexpr std::size_t kFirst = 256;
    const std::vector<std::uint32_t> before =
        std::exchange(shared_, std::vector<std::uint32_t>(std::max(kFirst, shared_.size() * 2)));
    const std::size_t mask = shared_.size() - 1;
    for (const std::uint32_t number : before) {
        if (number == 0) continue;
        std::size_t at = hash(exprs[number - 1]) & mask;
        while (shared_[at] != 0) at = (at + 1) & mask;
        shared_[at] = number;
    }
}

ExprId Kernel::make(Expr node, bool share) {
    const auto number = static_cast<std::uint32_t>(exprs.size());
    if (share) {
        if (shared_.size() < 2 * (shared_count_ + 1)) grow_shared();
        const std::size_t mask = shared_.size() - 1;
        std::size_t at = hash(node) & mask;
        for (; shared_[at] != 0; at = (at + 1) & mask) {
            const ExprId id{shared_[at] - 1};
            if (equal((*this)[id], node)) return id;
        }
        shared_[at] = number + 1;
        ++shared_count_;
    }
    exprs.push_back(node);
    return ExprId{number};
}

ExprId Kernel::integer(std::int64_t value, Span span) {
    const auto bits = static_cast<std::uint64_t>(value);
    return make({ExprKind::Const, 0, DType::Int64, 0, std::uint32_t(bits),
                 std::uint32_t(bits >> 32), 0, span},
                true);
}

ExprId Kernel::floating(double value, DType dtype, Span span) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    return make(
        {ExprKind::Const, 0, dtype, 0, std::uint32_t(bits), std::uint32_t(bits >> 32), 0, span},
        true);
}

ExprId Kernel::boolean(bool value, Span span) {
    return make({ExprKind::Const, 0, DType::Bool, 0, value, 0, 0, span}, true);
}

ExprId Kernel::dim(std::uint32_t index, Span span) {
    return make({ExprKind::Dim, 0, DType::Int64, 0, index, 0, 0, span}, true);
}

ExprId Kernel::extent(std::uint32_t operand, std::uint32_t axis, Span span) {
    return make({ExprKind::Extent, 0, DType::Int64, 0, operand, axis, 0, span}, true);
}

ExprId Kernel::scalar(std::uint32_t index, Span span) {
    return make({ExprKind::Scalar, 0, scalars[index].dtype, 0, index, 0, 0, span}, true);
}

ExprId Kernel::symbol(SymbolId id, Span span) {
    const bool changes = symbols[id].kind == SymbolKind::Var;
    return make({ExprKind::Symbol, 0, symbols[id].dtype, 0, id, 0, 0, span}, !changes);
}

ExprId Kernel::load(BufferId buffer, const std::vector<ExprId>& indices, Span span) {
    const auto first = static_cast<std::uint32_t>(index_pool.size());
    index_pool.insert(index_pool.end(), indices.begin(), indices.end());
    return make({ExprKind::Load, 0, buffers[buffer].dtype, std::uint8_t(indices.size()), buffer,
                 first, 0, span},
                false);
}

ExprId Kernel::unary(UnaryOp op, ExprId a, Span span) {
    const Expr& x = (*this)[a];
    if (op == UnaryOp::Neg && x.dtype == DType::Int64 && x.kind == ExprKind::Const) {
        return integer(wrap(-static_cast<std::uint64_t>(integer_value(a))), span);
    }
    if (op == UnaryOp::Neg && is_floating(x.dtype) && x.kind == ExprKind::Const) {
        return floating(-floating_value(a), x.dtype, span);
    }
    const DType dtype = op == UnaryOp::IsNan ? DType::Bool : x.dtype;
    return make({ExprKind::Unary, static_cast<std::uint8_t>(op), dtype, 0, raw(a), 0, 0, span},
                true);
}

ExprId Kernel::binary(BinaryOp op, ExprId a, ExprId b, Span span) {
    QUERN_CHECK((*this)[a].dtype == (*this)[b].dtype, "operands of one dtype");
    const DType dtype = (*this)[a].dtype;
    if (dtype == DType::Int64) {
        std::int64_t folded = 0;
        if (is_constant(a) && is_constant(b) &&
            fold(op, integer_value(a), integer_value(b), folded)) {
            return integer(folded, span);
        }
        if (op == BinaryOp::Add && is_constant(a, 0)) return b;
        if ((op == BinaryOp::Add || op == BinaryOp::Sub) && is_constant(b, 0)) return a;
        if (op == BinaryOp::Mul && is_constant(a, 1)) return b;
        if ((op == BinaryOp::Mul || op == BinaryOp::Div || op == BinaryOp::FloorDiv) &&
            is_constant(b, 1)) {
            return a;
        }
        if ((op == BinaryOp::Min || op == BinaryOp::Max) && a == b) return a;
    }
    const DType result = is_comparison(op) ? DType::Bool : dtype;
    return make(
        {ExprKind::Binary, static_cast<std::uint8_t>(op), result, 0, raw(a), raw(b), 0, span},
        true);
}

ExprId Kernel::select(ExprId condition, ExprId a, ExprId b, Span span) {
    QUERN_CHECK((*this)[a].dtype == (*this)[b].dtype, "sides of a select of one dtype");
    return make({ExprKind::Select, 0, (*this)[a].dtype, 0, raw(condition), raw(a), raw(b), span},
                true);
}

ExprId Kernel::cast(ExprId a, DType dtype, Span span) {
    if ((*this)[a].dtype == dtype) return a;
    return make({ExprKind::Cast, 0, dtype, 0, raw(a), 0, 0, span}, true);
}

std::uint32_t Kernel::first_flat() const {
    std::uint32_t i = 0;
    while (!buffers[i].flat) ++i;
    return i;
}

bool Kernel::reads_output() const {
    return std::any_of(exprs.begin(), exprs.end(),
                       [&](const Expr& e) { return e.kind == ExprKind::Load && e.a == output(); });
}

std::int64_t Kernel::integer_value(ExprId id) const {
    const Expr& e = (*this)[id];
    return wrap(std::uint64_t(e.b) << 32 | e.a);
}

double Kernel::floating_value(ExprId id) const {
    const Expr& e = (*this)[id];
    return std::bit_cast<double>(std::uint64_t(e.b) << 32 | e.a);
}

bool Kernel::is_constant(ExprId id, std::int64_t value) const {
    const Expr& e = (*this)[id];
    return e.kind == ExprKind::Const && !is_floating(e.dtype) && integer_value(id) == value;
}

namespace {

void collect_roots(std::vector<Stmt>& body, std::vector<ExprId*>& roots) {
    for (Stmt& s : body) {
        for_each_expr(s, [&](ExprId& e) { roots.push_back(&e); });
        collect_roots(s.body, roots);
        collect_roots(s.otherwise, roots);
    }
}

}  // namespace

void Kernel::compact(const std::vector<ExprId*>& extra) {
    std::vector<ExprId*> roots;
    roots.reserve(2 * exprs.size() + extra.size());
    roots = extra;
    collect_roots(body, roots);
    for (Buffer& b : buffers) {
        for (ExprId& e : b.shape) roots.push_back(&e);
    }
    for (Constraint& c : constraints) {
        roots.push_back(&c.left);
        roots.push_back(&c.right);
    }
    const std::vector<Expr> old = std::move(exprs);
    const std::vector<ExprId> old_pool = std::move(index_pool);
    exprs.clear();
    index_pool.clear();
    shared_.clear();
    shared_count_ = 0;
    // Operands come before their users in the arena, so marking goes down and copying goes up.
    std::vector<ExprId> moved(old.size(), kNoExpr);
    std::vector<bool> live(old.size());
    for (const ExprId* root : roots) {
        if (exists(*root)) live[raw(*root)] = true;
    }
    for (std::size_t i = old.size(); i-- > 0;) {
        const Expr& e = old[i];
        if (!live[i]) continue;
        const bool has_c = e.kind == ExprKind::Select, has_b = has_c || e.kind == ExprKind::Binary;
        const bool has_a = has_b || e.kind == ExprKind::Unary || e.kind == ExprKind::Cast;
        if (has_a) live[e.a] = true;
        if (has_b) live[e.b] = true;
        if (has_c) live[e.c] = true;
        for (std::uint32_t p = 0; e.kind == ExprKind::Load && p < e.count; ++p) {
            live[raw(old_pool[e.b + p])] = true;
        }
    }
    for (std::size_t i = 0; i < old.size(); ++i) {
        if (!live[i]) continue;
        Expr e = old[i];
        const bool has_c = e.kind == ExprKind::Select, has_b = has_c || e.kind == ExprKind::Binary;
        const bool has_a = has_b || e.kind == ExprKind::Unary || e.kind == ExprKind::Cast;
        if (has_a) e.a = raw(moved[e.a]);
        if (has_b) e.b = raw(moved[e.b]);
        if (has_c) e.c = raw(moved[e.c]);
        if (e.kind == ExprKind::Load) {
            const auto first = static_cast<std::uint32_t>(index_pool.size());
            for (std::uint32_t p = 0; p < e.count; ++p) {
                index_pool.push_back(moved[raw(old_pool[e.b + p])]);
            }
            e.b = first;
        }
        const bool changes = e.kind == ExprKind::Load ||
                             (e.kind == ExprKind::Symbol && symbols[e.a].kind == SymbolKind::Var);
        moved[i] = make(e, !changes);
    }
    for (ExprId* root : roots) {
        if (exists(*root)) *root = moved[raw(*root)];
    }
}

SymbolId Kernel::add_symbol(SymbolKind kind, DType dtype, std::string name, Span span) {
    symbols.push_back({kind, dtype, std::move(name), span});
    return static_cast<SymbolId>(symbols.size() - 1);
}

}  // namespace quern::ir
