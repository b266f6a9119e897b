#include "quern/ir/intervals.h"

#include <algorithm>
#include <limits>

#include "quern/support/short_vector.h"

namespace quern::ir {
namespace {

bool infinite(std::int64_t x) { return x == kInfinity || x == kMinusInfinity; }

std::int64_t saturating_add(std::int64_t x, std::int64_t y) {
    if (infinite(x)) return x;
    if (infinite(y)) return y;
    std::int64_t result = 0;
    if (__builtin_add_overflow(x, y, &result)) return x > 0 ? kInfinity : kMinusInfinity;
    return result;
}

std::int64_t saturating_mul(std::int64_t x, std::int64_t y) {
    if (x == 0 || y == 0) return 0;
    const std::int64_t limit = (x < 0) == (y < 0) ? kInfinity : kMinusInfinity;
    std::int64_t result = 0;
    if (infinite(x) || infinite(y) || __builtin_mul_overflow(x, y, &result)) return limit;
    return result;
}

std::int64_t negated(std::int64_t x) {
    if (infinite(x)) return x > 0 ? kMinusInfinity : kInfinity;
    return -x;
}

std::int64_t saturating_floor_div(std::int64_t x, std::int64_t positive) {
    return infinite(x) ? x : floor_div(x, positive);
}

Range operator+(Range x, Range y) {
    return {saturating_add(x.low, y.low), saturating_add(x.high, y.high)};
}

Range operator-(Range x) { return {negated(x.high), negated(x.low)}; }

/// What extents and indices are below.
constexpr std::int64_t kIndices = std::int64_t{1} << 59;

__extension__ using Wide = __int128;

/// The least and the largest number that is meant.
Wide least_of(Range x, bool is_data) {
    return x.low == kMinusInfinity && !is_data ? -kIndices : x.low;
}
Wide most_of(Range x, bool is_data) { return x.high == kInfinity && !is_data ? kIndices : x.high; }

bool is_int64(Wide x) { return INT64_MIN <= x && x <= INT64_MAX; }

Range operator*(Range x, Range y) {
    const auto [low, high] =
        std::minmax({saturating_mul(x.low, y.low), saturating_mul(x.low, y.high),
                     saturating_mul(x.high, y.low), saturating_mul(x.high, y.high)});
    return {low, high};
}

Range range_of_dtype(DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return {0, 1};
        case DType::Int8:
            return {-128, 127};
        case DType::Int16:
            return {-32768, 32767};
        case DType::Int32:
            return {INT32_MIN, INT32_MAX};
        case DType::UInt8:
            return {0, 255};
        case DType::UInt16:
            return {0, 65535};
        case DType::UInt32:
            return {0, UINT32_MAX};
        default:
            return {};
    }
}

std::int64_t magnitude(Range x) { return std::max(negated(x.low), x.high); }

Range quotient(Range x, Range divisor, bool floors) {
    if (divisor.low >= 1 && divisor.low == divisor.high) {
        if (floors || x.low >= 0) {
            return {saturating_floor_div(x.low, divisor.low),
                    saturating_floor_div(x.high, divisor.low)};
        }
        const auto truncated = [&](std::int64_t v) { return infinite(v) ? v : v / divisor.low; };
        return {truncated(x.low), truncated(x.high)};
    }
    // A divisor of zero gives no value, so that here it is 1 or more.
    if (divisor.low >= 0 && x.low >= 0) {
        return {0, saturating_floor_div(x.high, std::max<std::int64_t>(divisor.low, 1))};
    }
    const std::int64_t most = magnitude(x);
    return {negated(most), most};
}

Range remainder(Range x, Range divisor) {
    const std::int64_t below = magnitude(divisor);
    const std::int64_t most = infinite(below) ? kInfinity : std::max<std::int64_t>(below - 1, 0);
    return {x.low >= 0 ? 0 : std::max(x.low, negated(most)),
            x.high <= 0 ? 0 : std::min(x.high, most)};
}

}  // namespace

Affine scaled(const Affine& a, std::int64_t factor) {
    Affine result;
    result.constant = wrap_mul(a.constant, factor);
    for (const Term& t : a.terms) {
        const std::int64_t c = wrap_mul(t.coefficient, factor);
        if (c != 0) result.terms.push_back({t.atom, c});
    }
    return result;
}

Affine sum(const Affine& a, const Affine& b, std::int64_t factor) {
    Affine result;
    result.constant = wrap_add(a.constant, wrap_mul(b.constant, factor));
    auto x = a.terms.begin();
    auto y = b.terms.begin();
    while (x != a.terms.end() || y != b.terms.end()) {
        const bool left = y == b.terms.end() || (x != a.terms.end() && x->atom <= y->atom);
        const bool right = x == a.terms.end() || (y != b.terms.end() && y->atom <= x->atom);
        const ExprId atom = left ? x->atom : y->atom;
        std::int64_t c = 0;
        if (left) c = (x++)->coefficient;
        if (right) c = wrap_add(c, wrap_mul((y++)->coefficient, factor));
        if (c != 0) result.terms.push_back({atom, c});
    }
    return result;
}

Intervals::Exact Intervals::exact(const Affine& affine) {
    Exact result{{affine.constant, affine.constant}};
    Wide low = affine.constant, high = affine.constant;
    bool is_data = false;
    for (const Term& t : affine.terms) {
        visit(t.atom);
        const Known atom = of_atom(t.atom);
        result.range = result.range + atom.range * Range{t.coefficient, t.coefficient};
        is_data |= atom.is_data;
        const auto [below, above] =
            std::minmax({t.coefficient * least_of(atom.range, atom.is_data),
                         t.coefficient * most_of(atom.range, atom.is_data)});
        low += below;
        high += above;
    }
    result.may_wrap = is_data && !(is_int64(low) && is_int64(high));
    return result;
}

Range Intervals::of(const Affine& affine) {
    const Exact form = exact(affine);
    return form.may_wrap ? Range{} : form.range;
}

bool Intervals::may_wrap(const Affine& affine) { return exact(affine).may_wrap; }

Range Intervals::of(ExprId id) { return of(linear(kernel_, id)); }

void Intervals::visit(ExprId id) {
    const auto is_known = [&](ExprId each) {
        return is_leaf(kernel_[each]) || atoms_.contains(static_cast<std::uint32_t>(each));
    };
    if (is_known(id)) return;
    // What is below comes first, on a stack of our own: expressions may be deep.
    ShortVector<ExprId, 32> stack;
    stack.push_back(id);
    while (!stack.empty()) {
        const ExprId top = stack.back();
        const std::size_t before = stack.size();
        if (!is_known(top)) {
            for_each_child(kernel_, top, [&](ExprId child) {
                if (!is_known(child)) stack.push_back(child);
            });
            if (stack.size() > before) continue;
            of_atom(top);
        }
        stack.pop_back();
    }
}

Intervals::Known Intervals::of_leaf(const Expr& leaf) const {
    const bool is_extent = leaf.kind == ExprKind::Dim || leaf.kind == ExprKind::Extent;
    const bool is_index =
        leaf.kind == ExprKind::Symbol && kernel_.symbols[leaf.a].kind == SymbolKind::Loop;
    Known known{is_extent ? Range{0, kInfinity} : range_of_dtype(leaf.dtype),
                !is_extent && !is_index};
    if (ranges_) known.range = ranges_(leaf).value_or(known.range);
    return known;
}

Intervals::Known Intervals::of_atom(ExprId id) {
    const Expr& e = kernel_[id];
    if (is_leaf(e)) return of_leaf(e);
    const auto key = static_cast<std::uint32_t>(id);
    if (const auto found = atoms_.find(key); found != atoms_.end()) return found->second;
    const auto operand = [&](std::uint32_t child) { return of(linear(kernel_, ExprId{child})); };
    bool is_data = e.kind == ExprKind::Load || e.kind == ExprKind::Cast;
    for_each_child(kernel_, id, [&](ExprId child) { is_data |= of_atom(child).is_data; });
    Range result = range_of_dtype(e.dtype);
    switch (e.kind) {
        case ExprKind::Const:
            if (!is_floating(e.dtype)) result.low = result.high = kernel_.integer_value(id);
            break;
        case ExprKind::Binary:
            result = of_binary(e, is_data);
            break;
        case ExprKind::Unary:
            if (e.op == static_cast<std::uint8_t>(UnaryOp::Abs) && e.dtype == DType::Int64) {
                const Range x = operand(e.a);
                // That of the least number wraps to itself.
                if (x.low == kMinusInfinity && is_data) break;
                result = {x.low > 0 ? x.low : x.high < 0 ? negated(x.high) : 0, magnitude(x)};
            }
            break;
        case ExprKind::Select: {
            if (e.dtype != DType::Int64) break;
            const Range x = operand(e.b), y = operand(e.c);
            result = {std::min(x.low, y.low), std::max(x.high, y.high)};
            break;
        }
        case ExprKind::Cast: {
            const DType from = kernel_[ExprId{e.a}].dtype;
            if (e.dtype == DType::Int64 && from != DType::UInt64) result = range_of_dtype(from);
            break;
        }
        default:
            break;
    }
    const Known known{result, is_data};
    atoms_.emplace(key, known);
    return known;
}

Range Intervals::of_binary(const Expr& e, bool is_data) {
    if (e.dtype != DType::Int64) return range_of_dtype(e.dtype);
    const auto op = static_cast<BinaryOp>(e.op);
    if (op == BinaryOp::Add || op == BinaryOp::Sub) {
        const Known a = of_atom(ExprId{e.a}), b = of_atom(ExprId{e.b});
        const Range range = a.range + (op == BinaryOp::Add ? b.range : -b.range);
        return is_data && (infinite(range.low) || infinite(range.high)) ? Range{} : range;
    }
    const Range x = of(linear(kernel_, ExprId{e.a})), y = of(linear(kernel_, ExprId{e.b}));
    switch (op) {
        case BinaryOp::Mul: {
            const Range product = x * y;
            // Of data an end is infinite only where it may be beyond int64.
            if (is_data && (infinite(product.low) || infinite(product.high))) return {};
            return e.a == e.b ? Range{std::max<std::int64_t>(product.low, 0), product.high}
                              : product;
        }
        case BinaryOp::Div:
            return quotient(x, y, false);
        case BinaryOp::FloorDiv:
            return quotient(x, y, true);
        case BinaryOp::Rem:
            return remainder(x, y);
        case BinaryOp::Max:
            return {std::max(x.low, y.low), std::max(x.high, y.high)};
        case BinaryOp::Min:
            return {std::min(x.low, y.low), std::min(x.high, y.high)};
        default:
            return {};
    }
}

bool Intervals::proves_nonnegative(const Affine& affine, int depth) {
    if (exact(affine).range.low >= 0) return true;
    if (depth == 0) return false;
    for (const Term& t : affine.terms) {
        const Expr& e = kernel_[t.atom];
        if (e.kind != ExprKind::Binary) continue;
        const auto op = static_cast<BinaryOp>(e.op);
        const Affine rest = sum(affine, Affine{0, {t}}, -1);
        if (op == BinaryOp::Min || op == BinaryOp::Max) {
            const auto with = [&](std::uint32_t operand) {
                const Affine form = linear(kernel_, ExprId{operand});
                return !may_wrap(form) &&
                       proves_nonnegative(sum(rest, form, t.coefficient), depth - 1);
            };
            // -min(x, y) is at least -x and at least -y; min(x, y) is one of the two.
            const bool one_is_enough = (op == BinaryOp::Min) == (t.coefficient < 0);
            return one_is_enough ? with(e.a) || with(e.b) : with(e.a) && with(e.b);
        }
        if (op != BinaryOp::FloorDiv || !kernel_.is_constant(ExprId{e.b})) continue;
        // c * (x floordiv c) = x - m with 0 <= m < c, so the c-fold of the whole has a known sign.
        const std::int64_t c = kernel_.integer_value(ExprId{e.b});
        constexpr std::int64_t limit = 1 << 20;
        if (c < 1 || c > limit || t.coefficient > limit || t.coefficient < -limit) continue;
        if (may_wrap(linear(kernel_, ExprId{e.a}))) continue;
        Affine scaled_up = sum(scaled(rest, c), linear(kernel_, ExprId{e.a}), t.coefficient);
        const auto fits = [](const Affine& a, std::int64_t factor) {
            const std::int64_t most = kInfinity / 4 / factor;
            if (a.constant > most || a.constant < -most) return false;
            return std::all_of(a.terms.begin(), a.terms.end(), [&](const Term& x) {
                return x.coefficient <= most && x.coefficient >= -most;
            });
        };
        if (!fits(rest, c) || !fits(linear(kernel_, ExprId{e.a}), limit)) continue;
        if (t.coefficient > 0) scaled_up.constant -= t.coefficient * (c - 1);
        if (proves_nonnegative(scaled_up, depth - 1)) return true;
    }
    return false;
}

bool Intervals::proves_order(const Affine& a, const Affine& b, std::int64_t least) {
    if (may_wrap(a) || may_wrap(b)) return false;
    const Wide constant = Wide{b.constant} - a.constant - least;
    const auto is_far = [](const Term& t) { return !is_small(t.coefficient); };
    if (!is_int64(constant) || std::ranges::any_of(a.terms, is_far) ||
        std::ranges::any_of(b.terms, is_far)) {
        return a.is_constant() && b.is_constant() && constant >= 0;
    }
    Affine difference = sum(b, a, -1);
    difference.constant = std::int64_t(constant);
    return proves_nonnegative(difference);
}

Range range_of(const Kernel& kernel, ExprId id, const RangeOf& ranges) {
    return Intervals(kernel, ranges).of(id);
}

Range range_of(const Kernel& kernel, const Affine& affine, const RangeOf& ranges) {
    return Intervals(kernel, ranges).of(affine);
}

bool proves_at_least(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges) {
    const Affine x = affine_of(kernel, a, ranges), y = affine_of(kernel, b, ranges);
    return Intervals(kernel, ranges).proves_order(y, x);
}

ExprId lesser_of(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges) {
    const Affine x = affine_of(kernel, a, ranges), y = affine_of(kernel, b, ranges);
    Intervals intervals(kernel, ranges);
    if (intervals.proves_order(x, y)) return a;
    return intervals.proves_order(y, x) ? b : kNoExpr;
}

bool proves_less(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges) {
    const Affine x = affine_of(kernel, a, ranges), y = affine_of(kernel, b, ranges);
    return Intervals(kernel, ranges).proves_order(x, y, 1);
}

}  // namespace quern::ir
