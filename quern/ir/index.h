#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/support/short_vector.h"

// The algebra of index expressions: int64, and bool over comparisons of int64.
//
// Sums, differences and products are exact with wrap-around. The rules about order and quotients
// assume that extents, loops' indices and what is made of these stay in [-2^62, 2^62]; binding
// refuses extents that would not. Elements, scalars and variables may be any number: what is made
// of them may wrap. Where the original has a value the result has the same one; a failure of the
// original (a division by zero) may vanish.

namespace quern::ir {

struct Term {
    ExprId atom = kNoExpr;
    std::int64_t coefficient = 0;

    bool operator==(const Term&) const = default;
};

/// Most forms have no more than two.
using Terms = ShortVector<Term, 2>;

/// constant + the sum of coefficient * atom. Atoms are sorted by id, distinct and canonical: a dim,
/// extent, scalar or symbol; a product of such; or any other node over canonical operands. No
/// coefficient is zero.
struct Affine {
    std::int64_t constant = 0;
    Terms terms;

    bool operator==(const Affine&) const = default;
    bool is_constant() const { return terms.empty(); }
};

inline constexpr std::int64_t kInfinity = INT64_MAX;
inline constexpr std::int64_t kMinusInfinity = INT64_MIN;

/// The integers from low to high, both included.
struct Range {
    std::int64_t low = kMinusInfinity;
    std::int64_t high = kInfinity;

    bool operator==(const Range&) const = default;
    bool contains(std::int64_t value) const { return low <= value && value <= high; }
};

/// What is known of a Dim, Extent, Scalar or Symbol. Nothing said, or an empty function: dims and
/// extents are in [0, inf), the rest anything that their dtype holds.
using RangeOf = std::function<std::optional<Range>(const Expr& leaf)>;

/// Decomposes an int64 expression. Always succeeds: at worst it is one atom.
Affine affine_of(Kernel& kernel, ExprId id, const RangeOf& ranges = {});

/// Makes the canonical expression of a form: positive terms first, then negative ones, the constant
/// last.
ExprId from_affine(Kernel& kernel, const Affine& affine);

/// Rewrites an int64 or bool expression to its canonical form; other dtypes come back as they are.
/// Equal affine functions get equal ids, and simplifying twice changes nothing.
/// Quotients and remainders by a constant c: c*x + r -> x and r where the ranges show 0 <= r < c.
/// Minimum and maximum: operands that another one bounds disappear. Comparisons: true or false
/// where provable.
ExprId simplify(Kernel& kernel, ExprId id, const RangeOf& ranges = {});

/// The sum of terms that an expression is as it stands; what is not a sum or a multiple by a
/// constant is an atom, canonical or not.
Affine linear(const Kernel& kernel, ExprId id);

/// Whether an operation on integers fails for some operands: a division by 0, a negative power.
/// What simplify finds to be of no use is dropped, such an operation too.
bool can_fail(const Kernel& kernel, const Expr& e);

/// Bounds on every value of an int64 or bool expression, by interval arithmetic on its affine form.
Range range_of(const Kernel& kernel, ExprId id, const RangeOf& ranges = {});
Range range_of(const Kernel& kernel, const Affine& affine, const RangeOf& ranges = {});

/// True only if a >= b, or a < b, whatever the leaves are within `ranges`. False says nothing.
bool proves_at_least(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges = {});
bool proves_less(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges = {});

/// The one of two int64 expressions that is never above the other, or kNoExpr if that is not shown.
ExprId lesser_of(Kernel& kernel, ExprId a, ExprId b, const RangeOf& ranges = {});

/// The q of a = b * q, where q is a sum of products whatever the leaves are (n of n*m by m, 3 of
/// 3*n by n). Finds it where b is one product; kNoExpr if b does not divide a, or b is 0.
ExprId exact_quotient(Kernel& kernel, ExprId a, ExprId b);

/// A loop: symbol = begin, begin + step, ... below end. No step is 1.
struct LoopRange {
    SymbolId symbol = kNone;
    ExprId begin = kNoExpr;
    ExprId end = kNoExpr;
    ExprId step = kNoExpr;
};

/// The ranges that the symbols of loops, outermost first, have.
RangeOf ranges_of(Kernel& kernel, std::span<const LoopRange> loops);

/// The largest or smallest value that an expression takes over loops (outermost first; bounds may
/// use the symbols of loops before), as an expression without their symbols: each symbol is
/// replaced by its first or last value, innermost first. It is the exact one if no loop is empty
/// and inner bounds do not depend on outer symbols, and else a bound. kNoExpr if it is not known to
/// be monotonic in a symbol. The ranges are those of the loops: who asks often has them at hand.
ExprId upper_bound(Kernel& kernel, ExprId id, std::span<const LoopRange> loops,
                   const RangeOf& ranges = {});
ExprId lower_bound(Kernel& kernel, ExprId id, std::span<const LoopRange> loops,
                   const RangeOf& ranges = {});

/// Marks a dim without a value.
inline constexpr std::int64_t kUnknown = INT64_MIN;

/// Values of leaves. What is absent or kUnknown has no value.
struct Environment {
    std::span<const std::int64_t> dims;

    /// The shape of each operand.
    std::span<const std::vector<std::int64_t>> shapes;

    /// Integers and bools, by index of Kernel::scalars.
    std::span<const std::int64_t> scalars;
    std::unordered_map<SymbolId, std::int64_t> symbols;
};

enum class Fault : std::uint8_t { Unknown, Overflow, DivisionByZero };

/// The value of an expression of integers and bools, or none: a leaf is unknown, an int64 operation
/// leaves its range, or a divisor is zero. What a Select, And or Or does not need may have no
/// value. A fault is stored to `why`.
std::optional<std::int64_t> evaluate(const Kernel& kernel, ExprId id,
                                     const Environment& environment, Fault* why = nullptr);

/// The expression with each node for which `replacement` gives another one replaced by that, as it
/// stands; for those that stay it gives kNoExpr.
ExprId rewrite(Kernel& kernel, ExprId id, const std::function<ExprId(ExprId)>& replacement);

/// The expression with each use of a symbol replaced.
ExprId substitute(Kernel& kernel, ExprId id, SymbolId symbol, ExprId value);

/// True if the symbol occurs in the expression, indices of loads included.
bool depends_on(const Kernel& kernel, ExprId id, SymbolId symbol);

/// Whether the value of an expression is another when a var is assigned.
bool reads_var(const Kernel& kernel, ExprId id);

/// Calls visit(ExprId) for each operand, indices of loads included, in order.
template <class Visit>
void for_each_child(const Kernel& kernel, ExprId id, Visit visit) {
    const Expr& e = kernel[id];
    switch (e.kind) {
        case ExprKind::Load:
            for (int i = 0; i < e.count; ++i) visit(kernel.index_of(e, i));
            break;
        case ExprKind::Select:
            visit(ExprId{e.a});
            visit(ExprId{e.b});
            visit(ExprId{e.c});
            break;
        case ExprKind::Binary:
            visit(ExprId{e.a});
            visit(ExprId{e.b});
            break;
        case ExprKind::Unary:
        case ExprKind::Cast:
            visit(ExprId{e.a});
            break;
        default:
            break;
    }
}

using ExprIds = ShortVector<ExprId, 16>;

/// The node and everything below it, ascending: operands come before what uses them.
ExprIds reachable(const Kernel& kernel, ExprId id);

/// Whether an expression is so long, written out, that what is made of it again and again would be
/// without end: a = i + i, b = a + a, ... A name stands for such a one.
bool is_long(const Kernel& kernel, ExprId id);

}  // namespace quern::ir
