#pragma once

#include <unordered_map>

#include "quern/ir/index.h"

// Interval arithmetic and proofs over one kernel and one RangeOf, with a memory of atoms; what
// simplify, range_of and the proofs share.

namespace quern::ir {

/// Wrap-around arithmetic on coefficients.
constexpr std::int64_t wrap_add(std::int64_t x, std::int64_t y) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}
constexpr std::int64_t wrap_mul(std::int64_t x, std::int64_t y) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
}

/// Rounds toward minus infinity. y is not zero, and not -1 with the least x.
constexpr std::int64_t floor_div(std::int64_t x, std::int64_t y) {
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

/// Small enough that negating, and dividing by it, cannot overflow.
constexpr bool is_small(std::int64_t x) {
    constexpr std::int64_t limit = std::int64_t{1} << 62;
    return -limit <= x && x <= limit;
}

/// What ranges are known of, and no simplification looks into.
constexpr bool is_leaf(const Expr& e) {
    return e.kind == ExprKind::Dim || e.kind == ExprKind::Extent || e.kind == ExprKind::Scalar ||
           e.kind == ExprKind::Symbol;
}

Affine scaled(const Affine& a, std::int64_t factor);

/// a + factor * b.
Affine sum(const Affine& a, const Affine& b, std::int64_t factor = 1);

class Intervals {
public:
    Intervals(const Kernel& kernel, const RangeOf& ranges) : kernel_(kernel), ranges_(ranges) {}

    /// Of the value, which wraps.
    Range of(ExprId id);
    Range of(const Affine& affine);

    /// Whether the form may leave int64, so that its value is another: only where it holds data,
    /// which are elements, scalars and what is computed of them. Extents, and indices that loops
    /// make of them, stay far below.
    bool may_wrap(const Affine& affine);

    /// True only if the form, as integers that do not wrap, is never negative. Minima and maxima
    /// are replaced by their operands and quotients by their bounds, up to a depth.
    bool proves_nonnegative(const Affine& affine, int depth = 4);

    /// True only if a + least <= b, of the values, which wrap.
    bool proves_order(const Affine& a, const Affine& b, std::int64_t least = 0);

private:
    /// What is known of an atom.
    struct Known {
        Range range;
        bool is_data = false;
    };

    /// The form as integers that do not wrap; out of int64 the ends are infinite.
    struct Exact {
        Range range;
        bool may_wrap = false;
    };
    Exact exact(const Affine& affine);

    void visit(ExprId id);
    Known of_leaf(const Expr& leaf) const;
    Known of_atom(ExprId id);
    Range of_binary(const Expr& node, bool is_data);

    const Kernel& kernel_;
    const RangeOf& ranges_;
    std::unordered_map<std::uint32_t, Known> atoms_;
};

}  // namespace quern::ir
