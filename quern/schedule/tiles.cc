#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"

// What the loops of one point compute or read again and again goes to an array first.

namespace quern::schedule {
namespace {

using ir::BufferId;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using ir::SymbolId;

using Block = std::vector<Stmt>;

/// A new array of a thread has at most this many elements.
constexpr std::int64_t kMostElements = 1 << 15;

/// Elements that are read less often again are read where they are.
constexpr std::int64_t kLeastReuse = 8;

/// Loops of which each is the only one in the body of the one before, outermost first.
std::vector<Stmt*> chain_of(Stmt& outermost) {
    std::vector<Stmt*> chain{&outermost};
    for (;;) {
        Stmt* only = nullptr;
        for (Stmt& s : chain.back()->body) {
            if (s.kind != StmtKind::For) continue;
            if (only) return chain;
            only = &s;
        }
        if (!only) return chain;
        chain.push_back(only);
    }
}

struct Writes {
    std::vector<BufferId> buffers;
    std::vector<SymbolId> symbols;
};

void collect_writes(const Block& block, Writes& writes) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::Store || s.kind == StmtKind::Alloc) {
            writes.buffers.push_back(s.buffer);
        }
        for (const SymbolId symbol : {s.symbol, s.index_symbol}) {
            if (symbol != ir::kNone) writes.symbols.push_back(symbol);
        }
        collect_writes(s.body, writes);
        collect_writes(s.otherwise, writes);
    }
}

bool holds_array(const Block& block) {
    return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
        return s.kind == StmtKind::Alloc || holds_array(s.body) || holds_array(s.otherwise);
    });
}

template <class List, class T>
bool holds(const List& list, const T& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

class Tiles {
public:
    Tiles(ir::Kernel& kernel, const ir::Facts& facts)
        : k_(kernel), facts_(facts), known_(ranges_of(kernel, facts)) {}

    void run() { k_.body = rewrite(std::move(k_.body), false); }

private:
    Block rewrite(Block block, bool is_in_point) {
        Block result;
        for (Stmt& s : block) {
            // A point with an array of its own cannot be a lane: the others should stay able to.
            const bool is_point =
                is_in_point || (s.kind == StmtKind::For && s.parallel && holds_array(s.body));
            // The outermost nest first: what serves all of it is filled once.
            if (is_in_point && s.kind == StmtKind::For && !s.parallel) nest(s, result);
            if (s.kind == StmtKind::For) around_.push_back({s.symbol, s.value, s.end, s.step});
            s.body = rewrite(std::move(s.body), is_point);
            s.otherwise = rewrite(std::move(s.otherwise), is_point);
            if (s.kind == StmtKind::For) around_.pop_back();
            result.push_back(std::move(s));
        }
        return result;
    }

    /// Puts what fills the arrays of a nest before it.
    void nest(Stmt& outermost, Block& before) {
        const std::vector<Stmt*> chain = chain_of(outermost);
        if (chain.size() < 2) return;
        writes_ = {};
        collect_writes({outermost}, writes_);
        for (Stmt& s : chain.back()->body) {
            if (!exists(s.value) || holds_choice(s.value)) continue;
            const ir::ExprIds nodes = ir::reachable(k_, s.value);
            ExprId replaced = ir::kNoExpr, by = ir::kNoExpr;
            // From the largest on: what is inside of one that is kept needs no array of its own.
            for (std::size_t i = nodes.size(); i-- > 0 && !exists(by);) {
                const ExprId node = nodes[i];
                if (!is_fixed(node, chain)) continue;
                replaced = node;
                by = is_function(node) ? function(node, chain, before)
                                       : transposed(node, chain, before);
            }
            if (!exists(by)) continue;
            s.value = ir::rewrite(k_, s.value,
                                  [&](ExprId id) { return id == replaced ? by : ir::kNoExpr; });
        }
    }

    /// Whether nothing that the expression reads is written in the nest, but for its loops' own
    /// symbols.
    bool is_fixed(ExprId id, const std::vector<Stmt*>& chain) const {
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr& e = k_[node];
            if (e.kind == ExprKind::Load && holds(writes_.buffers, BufferId(e.a))) return false;
            if (e.kind != ExprKind::Symbol || !holds(writes_.symbols, SymbolId(e.a))) continue;
            const bool is_loop = std::any_of(chain.begin(), chain.end(),
                                             [&](const Stmt* l) { return l->symbol == e.a; });
            if (!is_loop) return false;
        }
        return true;
    }

    /// Evaluated or not, as the numbers decide.
    bool holds_choice(ExprId id) const {
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr& e = k_[node];
            if (e.kind == ExprKind::Select) return true;
            if (e.kind != ExprKind::Binary) continue;
            const auto op = static_cast<ir::BinaryOp>(e.op);
            if (op == ir::BinaryOp::And || op == ir::BinaryOp::Or) return true;
        }
        return false;
    }

    bool is_function(ExprId id) const {
        const ir::Expr& e = k_[id];
        if (e.kind != ExprKind::Unary || !is_floating(e.dtype)) return false;
        const auto op = static_cast<ir::UnaryOp>(e.op);
        return op != ir::UnaryOp::Neg && op != ir::UnaryOp::Abs && op != ir::UnaryOp::Floor &&
               op != ir::UnaryOp::Ceil;
    }

    bool is_counted(const Stmt& loop) const {
        return k_.is_constant(loop.value, 0) &&
               (!exists(loop.step) || k_.is_constant(loop.step, 1));
    }

    /// The most iterations that a loop counted from 0 can have.
    std::int64_t most_of(const Stmt& loop) {
        const ir::RangeOf loops = ir::ranges_of(k_, around_);
        const ir::RangeOf ranges = [&](const ir::Expr& leaf) -> std::optional<ir::Range> {
            if (leaf.kind == ExprKind::Symbol) return loops(leaf);
            return known_ ? known_(leaf) : std::nullopt;
        };
        return ir::range_of(k_, ir::simplify(k_, loop.end, ranges), ranges).high;
    }

    /// An array with an axis for each of `loops`, at most `extents` long, filled with `value`; its
    /// load at their symbols.
    ExprId array_of(const char* name, ExprId value, const std::vector<const Stmt*>& loops,
                    const std::vector<ExprId>& extents, Block& before) {
        ir::Buffer array;
        array.kind = ir::BufferKind::Local;
        array.dtype = k_[value].dtype;
        array.name = name;
        array.shape = extents;
        k_.buffers.push_back(array);
        const auto buffer = BufferId(k_.buffers.size() - 1);
        Stmt alloc;
        alloc.kind = StmtKind::Alloc;
        alloc.buffer = buffer;
        before.push_back(alloc);

        Stmt fill;
        fill.kind = StmtKind::Store;
        fill.buffer = buffer;
        fill.value = value;
        std::vector<ExprId> reads;
        std::vector<Stmt> nest;
        for (const Stmt* loop : loops) {
            Stmt own;
            own.kind = StmtKind::For;
            own.symbol = k_.add_symbol(ir::SymbolKind::Loop, DType::Int64,
                                       k_.symbols[loop->symbol].name, loop->span);
            own.value = loop->value;
            own.end = loop->end;
            own.step = loop->step;
            own.span = loop->span;
            fill.value = ir::substitute(k_, fill.value, loop->symbol, k_.symbol(own.symbol));
            fill.indices.push_back(k_.symbol(own.symbol));
            reads.push_back(k_.symbol(loop->symbol));
            nest.push_back(std::move(own));
        }
        Stmt inside = std::move(fill);
        for (std::size_t i = nest.size(); i-- > 0;) {
            nest[i].body.push_back(std::move(inside));
            inside = std::move(nest[i]);
        }
        before.push_back(std::move(inside));
        return k_.load(buffer, reads);
    }

    /// for i, j, k: ... exp(f(i, k)) ... -> for i, k: x[i, k] = exp(f(i, k)); ... x[i, k] ...
    ExprId function(ExprId id, const std::vector<Stmt*>& chain, Block& before) {
        std::vector<const Stmt*> used;
        std::int64_t elements = 1;
        std::vector<ExprId> extents;
        for (const Stmt* loop : chain) {
            if (!ir::depends_on(k_, id, loop->symbol)) continue;
            if (!is_counted(*loop) || !is_known_before(loop->end, chain)) return ir::kNoExpr;
            const std::int64_t most = most_of_index(id, *loop);
            if (most <= 0 || most > kMostElements / elements) return ir::kNoExpr;
            elements *= most;
            used.push_back(loop);
            extents.push_back(k_.integer(most));
        }
        if (used.empty() || used.size() == chain.size()) return ir::kNoExpr;
        return array_of("kept", id, used, extents, before);
    }

    /// A bound on a loop's iterations: what is known of it, or the extent of an array that the
    /// expression reads at them.
    std::int64_t most_of_index(ExprId id, const Stmt& loop) {
        std::int64_t most = most_of(loop);
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr e = k_[node];
            if (e.kind != ExprKind::Load) continue;
            for (int p = 0; p < e.count; ++p) {
                const ExprId index = k_.index_of(e, p);
                const ExprId extent = k_.buffers[e.a].shape[std::size_t(p)];
                if (k_[index].kind == ExprKind::Symbol && k_[index].a == loop.symbol &&
                    k_.is_constant(extent)) {
                    most = std::min(most, k_.integer_value(extent));
                }
            }
        }
        return most;
    }

    /// Whether the expression has one value from before the nest on.
    bool is_known_before(ExprId id, const std::vector<Stmt*>& chain) const {
        return is_fixed(id, chain) && std::none_of(chain.begin(), chain.end(), [&](const Stmt* l) {
                   return ir::depends_on(k_, id, l->symbol);
               });
    }

    /// for i, j { for k reduces ...: ... x[j, k] ... } -> for k, j: t[k, j] = x[j, k]; ... t[k, j]
    /// where x has no gaps along k, so that iterations of j can be lanes.
    ExprId transposed(ExprId id, const std::vector<Stmt*>& chain, Block& before) {
        const ir::Expr e = k_[id];
        if (e.kind != ExprKind::Load || e.count < 2 || chain.size() < 3) return ir::kNoExpr;
        const Stmt& k = *chain.back();
        const Stmt& j = *chain[chain.size() - 2];
        if (k.reduces.empty() || !is_counted(k) || !is_counted(j)) return ir::kNoExpr;
        if (!is_known_before(k.end, chain) || !is_known_before(j.end, chain)) return ir::kNoExpr;
        int across = -1;
        for (int p = 0; p < e.count; ++p) {
            const ExprId index = k_.index_of(e, p);
            const bool is_last = p + 1 == e.count;
            const auto along_k = step_of(k_, index, k.symbol);
            const auto along_j = step_of(k_, index, j.symbol);
            if (along_k != (is_last ? 1 : 0) || !along_j) return ir::kNoExpr;
            if (*along_j == 0) continue;
            if (*along_j != 1 || is_last || across >= 0) return ir::kNoExpr;
            across = p;
        }
        const bool is_dense = e.a > k_.output() || facts_.operands[e.a].contiguous_axes >= 1;
        if (across < 0 || !is_dense) return ir::kNoExpr;
        // The loops around must come back to it.
        const bool is_reused = std::any_of(chain.begin(), chain.end() - 2, [&](const Stmt* loop) {
            return !ir::depends_on(k_, id, loop->symbol) && is_counted(*loop) &&
                   most_of(*loop) >= kLeastReuse;
        });
        const std::int64_t width = most_of(j);
        const bool has_size = known_length(k) && width > 0 && width <= kMostElements / 64;
        if (!is_reused || !has_size) return ir::kNoExpr;
        for (const Stmt* loop : chain) {
            const bool is_own = loop == &k || loop == &j;
            if (!is_own && ir::depends_on(k_, id, loop->symbol)) return ir::kNoExpr;
        }
        return array_of("turned", id, {&k, &j}, {k.end, k_.integer(width)}, before);
    }

    /// The loop's end has a value at the launch, and not a large one.
    bool known_length(const Stmt& loop) {
        for (const ExprId node : ir::reachable(k_, loop.end)) {
            const ExprKind kind = k_[node].kind;
            if (kind == ExprKind::Symbol || kind == ExprKind::Load) return false;
        }
        return most_of(loop) <= kMostElements / 8;
    }

    ir::Kernel& k_;
    const ir::Facts& facts_;
    ir::RangeOf known_;
    std::vector<ir::LoopRange> around_;

    /// Of the nest at hand.
    Writes writes_;
};

}  // namespace

void keep_tiles(ir::Kernel& kernel, const ir::Facts& facts) { Tiles(kernel, facts).run(); }

}  // namespace quern::schedule
