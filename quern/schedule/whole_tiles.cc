#include <algorithm>
#include <map>
#include <optional>

#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"

namespace quern::schedule {
namespace {

using ir::BinaryOp;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using ir::SymbolKind;

using Block = std::vector<Stmt>;

/// What an expression is made of may be dropped with a factor of 0, or by a minimum. A quotient
/// that may fail has to stay.
ExprId simplified(ir::Kernel& kernel, ExprId id) {
    const bool may_fail = std::ranges::any_of(
        ir::reachable(kernel, id), [&](ExprId node) { return ir::can_fail(kernel, kernel[node]); });
    return may_fail ? id : ir::simplify(kernel, id);
}

/// min(c, E - v) -> c for the loops v around.
class Whole {
public:
    Whole(ir::Kernel& kernel, const ir::Facts& facts) : k_(kernel), facts_(facts) {}

    void block(Block& statements) {
        for (Stmt& s : statements) {
            ir::for_each_expr(s, [&](ExprId& id) {
                const ExprId whole =
                    ir::rewrite(k_, id, [&](ExprId node) { return without_minimum(node); });
                if (whole != id) id = simplified(k_, whole);
            });
            const bool is_loop = s.kind == StmtKind::For;
            if (is_loop) loops_.push_back({s.symbol, s.value, s.end, s.step});
            block(s.body);
            block(s.otherwise);
            if (is_loop) loops_.pop_back();
        }
    }

private:
    ExprId without_minimum(ExprId id) {
        const ir::Expr e = k_[id];
        if (e.kind != ExprKind::Binary || static_cast<BinaryOp>(e.op) != BinaryOp::Min ||
            e.dtype != DType::Int64) {
            return ir::kNoExpr;
        }
        for (const auto& [limit, rest] : {std::pair{e.a, e.b}, std::pair{e.b, e.a}}) {
            if (k_.is_constant(ExprId{limit}) && is_at_least(ExprId{rest}, ExprId{limit})) {
                return ExprId{limit};
            }
        }
        return ir::kNoExpr;
    }

    /// Whether `rest` is E - v, where v goes up to E in whole steps of at least `limit`.
    bool is_at_least(ExprId rest, ExprId limit) {
        return std::ranges::any_of(loops_, [&](const ir::LoopRange& loop) {
            // A loop goes up to what its end was when it began.
            if (!exists(loop.step) || !k_.is_constant(loop.step)) return false;
            if (ir::reads_var(k_, loop.end)) return false;
            const std::int64_t step = k_.integer_value(loop.step);
            if (step < k_.integer_value(limit)) return false;
            const auto minus = [&](ExprId a, ExprId b) {
                return ir::simplify(k_, k_.binary(BinaryOp::Sub, a, b));
            };
            if (minus(rest, minus(loop.end, k_.symbol(loop.symbol))) != k_.integer(0)) return false;
            return divisor_of(k_, facts_, minus(loop.end, loop.begin)) % step == 0;
        });
    }

    ir::Kernel& k_;
    const ir::Facts& facts_;
    std::vector<ir::LoopRange> loops_;
};

/// Integers that are one number wherever they are assigned.
class Constants {
public:
    explicit Constants(ir::Kernel& kernel) : k_(kernel) {}

    void run() {
        collect(k_.body);
        // A var is taken for its first value until something else is assigned to it.
        while (!holds(k_.body)) {
        }
        if (!values_.empty()) replace(k_.body);
    }

private:
    static bool is_declaration(const Stmt& s) {
        return s.kind == StmtKind::Let || s.kind == StmtKind::Var;
    }

    void collect(const Block& block) {
        for (const Stmt& s : block) {
            if (is_declaration(s) && k_.symbols[s.symbol].dtype == DType::Int64) {
                const ExprId value = with_values(s.value);
                if (k_.is_constant(value)) values_.emplace(s.symbol, value);
            }
            if (s.kind == StmtKind::Accumulate || s.kind == StmtKind::ArgReduce) {
                values_.erase(s.symbol);
                values_.erase(s.index_symbol);
            }
            collect(s.body);
            collect(s.otherwise);
        }
    }

    /// False if a value turned out to be none; it is taken out.
    bool holds(const Block& block) {
        for (const Stmt& s : block) {
            const bool assigns = is_declaration(s) || s.kind == StmtKind::Assign;
            const auto found = assigns ? values_.find(s.symbol) : values_.end();
            if (found != values_.end() && with_values(s.value) != found->second) {
                values_.erase(found);
                return false;
            }
            if (!holds(s.body) || !holds(s.otherwise)) return false;
        }
        return true;
    }

    ExprId replaced(ExprId id) {
        return ir::rewrite(k_, id, [&](ExprId node) {
            const ir::Expr& e = k_[node];
            const auto found = e.kind == ExprKind::Symbol ? values_.find(e.a) : values_.end();
            return found == values_.end() ? ir::kNoExpr : found->second;
        });
    }

    ExprId with_values(ExprId id) { return simplified(k_, replaced(id)); }

    void replace(Block& block) {
        std::erase_if(block, [&](const Stmt& s) {
            const bool assigns = is_declaration(s) || s.kind == StmtKind::Assign;
            return assigns && values_.count(s.symbol) != 0;
        });
        for (Stmt& s : block) {
            ir::for_each_expr(s, [&](ExprId& id) {
                const ExprId known = replaced(id);
                if (known != id) id = simplified(k_, known);
            });
            replace(s.body);
            replace(s.otherwise);
        }
    }

    ir::Kernel& k_;
    std::map<ir::SymbolId, ExprId> values_;
};

}  // namespace

void whole_tiles(ir::Kernel& kernel, const ir::Facts& facts) {
    Block body = std::move(kernel.body);
    Whole(kernel, facts).block(body);
    kernel.body = std::move(body);
    Constants(kernel).run();
}

}  // namespace quern::schedule
