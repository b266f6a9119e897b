#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"
#include "quern/schedule/reduction.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprId;
using ir::Stmt;
using ir::StmtKind;

namespace {

using Block = std::vector<Stmt>;

/// What the iterations of a loop do that takes the best and nothing else: an ArgReduce, or what
/// takes the first whatever its index is,
/// if found { ArgReduce best, place = value, index } else { best = value; place = index;
/// found = true }
struct Choice {
    Stmt statement;
    ExprId value = ir::kNoExpr;
    ExprId index = ir::kNoExpr;

    const Stmt& arg_reduce() const {
        return statement.kind == StmtKind::If ? statement.body.front() : statement;
    }

    /// The same between what is there and another value.
    Stmt with(ExprId new_value, ExprId new_index) const {
        Stmt result = statement;
        Stmt& taken = result.kind == StmtKind::If ? result.body.front() : result;
        taken.value = new_value;
        taken.index = new_index;
        if (result.kind == StmtKind::If) {
            result.otherwise[0].value = new_value;
            result.otherwise[1].value = new_index;
        }
        return result;
    }
};

bool is_choice(const ir::Kernel& kernel, const Stmt& s) {
    if (s.kind == StmtKind::ArgReduce) return true;
    if (s.kind != StmtKind::If || s.body.size() != 1 || s.otherwise.size() != 3) return false;
    const Stmt& taken = s.body[0];
    const auto assigns = [&](int i, ir::SymbolId symbol, ExprId value) {
        const Stmt& assign = s.otherwise[std::size_t(i)];
        return assign.kind == StmtKind::Assign && assign.symbol == symbol && assign.value == value;
    };
    return taken.kind == StmtKind::ArgReduce && kernel[s.value].kind == ir::ExprKind::Symbol &&
           assigns(0, taken.symbol, taken.value) && assigns(1, taken.index_symbol, taken.index) &&
           s.otherwise[2].kind == StmtKind::Assign && s.otherwise[2].symbol == kernel[s.value].a &&
           kernel.is_constant(s.otherwise[2].value);
}

/// The choice of a loop that does nothing else, with the values of lets put in.
std::optional<Choice> sole_choice(ir::Kernel& kernel, const Stmt& loop) {
    if (loop.kind != StmtKind::For || loop.parallel || loop.body.empty()) return std::nullopt;
    Choice choice;
    choice.statement = loop.body.back();
    if (!is_choice(kernel, choice.statement)) return std::nullopt;
    const Stmt taken = choice.arg_reduce();
    choice.value = taken.value;
    choice.index = taken.index;
    for (std::size_t i = loop.body.size() - 1; i-- > 0;) {
        const Stmt& let = loop.body[i];
        if (let.kind != StmtKind::Let) return std::nullopt;
        // What fails for an iteration that is not the best fails the launch.
        if (has_effects(kernel, let.value) && !ir::depends_on(kernel, choice.value, let.symbol)) {
            return std::nullopt;
        }
        choice.value = ir::substitute(kernel, choice.value, let.symbol, let.value);
        choice.index = ir::substitute(kernel, choice.index, let.symbol, let.value);
    }
    if (has_effects(kernel, choice.index)) return std::nullopt;
    std::vector<ir::SymbolId> changing = {taken.symbol, taken.index_symbol};
    if (choice.statement.kind == StmtKind::If) {
        changing.push_back(choice.statement.otherwise[2].symbol);
    }
    for (const ExprId id : {choice.value, choice.index}) {
        for (const ir::SymbolId s : changing) {
            if (ir::depends_on(kernel, id, s)) return std::nullopt;
        }
    }
    if (kernel.symbols[taken.symbol].dtype == DType::Bool) return std::nullopt;
    return choice;
}

class ArgReductions {
public:
    explicit ArgReductions(ir::Kernel& kernel) : kernel_(kernel) {}

    Block rewrite(Block block, bool is_outside) {
        Block result;
        for (Stmt& s : block) {
            const auto choice = sole_choice(kernel_, s);
            const bool is_known =
                choice && is_of_launch(kernel_, ir::simplify(kernel_, trips_of(kernel_, s)));
            if (is_known) {
                in_chunks(s, *choice, is_outside, result);
                continue;
            }
            s.body = rewrite(std::move(s.body), is_outside && s.kind != StmtKind::For);
            s.otherwise = rewrite(std::move(s.otherwise), is_outside);
            result.push_back(std::move(s));
        }
        return result;
    }

private:
    /// Iterations [begin, end) by step.
    struct Piece {
        ExprId begin;
        ExprId end;
        ExprId step;
    };

    /// The value of an iteration.
    using ValueAt = std::function<ExprId(ExprId i)>;

    void in_chunks(const Stmt& loop, const Choice& choice, bool is_outside, Block& result) {
        const ExprId trips = ir::simplify(kernel_, trips_of(kernel_, loop));
        const ExprId rounded = kernel_.binary(BinaryOp::Add, trips, kernel_.integer(kChunk - 1));
        const ExprId count = kernel_.binary(BinaryOp::FloorDiv, rounded, kernel_.integer(kChunk));
        const ExprId step = exists(loop.step) ? loop.step : kernel_.integer(1);
        const ExprId width = kernel_.binary(BinaryOp::Mul, kernel_.integer(kChunk), step);
        const auto chunk = [&](ExprId at) -> Piece {
            const ExprId begin =
                kernel_.binary(BinaryOp::Add, loop.value, kernel_.binary(BinaryOp::Mul, at, width));
            const ExprId end = kernel_.binary(BinaryOp::Min, loop.end,
                                              kernel_.binary(BinaryOp::Add, begin, width));
            return {begin, end, step};
        };
        op_ = choice.arg_reduce().op == BinaryOp::Less ? BinaryOp::Min : BinaryOp::Max;
        dtype_ = kernel_.symbols[choice.arg_reduce().symbol].dtype;
        const ValueAt value_at = [&](ExprId i) {
            return ir::substitute(kernel_, choice.value, loop.symbol, i);
        };
        const auto choose = [&](ExprId i) {
            return choice.with(value_at(i), ir::substitute(kernel_, choice.index, loop.symbol, i));
        };

        Stmt chunks = loop_over("chunk", {kernel_.integer(0), count, kernel_.integer(1)});
        chunks.span = loop.span;
        const ExprId here = kernel_.symbol(chunks.symbol);
        const ExprId best = extreme(chunk(here), value_at, chunks.body);
        if (!is_outside) {
            chunks.body.push_back(choose(place(chunk(here), value_at, best, chunks.body)));
            result.push_back(std::move(chunks));
            return;
        }
        chunks.parallel = true;
        const ir::BufferId extremes = array("extremes", count, result);
        store(extremes, here, best, chunks.body);
        result.push_back(std::move(chunks));
        // Only the first chunk with the best is looked through again; there is none if there is no
        // iteration.
        Stmt once = loop_over(
            "once", {kernel_.integer(0), kernel_.binary(BinaryOp::Min, count, kernel_.integer(1)),
                     kernel_.integer(1)});
        once.span = loop.span;
        const Piece all = {kernel_.integer(0), count, kernel_.integer(1)};
        const ValueAt extreme_at = [&](ExprId c) { return kernel_.load(extremes, {c}); };
        const ExprId best_of_all = extreme(all, extreme_at, once.body);
        const ExprId first = place(all, extreme_at, best_of_all, once.body);
        once.body.push_back(choose(place(chunk(first), value_at, best_of_all, once.body)));
        result.push_back(std::move(once));
    }

    /// The best value of a piece.
    ExprId extreme(const Piece& piece, const ValueAt& value_at, Block& block) {
        const ir::SymbolId best = variable("extreme", op_, dtype_, block);
        Stmt pass = loop_over("i", piece);
        pass.reduces = {best};
        pass.body = {accumulate(best, op_, value_at(kernel_.symbol(pass.symbol)))};
        block.push_back(std::move(pass));
        return kernel_.symbol(best);
    }

    /// The first iteration whose value is the best. NaN, which is its own only by a test, is the
    /// best of all that hold one.
    ExprId place(const Piece& piece, const ValueAt& value_at, ExprId best, Block& block) {
        // Counted from the piece's begin: half as many bits are twice as many lanes.
        const DType dtype = kernel_.is_constant(piece.step, 1) ? DType::Int32 : DType::Int64;
        const ir::SymbolId where = variable("where", BinaryOp::Min, dtype, block);
        Stmt pass = loop_over("i", piece);
        const ExprId i = kernel_.symbol(pass.symbol), x = value_at(i);
        ExprId is_best = kernel_.binary(BinaryOp::Equal, x, best);
        if (is_floating(dtype_)) {
            is_best = kernel_.binary(BinaryOp::Or, is_best, kernel_.unary(ir::UnaryOp::IsNan, x));
        }
        const ExprId none = identity(kernel_, BinaryOp::Min, dtype);
        const ExprId offset = kernel_.cast(kernel_.binary(BinaryOp::Sub, i, piece.begin), dtype);
        pass.reduces = {where};
        pass.body = {accumulate(where, BinaryOp::Min, kernel_.select(is_best, offset, none))};
        block.push_back(std::move(pass));
        return kernel_.binary(BinaryOp::Add, piece.begin,
                              kernel_.cast(kernel_.symbol(where), DType::Int64));
    }

    Stmt loop_over(const char* name, const Piece& piece) {
        Stmt loop;
        loop.kind = StmtKind::For;
        loop.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, name);
        loop.value = piece.begin;
        loop.end = piece.end;
        loop.step = piece.step;
        return loop;
    }

    ir::SymbolId variable(const char* name, BinaryOp op, DType dtype, Block& block) {
        Stmt s;
        s.kind = StmtKind::Var;
        s.symbol = kernel_.add_symbol(ir::SymbolKind::Var, dtype, name);
        s.value = identity(kernel_, op, dtype);
        block.push_back(s);
        return s.symbol;
    }

    static Stmt accumulate(ir::SymbolId symbol, BinaryOp op, ExprId value) {
        Stmt s;
        s.kind = StmtKind::Accumulate;
        s.symbol = symbol;
        s.op = op;
        s.value = value;
        return s;
    }

    ir::BufferId array(const char* name, ExprId count, Block& block) {
        ir::Buffer array;
        array.kind = ir::BufferKind::Local;
        array.dtype = dtype_;
        array.name = name;
        array.shape = {count};
        kernel_.buffers.push_back(array);
        Stmt alloc;
        alloc.kind = StmtKind::Alloc;
        alloc.buffer = ir::BufferId(kernel_.buffers.size() - 1);
        block.push_back(alloc);
        return alloc.buffer;
    }

    static void store(ir::BufferId buffer, ExprId at, ExprId value, Block& block) {
        Stmt s;
        s.kind = StmtKind::Store;
        s.buffer = buffer;
        s.indices = {at};
        s.value = value;
        block.push_back(std::move(s));
    }

    ir::Kernel& kernel_;

    /// Of the loop at hand: min or max, and what it compares.
    BinaryOp op_ = BinaryOp::Max;
    DType dtype_ = DType::Float32;
};

}  // namespace

void chunk_arg_reductions(ir::Kernel& kernel) {
    kernel.body = ArgReductions(kernel).rewrite(std::move(kernel.body), true);
}

}  // namespace quern::schedule
