#include <algorithm>
#include <limits>
#include <optional>

#include "quern/schedule/passes.h"
#include "quern/schedule/reduction.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprId;
using ir::Stmt;
using ir::StmtKind;

namespace {

using Block = std::vector<Stmt>;

/// The ArgReduce of a loop that does nothing else, with the values of lets put in.
std::optional<Stmt> sole_arg_reduce(ir::Kernel& kernel, const Stmt& loop) {
    if (loop.kind != StmtKind::For || loop.parallel || loop.body.empty()) return std::nullopt;
    Stmt last = loop.body.back();
    if (last.kind != StmtKind::ArgReduce) return std::nullopt;
    for (std::size_t i = loop.body.size() - 1; i-- > 0;) {
        const Stmt& let = loop.body[i];
        if (let.kind != StmtKind::Let) return std::nullopt;
        last.value = ir::substitute(kernel, last.value, let.symbol, let.value);
        last.index = ir::substitute(kernel, last.index, let.symbol, let.value);
    }
    for (const ExprId id : {last.value, last.index}) {
        for (const ir::SymbolId s : {last.symbol, last.index_symbol}) {
            if (ir::depends_on(kernel, id, s)) return std::nullopt;
        }
    }
    if (kernel.symbols[last.symbol].dtype == DType::Bool) return std::nullopt;
    return last;
}

class ArgReductions {
public:
    explicit ArgReductions(ir::Kernel& kernel) : kernel_(kernel) {}

    Block rewrite(Block block, bool is_outside) {
        Block result;
        for (Stmt& s : block) {
            if (const auto arg_reduce = sole_arg_reduce(kernel_, s)) {
                in_chunks(s, *arg_reduce, is_outside, result);
                continue;
            }
            s.body = rewrite(std::move(s.body), is_outside && !s.parallel);
            s.otherwise = rewrite(std::move(s.otherwise), is_outside);
            result.push_back(std::move(s));
        }
        return result;
    }

private:
    void in_chunks(const Stmt& loop, const Stmt& arg_reduce, bool is_outside, Block& result) {
        const ExprId trips = ir::simplify(kernel_, trips_of(kernel_, loop));
        const ExprId rounded = kernel_.binary(BinaryOp::Add, trips, kernel_.integer(kChunk - 1));
        const ExprId count = kernel_.binary(BinaryOp::FloorDiv, rounded, kernel_.integer(kChunk));
        Stmt chunks = loop_over("chunk", kernel_.integer(0), count, kernel_.integer(1));
        chunks.span = loop.span;
        const ExprId step = exists(loop.step) ? loop.step : kernel_.integer(1);
        const ExprId width = kernel_.binary(BinaryOp::Mul, kernel_.integer(kChunk), step);
        const ExprId at = kernel_.symbol(chunks.symbol);
        const ExprId begin =
            kernel_.binary(BinaryOp::Add, loop.value, kernel_.binary(BinaryOp::Mul, at, width));
        const ExprId end =
            kernel_.binary(BinaryOp::Min, loop.end, kernel_.binary(BinaryOp::Add, begin, width));

        const bool is_less = arg_reduce.op == BinaryOp::Less;
        const DType dtype = kernel_.symbols[arg_reduce.symbol].dtype;
        const BinaryOp extreme = is_less ? BinaryOp::Min : BinaryOp::Max;
        const auto value_at = [&](ExprId i) {
            return ir::substitute(kernel_, arg_reduce.value, loop.symbol, i);
        };
        const ir::SymbolId best = variable("extreme", extreme, dtype, chunks.body);
        Stmt first_pass = loop_over("i", begin, end, step);
        first_pass.reduces = {best};
        first_pass.body = {accumulate(best, extreme, value_at(kernel_.symbol(first_pass.symbol)))};
        chunks.body.push_back(std::move(first_pass));

        // The first iteration whose value is the extreme: NaN, which is its own only by a test, is
        // the extreme of all that hold one.
        const ir::SymbolId where = variable("where", BinaryOp::Min, DType::Int64, chunks.body);
        Stmt second_pass = loop_over("i", begin, end, step);
        const ExprId i = kernel_.symbol(second_pass.symbol), x = value_at(i);
        ExprId is_best = kernel_.binary(BinaryOp::Equal, x, kernel_.symbol(best));
        if (is_floating(dtype)) {
            is_best = kernel_.binary(BinaryOp::Or, is_best, kernel_.unary(ir::UnaryOp::IsNan, x));
        }
        const ExprId none = identity(kernel_, BinaryOp::Min, DType::Int64);
        second_pass.reduces = {where};
        second_pass.body = {accumulate(where, BinaryOp::Min, kernel_.select(is_best, i, none))};
        chunks.body.push_back(std::move(second_pass));

        Stmt taken = arg_reduce;
        taken.value = value_at(kernel_.symbol(where));
        taken.index = ir::substitute(kernel_, arg_reduce.index, loop.symbol, kernel_.symbol(where));
        if (!is_outside) {
            chunks.body.push_back(std::move(taken));
            result.push_back(std::move(chunks));
            return;
        }
        chunks.parallel = true;
        Stmt combine = loop_over("chunk", kernel_.integer(0), count, kernel_.integer(1));
        combine.span = loop.span;
        Stmt chosen = arg_reduce;
        chosen.value =
            through_array("extremes", dtype, count, taken.value, at, combine, chunks, result);
        chosen.index =
            through_array("places", DType::Int64, count, taken.index, at, combine, chunks, result);
        combine.body = {std::move(chosen)};
        result.push_back(std::move(chunks));
        result.push_back(std::move(combine));
    }

    Stmt loop_over(const char* name, ExprId begin, ExprId end, ExprId step) {
        Stmt loop;
        loop.kind = StmtKind::For;
        loop.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, name);
        loop.value = begin;
        loop.end = end;
        loop.step = step;
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

    /// Stores `value` at `at` of a new array in each chunk; gives its load in `combine`.
    ExprId through_array(const char* name, DType dtype, ExprId count, ExprId value, ExprId at,
                         const Stmt& combine, Stmt& chunks, Block& result) {
        ir::Buffer array;
        array.kind = ir::BufferKind::Local;
        array.dtype = dtype;
        array.name = name;
        array.shape = {count};
        kernel_.buffers.push_back(array);
        const auto buffer = ir::BufferId(kernel_.buffers.size() - 1);
        Stmt alloc;
        alloc.kind = StmtKind::Alloc;
        alloc.buffer = buffer;
        result.push_back(alloc);
        Stmt store;
        store.kind = StmtKind::Store;
        store.buffer = buffer;
        store.indices = {at};
        store.value = value;
        chunks.body.push_back(std::move(store));
        return kernel_.load(buffer, {kernel_.symbol(combine.symbol)});
    }

    ir::Kernel& kernel_;
};

}  // namespace

void chunk_arg_reductions(ir::Kernel& kernel) {
    kernel.body = ArgReductions(kernel).rewrite(std::move(kernel.body), true);
}

}  // namespace quern::schedule
