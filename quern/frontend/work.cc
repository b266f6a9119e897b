#include "quern/frontend/work.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "quern/frontend/bound.h"
#include "quern/ir/index.h"

namespace quern::frontend {
namespace {

using ir::ExprId;
using ir::StmtKind;

/// How many iterations are looked at of a loop whose work differs from one to the next, of such a
/// loop inside it, and of those inside that one.
constexpr std::int64_t kLookedAt = 256, kLookedAtInside = 32, kLookedAtDeeper = 2;

constexpr std::uint64_t kMostTrips = std::uint64_t{1} << 62;

struct Operations {
    double arithmetic = 0;
    double functions = 0;

    double all() const { return arithmetic + functions; }
    void add(const Operations& other, double times) {
        arithmetic += times * other.arithmetic;
        functions += times * other.functions;
    }
};

/// Of each loop around a place, the outermost first.
using Loops = std::vector<bool>;

/// What one pass over a block does.
struct Sum {
    /// By the loops in whose iterations it differs: in others it is done once.
    std::map<Loops, Operations> operations;

    /// Elements of operands, by the loops in whose iterations their places differ.
    std::map<std::pair<Loops, ir::BufferId>, double> reads;

    /// Of parallel loops; none if there are none.
    std::optional<double> points;

    void add_reads(const Sum& other) {
        for (const auto& [place, count] : other.reads) reads[place] += count;
    }
    void add(const Sum& other) {
        add_reads(other);
        for (const auto& [loops, done] : other.operations) operations[loops].add(done, 1);
        points = std::max(points, other.points);
    }
    double all() const {
        double sum = 0;
        for (const auto& entry : operations) sum += entry.second.all();
        return sum;
    }
};

class Counter {
public:
    Counter(const ir::Kernel& kernel, const ir::Environment& environment)
        : kernel_(kernel), environment_(environment) {}

    Sum block(const std::vector<ir::Stmt>& body) {
        Sum sum;
        for (const ir::Stmt& s : body) {
            expression(s.value, sum);
            expression(s.index, sum);
            ir::for_each_expr(s, [&](ExprId id) { read(id, sum); });
            switch (s.kind) {
                case StmtKind::For:
                    sum.add(loop(s));
                    break;
                case StmtKind::If:
                    sum.add(branches(s));
                    break;
                case StmtKind::Let:
                case StmtKind::Var:
                case StmtKind::Assign:
                    set(s.symbol, number(s.value));
                    break;
                case StmtKind::Accumulate:
                    sum.operations[all_around()].arithmetic += 1;
                    set(s.symbol, std::nullopt);
                    break;
                default:
                    break;
            }
        }
        return sum;
    }

    bool is_least() const { return is_least_; }

private:
    std::optional<std::int64_t> number(ExprId id) const {
        return is_integer(kernel_[id].dtype) ? ir::evaluate(kernel_, id, environment_)
                                             : std::nullopt;
    }

    void set(ir::SymbolId symbol, std::optional<std::int64_t> value) {
        if (value) {
            environment_.symbols[symbol] = *value;
        } else {
            environment_.symbols.erase(symbol);
        }
    }

    /// Where it is not known which is taken, what both give the same number keeps it, and what else
    /// they set is unknown behind them.
    Sum branches(const ir::Stmt& s) {
        const auto is_taken = ir::evaluate(kernel_, s.value, environment_);
        const auto before = environment_.symbols;
        const Sum one = block(s.body);
        const auto behind_one = std::exchange(environment_.symbols, before);
        const Sum other = block(s.otherwise);
        if (is_taken && *is_taken) environment_.symbols = behind_one;
        if (!is_taken)
            std::erase_if(environment_.symbols, [&](const auto& entry) {
                const auto found = behind_one.find(entry.first);
                return found == behind_one.end() || found->second != entry.second;
            });
        Sum more = one.all() >= other.all() ? one : other;
        more.add_reads(one.all() >= other.all() ? other : one);
        return more;
    }

    /// Integers that iterations hand to the next.
    void collect_carried(const std::vector<ir::Stmt>& body,
                         std::vector<ir::SymbolId>& carried) const {
        for (const ir::Stmt& s : body) {
            const bool is_set = s.kind == StmtKind::Assign || s.kind == StmtKind::Accumulate;
            if (is_set && is_integer(kernel_.symbols[s.symbol].dtype)) carried.push_back(s.symbol);
            collect_carried(s.body, carried);
            collect_carried(s.otherwise, carried);
        }
        for (const ir::Stmt& s : body) {
            if (s.kind == StmtKind::Var) std::erase(carried, s.symbol);
        }
    }

    std::vector<std::optional<std::int64_t>> values_of(
        const std::vector<ir::SymbolId>& symbols) const {
        std::vector<std::optional<std::int64_t>> values;
        for (const ir::SymbolId symbol : symbols) {
            const auto found = environment_.symbols.find(symbol);
            values.push_back(found == environment_.symbols.end() ? std::nullopt
                                                                 : std::optional(found->second));
        }
        return values;
    }

    void forget(const std::vector<ir::SymbolId>& symbols) {
        for (const ir::SymbolId symbol : symbols) environment_.symbols.erase(symbol);
    }

    /// How often a loop goes round.
    static std::int64_t trips_of(std::int64_t begin, std::int64_t end, std::int64_t step) {
        if (end <= begin) return 0;
        const auto by = std::uint64_t(step);
        const std::uint64_t range = std::uint64_t(end) - std::uint64_t(begin);
        return std::int64_t(std::min(range / by + (range % by != 0), kMostTrips));
    }

    Sum loop(const ir::Stmt& s) {
        const auto begin = number(s.value), end = number(s.end), step = number(s.step);
        Around around{is_nest(s.body), {s.symbol}, {}, {}};
        collect(s.body, around);
        around.places = around.symbols;
        collect_moving(s.body, around.places);
        std::vector<ir::SymbolId> carried;
        collect_carried(s.body, carried);
        around_.push_back(std::move(around));
        const bool is_known = begin && end && step;
        is_least_ |= !is_known;
        const std::int64_t by = is_known ? std::max<std::int64_t>(*step, 1) : 1;
        const std::int64_t trips = is_known ? trips_of(*begin, *end, by) : 1;
        std::vector<ir::SymbolId> changing = carried;
        changing.push_back(s.symbol);
        const bool varies = trips > 1 && bounds_use(s.body, changing);
        const std::int64_t most = looked_at_;
        if (varies) looked_at_ = most == kLookedAt ? kLookedAtInside : kLookedAtDeeper;
        std::int64_t count = varies ? std::min(trips, most) : std::min<std::int64_t>(trips, 1);
        if (count < trips) count = std::max<std::int64_t>(count / 2 * 2, 1);
        const double each = count > 0 ? double(trips) / double(count) : 0;
        Sum all;
        double points = 0;
        if (!is_known) forget(carried);
        auto last = values_of(carried);
        bool are_steady = true;
        for (std::int64_t k = 0; k < count; ++k) {
            // Both halves alike, so that what grows by the same each time is counted exactly.
            const bool is_mirrored = count < trips && count > 1 && k >= count / 2;
            const std::int64_t n = is_mirrored ? count - 1 - k : k;
            const std::int64_t at =
                n * (trips / count) + n * (trips % count) / count + trips / count / 2;
            // Where iterations are left out, what each sets anew is not known in the next.
            if (!are_steady) forget(carried);
            set(s.symbol, is_known
                              ? std::optional(*begin + by * (is_mirrored ? trips - 1 - at : at))
                              : std::nullopt);
            const Sum one = block(s.body);
            points += one.points.value_or(1) * each;
            const auto now = values_of(carried);
            const bool is_first = k == 0 && count > 1;
            are_steady &= count == trips || is_first || now == last;
            last = now;
            for (const auto& [loops, done] : one.operations) {
                Operations& sum = all.operations[loops];
                if (loops.back()) {
                    sum.add(done, each);
                } else if (done.all() > sum.all()) {
                    sum = done;
                }
            }
            for (const auto& [place, number] : one.reads) {
                double& sum = all.reads[place];
                sum = place.first.back() ? sum + each * number : std::max(sum, number);
            }
        }
        if (s.parallel) all.points = points;
        looked_at_ = most;
        around_.pop_back();
        set(s.symbol, std::nullopt);
        if (!are_steady) {
            forget(carried);
            is_least_ |= count > 1;
        }
        Sum outside;
        outside.points = all.points;
        for (const auto& [inside, done] : all.operations) {
            Loops loops = inside;
            loops.pop_back();
            outside.operations[loops].add(done, 1);
        }
        for (const auto& [inside, count] : all.reads) {
            auto place = inside;
            place.first.pop_back();
            outside.reads[place] += count;
        }
        return outside;
    }

    /// A loop: whether it is one of a nest, and what its body gives values to.
    struct Around {
        bool is_nest = false;
        std::vector<ir::SymbolId> symbols;
        std::vector<ir::BufferId> buffers;

        /// The symbols, and variables of loops inside that begin elsewhere in each iteration.
        std::vector<ir::SymbolId> places;
    };

    /// As the loops of a product are: they hold sums, and nothing is decided or named in them.
    static bool is_nest(const std::vector<ir::Stmt>& body) {
        return std::ranges::none_of(body, [](const ir::Stmt& s) {
            return s.kind == StmtKind::If || s.kind == StmtKind::Let;
        });
    }

    static void collect(const std::vector<ir::Stmt>& body, Around& around) {
        for (const ir::Stmt& s : body) {
            // The variable of a loop inside is the same in each iteration of this one.
            const bool is_value = s.kind != StmtKind::For && s.symbol != ir::kNone;
            if (is_value) around.symbols.push_back(s.symbol);
            if (s.index_symbol != ir::kNone) around.symbols.push_back(s.index_symbol);
            if (s.buffer != ir::kNone) around.buffers.push_back(s.buffer);
            collect(s.body, around);
            collect(s.otherwise, around);
        }
    }

    void collect_moving(const std::vector<ir::Stmt>& body,
                        std::vector<ir::SymbolId>& places) const {
        for (const ir::Stmt& s : body) {
            const bool moves = s.kind == StmtKind::For && uses(s.value, places);
            if (moves) places.push_back(s.symbol);
            collect_moving(s.body, places);
            collect_moving(s.otherwise, places);
        }
    }

    Loops all_around() const { return Loops(around_.size(), true); }

    /// The loops in whose iterations an expression is evaluated: all, but for those of the
    /// innermost nest in which it is the same, as a function of rows is in a product's columns.
    Loops differs_in(const ir::ExprIds& nodes) const {
        Loops loops = all_around();
        for (std::size_t l = around_.size(); l > 0 && around_[l - 1].is_nest;) {
            --l;
            loops[l] = differs_in(nodes, around_[l].symbols, around_[l].buffers);
        }
        return loops;
    }

    bool differs_in(const ir::ExprIds& nodes, const std::vector<ir::SymbolId>& symbols,
                    const std::vector<ir::BufferId>& buffers) const {
        const auto has = [](const auto& list, std::uint32_t id) {
            return std::ranges::find(list, id) != list.end();
        };
        return std::ranges::any_of(nodes, [&](ExprId node) {
            const ir::Expr& e = kernel_[node];
            return (e.kind == ir::ExprKind::Symbol && has(symbols, e.a)) ||
                   (e.kind == ir::ExprKind::Load && has(buffers, e.a));
        });
    }

    /// Each element of an operand that an expression loads. A place that is the same in all
    /// iterations of a loop is read once there.
    void read(ExprId id, Sum& sum) const {
        for (const ExprId node : ir::reachable(kernel_, id)) {
            const ir::Expr& e = kernel_[node];
            if (e.kind != ir::ExprKind::Load || e.a >= kernel_.operand_count) continue;
            Loops loops(around_.size(), false);
            for (int p = 0; p < e.count; ++p) {
                const ir::ExprIds place = ir::reachable(kernel_, kernel_.index_of(e, p));
                for (std::size_t l = 0; l < loops.size(); ++l) {
                    loops[l] = loops[l] || differs_in(place, around_[l].places, around_[l].buffers);
                }
            }
            sum.reads[{std::move(loops), e.a}] += 1;
        }
    }

    bool uses(ExprId id, const std::vector<ir::SymbolId>& symbols) const {
        return exists(id) && std::ranges::any_of(symbols, [&](ir::SymbolId symbol) {
                   return ir::depends_on(kernel_, id, symbol);
               });
    }

    /// Whether the bounds of a loop depend on these symbols, or on what is made of them.
    bool bounds_use(const std::vector<ir::Stmt>& body, std::vector<ir::SymbolId>& symbols) const {
        return std::ranges::any_of(body, [&](const ir::Stmt& s) {
            const bool is_name =
                s.kind == StmtKind::Let || s.kind == StmtKind::Var || s.kind == StmtKind::Assign;
            if (is_name && is_integer(kernel_[s.value].dtype) && uses(s.value, symbols)) {
                symbols.push_back(s.symbol);
            }
            if (s.kind == StmtKind::If && uses(s.value, symbols)) {
                collect_carried(s.body, symbols);
                collect_carried(s.otherwise, symbols);
            }
            const bool is_bound =
                s.kind == StmtKind::For && (uses(s.value, symbols) || uses(s.end, symbols));
            return is_bound || bounds_use(s.body, symbols) || bounds_use(s.otherwise, symbols);
        });
    }

    /// Each node once, but for what extents, loops and constants give: that is an index.
    void expression(ExprId id, Sum& sum) const {
        if (!exists(id)) return;
        std::vector<ExprId> nodes = {id};
        for (std::size_t n = 0; n < nodes.size(); ++n) {
            const ir::Expr& e = kernel_[nodes[n]];
            const bool may_be_index = is_integer(e.dtype) || e.dtype == DType::Bool;
            if (e.kind == ir::ExprKind::Load) continue;
            if (may_be_index && ir::evaluate(kernel_, nodes[n], environment_)) continue;
            if (e.kind == ir::ExprKind::Binary || e.kind == ir::ExprKind::Unary) {
                Operations& done = sum.operations[differs_in(ir::reachable(kernel_, nodes[n]))];
                (ir::is_function(e) ? done.functions : done.arithmetic) += 1;
            }
            ir::for_each_child(kernel_, nodes[n], [&](ExprId child) {
                if (std::ranges::find(nodes, child) == nodes.end()) nodes.push_back(child);
            });
        }
    }

    const ir::Kernel& kernel_;
    ir::Environment environment_;
    std::vector<Around> around_;
    std::int64_t looked_at_ = kLookedAt;
    bool is_least_ = false;
};

}  // namespace

Work work_of(const BoundKernel& launch) {
    const ir::Kernel& kernel = launch.kernel();
    Counter counter(kernel, launch.environment());
    const Sum sum = counter.block(kernel.body);
    Work work;
    for (const auto& entry : sum.operations) {
        work.operations += entry.second.arithmetic;
        work.functions += entry.second.functions;
    }
    work.points = sum.points.value_or(1);
    work.is_least = counter.is_least();
    std::vector<double> reads(launch.shapes.size(), 0);
    for (const auto& [place, count] : sum.reads) reads[place.second] += count;
    for (std::size_t n = 0; n < reads.size(); ++n) {
        const double all = double(element_count(launch.shapes[n]));
        // Loops whose trips are not known may read everything.
        const bool is_all = work.is_least && reads[n] > 0;
        work.read +=
            (is_all ? all : std::min(all, reads[n])) * double(size_of(kernel.buffers[n].dtype));
    }
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    work.written = double(element_count(launch.binding.output)) * double(size_of(out.dtype));
    return work;
}

Work work_of(const lang::Source& source, lang::NodeId compute,
             std::span<const OperandInfo> operands, const Arguments& arguments,
             const LaunchOptions& options) {
    return work_of(bind_launch(source, compute, operands, arguments, options));
}

}  // namespace quern::frontend
