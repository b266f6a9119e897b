#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "quern/dtype.h"
#include "quern/lang/diagnostics.h"
#include "quern/lang/syntax.h"

// CIR: what a kernel means. Loop nests over scalar statements, pure expressions in an arena, local
// arrays for tiles and shared variables, and reductions with a fixed tree. Extents are symbols: one
// CIR serves every shape of the same ranks and dtypes. The interpreter is its definition.

namespace quern::ir {

using lang::Code;
using lang::Span;

/// A pure expression of one kernel. Nodes without a load or a variable are shared: equal
/// expressions have equal ids.
enum class ExprId : std::uint32_t {};
inline constexpr ExprId kNoExpr{0xffffffffu};
constexpr bool exists(ExprId id) { return id != kNoExpr; }

using SymbolId = std::uint32_t;
using BufferId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xffffffffu;

enum class UnaryOp : std::uint8_t {
    Neg,
    Not,    // bool
    IsNan,  // floating -> bool
#define UNARY(name, op, operand, value) op,
#include "quern/lang/functions.def"
};

enum class BinaryOp : std::uint8_t {
    Add,
    Sub,
    Mul,
    Div,       // integers truncate toward zero
    Rem,       // sign of the left operand
    FloorDiv,  // integers only, rounds toward minus infinity; made by the compiler for extents
    Less,
    LessEqual,
    Equal,
    NotEqual,
    And,  // bool; the right operand is evaluated only if the left is true
    Or,   // bool; only if the left is false
#define BINARY(name, op, value) op,
#include "quern/lang/functions.def"
};

std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);

enum class ExprKind : std::uint8_t {
    Const,   // a, b: the low and high half of an int64 or of a double's bits
    Dim,     // a: index into Kernel::dims; int64
    Extent,  // a: operand, b: axis; int64: the extent that the operand has at launch
    Scalar,  // a: index into Kernel::scalars
    Symbol,  // a: SymbolId; a loop variable, a let, or the present value of a var
    Load,    // a: BufferId, b: first of `count` entries in Kernel::index_pool
    Unary,   // op; a
    Binary,  // op; a, b; operands have one dtype (comparisons give bool)
    Select,  // a ? b : c; only the chosen side is evaluated
    Cast,    // a, to dtype: as Tensor::to converts
};

struct Expr {
    ExprKind kind = ExprKind::Const;
    std::uint8_t op = 0;
    DType dtype = DType::Int64;
    std::uint8_t count = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
    Span span;
};

/// Whether it is a function of one floating number, abs and sqrt among them, or a power.
constexpr bool is_function(const Expr& e) {
    const bool is_unary = e.kind == ExprKind::Unary && is_floating(e.dtype) &&
                          static_cast<UnaryOp>(e.op) > UnaryOp::IsNan;
    return is_unary || (e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::Pow);
}

enum class SymbolKind : std::uint8_t { Loop, Let, Var };

/// A scalar name inside the kernel. Loop variables are int64 and, like lets, never change.
struct Symbol {
    SymbolKind kind = SymbolKind::Let;
    DType dtype = DType::Int64;
    std::string name;
    Span span;
};

enum class BufferKind : std::uint8_t {
    Operand,  // never written
    Output,   // fresh, zero-filled
    Local,    // one array for each parallel point (tiles)
    Shared,   // as Local in meaning; seen by a whole work-group, so barriers order its uses
};

struct Buffer {
    BufferKind kind = BufferKind::Operand;
    DType dtype = DType::Float32;
    std::string name;

    /// Extents over dims, operand extents and scalars; for Local also over enclosing symbols.
    /// An operand's are Extent(operand, axis).
    std::vector<ExprId> shape;

    /// An operand or output of any rank that is indexed by its row-major position: rank 1 here.
    bool flat = false;
    Span span;
};

/// A named or opaque extent that binding gives a value.
struct Dim {
    /// As written: "hidden", or "head_dim/2" where it could not be inverted.
    std::string name;
    Span span;
};

/// A number bound by name at launch.
struct Scalar {
    std::string name;
    DType dtype = DType::Float32;
    Span span;
};

/// Why two extents must be equal: specification section 8, "Named dimensions".
enum class Rule : std::uint8_t {
    Declared,
    BareIndex,
    Slice,
    Guard,
    Tile,
    Range,
    Schema,
    Strided,
    SameShape,
};

/// left == right for every launch. Exactly one unknown dim in a constraint is solved for; a
/// constraint without unknowns is checked and reported with `code`.
struct Constraint {
    ExprId left = kNoExpr;
    ExprId right = kNoExpr;
    Rule rule = Rule::BareIndex;
    Code code = Code::E0501;
    Span span;
};

enum class StmtKind : std::uint8_t {
    Let,         // symbol = value, once
    Var,         // declares symbol with value
    Assign,      // symbol = value
    Accumulate,  // symbol = op(symbol, value) by the tree of the loops that reduce symbol
    ArgReduce,   // takes value and index if value is better: see Stmt::op
    For,         // symbol from value to end by step (a positive constant or extent)
    If,          // value ? body : otherwise
    Alloc,       // buffer of Buffer::shape begins here, elements not written yet
    Store,       // buffer[indices] = value
    Barrier,
    Check,  // value must be true, else the launch fails with `code` at `span`
};

/// A reduction's partials, and the iterations of a chunk that they are combined after:
/// Stmt::reduces.
inline constexpr std::int64_t kPartials = 16;
inline constexpr std::int64_t kChunk = 4096;

/// Statements are a tree; the order of a block is the order of execution.
struct Stmt {
    StmtKind kind = StmtKind::Let;
    /// Accumulate: the operator. ArgReduce: Less if smaller is better, else larger; NaN beats all,
    /// and the first of equals stays. Where nothing was taken yet is for an If around it to say.
    BinaryOp op = BinaryOp::Add;

    /// For: points may run in any order and at the same time.
    bool parallel = false;
    Code code = Code::E0620;
    Span span;
    std::uint32_t symbol = kNone;
    std::uint32_t index_symbol = kNone;
    BufferId buffer = kNone;
    ExprId value = kNoExpr;
    ExprId end = kNoExpr;
    ExprId step = kNoExpr;
    ExprId index = kNoExpr;
    std::vector<ExprId> indices;

    /// For: the vars that this loop reduces. Iteration number k (from 0) of the loop adds to
    /// partial k mod kPartials of chunk k / kChunk; see `interpret` for the tree. An inner loop
    /// that reduces the same var gives its whole result as one contribution to the iteration it
    /// runs in.
    std::vector<SymbolId> reduces;
    std::vector<Stmt> body;
    std::vector<Stmt> otherwise;
};

/// Calls `f` with each expression that a statement has itself, which it may replace; those of the
/// statements inside are theirs.
template <class S, class F>
requires std::is_same_v<std::remove_const_t<S>, Stmt>
void for_each_expr(S& s, const F& f) {
    for (auto* const id : {&s.value, &s.end, &s.step, &s.index}) {
        if (exists(*id)) f(*id);
    }
    for (auto& id : s.indices) f(id);
}

struct Kernel {
    std::string name;
    std::string kind;

    std::vector<Expr> exprs;
    std::vector<ExprId> index_pool;
    std::vector<Symbol> symbols;

    /// Operands in order, then the output, then local and shared arrays.
    std::vector<Buffer> buffers;
    std::uint32_t operand_count = 0;
    std::vector<Dim> dims;
    std::vector<Scalar> scalars;
    std::vector<Constraint> constraints;
    std::vector<Stmt> body;

    /// True if tiles, shared variables or barriers make one point a work-group.
    bool cooperative = false;

    /// Sizes of @workgroup as written, innermost first; 0 where absent. A hint.
    std::int64_t workgroup[3] = {0, 0, 0};

    BufferId output() const { return operand_count; }
    bool reads_output() const;
    const Expr& operator[](ExprId id) const { return exprs[static_cast<std::uint32_t>(id)]; }

    // Nodes. Each returns an existing node where an equal pure one is there. The arithmetic of
    // int64 folds constants and drops neutral elements; `simplify` in index.h does the rest.
    ExprId integer(std::int64_t value, Span span = {});
    ExprId floating(double value, DType dtype, Span span = {});
    ExprId boolean(bool value, Span span = {});
    ExprId dim(std::uint32_t index, Span span = {});
    ExprId extent(std::uint32_t operand, std::uint32_t axis, Span span = {});
    ExprId scalar(std::uint32_t index, Span span = {});
    ExprId symbol(SymbolId id, Span span = {});
    ExprId load(BufferId buffer, const std::vector<ExprId>& indices, Span span = {});
    ExprId unary(UnaryOp op, ExprId a, Span span = {});
    ExprId binary(BinaryOp op, ExprId a, ExprId b, Span span = {});
    ExprId select(ExprId condition, ExprId a, ExprId b, Span span = {});
    ExprId cast(ExprId a, DType dtype, Span span = {});

    /// The value of a Const of an integer dtype or bool, and of a floating dtype.
    std::int64_t integer_value(ExprId id) const;
    double floating_value(ExprId id) const;
    bool is_constant(ExprId id) const { return (*this)[id].kind == ExprKind::Const; }
    bool is_constant(ExprId id, std::int64_t value) const;

    /// The first operand that is read by its row-major positions, of whose shape the others are and
    /// the output that is written so.
    /// Requires: there is one.
    std::uint32_t first_flat() const;

    ExprId index_of(const Expr& load, int position) const {
        return index_pool[load.b + static_cast<std::uint32_t>(position)];
    }

    /// Drops every node that neither statements, buffers, constraints nor `roots` reach, and
    /// renumbers the rest; `roots` get their new ids.
    void compact(const std::vector<ExprId*>& roots = {});

    SymbolId add_symbol(SymbolKind kind, DType dtype, std::string name, Span span = {});

private:
    ExprId make(Expr node, bool share);
    void grow_shared();

    /// The shared nodes by hash, at the next free place: number + 1, or 0 where none is. At most
    /// half of it is taken.
    std::vector<std::uint32_t> shared_;
    std::size_t shared_count_ = 0;
};

}  // namespace quern::ir
