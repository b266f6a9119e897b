#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "quern/ir/doubles.h"
#include "quern/schedule/functions.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/packets.h"
#include "quern/schedule/passes.h"
#include "quern/schedule/plan.h"

namespace quern::schedule {
namespace {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

// In units of one vector instruction.
constexpr double kSpread = 24;    // a gather or scatter of 16 lanes
constexpr double kSeconds = 4;    // every second element: two vectors and a shuffle
constexpr double kFunction = 12;  // exp, tanh, ...
constexpr double kFold = 24;      // 16 lanes to one
constexpr double kLoop = 2;       // a branch and a counter
constexpr double kShared = 0.5;   // what a work-group copies for all of its lanes

// Copies of an outer loop, of which each has an address of its own. The loops of a point are short
// (attention's tiles run a quarter slower with eight), and what a condition masks takes registers
// too, where there are few (a convolution takes 4.9 ms with six, 4.3 with four).
constexpr int kCopies = 8, kShort = 4;

// Of the innermost loop of a product that has no lanes; copies of conditions make long code. Of the
// outer one, where both loops have more iterations than kFew: llvmpipe compiles 1.1 s for that
// instead of 0.7, SwiftShader 1.0 instead of 0.4.
constexpr int kInnermost = 8, kGuarded = 4, kManyCopies = 16;
constexpr double kFew = 64;

// As AVX-512 has them, from how many iterations on copies are worth their code, and how many of
// them: GELU, of 34 instructions, takes 4.2 ns a vector with one, 3.3 with four, 3.0 with six, 2.8
// with eight; but past the caches eight, which load and store in bursts, take twice the time.
// Longer loops gain nothing from more than four, and compile for longer. A quarter as many
// registers hold two copies, since constants come from memory as they are needed: with AVX2, 16
// million of GELU take 6.2 ms with one, 4.9 with two, 5.3 with three.
constexpr int kManyRegisters = 32, kSomeRegisters = 8, kLongLoop = 256;
constexpr int kInTurn = 4, kShortInTurn = 6, kFewInTurn = 2, kShortCode = 40;

// Of integers of 64 bits that a device has not: by a loop over their bits.
constexpr int kQuotient = 70;

// Of a product whose operands a work-group shares: iterations for which it copies them at once, and
// the copies of a row and of its lanes.
constexpr std::uint16_t kStage = 16;
constexpr double kRowCopies = 4;

// Neighbours of each lane: 16 bytes of float16, and of float32 where there is more code to copy.
constexpr int kShortPacket = 8, kLongPacket = 4;

// Fewer iterations share too little.
constexpr double kFewRows = 4;

// For float64 that a device has not: an operation is hundreds of instructions, beside which a load
// is nothing, and drivers take 17 s for the 64 sums that an invocation else has.
constexpr int kSoftRegisters = 8;

class Chooser {
public:
    Chooser(ir::Kernel& kernel, const ir::Facts& facts, const Target& target, Tiling& tiling)
        : k_(kernel),
          facts_(facts),
          target_(target),
          lanes_(target.lanes),
          registers_(target.native.float64 || !ir::needs_float64(kernel) ? target.registers
                                                                         : kSoftRegisters),
          tiling_(tiling),
          ranges_(ranges_of(kernel, facts)) {}

    void run() {
        std::vector<ir::SymbolId> chosen;
        best(k_.body, chosen);
        for (const ir::SymbolId loop : chosen) {
            tiling_.splits.push_back({loop, Level::Vector, std::uint16_t(lanes_)});
        }
        for (const Stmt& s : k_.body) {
            if (s.kind != StmtKind::For || !s.parallel) continue;
            for (const Stmt* loop : grid_nest(k_, s)) {
                tiling_.splits.push_back({loop->symbol, Level::Grid, 1});
            }
        }
        for (const Stmt& s : k_.body) {
            if (s.kind == StmtKind::For && s.parallel) rows_in_point(grid_nest(k_, s));
        }
        if (target_.has_packets) in_packets(k_.body);
        if (tiling_.numerics != Numerics::Reproducible) {
            for (const Stmt& s : k_.body) {
                std::vector<const Stmt*> nest;
                unroll(s, nest);
                unroll_chains(s);
            }
        }
    }

private:
    double trips(const Stmt& loop) {
        const ir::Range range = ir::range_of(
            k_, ir::simplify(k_, k_.binary(ir::BinaryOp::Sub, loop.end, loop.value), ranges_),
            ranges_);
        const double most = range.high == ir::kInfinity ? 65536 : double(range.high);
        return std::clamp(range.low == range.high ? most : most / 2, 1.0, 65536.0);
    }

    /// What an access costs where `lane` is the variable of the lanes.
    double access(ir::BufferId buffer, const std::vector<ExprId>& indices, ir::SymbolId lane) {
        if (lane == ir::kNone) return 1;
        std::int64_t total = 0;
        const auto& shape = k_.buffers[buffer].shape;
        for (std::size_t p = 0; p < indices.size(); ++p) {
            const auto step = step_of(k_, indices[p], lane);
            if (!step) return kSpread;
            if (*step == 0) continue;
            std::int64_t stride = 1;
            for (std::size_t q = p + 1; q < shape.size(); ++q) {
                if (!k_.is_constant(shape[q])) return kSpread;
                stride *= k_.integer_value(shape[q]);
            }
            const bool has_unit =
                buffer > k_.output() || facts_.operands[buffer].contiguous_axes >= shape.size() - p;
            if (!has_unit) return kSpread;
            total += *step * stride;
        }
        return total == 0 || total == 1 ? 1 : total == 2 ? kSeconds : kSpread;
    }

    /// Whether it is more than an instruction or two.
    static bool takes_long(const ir::Expr& e) {
        if (!is_floating(e.dtype) || !ir::is_function(e)) return false;
        if (e.kind == ExprKind::Binary) return true;
        const auto op = static_cast<ir::UnaryOp>(e.op);
        return op != ir::UnaryOp::Abs && op != ir::UnaryOp::Ceil && op != ir::UnaryOp::Floor;
    }

    /// The sum of each iteration of a loop in lanes for which a work-group may copy operands, or
    /// none.
    const Stmt* sum_to_stage(const Stmt& lanes) {
        if (target_.rows == 1 || tiling_.numerics == Numerics::Reproducible) return nullptr;
        const auto is_loop = [](const Stmt& s) { return s.kind == StmtKind::For; };
        const auto sum = std::ranges::find_if(lanes.body, is_loop);
        const bool has_sum = sum != lanes.body.end() && !sum->reduces.empty() &&
                             trips(*sum) >= kStage && !holds_condition(sum->body) &&
                             std::ranges::none_of(sum->body, is_loop);
        return has_sum ? &*sum : nullptr;
    }

    /// In such a sum: other lanes of a row or of a column read it too.
    bool is_shared(ExprId load, ir::SymbolId lane) {
        if (!is_staged_) return false;
        if (!ir::depends_on(k_, load, lane)) return true;
        const auto may_be_rows = [&](const Stmt* outer) {
            return outer->parallel && trips(*outer) >= kFewRows &&
                   !ir::depends_on(k_, load, outer->symbol);
        };
        return std::ranges::any_of(around_, may_be_rows);
    }

    double cost(ExprId id, ir::SymbolId lane) {
        if (!exists(id)) return 0;
        double sum = 0;
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr e = k_[node];
            if (e.kind == ExprKind::Load && is_shared(node, lane)) {
                sum += kShared;
            } else if (e.kind == ExprKind::Load) {
                std::vector<ExprId> indices;
                for (int p = 0; p < e.count; ++p) indices.push_back(k_.index_of(e, p));
                sum += access(e.a, indices, lane);
            } else if (takes_long(e)) {
                sum += kFunction;
            } else if (e.kind == ExprKind::Unary) {
                sum += 1;
            } else if (e.kind == ExprKind::Binary && is_floating(e.dtype)) {
                sum += 1;
            }
        }
        return sum;
    }

    double cost(const std::vector<Stmt>& block, ir::SymbolId lane) {
        double sum = 0;
        for (const Stmt& s : block) {
            if (s.kind == StmtKind::For) {
                const bool was_staged = std::exchange(is_staged_, &s == staged_);
                sum += trips(s) * (cost(s.body, lane) + kLoop);
                is_staged_ = was_staged;
                continue;
            }
            sum += cost(s.value, lane) + cost(s.index, lane) + 0.5;
            if (s.kind == StmtKind::Store) sum += access(s.buffer, s.indices, lane);
            sum += cost(s.body, lane) + cost(s.otherwise, lane);
        }
        return sum;
    }

    /// The least cost of a block, and the loops that become lanes for it.
    double best(const std::vector<Stmt>& block, std::vector<ir::SymbolId>& chosen) {
        double sum = 0;
        for (const Stmt& s : block) {
            if (s.kind != StmtKind::For) {
                sum += cost(s.value, ir::kNone) + cost(s.index, ir::kNone) + 1;
                sum += best(s.body, chosen) + best(s.otherwise, chosen);
                continue;
            }
            std::vector<ir::SymbolId> inner;
            const double count = trips(s);
            around_.push_back(&s);
            const double serial = count * (best(s.body, inner) + kLoop);
            around_.pop_back();
            double vector = std::numeric_limits<double>::infinity();
            if (lanes_ > 1 && why_not_lanes(k_, s).empty()) {
                const double passes = std::ceil(count / lanes_);
                staged_ = s.parallel ? sum_to_stage(s) : nullptr;
                vector = passes * (cost(s.body, s.symbol) + kLoop) +
                         (s.reduces.empty() ? 0 : kFold * double(s.reduces.size()));
            }
            if (vector < serial) {
                chosen.push_back(s.symbol);
                sum += vector;
            } else {
                chosen.insert(chosen.end(), inner.begin(), inner.end());
                sum += serial;
            }
        }
        return sum;
    }

    bool is_in_lanes(const Stmt& s) const {
        return s.kind == StmtKind::For && tiling_.has(s.symbol, Level::Vector);
    }

    /// The outermost loops of a block that may have rows of lanes, those of loops inside of them.
    void find_rows(const std::vector<Stmt>& block, std::vector<const Stmt*>& found) {
        for (const Stmt& s : block) {
            if (is_in_lanes(s)) continue;
            const bool may_be = s.kind == StmtKind::For && trips(s) >= kFewRows &&
                                holds_lanes(tiling_, s.body) && why_not_lanes(k_, s).empty();
            if (may_be) {
                found.push_back(&s);
            } else {
                find_rows(s.body, found);
                find_rows(s.otherwise, found);
            }
        }
    }

    /// Rows for the nests of a point that is not itself a lane: a row for each iteration, as many
    /// as the longest fills.
    void rows_in_point(const std::vector<const Stmt*>& grid) {
        if (target_.rows == 1) return;
        if (std::ranges::any_of(grid, [&](const Stmt* s) { return is_in_lanes(*s); })) return;
        std::vector<const Stmt*> found;
        find_rows(grid.back()->body, found);
        int rows = 1;
        for (const Stmt* s : found) {
            while (rows < target_.rows && rows < trips(*s)) rows *= 2;
        }
        if (rows == 1) return;
        const std::size_t before = tiling_.splits.size();
        for (const Stmt* s : found) {
            tiling_.splits.push_back({s->symbol, Level::Rows, std::uint16_t(rows)});
        }
        if (!legal(k_, target_, tiling_).empty()) tiling_.splits.resize(before);
    }

    static bool holds_reduction(const std::vector<Stmt>& block) {
        return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
            return (s.kind == StmtKind::For && !s.reduces.empty()) || holds_reduction(s.body);
        });
    }

    static bool holds_condition(const std::vector<Stmt>& block) {
        return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
            return s.kind == StmtKind::If || holds_condition(s.body);
        });
    }

    /// What loads cost that do not depend on `symbol`: a vector of lanes more than one element.
    int loads_without(const std::vector<Stmt>& block, ir::SymbolId symbol, ir::SymbolId lane) {
        constexpr int kVector = 4;
        int count = 0;
        for (const Stmt& s : block) {
            count += loads_without(s.body, symbol, lane);
            count += loads_without(s.otherwise, symbol, lane);
            if (!exists(s.value)) continue;
            for (const ExprId node : ir::reachable(k_, s.value)) {
                if (k_[node].kind != ExprKind::Load || ir::depends_on(k_, node, symbol)) continue;
                count += ir::depends_on(k_, node, lane) ? kVector : 1;
            }
        }
        return count;
    }

    /// A reduction inside lanes whose iterations are independent: copies of the outer loop that
    /// shares most of what the reduction loads, and two vectors of lanes where there is room. The
    /// sums take half of the registers.
    void unroll(const Stmt& s, std::vector<const Stmt*>& nest) {
        if (s.kind != StmtKind::For) return;
        if (!s.reduces.empty() || (!s.parallel && !why_not_independent(k_, s).empty())) {
            return unroll_inside(s);
        }
        nest.push_back(&s);
        if (shares_loads(s) && holds_reduction(s.body)) {
            const Stmt* most = nullptr;
            int loads = 0;
            for (const Stmt* outer : nest) {
                if (tiling_.has(outer->symbol, Level::Rows)) {
                    loads = 1;
                    most = outer;
                    break;
                }
                if (outer == &s || trips(*outer) < kFewRows) continue;
                const int shared = loads_without(s.body, outer->symbol, s.symbol);
                if (shared >= loads) {
                    loads = shared;
                    most = outer;
                }
            }
            if (most && loads > 0 && !in_rows(*most, s)) {
                // What they add up takes a vector and an element beside them.
                const bool has_few = lanes_ > 1 && registers_ < kManyRegisters;
                const int sums = has_few ? registers_ - 2 : registers_ / 2;
                const int innermost = holds_condition(s.body) ? kGuarded : kInnermost;
                const int vectors = lanes_ == 1 ? std::min(sums, innermost) : sums >= 8 ? 2 : 1;
                const bool is_short = !most->parallel || (has_few && holds_condition(s.body));
                const bool has_many = lanes_ == 1 && trips(*most) > kFew && trips(s) > kFew;
                const int at_most = is_short ? kShort : has_many ? kManyCopies : kCopies;
                const int copies = std::min(sums / vectors, at_most);
                unrolled(most->symbol, copies);
                unrolled(s.symbol, vectors);
            }
        } else if (s.body.size() == 1) {
            unroll(s.body[0], nest);
        } else {
            unroll_inside(s);
        }
        nest.pop_back();
    }

    /// Rows of lanes over the loop that shares most, if what the sums of a point read can be the
    /// work-group's. Copies of both loops, so that an element of its arrays serves several sums.
    bool in_rows(const Stmt& most, const Stmt& lanes) {
        const Stmt* const sum = sum_to_stage(lanes);
        if (!sum) return false;
        int rows = tiling_.factor(most.symbol, Level::Rows);
        const std::size_t before = tiling_.splits.size();
        if (rows == 1) {
            while (rows < target_.rows && rows < trips(most)) rows *= 2;
            tiling_.splits.push_back({most.symbol, Level::Rows, std::uint16_t(rows)});
        }
        tiling_.splits.push_back({sum->symbol, Level::Stage, kStage});
        if (!legal(k_, target_, tiling_).empty()) {
            tiling_.splits.resize(before);
            return false;
        }
        in_matrices(*sum);
        unrolled(most.symbol, int(std::min(kRowCopies, trips(most) / rows)));
        unrolled(lanes.symbol, int(std::min(kRowCopies, trips(lanes) / lanes_)));
        return true;
    }

    /// By the first atom that has its dtypes.
    void in_matrices(const Stmt& sum) {
        const bool is_free = std::ranges::none_of(
            tiling_.splits, [](const Split& split) { return split.level == Level::Matrix; });
        for (const lir::Atom& atom : target_.atoms) {
            if (!is_free && atom != tiling_.atom) continue;
            tiling_.atom = atom;
            tiling_.splits.push_back({sum.symbol, Level::Matrix, atom.depth});
            if (legal(k_, target_, tiling_).empty()) return;
            tiling_.splits.pop_back();
        }
        if (is_free) tiling_.atom = {};
    }

    /// Of integers of 64 bits that a device has not. That an index is small is not known here.
    bool is_quotient_of_words(const ir::Expr& e) const {
        const bool is_of_words =
            !target_.native.int64 && size_of(e.dtype) == 8 && !is_floating(e.dtype);
        if (!is_of_words || e.kind != ExprKind::Binary) return false;
        const auto op = static_cast<ir::BinaryOp>(e.op);
        return op == ir::BinaryOp::Div || op == ir::BinaryOp::Rem || op == ir::BinaryOp::FloorDiv;
    }

    /// What matters for how many copies of a block take turns.
    struct InTurn {
        int instructions = 0;
        bool has_float64 = false, jumps = false;
    };

    void measure(const std::vector<Stmt>& block, InTurn& sum) const {
        for (const Stmt& s : block) {
            measure(s.body, sum);
            measure(s.otherwise, sum);
            if (!exists(s.value)) continue;
            for (const ExprId node : ir::reachable(k_, s.value)) {
                const ir::Expr& e = k_[node];
                sum.has_float64 |= e.dtype == DType::Float64;
                if (e.kind != ExprKind::Unary && e.kind != ExprKind::Binary) continue;
                const CodeSize size = takes_long(e) ? code_size(e) : CodeSize{1};
                sum.instructions += is_quotient_of_words(e) ? kQuotient : size.instructions;
                sum.jumps |= size.jumps;
            }
        }
    }

    /// Fewer of wide elements, whose vectors are two or more already, and none where a copy jumps:
    /// what is rare, as large angles are, is longer than all the rest (two of sin take 4 % less
    /// time than one and 15 ms instead of 9 to compile).
    int copies_in_turn(const std::vector<Stmt>& block) const {
        InTurn sum;
        measure(block, sum);
        if (sum.jumps) return 1;
        if (sum.has_float64) return kInTurn / 2;
        return sum.instructions <= kShortCode ? kShortInTurn : kInTurn;
    }

    /// Whether copies are long code: drivers take minutes for what some kernels would become.
    bool is_long(const std::vector<Stmt>& block) const {
        InTurn sum;
        measure(block, sum);
        return sum.instructions > kShortCode;
    }

    bool holds_function(const std::vector<Stmt>& block) const {
        return std::any_of(block.begin(), block.end(), [&](const Stmt& s) {
            const bool calls = exists(s.value) &&
                               std::ranges::any_of(ir::reachable(k_, s.value), [&](ExprId node) {
                                   return ir::is_function(k_[node]);
                               });
            return calls || holds_function(s.body) || holds_function(s.otherwise);
        });
    }

    /// Whether a loop becomes lanes; without lanes, whether each of its iterations is one sum, of
    /// what is cheaper than the loads.
    bool shares_loads(const Stmt& s) const {
        if (lanes_ > 1) return tiling_.factor(s.symbol, Level::Vector) > 1;
        if (holds_function(s.body) || is_long(s.body)) return false;
        const auto is_loop = [](const Stmt& inner) { return inner.kind == StmtKind::For; };
        const std::vector<Stmt>* block = &s.body;
        for (bool is_inside = false;; is_inside = true) {
            const auto loop = std::ranges::find_if(*block, is_loop);
            if (loop == block->end()) return is_inside;
            const bool is_one = std::ranges::count_if(*block, is_loop) == 1;
            if (!is_one || loop->reduces.empty()) return false;
            block = &loop->body;
        }
    }

    /// Neighbours for each lane of the innermost loops that load or store them.
    void in_packets(const std::vector<Stmt>& block) {
        // What lanes do not all do, and what they ask each other for each copy.
        const auto is_other = [](const Stmt& s) {
            return s.kind == StmtKind::For || s.kind == StmtKind::If || s.kind == StmtKind::Check;
        };
        for (const Stmt& s : block) {
            in_packets(s.body);
            in_packets(s.otherwise);
            if (!is_in_lanes(s) || std::ranges::any_of(s.body, is_other)) continue;
            InTurn sum;
            measure(s.body, sum);
            if (sum.jumps || sum.has_float64) continue;
            const int most = sum.instructions > kShortCode ? kLongPacket : kShortPacket;
            const int packet = std::min(packets_of(k_, facts_, s), most);
            if (packet < 2 || trips(s) < lanes_ * packet) continue;
            tiling_.splits.push_back({s.symbol, Level::Packet, std::uint16_t(packet)});
            if (!legal(k_, target_, tiling_).empty()) tiling_.splits.pop_back();
        }
    }

    /// If that is legal.
    void unrolled(ir::SymbolId loop, int copies) {
        if (copies < 2) return;
        tiling_.splits.push_back({loop, Level::Unroll, std::uint16_t(copies)});
        if (!legal(k_, target_, tiling_).empty()) tiling_.splits.pop_back();
    }

    /// Sums in lanes wait for the sum before: several of them take turns.
    void unroll_chains(const Stmt& s, bool is_copied = false) {
        const bool has_loops = std::any_of(s.body.begin(), s.body.end(), [](const Stmt& inner) {
            return inner.kind == StmtKind::For;
        });
        is_copied |= tiling_.has(s.symbol, Level::Unroll);
        if (!s.reduces.empty() && !has_loops && !is_copied &&
            tiling_.factor(s.symbol, Level::Vector) > 1) {
            const bool is_short = cost(s.body, s.symbol) < kFunction;
            const int copies = std::min(registers_ / 4, is_short ? kShort : 2);
            unrolled(s.symbol, copies);
        }
        // The operations of a function wait for each other; some of them take turns where registers
        // hold their values. A work-group has others that go on meanwhile.
        if (s.reduces.empty() && !has_loops && !is_copied && registers_ >= kSomeRegisters &&
            !target_.has_packets && tiling_.factor(s.symbol, Level::Vector) > 1 &&
            trips(s) >= kLongLoop && cost(s.body, s.symbol) >= kFunction) {
            const int copies = copies_in_turn(s.body);
            const bool are_many = registers_ >= kManyRegisters;
            unrolled(s.symbol, are_many ? copies : std::min(copies / 2, kFewInTurn));
        }
        for (const auto* block : {&s.body, &s.otherwise}) {
            for (const Stmt& inner : *block) unroll_chains(inner, is_copied);
        }
    }

    void unroll_inside(const Stmt& s) {
        for (const Stmt& inner : s.body) {
            std::vector<const Stmt*> nest;
            unroll(inner, nest);
        }
    }

    ir::Kernel& k_;
    const ir::Facts& facts_;
    const Target& target_;
    int lanes_;
    int registers_;
    Tiling& tiling_;
    ir::RangeOf ranges_;

    /// The loops around the one that may become lanes, the sum inside of it that may be staged, and
    /// whether costs are those of that sum.
    std::vector<const Stmt*> around_;
    const Stmt* staged_ = nullptr;
    bool is_staged_ = false;
};

void collect_loops(const std::vector<Stmt>& block, std::vector<const Stmt*>& loops) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::For) loops.push_back(&s);
        collect_loops(s.body, loops);
        collect_loops(s.otherwise, loops);
    }
}

}  // namespace

Tiling choose(ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics, const Target& target) {
    Tiling tiling;
    tiling.numerics = numerics;
    Chooser(kernel, facts, target, tiling).run();
    return tiling;
}

std::string to_string(const ir::Kernel& kernel, const Tiling& tiling) {
    std::vector<const Stmt*> loops;
    collect_loops(kernel.body, loops);
    std::string text;
    for (const Stmt* loop : loops) {
        std::string how;
        for (const Split& split : tiling.splits) {
            if (split.loop != loop->symbol) continue;
            if (!how.empty()) how += ", ";
            if (split.level == Level::Grid) how += "grid";
            if (split.level == Level::Vector) how += fmt::format("vector {}", split.factor);
            if (split.level == Level::Rows) how += fmt::format("rows {}", split.factor);
            if (split.level == Level::Packet) how += fmt::format("packet {}", split.factor);
            if (split.level == Level::Unroll) how += fmt::format("unroll {}", split.factor);
            if (split.level == Level::Stage) how += fmt::format("stage {}", split.factor);
            if (split.level == Level::Matrix) {
                const lir::Atom& atom = tiling.atom;
                how += fmt::format("matrices {} x {} x {}", atom.rows, atom.columns, atom.depth);
            }
        }
        if (!text.empty()) text += "; ";
        text += kernel.symbols[loop->symbol].name + ": " + (how.empty() ? "serial" : how);
    }
    return text;
}

}  // namespace quern::schedule
