#include "quern/ir/index.h"

#include <algorithm>
#include <numeric>

#include "quern/ir/intervals.h"

namespace quern::ir {
namespace {

/// Larger products and longer minima stay as they are.
constexpr std::size_t kMostTerms = 32;
constexpr std::size_t kMostFactors = 12;
constexpr std::size_t kMostOperands = 8;

BinaryOp binary_op(const Expr& e) { return static_cast<BinaryOp>(e.op); }

bool is_binary(const Expr& e, BinaryOp op) {
    return e.kind == ExprKind::Binary && e.op == static_cast<std::uint8_t>(op);
}

/// Visits the atoms below sums and multiples, each once, with its coefficient, in descending order.
/// Every node's users have larger ids, so the largest id on the heap is complete when it is taken.
template <class Visit>
void for_each_atom(const Kernel& kernel, ExprId id, std::int64_t& constant, Visit visit) {
    if (is_leaf(kernel[id])) return visit(id, std::int64_t(1));
    ShortVector<Term, 16> heap;
    heap.push_back({id, 1});
    const auto below = [](const Term& x, const Term& y) { return x.atom < y.atom; };
    const auto push = [&](std::uint32_t child, std::int64_t coefficient) {
        heap.push_back({ExprId{child}, coefficient});
        std::push_heap(heap.begin(), heap.end(), below);
    };
    const auto pop = [&] {
        std::pop_heap(heap.begin(), heap.end(), below);
        const Term top = heap.back();
        heap.pop_back();
        return top;
    };
    while (!heap.empty()) {
        Term top = pop();
        while (!heap.empty() && heap.front().atom == top.atom) {
            top.coefficient = wrap_add(top.coefficient, pop().coefficient);
        }
        if (top.coefficient == 0) continue;
        const Expr& e = kernel[top.atom];
        if (e.kind == ExprKind::Const) {
            constant =
                wrap_add(constant, wrap_mul(top.coefficient, kernel.integer_value(top.atom)));
        } else if (is_binary(e, BinaryOp::Add) || is_binary(e, BinaryOp::Sub)) {
            push(e.a, top.coefficient);
            push(e.b,
                 binary_op(e) == BinaryOp::Add ? top.coefficient : wrap_mul(top.coefficient, -1));
        } else if (is_binary(e, BinaryOp::Mul) && kernel.is_constant(ExprId{e.b})) {
            push(e.a, wrap_mul(top.coefficient, kernel.integer_value(ExprId{e.b})));
        } else if (is_binary(e, BinaryOp::Mul) && kernel.is_constant(ExprId{e.a})) {
            push(e.b, wrap_mul(top.coefficient, kernel.integer_value(ExprId{e.a})));
        } else if (e.kind == ExprKind::Unary && e.op == static_cast<std::uint8_t>(UnaryOp::Neg)) {
            push(e.a, wrap_mul(top.coefficient, -1));
        } else {
            visit(top.atom, top.coefficient);
        }
    }
}

bool is_linear(const Kernel& kernel, const Expr& e) {
    if (e.kind == ExprKind::Const) return true;
    if (e.kind == ExprKind::Unary) return e.op == static_cast<std::uint8_t>(UnaryOp::Neg);
    if (is_binary(e, BinaryOp::Add) || is_binary(e, BinaryOp::Sub)) return true;
    return is_binary(e, BinaryOp::Mul) &&
           (kernel.is_constant(ExprId{e.a}) || kernel.is_constant(ExprId{e.b}));
}

/// Those of a product that is an atom.
void append_factors(const Kernel& kernel, ExprId id, std::vector<ExprId>& factors) {
    while (is_binary(kernel[id], BinaryOp::Mul) && !is_linear(kernel, kernel[id])) {
        factors.push_back(ExprId{kernel[id].b});
        id = ExprId{kernel[id].a};
    }
    factors.push_back(id);
}

/// Sorts terms and adds up those of one atom.
void normalize(Terms& terms) {
    std::sort(terms.begin(), terms.end(),
              [](const Term& x, const Term& y) { return x.atom < y.atom; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < terms.size();) {
        Term t = terms[i++];
        while (i < terms.size() && terms[i].atom == t.atom) {
            t.coefficient = wrap_add(t.coefficient, terms[i++].coefficient);
        }
        if (t.coefficient != 0) terms[kept++] = t;
    }
    terms.truncate(kept);
}

bool all_small(const Affine& a) {
    return is_small(a.constant) && std::all_of(a.terms.begin(), a.terms.end(), [](const Term& t) {
               return is_small(t.coefficient);
           });
}

/// The greatest number that divides `c` and every coefficient.
std::int64_t common_divisor(const Affine& a, std::int64_t c) {
    for (const Term& t : a.terms) c = std::gcd(c, t.coefficient);
    return c;
}

Affine divided(Affine a, std::int64_t divisor) {
    a.constant = floor_div(a.constant, divisor);
    for (Term& t : a.terms) t.coefficient /= divisor;
    return a;
}

/// Moves out the multiples of c, divided by it; what stays has its constant in [0, c).
Affine take_multiples(Affine& a, std::int64_t c) {
    Affine taken;
    taken.constant = floor_div(a.constant, c);
    a.constant -= taken.constant * c;
    Terms rest;
    for (const Term& t : a.terms) {
        if (t.coefficient % c == 0) {
            taken.terms.push_back({t.atom, t.coefficient / c});
        } else {
            rest.push_back(t);
        }
    }
    a.terms = std::move(rest);
    return taken;
}

class Simplifier {
public:
    Simplifier(Kernel& kernel, const RangeOf& ranges)
        : kernel_(kernel), intervals_(kernel, ranges) {}

    /// The canonical form of an int64 expression.
    Affine affine(ExprId id) {
        // Most are sums of leaves, and canonical as they stand.
        Affine sum = linear(kernel_, id);
        const auto is_canonical = [&](const Term& t) { return is_leaf(kernel_[t.atom]); };
        if (std::ranges::all_of(sum.terms, is_canonical)) return sum;
        prepare(id);
        return form_of(static_cast<std::uint32_t>(id));
    }

    /// The canonical node of a bool expression.
    ExprId truth(ExprId id) {
        prepare(id);
        return truth_of(static_cast<std::uint32_t>(id));
    }

private:
    /// Canonical forms of everything below that is not a sum.
    void prepare(ExprId id) {
        ids_ = reachable(kernel_, id);
        forms_.resize(ids_.size());
        truths_.assign(ids_.size(), kNoExpr);
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            const Expr e = kernel_[ids_[i]];
            if (e.dtype == DType::Bool) {
                truths_[i] = truth_node(e, ids_[i]);
            } else if (e.dtype == DType::Int64 && !is_linear(kernel_, e)) {
                span_ = e.span;
                forms_[i] = atom(e, ids_[i]);
            }
        }
    }

    std::size_t position(ExprId id) const {
        const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
        return static_cast<std::size_t>(found - ids_.begin());
    }

    ExprId truth_of(std::uint32_t id) const { return truths_[position(ExprId{id})]; }

    Affine form_of(std::uint32_t id) const {
        Affine result;
        for_each_atom(
            kernel_, ExprId{id}, result.constant, [&](ExprId each, std::int64_t coefficient) {
                const Affine& form = forms_[position(each)];
                result.constant = wrap_add(result.constant, wrap_mul(form.constant, coefficient));
                for (const Term& t : form.terms) {
                    result.terms.push_back({t.atom, wrap_mul(t.coefficient, coefficient)});
                }
            });
        normalize(result.terms);
        return result;
    }

    ExprId node(const Affine& a) { return from_affine(kernel_, a); }

    Affine atom(const Expr& e, ExprId id) {
        switch (e.kind) {
            case ExprKind::Binary:
                return binary(binary_op(e), form_of(e.a), form_of(e.b));
            case ExprKind::Unary: {
                const Affine x = form_of(e.a);
                if (e.op == static_cast<std::uint8_t>(UnaryOp::Abs)) {
                    if (intervals_.proves_order({}, x)) return x;
                    if (intervals_.proves_order(x, {})) return scaled(x, -1);
                }
                return {0, {{kernel_.unary(static_cast<UnaryOp>(e.op), node(x)), 1}}};
            }
            case ExprKind::Select: {
                const ExprId condition = truth_of(e.a);
                const Affine x = form_of(e.b), y = form_of(e.c);
                if (x == y) return x;
                if (kernel_.is_constant(condition)) {
                    return kernel_.is_constant(condition, 1) ? x : y;
                }
                const ExprId first = node(x);
                return {0, {{kernel_.select(condition, first, node(y)), 1}}};
            }
            default:
                return {0, {{id, 1}}};
        }
    }

    Affine binary(BinaryOp op, const Affine& x, const Affine& y) {
        const bool divides = op == BinaryOp::Div || op == BinaryOp::Rem || op == BinaryOp::FloorDiv;
        if (op == BinaryOp::Mul) return product(x, y);
        if (op == BinaryOp::Min || op == BinaryOp::Max) return extremum(op, x, y);
        // The rules take quotients of -x, too.
        const auto may_wrap = [&] {
            return intervals_.may_wrap(x) || intervals_.may_wrap(scaled(x, -1));
        };
        if (divides && y.is_constant() && y.constant != 0 && all_small(x) && all_small(y) &&
            !may_wrap()) {
            if (op == BinaryOp::FloorDiv) return floor_quotient(x, y.constant);
            return op == BinaryOp::Div ? quotient(x, y.constant) : remainder(x, y.constant);
        }
        return opaque(op, x, y);
    }

    Affine opaque(BinaryOp op, const Affine& x, const Affine& y) {
        const ExprId first = node(x);
        return linear(kernel_, kernel_.binary(op, first, node(y), span_));
    }

    Affine product(const Affine& x, const Affine& y) {
        if (x.is_constant()) return scaled(y, x.constant);
        if (y.is_constant()) return scaled(x, y.constant);
        if (x.terms.size() * y.terms.size() > kMostTerms) {
            ExprId a = node(x), b = node(y);
            if (b < a) std::swap(a, b);
            return {0, {{kernel_.binary(BinaryOp::Mul, a, b), 1}}};
        }
        Affine result = sum(scaled(x, y.constant), scaled(y, x.constant));
        result.constant = wrap_mul(x.constant, y.constant);
        for (const Term& s : x.terms) {
            for (const Term& t : y.terms) {
                const std::int64_t coefficient = wrap_mul(s.coefficient, t.coefficient);
                result.terms.push_back({monomial(s.atom, t.atom), coefficient});
            }
        }
        normalize(result.terms);
        return result;
    }

    /// x * y as one product of factors in ascending order.
    ExprId monomial(ExprId x, ExprId y) {
        std::vector<ExprId> factors;
        append_factors(kernel_, x, factors);
        append_factors(kernel_, y, factors);
        if (factors.size() > kMostFactors) factors = {x, y};
        std::sort(factors.begin(), factors.end());
        ExprId result = factors[0];
        for (std::size_t i = 1; i < factors.size(); ++i) {
            result = kernel_.binary(BinaryOp::Mul, result, factors[i]);
        }
        return result;
    }

    /// a floordiv c.
    Affine floor_quotient(Affine a, std::int64_t c) {
        if (c < 0) {
            a = scaled(a, -1);
            c = -c;
        }
        Affine whole;
        while (true) {
            whole = sum(whole, take_multiples(a, c));
            if (a.is_constant()) return whole;
            const Range range = intervals_.of(a);
            if (range.low != kMinusInfinity && range.high != kInfinity &&
                floor_div(range.low, c) == floor_div(range.high, c)) {
                whole.constant = wrap_add(whole.constant, floor_div(range.low, c));
                return whole;
            }
            // floor((g*x + k) / (g*c)) = floor((x + floor(k / g)) / c)
            if (const std::int64_t g = common_divisor(a, c); g > 1) {
                a = divided(std::move(a), g);
                c /= g;
                continue;
            }
            // floor((floor(x / d) + k) / c) = floor((x + d*k) / (c*d))
            if (a.terms.size() != 1 || a.terms[0].coefficient != 1) break;
            const Expr inner = kernel_[a.terms[0].atom];
            if (!is_binary(inner, BinaryOp::FloorDiv) || !kernel_.is_constant(ExprId{inner.b})) {
                break;
            }
            const std::int64_t d = kernel_.integer_value(ExprId{inner.b});
            std::int64_t both = 0;
            if (d < 1 || __builtin_mul_overflow(c, d, &both) || !is_small(both)) break;
            Affine numerator = linear(kernel_, ExprId{inner.a});
            numerator.constant = wrap_add(numerator.constant, wrap_mul(a.constant, d));
            if (!all_small(numerator)) break;
            a = std::move(numerator);
            c = both;
        }
        return sum(whole, opaque(BinaryOp::FloorDiv, a, {c, {}}));
    }

    /// a / c, rounded toward zero.
    Affine quotient(Affine a, std::int64_t c) {
        if (c < 0) return scaled(quotient(std::move(a), -c), -1);
        const Range range = intervals_.of(a);
        if (range.low >= 0) return floor_quotient(std::move(a), c);
        if (range.high <= 0) return scaled(floor_quotient(scaled(a, -1), c), -1);
        if (range.low > -c && range.high < c) return {};
        const std::int64_t g = std::gcd(common_divisor(a, c), a.constant);
        a = divided(std::move(a), g);
        c /= g;
        if (c == 1) return a;
        if (a.terms[0].coefficient < 0) return scaled(quotient(scaled(a, -1), c), -1);
        if (a.terms.size() == 1 && a.terms[0].coefficient == 1 && a.constant == 0) {
            const Expr inner = kernel_[a.terms[0].atom];
            std::int64_t both = 0;
            if (is_binary(inner, BinaryOp::Div) && kernel_.is_constant(ExprId{inner.b}) &&
                !__builtin_mul_overflow(c, kernel_.integer_value(ExprId{inner.b}), &both) &&
                is_small(both) && both != 0) {
                return quotient(linear(kernel_, ExprId{inner.a}), both);
            }
        }
        return opaque(BinaryOp::Div, a, {c, {}});
    }

    /// a - c * (a / c).
    Affine remainder(Affine a, std::int64_t c) {
        if (c < 0) c = -c;
        const Range range = intervals_.of(a);
        if (range.low > -c && range.high < c) return a;
        if (range.high <= 0) return scaled(remainder(scaled(a, -1), c), -1);
        const std::int64_t g = std::gcd(common_divisor(a, c), a.constant);
        if (g == c) return {};
        if (g > 1) return scaled(remainder(divided(std::move(a), g), c / g), g);
        if (range.low >= 0) {
            Affine reduced = a;
            take_multiples(reduced, c);
            if (reduced != a && intervals_.of(reduced).low >= 0) {
                return remainder(std::move(reduced), c);
            }
        } else if (!a.is_constant() && a.terms[0].coefficient < 0) {
            return scaled(remainder(scaled(a, -1), c), -1);
        }
        return opaque(BinaryOp::Rem, a, {c, {}});
    }

    /// The operands of a minimum or maximum that is all of `a`, else `a`.
    void append_operands(BinaryOp op, const Affine& a, std::vector<Affine>& operands) const {
        if (a.terms.size() != 1 || a.constant != 0 || a.terms[0].coefficient != 1) {
            operands.push_back(a);
            return;
        }
        ExprId id = a.terms[0].atom;
        while (is_binary(kernel_[id], op)) {
            operands.push_back(linear(kernel_, ExprId{kernel_[id].b}));
            id = ExprId{kernel_[id].a};
        }
        operands.push_back(linear(kernel_, id));
    }

    Affine extremum(BinaryOp op, const Affine& x, const Affine& y) {
        // True if `a` makes `b` superfluous.
        const auto bounds = [&](const Affine& a, const Affine& b) {
            return op == BinaryOp::Max ? intervals_.proves_order(b, a)
                                       : intervals_.proves_order(a, b);
        };
        std::vector<Affine> operands;
        append_operands(op, x, operands);
        append_operands(op, y, operands);
        if (operands.size() > kMostOperands) operands = {x, y};
        std::vector<Affine> kept;
        for (const Affine& each : operands) {
            const auto covers = [&](const Affine& k) { return bounds(k, each); };
            if (std::any_of(kept.begin(), kept.end(), covers)) continue;
            std::erase_if(kept, [&](const Affine& k) { return bounds(each, k); });
            kept.push_back(each);
        }
        std::vector<ExprId> ids;
        for (const Affine& each : kept) ids.push_back(node(each));
        std::sort(ids.begin(), ids.end());
        ExprId result = ids[0];
        for (std::size_t i = 1; i < ids.size(); ++i) result = kernel_.binary(op, result, ids[i]);
        return linear(kernel_, result);
    }

    ExprId truth_node(const Expr& e, ExprId id) {
        if (e.kind == ExprKind::Unary && e.op == static_cast<std::uint8_t>(UnaryOp::Not)) {
            return negation(truth_of(e.a));
        }
        if (e.kind == ExprKind::Select) {
            const ExprId condition = truth_of(e.a), x = truth_of(e.b), y = truth_of(e.c);
            if (kernel_.is_constant(condition)) return kernel_.is_constant(condition, 1) ? x : y;
            return x == y ? x : kernel_.select(condition, x, y);
        }
        if (e.kind != ExprKind::Binary) return id;
        const BinaryOp op = binary_op(e);
        if (op == BinaryOp::And || op == BinaryOp::Or) {
            const ExprId x = truth_of(e.a), y = truth_of(e.b);
            const std::int64_t decides = op == BinaryOp::Or;
            if (kernel_.is_constant(x)) return kernel_.is_constant(x, decides) ? x : y;
            if (kernel_.is_constant(y)) return kernel_.is_constant(y, decides) ? y : x;
            return x == y ? x : kernel_.binary(op, x, y);
        }
        if (kernel_[ExprId{e.a}].dtype != DType::Int64) return id;
        return comparison(op, form_of(e.a), form_of(e.b));
    }

    ExprId comparison(BinaryOp op, const Affine& x, const Affine& y) {
        if (op == BinaryOp::Less || op == BinaryOp::LessEqual) {
            const std::int64_t least = op == BinaryOp::Less;
            if (intervals_.proves_order(x, y, least)) return kernel_.boolean(true);
            if (intervals_.proves_order(y, x, 1 - least)) return kernel_.boolean(false);
        } else {
            const bool equal = op == BinaryOp::Equal;
            if (x == y) return kernel_.boolean(equal);
            if (intervals_.proves_order(x, y, 1) || intervals_.proves_order(y, x, 1)) {
                return kernel_.boolean(!equal);
            }
        }
        ExprId a = node(x), b = node(y);
        if ((op == BinaryOp::Equal || op == BinaryOp::NotEqual) && b < a) std::swap(a, b);
        return kernel_.binary(op, a, b);
    }

    ExprId negation(ExprId id) {
        const Expr e = kernel_[id];
        if (kernel_.is_constant(id)) return kernel_.boolean(!kernel_.integer_value(id));
        if (e.kind == ExprKind::Unary && e.op == static_cast<std::uint8_t>(UnaryOp::Not)) {
            return ExprId{e.a};
        }
        if (e.kind == ExprKind::Binary && kernel_[ExprId{e.a}].dtype == DType::Int64) {
            const ExprId a{e.a}, b{e.b};
            switch (binary_op(e)) {
                case BinaryOp::Less:
                    return kernel_.binary(BinaryOp::LessEqual, b, a);
                case BinaryOp::LessEqual:
                    return kernel_.binary(BinaryOp::Less, b, a);
                case BinaryOp::Equal:
                    return kernel_.binary(BinaryOp::NotEqual, a, b);
                case BinaryOp::NotEqual:
                    return kernel_.binary(BinaryOp::Equal, a, b);
                default:
                    break;
            }
        }
        return kernel_.unary(UnaryOp::Not, id);
    }

    Kernel& kernel_;
    Intervals intervals_;

    /// Of what is being made canonical; a quotient may fail there.
    Span span_;
    ExprIds ids_;
    std::vector<Affine> forms_;
    std::vector<ExprId> truths_;
};

}  // namespace

Affine linear(const Kernel& kernel, ExprId id) {
    Affine result;
    for_each_atom(kernel, id, result.constant, [&](ExprId atom, std::int64_t coefficient) {
        result.terms.push_back({atom, coefficient});
    });
    std::reverse(result.terms.begin(), result.terms.end());
    return result;
}

bool can_fail(const Kernel& kernel, const Expr& e) {
    if (e.kind != ExprKind::Binary || is_floating(e.dtype)) return false;
    const auto op = static_cast<BinaryOp>(e.op);
    const bool divides = op == BinaryOp::Div || op == BinaryOp::Rem || op == BinaryOp::FloorDiv;
    const ExprId right{e.b};
    if (op == BinaryOp::Pow && is_signed_integer(e.dtype)) {
        return !kernel.is_constant(right) || kernel.integer_value(right) < 0;
    }
    return divides && (!kernel.is_constant(right) || kernel.integer_value(right) == 0);
}

Affine affine_of(Kernel& kernel, ExprId id, const RangeOf& ranges) {
    return Simplifier(kernel, ranges).affine(id);
}

bool is_long(const Kernel& kernel, ExprId id) {
    constexpr std::size_t kMost = 500;
    const ExprIds nodes = reachable(kernel, id);
    std::vector<std::size_t> lengths;
    for (const ExprId each : nodes) {
        std::size_t length = 1;
        for_each_child(kernel, each, [&](ExprId child) {
            length += lengths[std::size_t(std::lower_bound(nodes.begin(), nodes.end(), child) -
                                          nodes.begin())];
        });
        if (length > kMost) return true;
        lengths.push_back(length);
    }
    return false;
}

ExprId exact_quotient(Kernel& kernel, ExprId a, ExprId b) {
    const Affine dividend = affine_of(kernel, a), divisor = affine_of(kernel, b);
    const bool is_number = divisor.is_constant();
    if (!is_number && (divisor.constant != 0 || divisor.terms.size() != 1)) return kNoExpr;
    const std::int64_t by = is_number ? divisor.constant : divisor.terms[0].coefficient;
    // A quotient by -1 may leave the range.
    if (by < 1) return kNoExpr;
    std::vector<ExprId> taken;
    if (!is_number) append_factors(kernel, divisor.terms[0].atom, taken);
    if (dividend.constant % by != 0 || (!is_number && dividend.constant != 0)) return kNoExpr;
    ExprId result = kernel.integer(dividend.constant / by);
    for (const Term& t : dividend.terms) {
        std::vector<ExprId> factors;
        append_factors(kernel, t.atom, factors);
        for (const ExprId factor : taken) {
            const auto found = std::find(factors.begin(), factors.end(), factor);
            if (found == factors.end()) return kNoExpr;
            factors.erase(found);
        }
        if (t.coefficient % by != 0) return kNoExpr;
        ExprId term = kernel.integer(t.coefficient / by);
        for (const ExprId factor : factors) term = kernel.binary(BinaryOp::Mul, factor, term);
        result = kernel.binary(BinaryOp::Add, result, term);
    }
    return simplify(kernel, result);
}

ExprId from_affine(Kernel& kernel, const Affine& affine) {
    ExprId result = kNoExpr;
    const auto multiple = [&](const Term& t, std::int64_t factor) {
        return kernel.binary(BinaryOp::Mul, t.atom, kernel.integer(factor));
    };
    for (const Term& t : affine.terms) {
        if (t.coefficient < 0) continue;
        const ExprId term = multiple(t, t.coefficient);
        result = exists(result) ? kernel.binary(BinaryOp::Add, result, term) : term;
    }
    std::int64_t constant = affine.constant;
    if (!exists(result) && constant != 0) {
        result = kernel.integer(constant);
        constant = 0;
    }
    for (const Term& t : affine.terms) {
        if (t.coefficient >= 0) continue;
        if (!exists(result)) {
            result = t.coefficient == -1 ? kernel.unary(UnaryOp::Neg, t.atom)
                                         : multiple(t, t.coefficient);
        } else {
            result = kernel.binary(BinaryOp::Sub, result, multiple(t, wrap_mul(t.coefficient, -1)));
        }
    }
    if (!exists(result)) return kernel.integer(0);
    if (constant == 0) return result;
    const BinaryOp op = constant > 0 ? BinaryOp::Add : BinaryOp::Sub;
    return kernel.binary(op, result,
                         kernel.integer(constant > 0 ? constant : wrap_mul(constant, -1)));
}

ExprId simplify(Kernel& kernel, ExprId id, const RangeOf& ranges) {
    const DType dtype = kernel[id].dtype;
    if (dtype == DType::Int64) return from_affine(kernel, affine_of(kernel, id, ranges));
    if (dtype == DType::Bool) return Simplifier(kernel, ranges).truth(id);
    return id;
}

}  // namespace quern::ir
