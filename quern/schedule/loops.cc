#include "quern/schedule/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "quern/ir/index.h"

namespace quern::schedule {
namespace {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

using Index = std::vector<ExprId>;

/// What a loop body declares, reads and writes.
struct Body {
    std::vector<Access> accesses;
    std::set<ir::SymbolId> declared;
    std::set<ir::SymbolId> assigned;
    std::set<ir::SymbolId> reduced;
    std::set<ir::BufferId> allocated;
    std::vector<const Stmt*> loops;
    bool has_arg_reduce = false;
    bool has_barrier = false;
};

void collect_loads(const ir::Kernel& kernel, ExprId id, Body& body) {
    for (const ExprId node : ir::reachable(kernel, id)) {
        const ir::Expr& e = kernel[node];
        if (e.kind != ExprKind::Load) continue;
        Index index;
        for (int p = 0; p < e.count; ++p) index.push_back(kernel.index_of(e, p));
        body.accesses.push_back({e.a, std::move(index), false});
    }
}

void collect(const ir::Kernel& kernel, const std::vector<Stmt>& block, Body& body) {
    for (const Stmt& s : block) {
        ir::for_each_expr(s, [&](ExprId id) { collect_loads(kernel, id, body); });
        switch (s.kind) {
            case StmtKind::Let:
            case StmtKind::Var:
                body.declared.insert(s.symbol);
                break;
            case StmtKind::Assign:
                body.assigned.insert(s.symbol);
                break;
            case StmtKind::Accumulate:
                body.reduced.insert(s.symbol);
                break;
            case StmtKind::ArgReduce:
                body.has_arg_reduce = true;
                break;
            case StmtKind::For:
                body.declared.insert(s.symbol);
                body.loops.push_back(&s);
                break;
            case StmtKind::Alloc:
                body.allocated.insert(s.buffer);
                break;
            case StmtKind::Store:
                body.accesses.push_back({s.buffer, s.indices, true});
                break;
            case StmtKind::Barrier:
                body.has_barrier = true;
                break;
            case StmtKind::If:
            case StmtKind::Check:
                break;
        }
        collect(kernel, s.body, body);
        collect(kernel, s.otherwise, body);
    }
}

/// Whether an expression depends on what changes inside a loop body.
bool is_inner(const ir::Kernel& kernel, ExprId id, const Body& body, ir::SymbolId except) {
    for (const ExprId node : ir::reachable(kernel, id)) {
        const ir::Expr& e = kernel[node];
        if (e.kind == ExprKind::Load) return true;
        if (e.kind != ExprKind::Symbol || e.a == except) continue;
        if (body.declared.count(e.a) != 0 || kernel.symbols[e.a].kind == ir::SymbolKind::Var) {
            return true;
        }
    }
    return false;
}

/// c * loop + r, with one c for every store and all r within less than a step of the loop: then two
/// iterations write different elements. `inner` are the loops inside of the nest,
/// and their ranges.
bool tells_apart(ir::Kernel& kernel, const std::vector<Index>& indices, std::size_t axis,
                 const Stmt& loop, const std::vector<const Stmt*>& nest,
                 std::span<const ir::LoopRange> inner, const ir::RangeOf& ranges) {
    const auto moves = [&](ExprId id) {
        return std::any_of(inner.begin(), inner.end(), [&](const ir::LoopRange& range) {
            return ir::depends_on(kernel, id, range.symbol);
        });
    };
    std::int64_t step = 0;
    std::optional<ir::Affine> common;
    ir::Range spread{ir::kInfinity, ir::kMinusInfinity};
    for (const Index& index : indices) {
        const ir::Affine form = ir::affine_of(kernel, ir::simplify(kernel, index[axis]));
        std::int64_t own = 0;
        ir::Affine fixed, rest;
        rest.constant = form.constant;
        for (const ir::Term& term : form.terms) {
            const ir::Expr& atom = kernel[term.atom];
            if (atom.kind == ExprKind::Symbol && atom.a == loop.symbol) {
                own = term.coefficient;
                continue;
            }
            for (const Stmt* other : nest) {
                if (ir::depends_on(kernel, term.atom, other->symbol)) return false;
            }
            (moves(term.atom) ? rest : fixed).terms.push_back(term);
        }
        if (own == 0 || (step != 0 && own != step) || (common && *common != fixed)) return false;
        step = own;
        common = fixed;
        const ir::Range range = ir::range_of(kernel, rest, ranges);
        spread.low = std::min(spread.low, range.low);
        spread.high = std::max(spread.high, range.high);
    }
    std::int64_t width = 0, reach = 0;
    if (__builtin_sub_overflow(spread.high, spread.low, &width)) return false;
    if (exists(loop.step) && !kernel.is_constant(loop.step)) return false;
    const std::int64_t stride = exists(loop.step) ? kernel.integer_value(loop.step) : 1;
    // The least int64 has no absolute value.
    return !__builtin_mul_overflow(step, stride, &reach) &&
           (width < reach || width <= -(reach + 1));
}

}  // namespace

std::vector<Access> accesses_of(const ir::Kernel& kernel, const std::vector<Stmt>& block) {
    Body body;
    collect(kernel, block, body);
    return std::move(body.accesses);
}

std::optional<std::int64_t> step_of(ir::Kernel& kernel, ExprId index, ir::SymbolId loop) {
    const ir::Affine form = ir::affine_of(kernel, index);
    std::int64_t step = 0;
    for (const ir::Term& term : form.terms) {
        const ir::Expr& atom = kernel[term.atom];
        if (atom.kind == ExprKind::Symbol && atom.a == loop) {
            step = term.coefficient;
        } else if (ir::depends_on(kernel, term.atom, loop)) {
            return std::nullopt;
        }
    }
    return step;
}

std::int64_t divisor_of(ir::Kernel& kernel, const ir::Facts& facts, ExprId id) {
    constexpr std::int64_t kMost = 128;
    const auto part_of = [](std::int64_t number) {
        const auto bits = std::uint64_t(number) | std::uint64_t(kMost);
        return std::int64_t{1} << std::countr_zero(bits);
    };
    const ir::Affine form = ir::affine_of(kernel, id);
    std::int64_t common = part_of(form.constant);
    for (const ir::Term& term : form.terms) {
        const ir::Expr& atom = kernel[term.atom];
        const int log2 = atom.kind == ExprKind::Dim ? facts.dims[atom.a].divisible_log2 : 0;
        common = std::min(common, std::min(kMost, part_of(term.coefficient) << log2));
    }
    return common;
}

std::vector<const Stmt*> grid_nest(const ir::Kernel& kernel, const Stmt& outermost) {
    std::vector<const Stmt*> nest{&outermost};
    const auto is_known = [&](ExprId bound) {
        if (!exists(bound)) return true;
        const bool is_of_data = std::ranges::any_of(ir::reachable(kernel, bound), [&](ExprId node) {
            return kernel[node].kind == ExprKind::Load;
        });
        return !is_of_data && std::none_of(nest.begin(), nest.end(), [&](const Stmt* loop) {
            return ir::depends_on(kernel, bound, loop->symbol);
        });
    };
    while (nest.back()->body.size() == 1) {
        const Stmt& inner = nest.back()->body[0];
        if (inner.kind != StmtKind::For || !inner.parallel) break;
        if (!is_known(inner.value) || !is_known(inner.end) || !is_known(inner.step)) break;
        nest.push_back(&inner);
    }
    return nest;
}

std::string why_not_independent(ir::Kernel& kernel, const Stmt& loop) {
    Body body;
    collect(kernel, loop.body, body);
    const auto name = [&](ir::SymbolId s) { return kernel.symbols[s].name; };
    if (body.has_arg_reduce) return "it keeps the best value and its index";
    for (const ir::SymbolId s : body.assigned) {
        if (body.declared.count(s) == 0) return fmt::format("it assigns '{}'", name(s));
    }
    for (const ir::SymbolId s : body.reduced) {
        if (body.declared.count(s) == 0) return fmt::format("it reduces '{}'", name(s));
    }
    if (loop.parallel) return {};
    std::map<ir::BufferId, std::vector<const Access*>> uses;
    std::set<ir::BufferId> written;
    for (const Access& access : body.accesses) {
        if (body.allocated.count(access.buffer) != 0) continue;
        uses[access.buffer].push_back(&access);
        if (access.is_store) written.insert(access.buffer);
    }
    for (const ir::BufferId buffer : written) {
        const std::vector<const Access*>& all = uses[buffer];
        bool is_told = false;
        for (std::size_t p = 0; p < all[0]->index.size() && !is_told; ++p) {
            const ExprId first = ir::simplify(kernel, all[0]->index[p]);
            const auto step = step_of(kernel, first, loop.symbol);
            if (!step || *step == 0 || is_inner(kernel, first, body, loop.symbol)) continue;
            is_told = true;
            for (const Access* access : all) {
                is_told = is_told && ir::simplify(kernel, access->index[p]) == first;
            }
        }
        if (!is_told) {
            return fmt::format("two iterations may use the same element of '{}'",
                               kernel.buffers[buffer].name);
        }
    }
    return {};
}

std::string why_not_lanes(ir::Kernel& kernel, const Stmt& loop) {
    Body body;
    collect(kernel, loop.body, body);
    if (!body.allocated.empty()) return "each iteration has an array of its own";
    if (body.has_barrier) return "a barrier orders its iterations";
    if (exists(loop.step) && !kernel.is_constant(loop.step)) return "its step is not a number";
    for (const Stmt* inner : body.loops) {
        for (const ExprId bound : {inner->value, inner->end, inner->step}) {
            if (exists(bound) && is_inner(kernel, bound, body, ir::kNone)) {
                return "an inner loop's bounds differ between iterations";
            }
            if (exists(bound) && ir::depends_on(kernel, bound, loop.symbol)) {
                return "an inner loop's bounds depend on it";
            }
        }
    }
    if (loop.reduces.empty()) return why_not_independent(kernel, loop);

    // A reduction: nothing but lets, conditions and contributions.
    const std::function<std::string(const std::vector<Stmt>&)> only_reduces =
        [&](const std::vector<Stmt>& block) -> std::string {
        for (const Stmt& s : block) {
            switch (s.kind) {
                case StmtKind::Let:
                case StmtKind::Check:
                    break;
                case StmtKind::If:
                    for (const auto* inner : {&s.body, &s.otherwise}) {
                        if (std::string why = only_reduces(*inner); !why.empty()) return why;
                    }
                    break;
                case StmtKind::Accumulate:
                    if (std::find(loop.reduces.begin(), loop.reduces.end(), s.symbol) ==
                        loop.reduces.end()) {
                        return "it reduces what another loop began";
                    }
                    break;
                default:
                    return "it does more than reduce";
            }
        }
        return {};
    };
    return only_reduces(loop.body);
}

bool holds_lanes(const Tiling& tiling, std::span<const Stmt> block) {
    return std::ranges::any_of(block, [&](const Stmt& s) {
        const bool is_in_lanes = s.kind == StmtKind::For && tiling.has(s.symbol, Level::Vector);
        return is_in_lanes || holds_lanes(tiling, s.body) || holds_lanes(tiling, s.otherwise);
    });
}

int rows_of(const Tiling& tiling, std::span<const Stmt> block) {
    int rows = 1;
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::For) rows = std::max(rows, tiling.factor(s.symbol, Level::Rows));
        rows = std::max({rows, rows_of(tiling, s.body), rows_of(tiling, s.otherwise)});
    }
    return rows;
}

std::string why_points_meet(ir::Kernel& kernel, const Stmt& outermost) {
    std::vector<const Stmt*> nest{&outermost};
    while (nest.back()->body.size() == 1 && nest.back()->body[0].kind == StmtKind::For &&
           nest.back()->body[0].parallel) {
        nest.push_back(&nest.back()->body[0]);
    }
    Body body;
    collect(kernel, nest.back()->body, body);
    std::set<ir::BufferId> written;
    for (const Access& access : body.accesses) {
        if (access.is_store && body.allocated.count(access.buffer) == 0) {
            written.insert(access.buffer);
        }
    }
    std::map<ir::BufferId, std::vector<Index>> uses;
    for (const Access& access : body.accesses) {
        if (written.count(access.buffer) != 0) uses[access.buffer].push_back(access.index);
    }
    std::vector<ir::LoopRange> inner;
    for (const Stmt* loop : body.loops) {
        inner.push_back({loop->symbol, loop->value, loop->end, loop->step});
    }
    const ir::RangeOf ranges = ir::ranges_of(kernel, inner);
    for (const auto& [buffer, indices] : uses) {
        for (const Stmt* loop : nest) {
            bool is_told = false;
            for (std::size_t p = 0; p < indices[0].size() && !is_told; ++p) {
                is_told = tells_apart(kernel, indices, p, *loop, nest, inner, ranges);
            }
            if (!is_told) {
                return fmt::format("points of '{}' that may use the same element of '{}'",
                                   kernel.symbols[loop->symbol].name, kernel.buffers[buffer].name);
            }
        }
    }
    return {};
}

bool has_effects(const ir::Kernel& kernel, ExprId id) {
    return std::ranges::any_of(ir::reachable(kernel, id), [&](ExprId node) {
        return kernel[node].kind == ExprKind::Load || ir::can_fail(kernel, kernel[node]);
    });
}

}  // namespace quern::schedule
