#include <algorithm>

#include "quern/ir/index.h"
#include "quern/ir/intervals.h"

// Symbolic bounds over loops: a loop variable in which an expression is monotonic is replaced by
// its first or last value.

namespace quern::ir {
namespace {

enum class Trend : std::uint8_t { None, Up, Down, Unknown };

Trend both(Trend x, Trend y) {
    if (x == Trend::None || x == y) return y;
    return y == Trend::None ? x : Trend::Unknown;
}

Trend times(Trend x, Range factor) {
    if (x == Trend::None || factor == Range{0, 0}) return Trend::None;
    if (factor.low >= 0) return x;
    if (factor.high > 0 || x == Trend::Unknown) return Trend::Unknown;
    return x == Trend::Up ? Trend::Down : Trend::Up;
}

/// How canonical expressions move with one symbol.
class Monotonicity {
public:
    Monotonicity(Kernel& kernel, const RangeOf& ranges, SymbolId symbol)
        : kernel_(kernel), ranges_(ranges), symbol_(symbol) {}

    Trend of(const Affine& affine, int depth) {
        if (depth == 0) return Trend::Unknown;
        // What multiplies the symbol itself may come from several terms: i*N - i*M.
        Affine slope;
        Trend rest = Trend::None;
        for (const Term& t : affine.terms) {
            std::vector<ExprId> factors = factors_of(t.atom);
            const auto moves = [&](ExprId f) { return depends_on(kernel_, f, symbol_); };
            const auto moving = std::find_if(factors.begin(), factors.end(), moves);
            if (moving == factors.end()) continue;
            const ExprId factor = *moving;
            factors.erase(moving);
            if (std::any_of(factors.begin(), factors.end(), moves)) return Trend::Unknown;
            ExprId others = kernel_.integer(t.coefficient);
            for (const ExprId f : factors) others = kernel_.binary(BinaryOp::Mul, others, f);
            const Affine multiplier = affine_of(kernel_, others, ranges_);
            if (kernel_[factor].kind == ExprKind::Symbol) {
                slope = sum(slope, multiplier);
            } else {
                const Trend trend = of_atom(factor, depth - 1);
                rest = both(rest, times(trend, range_of(kernel_, multiplier, ranges_)));
            }
        }
        return both(rest, times(slope == Affine{} ? Trend::None : Trend::Up,
                                range_of(kernel_, slope, ranges_)));
    }

private:
    std::vector<ExprId> factors_of(ExprId id) const {
        std::vector<ExprId> factors;
        while (kernel_[id].kind == ExprKind::Binary &&
               kernel_[id].op == static_cast<std::uint8_t>(BinaryOp::Mul)) {
            factors.push_back(ExprId{kernel_[id].b});
            id = ExprId{kernel_[id].a};
        }
        factors.push_back(id);
        return factors;
    }

    Trend of_atom(ExprId id, int depth) {
        if (!depends_on(kernel_, id, symbol_)) return Trend::None;
        const Expr e = kernel_[id];
        const auto operand = [&](std::uint32_t child) {
            return of(linear(kernel_, ExprId{child}), depth);
        };
        if (e.kind == ExprKind::Select && !depends_on(kernel_, ExprId{e.a}, symbol_)) {
            return both(operand(e.b), operand(e.c));
        }
        if (e.kind != ExprKind::Binary) return Trend::Unknown;
        switch (static_cast<BinaryOp>(e.op)) {
            case BinaryOp::Add:
                return both(operand(e.a), operand(e.b));
            case BinaryOp::Sub:
                return both(operand(e.a), times(operand(e.b), {-1, -1}));
            case BinaryOp::Min:
            case BinaryOp::Max:
                return both(operand(e.a), operand(e.b));
            case BinaryOp::Div:
            case BinaryOp::FloorDiv:
                if (depends_on(kernel_, ExprId{e.b}, symbol_)) return Trend::Unknown;
                return times(operand(e.a), range_of(kernel_, ExprId{e.b}, ranges_));
            default:
                return Trend::Unknown;
        }
    }

    Kernel& kernel_;
    const RangeOf& ranges_;
    SymbolId symbol_;
};

ExprId last_value(Kernel& kernel, const LoopRange& loop) {
    const ExprId last = kernel.binary(BinaryOp::Sub, loop.end, kernel.integer(1));
    if (!exists(loop.step) || kernel.is_constant(loop.step, 1)) return last;
    const ExprId span = kernel.binary(BinaryOp::Sub, last, loop.begin);
    const ExprId steps = kernel.binary(BinaryOp::FloorDiv, span, loop.step);
    return kernel.binary(BinaryOp::Add, loop.begin, kernel.binary(BinaryOp::Mul, steps, loop.step));
}

ExprId bound(Kernel& kernel, ExprId id, std::span<const LoopRange> loops, const RangeOf& ranges,
             Trend toward_last) {
    for (std::size_t i = loops.size(); i-- > 0;) {
        const LoopRange& loop = loops[i];
        const Affine affine = affine_of(kernel, id, ranges);
        id = from_affine(kernel, affine);
        constexpr int depth = 32;
        const Trend trend = Monotonicity(kernel, ranges, loop.symbol).of(affine, depth);
        if (trend == Trend::Unknown) return kNoExpr;
        // No trend can mean that what multiplies the symbol is zero: then any value does.
        const ExprId value = trend == toward_last ? last_value(kernel, loop) : loop.begin;
        id = substitute(kernel, id, loop.symbol, value);
    }
    return simplify(kernel, id);
}

}  // namespace

RangeOf ranges_of(Kernel& kernel, std::span<const LoopRange> loops) {
    std::unordered_map<SymbolId, Range> known;
    const auto lookup = [](const std::unordered_map<SymbolId, Range>& map, const Expr& leaf) {
        const auto found = map.find(leaf.a);
        return leaf.kind == ExprKind::Symbol && found != map.end() ? std::optional(found->second)
                                                                   : std::nullopt;
    };
    const RangeOf outer = [&](const Expr& leaf) { return lookup(known, leaf); };
    for (const LoopRange& loop : loops) {
        Range range{range_of(kernel, simplify(kernel, loop.begin, outer), outer).low,
                    range_of(kernel, simplify(kernel, loop.end, outer), outer).high};
        if (range.high != kInfinity && range.high != kMinusInfinity) --range.high;
        // A loop that never runs has no value of its symbol; any one will do.
        range.high = std::max(range.high, range.low);
        known[loop.symbol] = range;
    }
    return [known = std::move(known), lookup](const Expr& leaf) { return lookup(known, leaf); };
}

ExprId upper_bound(Kernel& kernel, ExprId id, std::span<const LoopRange> loops,
                   const RangeOf& ranges) {
    return bound(kernel, id, loops, ranges ? ranges : ranges_of(kernel, loops), Trend::Up);
}

ExprId lower_bound(Kernel& kernel, ExprId id, std::span<const LoopRange> loops,
                   const RangeOf& ranges) {
    return bound(kernel, id, loops, ranges ? ranges : ranges_of(kernel, loops), Trend::Down);
}

}  // namespace quern::ir
