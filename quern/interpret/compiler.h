#pragma once

#include <vector>

#include "quern/interpret/code.h"
#include "quern/interpret/ranges.h"

namespace quern::interpret {

/// Makes the instructions of one launch.
///
/// A frame is the main code or a loop around the present place. Code at level n runs in the body of
/// frame n - 1. What needs nothing of frame n and cannot fail is put before it: at level n, in
/// frames_[n].before. Level 0 is what needs no symbol at all.
class Compiler {
public:
    Compiler(const ir::Kernel& kernel, const Launch& launch);
    Code run();

private:
    using Instructions = std::vector<Instruction>;

    /// A register, and the level from which on it holds its value.
    struct Value {
        std::uint32_t reg = 0;
        std::uint32_t level = 0;
    };

    struct Frame {
        Instructions before;
        Instructions body;

        /// Symbols that the loop assigns: what reads them stays inside.
        std::vector<bool> assigned;

        /// The accumulated vars that the loop reduces, and the first of their reductions.
        std::vector<ir::SymbolId> reduced;
        std::uint32_t first_reduction = 0;

        /// The loop's variable; the iteration number is in the next register.
        std::uint32_t variable = 0;
        std::vector<ir::ExprId> remembered;
    };

    /// The registers of a loop's bounds.
    struct Bounds {
        Value begin, step, count;
    };

    struct Place {
        std::uint32_t base = 0;
        std::uint32_t index = 0;
        std::int64_t scale = 0;
        std::uint32_t level = 0;

        /// The register of the element's number in an array of which it is noted what is used.
        std::uint32_t element = ir::kNone;
    };

    // Statements: compile_statements.cc.
    void block(const std::vector<ir::Stmt>& body);
    void statement(const ir::Stmt& s);
    void conditional(const ir::Stmt& s);
    void loop(const ir::Stmt& s);
    void region(const ir::Stmt& s);
    void points(const std::vector<const ir::Stmt*>& loops, std::size_t next, Value id);
    Bounds bounds_of(const ir::Stmt& s);
    void enter(const ir::Stmt& s);
    Frame leave();
    Value settled(Value value);
    void accumulate(const ir::Stmt& s);
    void accumulate(ir::SymbolId symbol, ir::BinaryOp op, Value value);
    void better(const ir::Stmt& s);
    std::uint32_t track(std::uint32_t iteration, std::uint32_t count);
    void allocate(const ir::Stmt& s);
    void store(const ir::Stmt& s);

    // Expressions: compile_expressions.cc.
    Value expr(ir::ExprId id);
    Value compute(ir::ExprId id);
    Value binary(ir::ExprId id, Value x);
    Value unary(const ir::Expr& e);
    Value cast(Value x, DType from, DType to);
    Value lazy(ir::ExprId id);
    bool is_lazy(ir::ExprId id);
    Value load(ir::ExprId id);
    Value wrapped(Value x, DType dtype);
    void assign(std::uint32_t reg, Value value);
    Value symbol(ir::SymbolId id);
    Value constant(Reg bits);
    Value integer(std::int64_t value);

    // Elements of buffers: compile_elements.cc.
    Place place(ir::BufferId buffer, const std::vector<ir::ExprId>& indices, ir::Span span);
    bool is_claimed(ir::BufferId buffer) const;
    Value bounded(ir::BufferId buffer, int axis, ir::ExprId index, ir::Span span);

    // Places and registers.
    std::uint32_t depth() const { return std::uint32_t(frames_.size()); }
    std::uint32_t registers(std::uint32_t count = 1);
    Instructions& code() { return frames_.back().body; }
    Instruction& emit(Op op, std::uint32_t dst, std::uint32_t a = 0, std::uint32_t b = 0);
    Instruction& emit_at(std::uint32_t level, Op op, std::uint32_t dst, std::uint32_t a = 0,
                         std::uint32_t b = 0);
    Value result(std::uint32_t level, Op op, Value a, Value b);
    Value result(std::uint32_t level, Op op, Value a) { return result(level, op, a, a); }
    std::size_t jump(Op op, std::uint32_t condition = 0);
    void land(std::size_t jump);
    std::uint32_t site(Site site);
    void remember(ir::ExprId id, Value value);
    void open_scope() { scopes_.emplace_back(); }
    void close_scope();
    void forget(const std::vector<ir::ExprId>& ids);

    const ir::Kernel& kernel_;
    const Launch& launch_;
    Ranges ranges_;
    Code code_;
    std::vector<Frame> frames_;

    struct Known {
        bool known = false;
        Value value;
    };
    std::vector<Known> known_;
    std::vector<std::vector<ir::ExprId>> scopes_;
    std::vector<Value> symbols_;
    std::vector<bool> is_defined_;

    /// Index of a buffer in Code::arrays, and of the registers of its address and strides.
    std::vector<std::uint32_t> array_of_;
    std::vector<Value> address_;
    std::vector<std::vector<Value>> strides_;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> constants_;

    /// Index in Code::regions of the nest around the present place, or kNone.
    std::uint32_t region_ = ir::kNone;
    std::vector<Instructions> region_code_;

    /// The part of the work around the present place, and how many loops are around it.
    std::uint32_t tracked_ = ir::kNone;
    int tracked_depth_ = 0;

    /// Registers of vars: their values change.
    std::vector<bool> is_var_;
};

}  // namespace quern::interpret
