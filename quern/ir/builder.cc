#include "quern/ir/builder.h"

#include "quern/support/check.h"

namespace quern::ir {

Builder::Builder(std::string name, std::string kind) {
    kernel_.name = std::move(name);
    kernel_.kind = std::move(kind);
}

std::vector<Stmt>& Builder::block() {
    if (open_.empty()) return kernel_.body;
    Frame& frame = open_.back();
    return frame.in_else ? frame.stmt.otherwise : frame.stmt.body;
}

Stmt& Builder::add(StmtKind kind, Span span) {
    Stmt& s = block().emplace_back();
    s.kind = kind;
    s.span = span;
    return s;
}

void Builder::close(StmtKind kind) {
    QUERN_CHECK(!open_.empty() && open_.back().stmt.kind == kind, "blocks closed as opened");
    Stmt s = std::move(open_.back().stmt);
    open_.pop_back();
    block().push_back(std::move(s));
}

ExprId Builder::dim(std::string name, Span span) {
    kernel_.dims.push_back({std::move(name), span});
    return kernel_.dim(static_cast<std::uint32_t>(kernel_.dims.size() - 1));
}

ExprId Builder::scalar(std::string name, DType dtype, Span span) {
    kernel_.scalars.push_back({std::move(name), dtype, span});
    return kernel_.scalar(static_cast<std::uint32_t>(kernel_.scalars.size() - 1));
}

BufferId Builder::add_buffer(Buffer buffer) {
    kernel_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

BufferId Builder::operand(std::string name, DType dtype, int rank, Span span) {
    QUERN_CHECK(kernel_.buffers.size() == kernel_.operand_count, "operands before the output");
    std::vector<ExprId> shape;
    for (int axis = 0; axis < rank; ++axis) {
        shape.push_back(kernel_.extent(kernel_.operand_count, static_cast<std::uint32_t>(axis)));
    }
    ++kernel_.operand_count;
    return add_buffer({BufferKind::Operand, dtype, std::move(name), std::move(shape), false, span});
}

BufferId Builder::output(std::string name, DType dtype, std::vector<ExprId> shape, Span span) {
    QUERN_CHECK(kernel_.buffers.size() == kernel_.operand_count, "one output after the operands");
    return add_buffer({BufferKind::Output, dtype, std::move(name), std::move(shape), false, span});
}

BufferId Builder::alloc(BufferKind kind, std::string name, DType dtype, std::vector<ExprId> shape,
                        Span span) {
    QUERN_CHECK(kernel_.buffers.size() > kernel_.operand_count, "arrays after the output");
    const BufferId id = add_buffer({kind, dtype, std::move(name), std::move(shape), false, span});
    add(StmtKind::Alloc, span).buffer = id;
    return id;
}

void Builder::require(ExprId left, ExprId right, Rule rule, Code code, Span span) {
    kernel_.constraints.push_back({left, right, rule, code, span});
}

ExprId Builder::begin_for(std::string name, ExprId begin, ExprId end, ForOptions options) {
    const SymbolId symbol =
        kernel_.add_symbol(SymbolKind::Loop, DType::Int64, std::move(name), options.span);
    Frame& frame = open_.emplace_back();
    frame.stmt.kind = StmtKind::For;
    frame.stmt.span = options.span;
    frame.stmt.parallel = options.parallel;
    frame.stmt.symbol = symbol;
    frame.stmt.value = begin;
    frame.stmt.end = end;
    frame.stmt.step = exists(options.step) ? options.step : kernel_.integer(1);
    frame.stmt.reduces = std::move(options.reduces);
    return kernel_.symbol(symbol);
}

void Builder::end_for() { close(StmtKind::For); }

void Builder::begin_if(ExprId condition, Span span) {
    Frame& frame = open_.emplace_back();
    frame.stmt.kind = StmtKind::If;
    frame.stmt.span = span;
    frame.stmt.value = condition;
}

void Builder::begin_else() {
    QUERN_CHECK(!open_.empty() && open_.back().stmt.kind == StmtKind::If && !open_.back().in_else,
                "one else of an open if");
    open_.back().in_else = true;
}

void Builder::end_if() { close(StmtKind::If); }

ExprId Builder::let(std::string name, ExprId value, Span span) {
    const SymbolId symbol =
        kernel_.add_symbol(SymbolKind::Let, kernel_[value].dtype, std::move(name), span);
    Stmt& s = add(StmtKind::Let, span);
    s.symbol = symbol;
    s.value = value;
    return kernel_.symbol(symbol);
}

SymbolId Builder::var(std::string name, ExprId value, Span span) {
    const SymbolId symbol =
        kernel_.add_symbol(SymbolKind::Var, kernel_[value].dtype, std::move(name), span);
    Stmt& s = add(StmtKind::Var, span);
    s.symbol = symbol;
    s.value = value;
    return symbol;
}

void Builder::assign(SymbolId var, ExprId value, Span span) {
    Stmt& s = add(StmtKind::Assign, span);
    s.symbol = var;
    s.value = value;
}

void Builder::accumulate(SymbolId var, BinaryOp op, ExprId value, Span span) {
    Stmt& s = add(StmtKind::Accumulate, span);
    s.symbol = var;
    s.op = op;
    s.value = value;
}

void Builder::arg_reduce(SymbolId var, SymbolId index_var, BinaryOp op, ExprId value, ExprId index,
                         Span span) {
    Stmt& s = add(StmtKind::ArgReduce, span);
    s.symbol = var;
    s.index_symbol = index_var;
    s.op = op;
    s.value = value;
    s.index = index;
}

void Builder::store(BufferId buffer, std::vector<ExprId> indices, ExprId value, Span span) {
    Stmt& s = add(StmtKind::Store, span);
    s.buffer = buffer;
    s.indices = std::move(indices);
    s.value = value;
}

void Builder::barrier(Span span) { add(StmtKind::Barrier, span); }

void Builder::check(ExprId condition, Code code, Span span) {
    Stmt& s = add(StmtKind::Check, span);
    s.value = condition;
    s.code = code;
}

Kernel Builder::take() {
    QUERN_CHECK(open_.empty(), "every block closed");
    return std::move(kernel_);
}

}  // namespace quern::ir
