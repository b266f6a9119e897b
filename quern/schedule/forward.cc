#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "quern/schedule/passes.h"

// Arrays that hold what is as easily computed again.

namespace quern::schedule {
namespace {

using ir::BufferId;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using ir::SymbolId;

using Block = std::vector<Stmt>;

/// What is computed again instead of being read: at most this many loads and operations.
constexpr int kMostLoads = 1, kMostOperations = 2;

ir::LoopRange range_of(const Stmt& loop) { return {loop.symbol, loop.value, loop.end, loop.step}; }

/// The one statement that writes an array: a store inside of loops around nothing else.
struct Definition {
    const Stmt* store = nullptr;
    std::vector<ir::LoopRange> loops;
};

std::optional<Definition> definition_of(const ir::Kernel& kernel, const Stmt& s) {
    Definition definition;
    const Stmt* at = &s;
    for (; at->kind == StmtKind::For; at = &at->body.front()) {
        const bool is_counted = kernel.is_constant(at->value, 0) &&
                                (!exists(at->step) || kernel.is_constant(at->step, 1));
        if (at->parallel || !at->reduces.empty() || !is_counted || at->body.size() != 1) {
            return std::nullopt;
        }
        definition.loops.push_back(range_of(*at));
    }
    if (at->kind != StmtKind::Store) return std::nullopt;
    definition.store = at;
    std::vector<SymbolId> used;
    for (const ExprId index : at->indices) {
        const ir::Expr& e = kernel[index];
        if (e.kind == ExprKind::Const) continue;
        if (e.kind != ExprKind::Symbol) return std::nullopt;
        used.push_back(e.a);
    }
    std::vector<SymbolId> loops;
    for (const ir::LoopRange& loop : definition.loops) loops.push_back(loop.symbol);
    std::sort(used.begin(), used.end());
    std::sort(loops.begin(), loops.end());
    if (used != loops) return std::nullopt;
    return definition;
}

int stores_to(BufferId buffer, const Block& block) {
    int count = 0;
    for (const Stmt& s : block) {
        count += s.kind == StmtKind::Store && s.buffer == buffer;
        count += stores_to(buffer, s.body) + stores_to(buffer, s.otherwise);
    }
    return count;
}

bool assigns(SymbolId symbol, const Block& block) {
    return std::any_of(block.begin(), block.end(), [&](const Stmt& s) {
        const bool is_here = s.symbol == symbol || s.index_symbol == symbol;
        return is_here || assigns(symbol, s.body) || assigns(symbol, s.otherwise);
    });
}

class Forwarder {
public:
    explicit Forwarder(ir::Kernel& kernel) : k_(kernel) {}

    void rewrite(Block& block, bool is_in_point) {
        for (std::size_t i = 0; is_in_point && i < block.size(); ++i) {
            if (block[i].kind == StmtKind::Alloc && forward(block, i)) --i;
        }
        for (Stmt& s : block) {
            const bool is_loop = s.kind == StmtKind::For;
            if (is_loop) loops_.push_back(range_of(s));
            rewrite(s.body, is_in_point || (is_loop && s.parallel));
            if (is_loop) loops_.pop_back();
            rewrite(s.otherwise, is_in_point);
        }
    }

private:
    /// Each expression of a statement and of those inside, with `loops_` those around it.
    template <class F>
    void for_each_expr_within(Stmt& s, const F& f) {
        ir::for_each_expr(s, f);
        const bool is_loop = s.kind == StmtKind::For;
        if (is_loop) loops_.push_back(range_of(s));
        for (Block* block : {&s.body, &s.otherwise}) {
            for (Stmt& inner : *block) for_each_expr_within(inner, f);
        }
        if (is_loop) loops_.pop_back();
    }

    /// Takes the array that begins at `alloc` out of the block, if what it holds is easily
    /// computed.
    bool forward(Block& block, std::size_t alloc) {
        const BufferId array = block[alloc].buffer;
        std::size_t at = alloc + 1;
        while (at < block.size() && stores_to(array, {block[at]}) == 0) ++at;
        if (at == block.size() || stores_to(array, block) != 1) return false;
        const auto definition = definition_of(k_, block[at]);
        if (!definition || !is_easy(definition->store->value)) return false;
        if (k_[definition->store->value].dtype != k_.buffers[array].dtype) return false;
        Block after(block.begin() + std::ptrdiff_t(at) + 1, block.end());
        if (!is_kept(definition->store->value, after)) return false;
        if (!is_defined(*definition)) return false;
        for (std::size_t i = alloc; i <= at; ++i) {
            if (reads(array, block[i])) return false;
        }
        bool is_whole = true;
        for (Stmt& s : after) {
            for_each_expr_within(s, [&](ExprId& id) {
                id = ir::rewrite(k_, id, [&](ExprId node) {
                    const ExprId value = value_at(*definition, array, node);
                    is_whole = is_whole && (exists(value) || !is_load_of(array, node));
                    return value;
                });
            });
        }
        // An element that is not seen to be one that was written: the array stays, with its checks.
        if (!is_whole) return false;
        block.resize(at);
        block.erase(block.begin() + std::ptrdiff_t(alloc));
        for (Stmt& s : after) block.push_back(std::move(s));
        return true;
    }

    bool is_load_of(BufferId array, ExprId id) const {
        return k_[id].kind == ExprKind::Load && k_[id].a == array;
    }

    bool reads(BufferId array, Stmt& s) {
        bool found = false;
        for_each_expr_within(s, [&](ExprId& id) {
            for (const ExprId node : ir::reachable(k_, id)) found |= is_load_of(array, node);
        });
        return found;
    }

    bool is_easy(ExprId id) const {
        int loads = 0, operations = 0;
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr& e = k_[node];
            if (ir::can_fail(k_, e)) return false;
            if (!is_floating(e.dtype)) continue;
            const auto unary = static_cast<ir::UnaryOp>(e.op);
            const auto binary = static_cast<ir::BinaryOp>(e.op);
            switch (e.kind) {
                case ExprKind::Load:
                    ++loads;
                    break;
                case ExprKind::Unary:
                    if (unary != ir::UnaryOp::Neg && unary != ir::UnaryOp::Abs) return false;
                    ++operations;
                    break;
                case ExprKind::Binary:
                    if (binary != ir::BinaryOp::Add && binary != ir::BinaryOp::Sub &&
                        binary != ir::BinaryOp::Mul) {
                        return false;
                    }
                    ++operations;
                    break;
                case ExprKind::Select:
                case ExprKind::Cast:
                    return false;
                default:
                    break;
            }
        }
        return loads <= kMostLoads && operations <= kMostOperations;
    }

    /// Nothing that the value reads changes in `after`.
    bool is_kept(ExprId id, const Block& after) const {
        for (const ExprId node : ir::reachable(k_, id)) {
            const ir::Expr& e = k_[node];
            if (e.kind == ExprKind::Load && stores_to(e.a, after) > 0) return false;
            if (e.kind == ExprKind::Symbol && assigns(e.a, after)) return false;
        }
        return true;
    }

    /// Whether what the loops compute and store is there: nothing is read or written outside of
    /// what it is of, which would be an error also if nobody read the element.
    bool is_defined(const Definition& definition) {
        const std::size_t around = loops_.size();
        loops_.insert(loops_.end(), definition.loops.begin(), definition.loops.end());
        bool is_inside = true;
        for (std::size_t p = 0; p < definition.store->indices.size(); ++p) {
            is_inside =
                is_inside && is_index_of(definition.store->buffer, p, definition.store->indices[p]);
        }
        for (const ExprId node : ir::reachable(k_, definition.store->value)) {
            const ir::Expr e = k_[node];
            for (int p = 0; e.kind == ExprKind::Load && p < e.count; ++p) {
                is_inside = is_inside && is_index_of(e.a, std::size_t(p), k_.index_of(e, p));
            }
        }
        loops_.resize(around);
        return is_inside;
    }

    /// Whether an index is seen to be within an axis for all values of the loops around.
    bool is_index_of(BufferId buffer, std::size_t axis, ExprId index) {
        const ExprId low = ir::lower_bound(k_, index, loops_);
        if (!exists(low) || !ir::proves_at_least(k_, low, k_.integer(0))) return false;
        const ExprId high = ir::upper_bound(k_, index, loops_);
        return exists(high) && ir::proves_less(k_, high, extent_of_axis(k_, buffer, axis));
    }

    /// What a load of the array gives, or none if `id` is none, or one that is not seen to be of an
    /// element.
    ExprId value_at(const Definition& definition, BufferId array, ExprId id) {
        if (!is_load_of(array, id)) return ir::kNoExpr;
        const ir::Expr e = k_[id];
        ExprId value = definition.store->value;
        for (int p = 0; p < e.count; ++p) {
            const ExprId written = definition.store->indices[std::size_t(p)];
            const ExprId read = k_.index_of(e, p);
            if (!is_index_of(array, std::size_t(p), read)) return ir::kNoExpr;
            if (k_[written].kind == ExprKind::Symbol) {
                value = ir::substitute(k_, value, k_[written].a, read);
            } else if (written != read) {
                return ir::kNoExpr;
            }
        }
        return value;
    }

    ir::Kernel& k_;

    /// Around what is looked at, outermost first.
    std::vector<ir::LoopRange> loops_;
};

}  // namespace

void forward_arrays(ir::Kernel& kernel) { Forwarder(kernel).rewrite(kernel.body, false); }

}  // namespace quern::schedule
