#include "quern/ir/verify.h"

#include <algorithm>
#include <unordered_set>

#include "quern/ir/index.h"
#include "quern/ir/violations.h"

namespace quern::ir {
namespace {

std::string_view name_of(StmtKind kind) {
    switch (kind) {
        case StmtKind::Let:
            return "let";
        case StmtKind::Var:
            return "var";
        case StmtKind::Assign:
            return "assign";
        case StmtKind::Accumulate:
            return "accumulate";
        case StmtKind::ArgReduce:
            return "argreduce";
        case StmtKind::For:
            return "for";
        case StmtKind::If:
            return "if";
        case StmtKind::Alloc:
            return "alloc";
        case StmtKind::Store:
            return "store";
        case StmtKind::Barrier:
            return "barrier";
        case StmtKind::Check:
            return "check";
    }
    return "?";
}

bool may_accumulate(BinaryOp op) {
    return op == BinaryOp::Add || op == BinaryOp::Mul || op == BinaryOp::Min ||
           op == BinaryOp::Max || op == BinaryOp::And || op == BinaryOp::Or;
}

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

class StatementVerifier {
public:
    StatementVerifier(const Kernel& kernel, Violations& violations)
        : k_(kernel),
          out_(violations),
          symbols_(kernel.symbols.size()),
          arrays_(kernel.buffers.size()) {}

    void run() {
        buffers();
        for (const Constraint& c : k_.constraints) {
            where_ = "require";
            span_ = c.span;
            for (const ExprId side : {c.left, c.right}) launch_value(side, "sides");
        }
        block(k_.body);
    }

private:
    enum class Scope : std::uint8_t { Unseen, Open, Closed };

    struct SymbolState {
        Scope scope = Scope::Unseen;
        bool uniform = true;

        /// How many parallel loops surround the declaration.
        int parallel_depth = 0;
    };

    void fail(const std::string& problem) { out_.add(where_, span_, problem); }

    bool is_valid(ExprId id, std::string_view what) {
        if (static_cast<std::uint32_t>(id) < k_.exprs.size()) return true;
        fail("expected " + std::string(what) + ", got no expression");
        return false;
    }

    bool has_dtype(ExprId id, DType dtype, std::string_view what) {
        if (!is_valid(id, what)) return false;
        if (k_[id].dtype != dtype) {
            fail("expected " + std::string(what) + " of dtype " + std::string(to_string(dtype)) +
                 ", got " + std::string(to_string(k_[id].dtype)));
        }
        return true;
    }

    /// An int64 that is known before the kernel runs.
    void launch_value(ExprId id, std::string_view what) {
        if (!has_dtype(id, DType::Int64, what)) return;
        for (const ExprId each : reachable(k_, id)) {
            const ExprKind kind = k_[each].kind;
            if (kind == ExprKind::Load || kind == ExprKind::Symbol) {
                return fail("expected " + std::string(what) + " over dims, extents and scalars");
            }
        }
    }

    // Buffers.

    void buffers() {
        where_ = "buffers";
        span_ = {};
        if (k_.buffers.size() <= k_.operand_count) return fail("expected an output");
        for (BufferId id = 0; id < k_.buffers.size(); ++id) {
            const Buffer& b = k_.buffers[id];
            where_ = "buffer " + in_quotes(b.name);
            span_ = b.span;
            const bool array = b.kind == BufferKind::Local || b.kind == BufferKind::Shared;
            const bool in_place = id < k_.operand_count    ? b.kind == BufferKind::Operand
                                  : id == k_.operand_count ? b.kind == BufferKind::Output
                                                           : array;
            if (!in_place) fail("expected operands, the output, then local and shared arrays");
            if (static_cast<int>(b.dtype) >= kDTypeCount) fail("unknown dtype");
            if (b.flat && (array || b.shape.size() != 1)) {
                fail("expected a flat operand or output of rank 1");
            }
            for (std::size_t axis = 0; axis < b.shape.size(); ++axis) {
                if (b.kind != BufferKind::Local) launch_value(b.shape[axis], "a shape");
                if (b.kind == BufferKind::Operand && is_valid(b.shape[axis], "a shape")) {
                    const Expr& e = k_[b.shape[axis]];
                    if (e.kind != ExprKind::Extent || e.a != id || e.b != axis) {
                        fail("expected its own extents as an operand's shape");
                    }
                }
            }
        }
    }

    // Scope.

    /// Everything in a value is declared, in scope and allocated. Returns whether all threads of a
    /// work-group agree on the value.
    bool use(ExprId id) {
        bool uniform = true;
        for (const ExprId each : reachable(k_, id)) {
            const Expr& e = k_[each];
            if (e.kind == ExprKind::Symbol) {
                const SymbolState& s = symbols_[e.a];
                uniform = uniform && s.uniform;
                if (s.scope != Scope::Open) {
                    fail(in_quotes(k_.symbols[e.a].name) + (s.scope == Scope::Unseen
                                                                ? " is used before it is declared"
                                                                : " is used outside its block"));
                }
                for (const Stmt* loop : loops_) {
                    if (contains(loop->reduces, e.a)) {
                        fail(in_quotes(k_.symbols[e.a].name) +
                             " is read in a loop that reduces it");
                    }
                }
            } else if (e.kind == ExprKind::Load) {
                uniform = false;
                if (e.a > k_.operand_count) array_in_scope(e.a);
            }
        }
        return uniform;
    }

    static bool contains(const std::vector<SymbolId>& list, SymbolId id) {
        return std::find(list.begin(), list.end(), id) != list.end();
    }

    void array_in_scope(BufferId id) {
        if (arrays_[id] == Scope::Open) return;
        fail(in_quotes(k_.buffers[id].name) + (arrays_[id] == Scope::Unseen
                                                   ? " is used before its alloc"
                                                   : " is used outside its block"));
    }

    bool value(ExprId id, DType dtype, std::string_view what) {
        return has_dtype(id, dtype, what) && use(id);
    }

    /// Declares the symbol of a statement; false if it has none of the right kind.
    bool declare(SymbolId id, SymbolKind kind) {
        if (id >= k_.symbols.size() || k_.symbols[id].kind != kind) {
            fail("expected a symbol of the statement's kind");
            return false;
        }
        if (symbols_[id].scope != Scope::Unseen) {
            fail(in_quotes(k_.symbols[id].name) + " is declared twice");
            return false;
        }
        symbols_[id] = {Scope::Open, kind == SymbolKind::Loop, parallel_depth_};
        declared_.push_back(id);
        return true;
    }

    bool var(SymbolId id) {
        if (id >= k_.symbols.size() || k_.symbols[id].kind != SymbolKind::Var) {
            fail("expected a var");
            return false;
        }
        const std::string name = in_quotes(k_.symbols[id].name);
        if (symbols_[id].scope != Scope::Open) {
            fail(name + " is written where it is not in scope");
            return false;
        }
        if (symbols_[id].parallel_depth < parallel_depth_) {
            fail(name + " is written in a parallel loop and declared outside");
        }
        return true;
    }

    // Statements.

    void block(const std::vector<Stmt>& statements) {
        const std::size_t symbols = declared_.size(), arrays = allocated_.size();
        for (const Stmt& s : statements) {
            set_place(s);
            statement(s);
        }
        for (; declared_.size() > symbols; declared_.pop_back()) {
            symbols_[declared_.back()].scope = Scope::Closed;
        }
        for (; allocated_.size() > arrays; allocated_.pop_back()) {
            arrays_[allocated_.back()] = Scope::Closed;
        }
    }

    void set_place(const Stmt& s) {
        where_ = name_of(s.kind);
        span_ = s.span;
        if (s.symbol < k_.symbols.size()) where_ += ' ' + in_quotes(k_.symbols[s.symbol].name);
        if (s.buffer < k_.buffers.size()) where_ += ' ' + in_quotes(k_.buffers[s.buffer].name);
    }

    void statement(const Stmt& s) {
        switch (s.kind) {
            case StmtKind::Let:
            case StmtKind::Var:
                return declaration(s);
            case StmtKind::Assign:
                return assign(s);
            case StmtKind::Accumulate:
                return accumulate(s);
            case StmtKind::ArgReduce:
                return arg_reduce(s);
            case StmtKind::For:
                return loop(s);
            case StmtKind::If:
                return branch(s);
            case StmtKind::Alloc:
                return alloc(s);
            case StmtKind::Store:
                return store(s);
            case StmtKind::Barrier:
                if (divergent_ > 0) fail("expected conditions that no element or var decides");
                return;
            case StmtKind::Check:
                value(s.value, DType::Bool, "a condition");
                return;
        }
        fail("unknown kind of statement");
    }

    void declaration(const Stmt& s) {
        bool uniform = false;
        if (is_valid(s.value, "a value")) uniform = use(s.value);
        const bool let = s.kind == StmtKind::Let;
        if (!declare(s.symbol, let ? SymbolKind::Let : SymbolKind::Var)) return;
        symbols_[s.symbol].uniform = let && uniform;
        has_dtype(s.value, k_.symbols[s.symbol].dtype, "a value");
    }

    void assign(const Stmt& s) {
        if (!var(s.symbol)) return;
        for (const Stmt* each : loops_) {
            if (contains(each->reduces, s.symbol)) fail("a reduced var is assigned in its loop");
        }
        value(s.value, k_.symbols[s.symbol].dtype, "a value");
    }

    void accumulate(const Stmt& s) {
        if (!var(s.symbol)) return;
        const DType dtype = k_.symbols[s.symbol].dtype;
        if (!may_accumulate(s.op)) {
            fail("expected add, mul, min, max, and or or, got " + std::string(to_string(s.op)));
        }
        const bool logical = s.op == BinaryOp::And || s.op == BinaryOp::Or;
        const bool arithmetic = s.op == BinaryOp::Add || s.op == BinaryOp::Mul;
        if (dtype == DType::Bool ? arithmetic : logical) {
            fail(std::string(to_string(s.op)) + " does not fit " + std::string(to_string(dtype)));
        }
        const bool reduced = std::any_of(loops_.begin(), loops_.end(), [&](const Stmt* each) {
            return contains(each->reduces, s.symbol);
        });
        if (!reduced) fail("expected a loop around it that reduces the var");
        value(s.value, dtype, "a value");
    }

    void arg_reduce(const Stmt& s) {
        if (!var(s.symbol) || !var(s.index_symbol)) return;
        if (s.symbol == s.index_symbol) fail("expected two vars");
        value(s.value, k_.symbols[s.symbol].dtype, "a value");
        value(s.index, k_.symbols[s.index_symbol].dtype, "an index");
    }

    void loop(const Stmt& s) {
        bool uniform = value(s.value, DType::Int64, "a begin");
        uniform = value(s.end, DType::Int64, "an end") && uniform;
        launch_value(s.step, "a step");
        if (static_cast<std::uint32_t>(s.step) < k_.exprs.size() && k_.is_constant(s.step) &&
            k_[s.step].dtype == DType::Int64 && k_.integer_value(s.step) < 1) {
            fail("expected a positive step, got " + std::to_string(k_.integer_value(s.step)));
        }
        reduced_vars(s);
        if (s.parallel) {
            if (in_serial_) fail("expected parallel loops under parallel loops only");
            if (!s.reduces.empty()) fail("a parallel loop reduces nothing");
            const auto is_parallel = [](const Stmt& x) {
                return x.kind == StmtKind::For && x.parallel;
            };
            if (s.body.size() > 1 && std::any_of(s.body.begin(), s.body.end(), is_parallel)) {
                fail("expected a parallel loop alone in another one");
            }
        }
        const std::size_t symbols = declared_.size();
        if (s.symbol < k_.symbols.size() && k_.symbols[s.symbol].dtype != DType::Int64) {
            fail("expected a loop variable of dtype int64");
        }
        declare(s.symbol, SymbolKind::Loop);
        const bool was_serial = in_serial_;
        in_serial_ = in_serial_ || !s.parallel;
        parallel_depth_ += s.parallel;
        divergent_ += !uniform;
        loops_.push_back(&s);
        block(s.body);
        loops_.pop_back();
        divergent_ -= !uniform;
        parallel_depth_ -= s.parallel;
        in_serial_ = was_serial;
        for (; declared_.size() > symbols; declared_.pop_back()) {
            symbols_[declared_.back()].scope = Scope::Closed;
        }
    }

    void reduced_vars(const Stmt& s) {
        std::unordered_set<SymbolId> seen;
        for (const SymbolId id : s.reduces) {
            if (!var(id)) continue;
            const std::string name = in_quotes(k_.symbols[id].name);
            if (!seen.insert(id).second) fail(name + " is reduced twice");
            std::vector<const Stmt*> writes;
            collect_writes(s.body, id, writes);
            const auto differs = [&](const Stmt* w) {
                return w->kind != writes[0]->kind || w->op != writes[0]->op;
            };
            if (std::any_of(writes.begin(), writes.end(), differs)) {
                fail(name + " is reduced by two operators");
            }
        }
    }

    static void collect_writes(const std::vector<Stmt>& statements, SymbolId id,
                               std::vector<const Stmt*>& writes) {
        for (const Stmt& s : statements) {
            const bool reduces = s.kind == StmtKind::Accumulate || s.kind == StmtKind::ArgReduce;
            if (reduces && (s.symbol == id || s.index_symbol == id)) writes.push_back(&s);
            collect_writes(s.body, id, writes);
            collect_writes(s.otherwise, id, writes);
        }
    }

    void branch(const Stmt& s) {
        const bool uniform = value(s.value, DType::Bool, "a condition");
        const bool was_serial = in_serial_;
        in_serial_ = true;
        divergent_ += !uniform;
        block(s.body);
        block(s.otherwise);
        divergent_ -= !uniform;
        in_serial_ = was_serial;
    }

    void alloc(const Stmt& s) {
        if (s.buffer >= k_.buffers.size() || s.buffer <= k_.operand_count) {
            return fail("expected a local or shared array");
        }
        if (arrays_[s.buffer] != Scope::Unseen) return fail("expected one alloc");
        for (const ExprId extent : k_.buffers[s.buffer].shape) {
            value(extent, DType::Int64, "a shape");
            if (!is_valid(extent, "a shape")) continue;
            for (const ExprId each : reachable(k_, extent)) {
                if (k_[each].kind == ExprKind::Load) fail("expected a shape without loads");
            }
        }
        arrays_[s.buffer] = Scope::Open;
        allocated_.push_back(s.buffer);
    }

    void store(const Stmt& s) {
        if (s.buffer >= k_.buffers.size()) return fail("expected a buffer");
        const Buffer& b = k_.buffers[s.buffer];
        if (s.buffer < k_.operand_count) fail("an operand is written");
        if (s.buffer > k_.operand_count) array_in_scope(s.buffer);
        if (s.indices.size() != b.shape.size()) {
            fail("expected " + std::to_string(b.shape.size()) + " indices, got " +
                 std::to_string(s.indices.size()));
        }
        for (const ExprId index : s.indices) value(index, DType::Int64, "an index");
        value(s.value, b.dtype, "a value");
    }

    const Kernel& k_;
    Violations& out_;
    std::string where_;
    Span span_;
    std::vector<SymbolState> symbols_;
    std::vector<Scope> arrays_;
    std::vector<SymbolId> declared_;
    std::vector<BufferId> allocated_;
    std::vector<const Stmt*> loops_;
    int parallel_depth_ = 0;
    int divergent_ = 0;
    bool in_serial_ = false;
};

}  // namespace

void verify_statements(const Kernel& kernel, Violations& violations) {
    StatementVerifier(kernel, violations).run();
}

std::vector<std::string> verify(const Kernel& kernel) {
    Violations violations;
    verify_nodes(kernel, violations);
    if (violations.list.empty()) verify_statements(kernel, violations);
    return std::move(violations.list);
}

}  // namespace quern::ir
