#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quern/semantics/lowering.h"

// Barriers: that all lanes of a work-group reach them, and that they stand between the uses of a
// shared variable by different lanes. The inner loops of one point are what its lanes share out.

namespace quern::semantics {

using ir::ExprKind;
using ir::StmtKind;

namespace {

/// One use of a shared variable since the last barrier.
struct SharedUse {
    BufferId buffer = 0;
    bool writes = false;

    /// As it is written, and with the variables of the iteration that it belongs to.
    std::vector<ExprId> written;
    std::vector<ExprId> index;
    const ir::Stmt* loop = nullptr;
    Span span;
};

class Barriers {
public:
    Barriers(ir::Kernel& kernel, lang::Diagnostics& diagnostics)
        : kernel_(kernel), diagnostics_(diagnostics), symbols_(kernel.symbols.size()) {}

    void block(const std::vector<ir::Stmt>& body, bool diverges) {
        for (const ir::Stmt& s : body) statement(s, diverges);
    }

    ~Barriers() { kernel_.symbols.resize(symbols_); }
    Barriers(const Barriers&) = delete;
    Barriers& operator=(const Barriers&) = delete;

private:
    /// The same for every lane: no element and no var decides it.
    bool uniform(ExprId id) const {
        if (!exists(id)) return true;
        return std::ranges::all_of(ir::reachable(kernel_, id), [&](ExprId each) {
            const ir::Expr& e = kernel_[each];
            const bool is_loop =
                e.kind == ExprKind::Symbol && kernel_.symbols[e.a].kind == ir::SymbolKind::Loop;
            return e.kind != ExprKind::Load && (e.kind != ExprKind::Symbol || is_loop);
        });
    }

    void statement(const ir::Stmt& s, bool diverges) {
        for (const ExprId e : {s.value, s.end, s.step, s.index}) read(e);
        for (const ExprId e : s.indices) read(e);
        switch (s.kind) {
            case StmtKind::Barrier:
                if (diverges) {
                    diagnostics_
                        .add(Code::E0512, s.span,
                             "a barrier that only some of the work-group may reach")
                        .help(
                            "move barrier() to where no element and no var decides whether it is "
                            "reached");
                }
                uses_.clear();
                break;
            case StmtKind::Store:
                if (kernel_.buffers[s.buffer].kind == ir::BufferKind::Shared) {
                    use({s.buffer, true, s.indices, s.indices, innermost(), s.span});
                }
                break;
            case StmtKind::If: {
                const bool some = diverges || !uniform(s.value);
                const std::vector<SharedUse> before = uses_;
                block(s.body, some);
                std::vector<SharedUse> after = uses_;
                uses_ = before;
                block(s.otherwise, some);
                for (SharedUse& use : after) remember(std::move(use));
                break;
            }
            case StmtKind::For: {
                // Twice, so that what the end of an iteration leaves meets the next one's
                // beginning.
                const bool some = diverges || !uniform(s.value) || !uniform(s.end);
                loops_.push_back(&s);
                block(s.body, some);
                if (!s.parallel) {
                    at_earlier_iteration(s);
                    block(s.body, some);
                }
                loops_.pop_back();
                break;
            }
            default:
                break;
        }
    }

    const ir::Stmt* innermost() const {
        return loops_.empty() || loops_.back()->parallel ? nullptr : loops_.back();
    }

    void read(ExprId id) {
        if (!exists(id)) return;
        for (const ExprId each : ir::reachable(kernel_, id)) {
            const ir::Expr e = kernel_[each];
            const bool is_shared =
                e.kind == ExprKind::Load && kernel_.buffers[e.a].kind == ir::BufferKind::Shared;
            if (!is_shared) continue;
            SharedUse load{e.a, false, {}, {}, innermost(), e.span};
            for (int p = 0; p < e.count; ++p) load.index.push_back(kernel_.index_of(e, p));
            load.written = load.index;
            use(std::move(load));
        }
    }

    /// Lanes that are done with an iteration go on with the next one, so that what they did is at
    /// another value of the loop's variable. The loop that they share out has no order.
    void at_earlier_iteration(const ir::Stmt& loop) {
        auto [earlier, fresh] = earlier_.emplace(loop.symbol, ir::kNoExpr);
        if (fresh) {
            earlier->second = kernel_.symbol(
                kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, "earlier", loop.span));
        }
        for (SharedUse& use : uses_) {
            if (use.loop == &loop) continue;
            for (ExprId& index : use.index) {
                if (!ir::depends_on(kernel_, index, loop.symbol)) continue;
                index = ir::substitute(kernel_, index, loop.symbol, earlier->second);
            }
        }
    }

    /// Whether the index tells the lanes of a loop apart whatever the loops around it do: their
    /// part is a multiple of all that the lanes' part can be, or the other way round.
    bool separates(ExprId index, const ir::Stmt& lanes) {
        if (!kernel_.is_constant(lanes.value, 0) || !kernel_.is_constant(lanes.step, 1))
            return false;
        const ExprId lane = kernel_.symbol(lanes.symbol);
        ir::Affine rest = ir::affine_of(kernel_, index);
        rest.constant = 0;
        ExprId stride = ir::kNoExpr;
        for (std::size_t t = 0; t < rest.terms.size(); ++t) {
            const ExprId atom = rest.terms[t].atom;
            if (!ir::depends_on(kernel_, atom, lanes.symbol)) continue;
            const ExprId factor = ir::exact_quotient(kernel_, atom, lane);
            if (exists(stride) || !exists(factor) || rest.terms[t].coefficient < 1 ||
                ir::depends_on(kernel_, factor, lanes.symbol)) {
                return false;
            }
            stride =
                ir::simplify(kernel_, kernel_.binary(ir::BinaryOp::Mul, factor,
                                                     kernel_.integer(rest.terms[t].coefficient)));
            rest.terms.erase(rest.terms.begin() + std::ptrdiff_t(t--));
        }
        if (!exists(stride)) return false;
        const ExprId others = ir::from_affine(kernel_, rest);
        const ExprId reach = kernel_.binary(ir::BinaryOp::Mul, stride, lanes.end);
        if (exists(ir::exact_quotient(kernel_, others, reach))) return true;
        if (kernel_.is_constant(reach)) {
            std::int64_t divisor = 0;
            for (const ir::Term& term : rest.terms) divisor = std::gcd(divisor, term.coefficient);
            if (divisor > kernel_.integer_value(reach) - kernel_.integer_value(stride)) return true;
        }
        for (const ir::Stmt* loop : loops_) {
            if (kernel_.symbol(loop->symbol) == others && kernel_.is_constant(loop->value, 0) &&
                ir::proves_at_least(kernel_, stride, loop->end)) {
                return true;
            }
        }
        return false;
    }

    /// Whether lanes that differ may touch one element.
    bool meet(const SharedUse& a, const SharedUse& b) {
        const bool together = a.loop == b.loop;
        for (std::size_t p = 0; p < a.index.size(); ++p) {
            if (together && a.loop && a.written[p] == b.written[p] && a.index[p] != b.index[p] &&
                separates(b.written[p], *a.loop)) {
                return false;
            }
            const ir::Affine gap =
                ir::affine_of(kernel_, kernel_.binary(ir::BinaryOp::Sub, b.index[p], a.index[p]));
            if (!gap.is_constant()) continue;
            std::int64_t coefficient = 0;
            if (together && a.loop) {
                const ExprId lane = kernel_.symbol(a.loop->symbol);
                for (const ir::Term& term : ir::affine_of(kernel_, a.index[p]).terms) {
                    if (term.atom == lane) coefficient = term.coefficient;
                }
            } else if (!together) {
                continue;
            }
            if (gap.constant == 0 && coefficient != 0) return false;
            if (gap.constant != 0 && (coefficient == 0 || gap.constant % coefficient != 0))
                return false;
        }
        // What every lane does at one element is its own.
        return !(together && a.index == b.index);
    }

    void use(SharedUse now) {
        for (const SharedUse& then : uses_) {
            if (then.buffer != now.buffer || !(then.writes || now.writes) || !meet(then, now))
                continue;
            if (!reported_.insert(now.buffer).second) break;
            diagnostics_
                .add(Code::E0513, now.span,
                     fmt::format("shared '{}' is {} before a barrier",
                                 kernel_.buffers[now.buffer].name, now.writes ? "written" : "read"))
                .note_at(then.span, then.writes ? "it is written here" : "it is read here")
                .help("put barrier() between the two");
            break;
        }
        remember(std::move(now));
    }

    void remember(SharedUse now) {
        const bool known = std::any_of(uses_.begin(), uses_.end(), [&](const SharedUse& other) {
            return other.buffer == now.buffer && other.writes == now.writes &&
                   other.loop == now.loop && other.index == now.index;
        });
        if (!known) uses_.push_back(std::move(now));
    }

    ir::Kernel& kernel_;
    lang::Diagnostics& diagnostics_;
    std::vector<SharedUse> uses_;
    std::vector<const ir::Stmt*> loops_;
    std::set<BufferId> reported_;
    std::map<SymbolId, ExprId> earlier_;
    std::size_t symbols_;
};

}  // namespace

void Lowering::check_barriers() {
    const bool group =
        kernel_.kind == "fused" && kernel_.workgroup[0] > 0 && kernel_.workgroup[1] == 0;
    kernel_.cooperative = has_tiles_ || has_shared_ || group || !barriers_.empty();
    if (!has_tiles_ && !has_shared_ && !group) {
        for (const Span span : barriers_) {
            report(Code::W0708, span, "a barrier has no effect where one point is one lane")
                .help("it orders uses of shared variables and tiles, and there are none");
        }
    }
    if (has_shared_ || !barriers_.empty())
        Barriers(kernel_, diagnostics_).block(kernel_.body, false);
}

}  // namespace quern::semantics
