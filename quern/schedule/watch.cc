#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "quern/ir/index.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"

namespace quern::schedule {
namespace {

using ir::BufferId;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

using Block = std::vector<Stmt>;

bool reads(const ir::Kernel& kernel, BufferId buffer, ExprId id) {
    return exists(id) && std::ranges::any_of(ir::reachable(kernel, id), [&](ExprId node) {
               return kernel[node].kind == ExprKind::Load && kernel[node].a == buffer;
           });
}

bool reads(const ir::Kernel& kernel, BufferId buffer, const Block& block) {
    return std::ranges::any_of(block, [&](const Stmt& s) {
        bool is_read = reads(kernel, buffer, s.body) || reads(kernel, buffer, s.otherwise);
        ir::for_each_expr(s, [&](ExprId id) { is_read = is_read || reads(kernel, buffer, id); });
        return is_read;
    });
}

bool writes(BufferId buffer, const Block& block) {
    return std::ranges::any_of(block, [&](const Stmt& s) {
        return (s.kind == StmtKind::Store && s.buffer == buffer) || writes(buffer, s.body) ||
               writes(buffer, s.otherwise);
    });
}

/// Whether loops around nothing that decides write every element of an array.
class Filling {
public:
    Filling(ir::Kernel& kernel, BufferId buffer) : k_(kernel), buffer_(buffer) {}

    bool by(const Stmt& s) {
        if (s.kind == StmtKind::Store && s.buffer == buffer_) return covers(s);
        if (s.kind != StmtKind::For) return false;
        loops_.push_back(&s);
        const bool found =
            std::ranges::any_of(s.body, [&](const Stmt& inner) { return by(inner); });
        loops_.pop_back();
        return found;
    }

private:
    bool covers(const Stmt& store) {
        const std::vector<ExprId>& shape = k_.buffers[buffer_].shape;
        // A loop that tells no axis may run no iteration.
        if (loops_.size() != shape.size()) return false;
        std::vector<const Stmt*> others = loops_;
        for (std::size_t p = 0; p < shape.size(); ++p) {
            const ir::Expr e = k_[store.indices[p]];
            const auto loop = std::ranges::find_if(others, [&](const Stmt* s) {
                return e.kind == ExprKind::Symbol && e.a == s->symbol;
            });
            if (loop == others.end() || !is_over(**loop, shape[p])) return false;
            others.erase(loop);
        }
        return true;
    }

    bool is_over(const Stmt& loop, ExprId extent) {
        const bool is_counted =
            k_.is_constant(loop.value, 0) && (!exists(loop.step) || k_.is_constant(loop.step, 1));
        const bool is_fixed = std::ranges::none_of(ir::reachable(k_, extent), [&](ExprId node) {
            const ir::Expr& e = k_[node];
            return e.kind == ExprKind::Load ||
                   (e.kind == ExprKind::Symbol && k_.symbols[e.a].kind == ir::SymbolKind::Var);
        });
        return is_counted && is_fixed && ir::simplify(k_, loop.end) == ir::simplify(k_, extent);
    }

    ir::Kernel& k_;
    BufferId buffer_;
    std::vector<const Stmt*> loops_;
};

class Watch {
public:
    explicit Watch(ir::Kernel& kernel) : k_(kernel) {}

    void run() {
        shared_variables(k_.body);
        if (reads(k_, k_.output(), k_.body)) {
            Block fill = marks_of(k_.output(), "written", DType::Bool, k_.boolean(false));
            k_.body.insert(k_.body.begin(), fill.begin(), fill.end());
        }
        if (!marks_.empty()) k_.body = marked(std::move(k_.body));
        if (why_points_meet_in(k_.body)) one_owner_each();
    }

private:
    /// One thread runs all of a point, in order: its work-group's array is an array of its own.
    void shared_variables(Block& block) {
        for (std::size_t i = 0; i < block.size(); ++i) {
            shared_variables(block[i].body);
            shared_variables(block[i].otherwise);
            if (block[i].kind != StmtKind::Alloc) continue;
            const BufferId buffer = block[i].buffer;
            if (k_.buffers[buffer].kind != ir::BufferKind::Shared) continue;
            k_.buffers[buffer].kind = ir::BufferKind::Local;
            if (is_filled_first(buffer, block, i + 1)) continue;
            const Block fill = marks_of(buffer, "written", DType::Bool, k_.boolean(false));
            block.insert(block.begin() + std::ptrdiff_t(i) + 1, fill.begin(), fill.end());
            i += fill.size();
        }
    }

    /// Whether the first statement that uses an array writes all of it.
    bool is_filled_first(BufferId buffer, const Block& block, std::size_t from) {
        for (std::size_t i = from; i < block.size(); ++i) {
            const Block each{block[i]};
            if (reads(k_, buffer, each)) return false;
            if (writes(buffer, each)) return Filling(k_, buffer).by(block[i]);
        }
        return true;
    }

    /// An array of marks, one for each element of `buffer`, and the loops that fill it.
    Block marks_of(BufferId buffer, const char* name, DType dtype, ExprId value) {
        ir::Buffer array = k_.buffers[buffer];
        array.kind = ir::BufferKind::Local;
        array.dtype = dtype;
        array.name += std::string(".") + name;
        const std::vector<ExprId> shape = array.shape;
        k_.buffers.push_back(std::move(array));
        const auto marks = BufferId(k_.buffers.size() - 1);
        marks_[buffer] = marks;

        Stmt alloc;
        alloc.kind = StmtKind::Alloc;
        alloc.buffer = marks;
        Stmt fill;
        fill.kind = StmtKind::Store;
        fill.buffer = marks;
        fill.value = value;
        Block loops;
        for (const ExprId extent : shape) {
            Stmt loop;
            loop.kind = StmtKind::For;
            loop.symbol = k_.add_symbol(ir::SymbolKind::Loop, DType::Int64, "element");
            loop.value = k_.integer(0);
            loop.end = extent;
            loop.step = k_.integer(1);
            fill.indices.push_back(k_.symbol(loop.symbol));
            loops.push_back(std::move(loop));
        }
        Stmt nest = std::move(fill);
        for (std::size_t p = loops.size(); p-- > 0;) {
            loops[p].body.push_back(std::move(nest));
            nest = std::move(loops[p]);
        }
        return {std::move(alloc), std::move(nest)};
    }

    /// True where every element that evaluating the expression reads is written; kNoExpr if it
    /// reads none that is marked.
    ExprId readable(ExprId id) {
        if (!exists(id)) return ir::kNoExpr;
        const ir::Expr e = k_[id];
        const auto both = [&](ExprId x, ExprId y) {
            if (!exists(x)) return y;
            return exists(y) ? k_.binary(ir::BinaryOp::And, x, y) : x;
        };
        if (e.kind == ExprKind::Select) {
            const ExprId condition{e.a};
            const ExprId first = readable(condition), yes = readable(ExprId{e.b}),
                         no = readable(ExprId{e.c});
            if (!exists(yes) && !exists(no)) return first;
            const auto or_true = [&](ExprId x) { return exists(x) ? x : k_.boolean(true); };
            return both(first, k_.select(condition, or_true(yes), or_true(no)));
        }
        const bool is_and = is_logical(e, ir::BinaryOp::And);
        if (is_and || is_logical(e, ir::BinaryOp::Or)) {
            const ExprId left{e.a};
            const ExprId first = readable(left), second = readable(ExprId{e.b});
            if (!exists(second)) return first;
            const ExprId decided = is_and ? k_.unary(ir::UnaryOp::Not, left) : left;
            return both(first, k_.binary(ir::BinaryOp::Or, decided, second));
        }
        ExprId all = ir::kNoExpr;
        ir::for_each_child(k_, id, [&](ExprId child) { all = both(all, readable(child)); });
        if (e.kind != ExprKind::Load) return all;
        const auto marks = marks_.find(e.a);
        if (marks == marks_.end()) return all;
        std::vector<ExprId> indices;
        for (int p = 0; p < e.count; ++p) indices.push_back(k_.index_of(e, p));
        return both(all, k_.load(marks->second, indices, e.span));
    }

    static bool is_logical(const ir::Expr& e, ir::BinaryOp op) {
        return e.kind == ExprKind::Binary && static_cast<ir::BinaryOp>(e.op) == op;
    }

    /// The block with a Check before each read and a mark before each store.
    Block marked(Block block) {
        Block result;
        for (Stmt& s : block) {
            ir::for_each_expr(s, [&](ExprId id) {
                const ExprId holds = readable(id);
                if (exists(holds)) result.push_back(check(holds, s.span));
            });
            s.body = marked(std::move(s.body));
            s.otherwise = marked(std::move(s.otherwise));
            const auto marks = marks_.find(s.buffer);
            if (s.kind == StmtKind::Store && marks != marks_.end()) {
                result.push_back(store(marks->second, s, k_.boolean(true)));
            }
            result.push_back(std::move(s));
        }
        return result;
    }

    static Stmt check(ExprId holds, lang::Span span) {
        Stmt s;
        s.kind = StmtKind::Check;
        s.code = lang::Code::E0514;
        s.value = holds;
        s.span = span;
        return s;
    }

    static Stmt store(BufferId buffer, const Stmt& like, ExprId value) {
        Stmt s = like;
        s.buffer = buffer;
        s.value = value;
        return s;
    }

    bool why_points_meet_in(const Block& block) {
        return std::ranges::any_of(block, [&](const Stmt& s) {
            if (s.kind == StmtKind::For && s.parallel) return !why_points_meet(k_, s).empty();
            return why_points_meet_in(s.body) || why_points_meet_in(s.otherwise);
        });
    }

    /// Points in order, each of which takes the elements that it writes: none that another point of
    /// its nest has taken.
    void one_owner_each() {
        Block fill = marks_of(k_.output(), "owner", DType::Int64, k_.integer(0));
        owners_ = marks_.at(k_.output());
        point_ = k_.add_symbol(ir::SymbolKind::Var, DType::Int64, "point");
        before_ = k_.add_symbol(ir::SymbolKind::Var, DType::Int64, "before");
        fill.push_back(set(StmtKind::Var, point_, k_.integer(0)));
        fill.push_back(set(StmtKind::Var, before_, k_.integer(0)));
        Block body = in_order(std::move(k_.body), false);
        k_.body = std::move(fill);
        k_.body.insert(k_.body.end(), body.begin(), body.end());
    }

    Block in_order(Block block, bool is_in_point) {
        Block result;
        for (Stmt& s : block) {
            const bool is_nest = s.kind == StmtKind::For && s.parallel;
            if (is_nest && !is_in_point) {
                result.push_back(set(StmtKind::Assign, before_, k_.symbol(point_)));
            }
            if (is_nest) {
                s.parallel = false;
                const bool is_innermost = !(s.body.size() == 1 && s.body[0].parallel);
                s.body = in_order(std::move(s.body), true);
                if (is_innermost) {
                    const ExprId next =
                        k_.binary(ir::BinaryOp::Add, k_.symbol(point_), k_.integer(1));
                    s.body.insert(s.body.begin(), set(StmtKind::Assign, point_, next));
                }
            } else {
                s.body = in_order(std::move(s.body), is_in_point);
                s.otherwise = in_order(std::move(s.otherwise), is_in_point);
            }
            if (is_in_point && s.kind == StmtKind::Store && s.buffer == k_.output()) {
                const ExprId owner = k_.load(owners_, s.indices);
                const ExprId is_free =
                    k_.binary(ir::BinaryOp::LessEqual, owner, k_.symbol(before_));
                const ExprId is_own = k_.binary(ir::BinaryOp::Equal, owner, k_.symbol(point_));
                result.push_back(check(k_.binary(ir::BinaryOp::Or, is_free, is_own), s.span));
                result.push_back(store(owners_, s, k_.symbol(point_)));
            }
            result.push_back(std::move(s));
        }
        return result;
    }

    static Stmt set(StmtKind kind, ir::SymbolId symbol, ExprId value) {
        Stmt s;
        s.kind = kind;
        s.symbol = symbol;
        s.value = value;
        return s;
    }

    ir::Kernel& k_;

    /// Of what is checked: the array that says which elements are written.
    std::map<BufferId, BufferId> marks_;
    BufferId owners_ = 0;
    ir::SymbolId point_ = ir::kNone;
    ir::SymbolId before_ = ir::kNone;
};

}  // namespace

void watch(ir::Kernel& kernel) { Watch(kernel).run(); }

}  // namespace quern::schedule
