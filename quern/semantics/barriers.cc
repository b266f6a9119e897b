#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "quern/semantics/lowering.h"

// Barriers: that all lanes of a work-group reach them, and that they stand between the uses of a
// shared variable by different lanes. The inner loops of one point are what its lanes share out.

namespace quern::semantics {

using ir::ExprKind;
using ir::StmtKind;

namespace {

/// A loop around what is looked at, and its ends as they are where it begins.
struct OpenLoop {
    const ir::Stmt* loop = nullptr;
    ExprId begin = ir::kNoExpr;
    ExprId end = ir::kNoExpr;
};

/// One use of a shared variable since the last barrier.
struct SharedUse {
    BufferId buffer = 0;
    bool writes = false;

    /// As it is written, and with the variables of the iteration that it belongs to. Both have the
    /// values of lets in place of their names, and versions in place of vars.
    std::vector<ExprId> written;
    std::vector<ExprId> index;

    /// The innermost loop around it, whose iterations are the lanes'. None outside of all.
    OpenLoop lanes;
    Span span;
};

/// Those that statements of a block set, blocks inside included.
void vars_set_in(const std::vector<ir::Stmt>& block, std::set<SymbolId>& found) {
    for (const ir::Stmt& s : block) {
        const bool is_set = s.kind == StmtKind::Var || s.kind == StmtKind::Assign ||
                            s.kind == StmtKind::Accumulate || s.kind == StmtKind::ArgReduce;
        if (is_set) found.insert(s.symbol);
        if (s.kind == StmtKind::ArgReduce) found.insert(s.index_symbol);
        vars_set_in(s.body, found);
        vars_set_in(s.otherwise, found);
    }
}

bool holds_barrier(const std::vector<ir::Stmt>& block) {
    return std::ranges::any_of(block, [](const ir::Stmt& s) {
        return s.kind == StmtKind::Barrier || holds_barrier(s.body) || holds_barrier(s.otherwise);
    });
}

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
        ir::for_each_expr(s, [&](ExprId e) { read(e); });
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
                    const std::vector<ExprId> index = canonical(s.indices);
                    use({s.buffer, true, index, index, lanes(), s.span});
                }
                break;
            case StmtKind::Let:
                lets_[s.symbol] = canonical(s.value);
                break;
            case StmtKind::Var:
            case StmtKind::Assign:
            case StmtKind::Accumulate:
                set_anew(s, Place::End, s.symbol);
                break;
            case StmtKind::ArgReduce:
                set_anew(s, Place::End, s.symbol);
                set_anew(s, Place::End, s.index_symbol);
                break;
            case StmtKind::If: {
                const bool some = diverges || !uniform(s.value);
                const std::vector<SharedUse> before = uses_;
                const std::map<SymbolId, ExprId> versions = versions_;
                block(s.body, some);
                std::vector<SharedUse> after = uses_;
                uses_ = before;
                versions_ = versions;
                block(s.otherwise, some);
                for (SharedUse& use : after) remember(std::move(use));
                set_anew(s, Place::End, s.body);
                set_anew(s, Place::End, s.otherwise);
                break;
            }
            case StmtKind::For: {
                // Twice, so that what the end of an iteration leaves meets the next one's
                // beginning.
                const bool some = diverges || !uniform(s.value) || !uniform(s.end);
                std::vector<SharedUse> before;
                if (!some && holds_barrier(s.body) && may_run_no_iteration(s)) before = uses_;
                loops_.push_back({&s, canonical(s.value), canonical(s.end)});
                set_anew(s, Place::Begin, s.body);
                block(s.body, some);
                if (!s.parallel) {
                    at_earlier_iteration(s);
                    set_anew(s, Place::Begin, s.body);
                    block(s.body, some);
                }
                loops_.pop_back();
                set_anew(s, Place::End, s.body);
                for (SharedUse& use : before) remember(std::move(use));
                break;
            }
            default:
                break;
        }
    }

    OpenLoop lanes() const {
        return loops_.empty() || loops_.back().loop->parallel ? OpenLoop{} : loops_.back();
    }

    /// Whether a loop may have none because of what other loops and data are. One whose ends are
    /// dims is taken to run.
    bool may_run_no_iteration(const ir::Stmt& loop) {
        const ExprId begin = canonical(loop.value), end = canonical(loop.end);
        const ExprId after = kernel_.binary(ir::BinaryOp::Add, begin, kernel_.integer(1));
        if (ir::proves_at_least(kernel_, end, after, ranges_)) return false;
        const auto is_of_launch = [&](ExprId id) {
            return std::ranges::all_of(ir::reachable(kernel_, id), [&](ExprId each) {
                const ExprKind kind = kernel_[each].kind;
                return kind != ExprKind::Symbol && kind != ExprKind::Load;
            });
        };
        const bool is_known = kernel_.is_constant(begin) && kernel_.is_constant(end);
        return is_known || !is_of_launch(begin) || !is_of_launch(end);
    }

    /// From here on, vars that statements set have other values than before: the same whenever this
    /// is looked at again.
    enum class Place : std::uint8_t { Begin, End };
    void set_anew(const ir::Stmt& at, Place place, const std::vector<ir::Stmt>& block) {
        std::set<SymbolId> vars;
        vars_set_in(block, vars);
        for (const SymbolId var : vars) set_anew(at, place, var);
    }
    void set_anew(const ir::Stmt& at, Place place, SymbolId var) {
        const auto [made, is_new] = made_.emplace(std::tuple(&at, place, var), ir::kNone);
        if (is_new) {
            made->second = kernel_.add_symbol(ir::SymbolKind::Loop, kernel_.symbols[var].dtype,
                                              "version", at.span);
            made_in_[made->second] = lanes().loop;
        }
        versions_[var] = kernel_.symbol(made->second);
    }

    /// The versions that a statement makes, those inside included.
    void versions_of(const ir::Stmt& s, std::set<SymbolId>& found) const {
        const auto first = made_.lower_bound(std::tuple(&s, Place::Begin, SymbolId(0)));
        for (auto made = first; made != made_.end() && std::get<0>(made->first) == &s; ++made) {
            found.insert(made->second);
        }
        for (const auto* block : {&s.body, &s.otherwise}) {
            for (const ir::Stmt& inner : *block) versions_of(inner, found);
        }
    }

    /// With each symbol replaced for which `replacement` has another expression, and one node for
    /// all loads of one element of an operand. Those of other arrays may differ from each other.
    template <class Replacement>
    ExprId replaced(ExprId id, const Replacement& replacement) {
        return ir::rewrite(kernel_, id, [&](ExprId each) {
            const ir::Expr e = kernel_[each];
            if (e.kind == ExprKind::Symbol) return replacement(e);
            if (e.kind != ExprKind::Load) return ir::kNoExpr;
            std::vector<ExprId> index;
            for (int p = 0; p < e.count; ++p) {
                index.push_back(replaced(kernel_.index_of(e, p), replacement));
            }
            const bool is_of_operand = kernel_.buffers[e.a].kind == ir::BufferKind::Operand;
            const auto [load, is_new] = loads_.emplace(
                std::tuple(e.a, is_of_operand ? ir::kNoExpr : each, index), ir::kNoExpr);
            if (is_new) load->second = kernel_.load(e.a, index, e.span);
            return load->second;
        });
    }

    /// With the values of lets in place of their names, and the present versions of vars.
    ExprId canonical(ExprId id) {
        return replaced(id, [&](const ir::Expr& symbol) {
            if (const auto let = lets_.find(symbol.a); let != lets_.end()) return let->second;
            const auto version = versions_.find(symbol.a);
            return version == versions_.end() ? ir::kNoExpr : version->second;
        });
    }

    std::vector<ExprId> canonical(const std::vector<ExprId>& list) {
        std::vector<ExprId> result;
        for (const ExprId id : list) result.push_back(canonical(id));
        return result;
    }

    void read(ExprId id) {
        for (const ExprId each : ir::reachable(kernel_, id)) {
            const ir::Expr e = kernel_[each];
            const bool is_shared =
                e.kind == ExprKind::Load && kernel_.buffers[e.a].kind == ir::BufferKind::Shared;
            if (!is_shared) continue;
            SharedUse load{e.a, false, {}, {}, lanes(), e.span};
            for (int p = 0; p < e.count; ++p) {
                load.index.push_back(canonical(kernel_.index_of(e, p)));
            }
            load.written = load.index;
            use(std::move(load));
        }
    }

    /// Lanes that are done with an iteration go on with the next one, so that what they did is at
    /// another value of the loop's variable. The loop that they share out has no order.
    void at_earlier_iteration(const ir::Stmt& loop) {
        if (!earlier_.contains(loop.symbol)) {
            earlier_[loop.symbol] = kernel_.symbol(
                kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, "earlier", loop.span));
        }
        const ExprId earlier = earlier_[loop.symbol];
        std::set<SymbolId> versions;
        versions_of(loop, versions);
        std::map<SymbolId, ExprId> before;
        const auto at_earlier = [&](const ir::Expr& symbol) {
            if (symbol.a == loop.symbol) return earlier;
            if (!versions.contains(symbol.a)) return ir::kNoExpr;
            const auto [other, is_new] = before.emplace(symbol.a, ir::kNoExpr);
            if (is_new) {
                const SymbolId made = kernel_.add_symbol(ir::SymbolKind::Loop, symbol.dtype,
                                                         "earlier version", loop.span);
                made_in_[made] = made_in_.at(symbol.a);
                other->second = kernel_.symbol(made);
            }
            return other->second;
        };
        for (SharedUse& use : uses_) {
            if (use.lanes.loop == &loop) continue;
            for (ExprId& index : use.index) index = replaced(index, at_earlier);
        }
    }

    /// Whether the index tells the lanes of a loop apart whatever the loops around it do: their
    /// part is a multiple of all that the lanes' part can be, or the other way round.
    bool separates(ExprId index, const OpenLoop& open) {
        const ir::Stmt& lanes = *open.loop;
        if (!kernel_.is_constant(open.begin, 0) || !kernel_.is_constant(lanes.step, 1))
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
        const ExprId reach = kernel_.binary(ir::BinaryOp::Mul, stride, open.end);
        if (exists(ir::exact_quotient(kernel_, others, reach))) return true;
        if (kernel_.is_constant(reach)) {
            std::int64_t divisor = 0;
            for (const ir::Term& term : rest.terms) divisor = std::gcd(divisor, term.coefficient);
            if (divisor > kernel_.integer_value(reach) - kernel_.integer_value(stride)) return true;
        }
        return std::ranges::any_of(loops_, [&](const OpenLoop& around) {
            return kernel_.symbol(around.loop->symbol) == others &&
                   kernel_.is_constant(around.begin, 0) &&
                   ir::proves_at_least(kernel_, stride, around.end);
        });
    }

    /// What an index is to the lanes of a loop: a multiple of the loop's variable and a rest that
    /// is the same for all. None if it is anything else.
    struct OfLanes {
        std::int64_t coefficient = 0;
        ExprId rest = ir::kNoExpr;
    };
    std::optional<OfLanes> of_lanes(ExprId index, const ir::Stmt* lanes) {
        OfLanes result;
        ir::Affine rest = ir::affine_of(kernel_, index);
        const ExprId lane = lanes ? kernel_.symbol(lanes->symbol) : ir::kNoExpr;
        for (std::size_t t = 0; lanes && t < rest.terms.size(); ++t) {
            const ir::Term term = rest.terms[t];
            if (term.atom == lane) {
                result.coefficient = term.coefficient;
                rest.terms.erase(rest.terms.begin() + std::ptrdiff_t(t--));
            } else if (differs_between(term.atom, *lanes)) {
                return std::nullopt;
            }
        }
        result.rest = ir::from_affine(kernel_, rest);
        return result;
    }

    /// Whether a lane of the loop may have another value of it than the next.
    bool differs_between(ExprId id, const ir::Stmt& lanes) const {
        return std::ranges::any_of(ir::reachable(kernel_, id), [&](ExprId each) {
            const ir::Expr& e = kernel_[each];
            if (e.kind == ExprKind::Load) {
                return kernel_.buffers[e.a].kind != ir::BufferKind::Operand;
            }
            if (e.kind != ExprKind::Symbol) return false;
            const auto made = made_in_.find(e.a);
            return e.a == lanes.symbol || (made != made_in_.end() && made->second == &lanes);
        });
    }

    /// Whether the first of two int64 expressions is above the other.
    bool is_above(ExprId a, ExprId b) {
        return ir::proves_at_least(
            kernel_, a, kernel_.binary(ir::BinaryOp::Add, b, kernel_.integer(1)), ranges_);
    }

    ExprId times(ExprId id, std::int64_t factor) {
        return kernel_.binary(ir::BinaryOp::Mul, id, kernel_.integer(factor));
    }

    /// Whether a number, the same for both, is farther from 0 than two lanes' parts of an index are
    /// from each other, or between them.
    bool is_out_of_reach(ExprId gap, std::int64_t coefficient, const OpenLoop& lanes) {
        constexpr std::int64_t kMost = std::int64_t{1} << 31;
        if (coefficient > kMost || coefficient < -kMost) return false;
        const std::int64_t factor = std::abs(coefficient);
        const ExprId last = kernel_.binary(
            ir::BinaryOp::Sub, kernel_.binary(ir::BinaryOp::Sub, lanes.end, lanes.begin),
            kernel_.integer(1));
        const ExprId reach = times(last, factor);
        if (is_above(gap, reach) || is_above(times(gap, -1), reach)) return true;
        if (!kernel_.is_constant(gap)) return false;
        const ExprId step = lanes.loop->step;
        const bool is_small = kernel_.is_constant(step) && kernel_.integer_value(step) <= kMost;
        const std::int64_t stride = factor * (is_small ? kernel_.integer_value(step) : 1);
        return kernel_.integer_value(gap) % stride != 0;
    }

    /// The least or the largest of what lanes make of it.
    ExprId end_of(const OfLanes& index, const OpenLoop& lanes, bool is_largest) {
        if (index.coefficient == 0) return index.rest;
        const ExprId last = kernel_.binary(ir::BinaryOp::Sub, lanes.end, kernel_.integer(1));
        const ExprId lane = (index.coefficient > 0) == is_largest ? last : lanes.begin;
        return kernel_.binary(ir::BinaryOp::Add, times(lane, index.coefficient), index.rest);
    }

    /// Whether an axis is never the same for two lanes that differ.
    bool are_apart(const SharedUse& a, const SharedUse& b, std::size_t p) {
        const ir::Stmt* const of_a = a.lanes.loop;
        const ir::Stmt* const of_b = b.lanes.loop;
        if (of_a == of_b && of_a && a.written[p] == b.written[p] && a.index[p] != b.index[p] &&
            separates(b.written[p], a.lanes)) {
            return true;
        }
        const auto index_a = of_lanes(a.index[p], of_a), index_b = of_lanes(b.index[p], of_b);
        if (!index_a || !index_b) return false;
        const ExprId gap =
            ir::simplify(kernel_, kernel_.binary(ir::BinaryOp::Sub, index_b->rest, index_a->rest));
        if (index_a->coefficient == 0 && index_b->coefficient == 0) {
            return is_never_zero(gap);
        }
        if (of_a == of_b) {
            if (index_a->coefficient != index_b->coefficient) return false;
            return kernel_.is_constant(gap, 0) ||
                   is_out_of_reach(gap, index_a->coefficient, a.lanes);
        }
        // In two loops that stand in each other, one's variable is another number for each use.
        const bool are_nested = (of_b && differs_between(a.index[p], *of_b)) ||
                                (of_a && differs_between(b.index[p], *of_a));
        return !are_nested &&
               (is_above(end_of(*index_b, b.lanes, false), end_of(*index_a, a.lanes, true)) ||
                is_above(end_of(*index_a, a.lanes, false), end_of(*index_b, b.lanes, true)));
    }

    /// A constant other than 0, or how far an iteration is from an earlier one.
    bool is_never_zero(ExprId gap) {
        if (kernel_.is_constant(gap)) return kernel_.integer_value(gap) != 0;
        const ir::Affine form = ir::affine_of(kernel_, gap);
        if (form.constant != 0 || form.terms.size() != 2) return false;
        const ir::Term& one = form.terms[0];
        const ir::Term& other = form.terms[1];
        return one.coefficient == -other.coefficient &&
               std::ranges::any_of(earlier_, [&](const auto& pair) {
                   const ExprId now = kernel_.symbol(pair.first);
                   return (one.atom == now && other.atom == pair.second) ||
                          (other.atom == now && one.atom == pair.second);
               });
    }

    /// Whether lanes that differ may touch one element.
    bool meet(const SharedUse& a, const SharedUse& b) {
        for (std::size_t p = 0; p < a.index.size(); ++p) {
            if (are_apart(a, b, p)) return false;
        }
        // What every lane does at one element is its own, and so at that of an index which is the
        // same for all lanes, whatever it is.
        if (a.lanes.loop != b.lanes.loop) return true;
        const auto is_of_all = [&](ExprId index) {
            return !a.lanes.loop || !differs_between(index, *a.lanes.loop);
        };
        for (std::size_t p = 0; p < a.index.size(); ++p) {
            if (a.index[p] == b.index[p]) continue;
            if (!is_of_all(a.index[p]) || !is_of_all(b.index[p])) return true;
        }
        return false;
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
                   other.lanes.loop == now.lanes.loop && other.index == now.index;
        });
        if (!known) uses_.push_back(std::move(now));
    }

    ir::Kernel& kernel_;
    lang::Diagnostics& diagnostics_;
    std::vector<SharedUse> uses_;
    std::vector<OpenLoop> loops_;
    std::set<BufferId> reported_;

    /// Of a loop's variable, any of its values before the present one.
    std::map<SymbolId, ExprId> earlier_;

    /// The present value of a var, and the lanes whose own it is.
    std::map<SymbolId, ExprId> versions_;
    std::map<SymbolId, const ir::Stmt*> made_in_;
    std::map<std::tuple<const ir::Stmt*, Place, SymbolId>, SymbolId> made_;
    std::map<SymbolId, ExprId> lets_;
    std::map<std::tuple<BufferId, ExprId, std::vector<ExprId>>, ExprId> loads_;
    std::size_t symbols_;

    /// Loops that begin at a constant.
    ir::RangeOf ranges_ = [this](const ir::Expr& leaf) -> std::optional<ir::Range> {
        if (leaf.kind != ExprKind::Symbol) return std::nullopt;
        for (const OpenLoop& open : loops_) {
            if (open.loop->symbol != leaf.a || !kernel_.is_constant(open.begin)) continue;
            return ir::Range{kernel_.integer_value(open.begin), ir::kInfinity};
        }
        return std::nullopt;
    };
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
