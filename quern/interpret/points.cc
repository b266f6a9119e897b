#include "quern/interpret/points.h"

#include <algorithm>
#include <map>
#include <set>

#include "quern/ir/index.h"

namespace quern::interpret {
namespace {

using ir::BufferId;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

struct Uses {
    std::vector<std::vector<ExprId>> indices;
    bool is_written = false;
};

class Collector {
public:
    explicit Collector(const ir::Kernel& kernel) : kernel_(kernel) {}

    void visit(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            if (s.kind == StmtKind::Alloc) inside.insert(s.buffer);
            if (s.kind == StmtKind::Store) {
                uses[s.buffer].indices.push_back(s.indices);
                uses[s.buffer].is_written = true;
            }
            for (const ExprId id : {s.value, s.end, s.step, s.index}) visit(id);
            for (const ExprId id : s.indices) visit(id);
            visit(s.body);
            visit(s.otherwise);
        }
    }

    std::map<BufferId, Uses> uses;
    std::set<BufferId> inside;

private:
    void visit(ExprId root) {
        if (!ir::exists(root)) return;
        std::vector<ExprId> waiting{root};
        while (!waiting.empty()) {
            const ExprId id = waiting.back();
            waiting.pop_back();
            if (!seen_.insert(id).second) continue;
            const ir::Expr& e = kernel_[id];
            if (e.kind == ExprKind::Load && e.a >= kernel_.operand_count) {
                std::vector<ExprId> indices;
                for (int axis = 0; axis < e.count; ++axis) {
                    indices.push_back(kernel_.index_of(e, axis));
                }
                uses[e.a].indices.push_back(indices);
            }
            ir::for_each_child(kernel_, id, [&](ExprId child) { waiting.push_back(child); });
        }
    }

    const ir::Kernel& kernel_;
    std::set<ExprId> seen_;
};

/// A loop variable of the nest in an index: the index changes by `stride` from one iteration to the
/// next.
struct Digit {
    std::size_t loop = 0;
    std::int64_t stride = 0;
    std::int64_t span = 0;
};

/// Finds the loops of which the iteration can be told from the element.
class Proof {
public:
    Proof(const ir::Kernel& kernel, Ranges& ranges, const std::vector<const Stmt*>& loops)
        : kernel_(kernel), ranges_(ranges), loops_(loops), told_(loops.size(), false) {
        for (std::size_t l = 0; l < loops.size(); ++l) {
            const Range range = ranges_.of_symbol(loops[l]->symbol);
            if (range.is_one()) told_[l] = true;
        }
    }

    bool holds(const Uses& uses) {
        const std::size_t rank = uses.indices[0].size();
        for (std::size_t axis = 0; axis < rank; ++axis) read_axis(uses, axis);
        return std::find(told_.begin(), told_.end(), false) == told_.end();
    }

private:
    /// One index as digits of the nest's loops and the range of the rest.
    bool split(ExprId index, std::vector<Digit>& digits, Range& rest) {
        const Linear sum = ranges_.linear(index, true);
        rest = {sum.constant, sum.constant};
        for (const Linear::Term& term : sum.terms) {
            const Range range = ranges_.of(term.expr);
            Digit digit;
            std::int64_t width = 0, last = 0, first = 0;
            if (__builtin_sub_overflow(range.high, range.low, &width) ||
                term.coefficient == std::numeric_limits<std::int64_t>::min() ||
                __builtin_mul_overflow(std::abs(term.coefficient), width, &digit.span)) {
                return false;
            }
            if (is_loop(term.expr, digit.loop)) {
                const Stmt& loop = *loops_[digit.loop];
                const std::int64_t step = ir::exists(loop.step) ? ranges_.of(loop.step).low : 1;
                if (step < 1 ||
                    __builtin_mul_overflow(std::abs(term.coefficient), step, &digit.stride)) {
                    return false;
                }
                if (term.coefficient < 0) digit.stride = -digit.stride;
                if (digit.stride != 0) digits.push_back(digit);
                continue;
            }
            if (__builtin_mul_overflow(range.low, term.coefficient, &first) ||
                __builtin_mul_overflow(range.high, term.coefficient, &last) ||
                __builtin_add_overflow(rest.low, std::min(first, last), &rest.low) ||
                __builtin_add_overflow(rest.high, std::max(first, last), &rest.high)) {
                return false;
            }
        }
        std::sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) {
            return std::abs(x.stride) != std::abs(y.stride)
                       ? std::abs(x.stride) < std::abs(y.stride)
                       : x.loop < y.loop;
        });
        return true;
    }

    bool is_loop(ExprId id, std::size_t& loop) const {
        const ir::Expr& e = kernel_[id];
        if (e.kind != ExprKind::Symbol) return false;
        for (loop = 0; loop < loops_.size(); ++loop) {
            if (loops_[loop]->symbol == e.a) return true;
        }
        return false;
    }

    void read_axis(const Uses& uses, std::size_t axis) {
        std::vector<Digit> digits;
        Range rest;
        if (!split(uses.indices[0][axis], digits, rest)) return;
        for (const std::vector<ExprId>& indices : uses.indices) {
            std::vector<Digit> others;
            Range range;
            if (!split(indices[axis], others, range)) return;
            const bool same = std::equal(digits.begin(), digits.end(), others.begin(), others.end(),
                                         [](const Digit& x, const Digit& y) {
                                             return x.loop == y.loop && x.stride == y.stride;
                                         });
            if (!same) return;
            rest = {std::min(rest.low, range.low), std::max(rest.high, range.high)};
        }
        std::int64_t below = 0;
        if (__builtin_sub_overflow(rest.high, rest.low, &below)) return;
        // spans[k]: how far apart the indices of one value of digit k and those above can be.
        std::vector<std::int64_t> spans;
        for (const Digit& digit : digits) {
            spans.push_back(below);
            if (__builtin_add_overflow(below, digit.span, &below)) return;
        }
        for (std::size_t k = digits.size(); k-- > 0;) {
            if (std::abs(digits[k].stride) <= spans[k]) return;
            told_[digits[k].loop] = true;
        }
    }

    const ir::Kernel& kernel_;
    Ranges& ranges_;
    const std::vector<const Stmt*>& loops_;
    std::vector<bool> told_;
};

}  // namespace

std::vector<BufferId> buffers_shared_by_points(const ir::Kernel& kernel, Ranges& ranges,
                                               const std::vector<const Stmt*>& loops) {
    Collector collector(kernel);
    collector.visit(loops.back()->body);
    std::vector<BufferId> shared;
    for (const auto& [buffer, uses] : collector.uses) {
        if (!uses.is_written || collector.inside.count(buffer) != 0) continue;
        if (!Proof(kernel, ranges, loops).holds(uses)) shared.push_back(buffer);
    }
    return shared;
}

}  // namespace quern::interpret
