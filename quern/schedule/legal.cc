#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "quern/ir/doubles.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/plan.h"

namespace quern::schedule {
namespace {

using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

// Each copy of a loop's body is code; that of vectors is more.
constexpr int kMostCopies = 32, kMostWithoutLanes = 64;

/// Whether the points of every parallel nest are seen to use elements of their own.
std::string why_not_apart(const ir::Kernel& kernel, const std::vector<Stmt>& block) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::For && s.parallel) {
            ir::Kernel scratch = kernel;
            if (std::string why = why_points_meet(scratch, s); !why.empty()) return why;
            continue;
        }
        for (const auto* inner : {&s.body, &s.otherwise}) {
            if (std::string why = why_not_apart(kernel, *inner); !why.empty()) return why;
        }
    }
    return {};
}

/// Looks at each loop with the tiling's splits of those around it.
class Judge {
public:
    Judge(ir::Kernel& kernel, const Target& target, const Tiling& tiling)
        : k_(kernel), target_(target), tiling_(tiling) {}

    std::string why_not() {
        for (std::size_t i = 0; i < tiling_.splits.size(); ++i) {
            const Split& split = tiling_.splits[i];
            if (split.loop >= k_.symbols.size()) return "a split of a loop that is not there";
            const auto first =
                std::find_if(tiling_.splits.begin(), tiling_.splits.end(), [&](const Split& other) {
                    return other.loop == split.loop && other.level == split.level;
                });
            if (&*first != &split) return name(split.loop) + ": split twice on one level";
        }
        for (const Stmt& s : k_.body) {
            if (s.kind != StmtKind::For || !s.parallel) continue;
            for (const Stmt* loop : grid_nest(k_, s)) {
                if (!tiling_.has(loop->symbol, Level::Grid)) break;
                grid_.insert(loop->symbol);
            }
        }
        std::string why = block(k_.body, {});
        if (!why.empty()) return why;
        for (const Split& split : tiling_.splits) {
            if (seen_.count(split.loop) == 0) return name(split.loop) + ": it is no loop";
        }
        return {};
    }

private:
    struct Around {
        bool in_lanes = false;
        int copies = 1;
    };

    std::string name(ir::SymbolId symbol) const { return k_.symbols[symbol].name; }

    std::string block(const std::vector<Stmt>& statements, const Around& around) {
        for (const Stmt& s : statements) {
            Around inside = around;
            if (s.kind == StmtKind::For) {
                seen_.insert(s.symbol);
                for (const Split& split : tiling_.splits) {
                    if (split.loop != s.symbol) continue;
                    const std::string why = reason(s, split, around);
                    if (!why.empty()) return name(s.symbol) + ": " + why;
                    inside.in_lanes |= split.level == Level::Vector;
                    if (split.level == Level::Unroll) inside.copies *= split.factor;
                }
            }
            for (const auto* inner : {&s.body, &s.otherwise}) {
                if (std::string why = block(*inner, inside); !why.empty()) return why;
            }
        }
        return {};
    }

    std::string reason(const Stmt& s, const Split& split, const Around& around) {
        switch (split.level) {
            case Level::Grid:
                if (split.factor != 1) return "a grid has no factor";
                return grid_.count(s.symbol) != 0 ? "" : "no loop of a grid around it";
            case Level::Vector:
                if (target_.lanes == 1) return "the processor has no vectors";
                if (split.factor != target_.lanes) {
                    return fmt::format("a vector has {} lanes, not {}", target_.lanes,
                                       split.factor);
                }
                if (around.in_lanes) return "a loop around it has the lanes";
                return why_not_lanes(k_, s);
            case Level::Unroll:
                return why_not_unrolled(s, split, around);
        }
        return "no such level";
    }

    std::string why_not_unrolled(const Stmt& s, const Split& split, const Around& around) {
        if (split.factor < 2) return "fewer than two copies";
        const int most = target_.lanes > 1 ? kMostCopies : kMostWithoutLanes;
        if (around.copies * split.factor > most) return fmt::format("more than {} copies", most);
        if (s.reduces.empty()) return why_not_lanes(k_, s);
        // In lanes each copy has sums of its own.
        if (!tiling_.has(s.symbol, Level::Vector)) return "one sum is for all copies";
        if (tiling_.numerics == Numerics::Reproducible) return "copies add up in another order";
        if (around.copies > 1) return "sums of copies inside of copies";
        return {};
    }

    ir::Kernel& k_;
    const Target& target_;
    const Tiling& tiling_;
    std::set<ir::SymbolId> grid_;
    std::set<ir::SymbolId> seen_;
};

}  // namespace

std::string legal(const ir::Kernel& kernel, const Target& target) {
    if (!target.has_int64 && ir::needs_float64(kernel)) {
        return "float64: it has no integers of 64 bits";
    }
    bool reads_output = false;
    for (const ir::Expr& e : kernel.exprs) {
        const bool is_remainder =
            e.kind == ExprKind::Binary && static_cast<ir::BinaryOp>(e.op) == ir::BinaryOp::Rem;
        if (is_remainder && is_floating(e.dtype)) return "% of floats";
        reads_output |= e.kind == ExprKind::Load && e.a == kernel.output();
    }
    // Points that only write may be seen to be apart while they run: see watch().
    return reads_output ? why_not_apart(kernel, kernel.body) : std::string();
}

std::string legal(ir::Kernel& prepared, const Target& target, const Tiling& tiling) {
    return Judge(prepared, target, tiling).why_not();
}

}  // namespace quern::schedule
