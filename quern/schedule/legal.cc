#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <span>

#include "quern/lir/lanes.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/matrices.h"
#include "quern/schedule/plan.h"

namespace quern::schedule {
namespace {

using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

// Each copy of a loop's body is code; that of vectors is more.
constexpr int kMostCopies = 32, kMostWithoutLanes = 128;

// As LIR has them.
constexpr int kMostPacket = 8;

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
            std::vector<ir::SymbolId>& nest = grids_.emplace_back();
            for (const Stmt* loop : grid_nest(k_, s)) {
                if (!tiling_.has(loop->symbol, Level::Grid)) break;
                nest.push_back(loop->symbol);
            }
        }
        for (const Stmt& s : k_.body) {
            const std::span all(&s, 1);
            rows_ = rows_of(tiling_, all);
            if (std::string why = block(all, {}); !why.empty()) return why;
        }
        for (const Split& split : tiling_.splits) {
            if (seen_.count(split.loop) == 0) return name(split.loop) + ": it is no loop";
        }
        return {};
    }

private:
    struct Around {
        bool in_grid = false;
        bool in_lanes = false;
        bool in_rows = false;
        ir::SymbolId rows = ir::kNone, lanes = ir::kNone;
        int copies = 1;
    };

    std::string name(ir::SymbolId symbol) const { return k_.symbols[symbol].name; }

    std::string block(std::span<const Stmt> statements, const Around& around) {
        for (const Stmt& s : statements) {
            Around inside = around;
            if (s.kind == StmtKind::For) {
                seen_.insert(s.symbol);
                for (const Split& split : tiling_.splits) {
                    if (split.loop != s.symbol) continue;
                    const std::string why = reason(s, split, around);
                    if (!why.empty()) return name(s.symbol) + ": " + why;
                    inside.in_grid |= split.level == Level::Grid;
                    inside.in_lanes |= split.level == Level::Vector;
                    inside.in_rows |= split.level == Level::Rows;
                    if (split.level == Level::Rows) inside.rows = s.symbol;
                    if (split.level == Level::Vector) inside.lanes = s.symbol;
                    const bool has_copies =
                        split.level == Level::Unroll || split.level == Level::Packet;
                    if (has_copies) inside.copies *= split.factor;
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
                return grid_from(s.symbol).empty() ? "no loop of a grid around it" : "";
            case Level::Vector:
                if (target_.lanes == 1) return "the processor has no vectors";
                if (split.factor != target_.lanes) {
                    return fmt::format("a vector has {} lanes, not {}", target_.lanes,
                                       split.factor);
                }
                if (around.in_lanes) return "a loop around it has the lanes";
                if (rows_ > 1 && !around.in_rows && !s.reduces.empty() &&
                    tiling_.numerics == Numerics::Reproducible) {
                    return "its sums have a partial for each lane of one row";
                }
                return why_not_lanes(k_, s);
            case Level::Rows:
                return why_not_rows(s, split, around);
            case Level::Packet:
                return why_not_packets(s, split, around);
            case Level::Unroll:
                return why_not_unrolled(s, split, around);
            case Level::Stage:
                return why_not_staged(s, split, around);
            case Level::Matrix:
                return why_not_matrices(s, split, around);
        }
        return "no such level";
    }

    /// A loop of a grid and those inside of it, or none.
    std::span<const ir::SymbolId> grid_from(ir::SymbolId loop) const {
        for (const std::vector<ir::SymbolId>& nest : grids_) {
            const auto found = std::ranges::find(nest, loop);
            if (found != nest.end()) return {found, nest.end()};
        }
        return {};
    }

    std::string why_not_rows(const Stmt& s, const Split& split, const Around& around) {
        if (target_.rows == 1) return "the processor has no rows of lanes";
        if (!is_power(split.factor) || split.factor > target_.rows) {
            return fmt::format("rows are a power of two, at most {}", target_.rows);
        }
        if (around.in_lanes || around.in_rows) return "a loop around it has the lanes";
        // All of a function has vectors of one length.
        if (split.factor != rows_) return fmt::format("other loops have {} rows", rows_);
        const std::span<const ir::SymbolId> of_grid = grid_from(s.symbol);
        if (of_grid.empty()) return why_not_rows_of_point(s, around);
        const auto is_in_lanes = [&](ir::SymbolId loop) {
            return loop != s.symbol && tiling_.has(loop, Level::Vector);
        };
        if (std::ranges::none_of(of_grid, is_in_lanes)) {
            return "no loop of the grid inside has the lanes";
        }
        return why_not_lanes(k_, s);
    }

    /// Inside of a point, where loops that are in no rows have the lanes of all.
    std::string why_not_rows_of_point(const Stmt& s, const Around& around) {
        if (!around.in_grid) return "no loop of a grid around it";
        if (!s.reduces.empty()) return "it reduces";
        if (!holds_lanes(tiling_, s.body)) return "no loop inside has the lanes";
        return why_not_lanes(k_, s);
    }

    std::string why_not_staged(const Stmt& s, const Split& split, const Around& around) {
        if (!around.in_rows) return "no rows of lanes around it share what it reads";
        if (s.reduces.empty()) return "it does not reduce";
        if (has_loop(s.body)) return "a loop inside of it";
        if (!is_power(split.factor) || split.factor < std::max(target_.rows, target_.lanes)) {
            return "fewer iterations than lanes or rows, or no power of two";
        }
        if (tiling_.numerics == Numerics::Reproducible) return "its sums have partials in memory";
        return {};
    }

    std::string why_not_matrices(const Stmt& s, const Split& split, const Around& around) {
        const lir::Atom& atom = tiling_.atom;
        if (std::ranges::find(target_.atoms, atom) == target_.atoms.end()) {
            return "the processor has no such matrices";
        }
        const std::int64_t depth = tiling_.factor(s.symbol, Level::Stage);
        if (depth == 1) return "what it reads is not staged";
        if (split.factor != atom.depth || depth % atom.depth != 0) {
            return fmt::format("matrices of {} iterations, of {} that are staged", atom.depth,
                               depth);
        }
        if (!sum_of_products(k_, s, atom)) return "it is no sum of products of its dtypes";
        const auto extent = [&](ir::SymbolId loop, Level level) {
            return std::int64_t(tiling_.factor(loop, level)) * tiling_.factor(loop, Level::Unroll);
        };
        const std::int64_t rows = extent(around.rows, Level::Rows);
        const std::int64_t columns = extent(around.lanes, Level::Vector);
        const std::int64_t lanes =
            std::int64_t(tiling_.factor(around.rows, Level::Rows)) * target_.lanes;
        if (lanes % target_.subgroup != 0) return "fewer lanes than a subgroup";
        // Beside arrays by which lanes show each other values.
        matrix_bytes_ += (rows + columns) * depth * std::int64_t(size_of(atom.operand)) +
                         rows * columns * std::int64_t(size_of(atom.sum));
        const std::int64_t most = target_.group_bytes / 4 * 3;
        if (matrix_bytes_ > most) {
            return fmt::format("{} bytes of a work-group, {} at most", matrix_bytes_, most);
        }
        return {};
    }

    static bool has_loop(const std::vector<Stmt>& block) {
        return std::ranges::any_of(block, [](const Stmt& s) {
            return s.kind == StmtKind::For || has_loop(s.body) || has_loop(s.otherwise);
        });
    }

    static bool is_power(int number) { return std::has_single_bit(unsigned(number)); }

    std::string why_not_packets(const Stmt& s, const Split& split, const Around& around) {
        if (!target_.has_packets) return "the processor has no packets";
        if (!is_power(split.factor) || split.factor > kMostPacket) {
            return fmt::format("packets are a power of two, at most {}", kMostPacket);
        }
        if (!tiling_.has(s.symbol, Level::Vector)) return "packets of what are no lanes";
        if (tiling_.has(s.symbol, Level::Unroll)) return "packets are its copies";
        if (rows_ > 1) return "lanes of rows have no packets";
        return why_not_copied(s, split, around);
    }

    std::string why_not_unrolled(const Stmt& s, const Split& split, const Around& around) {
        if (tiling_.has(s.symbol, Level::Packet)) return "packets are its copies";
        return why_not_copied(s, split, around);
    }

    std::string why_not_copied(const Stmt& s, const Split& split, const Around& around) {
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

    /// The loops of each grid, outermost first.
    std::vector<std::vector<ir::SymbolId>> grids_;
    std::set<ir::SymbolId> seen_;

    /// Of the statement of the kernel that is looked at.
    int rows_ = 1;

    /// Of all loops split into matrices.
    std::int64_t matrix_bytes_ = 0;
};

}  // namespace

std::string legal(const ir::Kernel& kernel) {
    for (const ir::Expr& e : kernel.exprs) {
        const bool is_remainder =
            e.kind == ExprKind::Binary && static_cast<ir::BinaryOp>(e.op) == ir::BinaryOp::Rem;
        if (is_remainder && is_floating(e.dtype)) return "% of floats";
    }
    // Points that only write may be seen to be apart while they run: see watch().
    return kernel.reads_output() ? why_not_apart(kernel, kernel.body) : std::string();
}

std::string legal(ir::Kernel& prepared, const Target& target, const Tiling& tiling) {
    return Judge(prepared, target, tiling).why_not();
}

}  // namespace quern::schedule
