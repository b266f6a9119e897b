#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quern/ir/cir.h"

namespace quern::ir {

struct ForOptions {
    /// None is 1.
    ExprId step = kNoExpr;
    bool parallel = false;
    std::vector<SymbolId> reduces = {};
    Span span = {};
};

/// Writes a kernel statement by statement into the innermost open block. Buffers are declared in
/// CIR's order: operands, the output, then local and shared ones. Nothing is checked beyond blocks
/// that are closed as they were opened; `verify` does the rest.
class Builder {
public:
    explicit Builder(std::string name, std::string kind = {});

    /// Expressions are made on it directly.
    Kernel& kernel() { return kernel_; }

    ExprId dim(std::string name, Span span = {});
    ExprId scalar(std::string name, DType dtype, Span span = {});

    /// An operand whose shape is its own extents.
    BufferId operand(std::string name, DType dtype, int rank, Span span = {});
    BufferId output(std::string name, DType dtype, std::vector<ExprId> shape, Span span = {});
    BufferId alloc(BufferKind kind, std::string name, DType dtype, std::vector<ExprId> shape,
                   Span span = {});
    void require(ExprId left, ExprId right, Rule rule = Rule::BareIndex, Code code = Code::E0501,
                 Span span = {});

    /// Opens a loop and returns its variable.
    ExprId begin_for(std::string name, ExprId begin, ExprId end, ForOptions options = {});
    void end_for();

    void begin_if(ExprId condition, Span span = {});
    void begin_else();
    void end_if();

    /// Returns the name, to be used in its place.
    ExprId let(std::string name, ExprId value, Span span = {});
    SymbolId var(std::string name, ExprId value, Span span = {});

    /// The present value of a var: a new node each time, since it may change between.
    ExprId read(SymbolId var) { return kernel_.symbol(var); }

    void assign(SymbolId var, ExprId value, Span span = {});
    void accumulate(SymbolId var, BinaryOp op, ExprId value, Span span = {});

    /// Keeps the smaller value if `op` is Less, else the larger, and its index.
    void arg_reduce(SymbolId var, SymbolId index_var, BinaryOp op, ExprId value, ExprId index,
                    Span span = {});
    void store(BufferId buffer, std::vector<ExprId> indices, ExprId value, Span span = {});
    void barrier(Span span = {});
    void check(ExprId condition, Code code, Span span = {});

    /// The finished kernel. Every block is closed.
    Kernel take();

private:
    struct Frame {
        Stmt stmt;
        bool in_else = false;
    };
    Stmt& add(StmtKind kind, Span span);
    void close(StmtKind kind);
    std::vector<Stmt>& block();
    BufferId add_buffer(Buffer buffer);

    Kernel kernel_;
    std::vector<Frame> open_;
};

}  // namespace quern::ir
