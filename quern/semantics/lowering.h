#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "quern/ir/index.h"
#include "quern/semantics/request.h"
#include "quern/support/check.h"

// The state of one lowering, from a Compute node to CIR. Types of vars are joins of everything that
// is assigned to them, so the body is lowered again until no join changes; only the last round's
// diagnostics count.

namespace quern::semantics {

using ir::BufferId;
using ir::Code;
using ir::ExprId;
using ir::SymbolId;
using lang::Kind;
using lang::NodeId;
using lang::Op;
using lang::Span;

/// One axis of a tile: how many lanes it has, and how many of them, from the first, are present.
struct Axis {
    ExprId capacity = ir::kNoExpr;
    ExprId extent = ir::kNoExpr;
};

/// A rectangle of scalars, given by what its element at an index is.
struct Tile {
    std::vector<Axis> axes;
    std::function<ExprId(const std::vector<ExprId>&)> at;

    /// Arrays that `at` reads at its own index, and at another one.
    std::set<BufferId> direct;
    std::set<BufferId> shuffled;

    /// Only reads an operand, at indices that never change.
    bool is_view = false;
};

/// What an expression means: a scalar or a tile.
struct Value {
    DType dtype = DType::Float32;

    /// The dtype that it counts as where it is stored: float16 for a float32 sum of float16.
    DType nominal = DType::Float32;

    /// A literal, an extent, a loop variable, a number of the host, or made of these alone: takes
    /// the dtype of what it meets.
    bool weak = false;

    /// Made by giving an operand too few indices: an argument, not something to compute with.
    bool is_row = false;

    /// Stands for an expression that was refused.
    bool poisoned = false;
    ExprId expr = ir::kNoExpr;
    std::shared_ptr<const Tile> tile;
    Span span;
};

/// What a local name stands for.
struct Local {
    enum class Kind { Loop, Let, Var, Shared } kind = Kind::Let;
    std::string name;
    Value value;                    // Let
    SymbolId symbol = ir::kNone;    // Loop, scalar Var
    BufferId buffer = ir::kNone;    // Shared, tile Var
    NodeId declaration = -1;        // Var
    std::vector<Axis> axes;         // tile Var, Shared: extents as they are now
    std::vector<SymbolId> extents;  // tile Var: kNone for an axis whose extent never changes
    Span span;
};

struct LoopScope {
    ir::LoopRange range;
    bool parallel = false;
    bool from_zero = false;
    std::string name;
    Span span;
};

/// One use of a buffer at an index, for the checks of bounds and races.
struct Access {
    BufferId buffer = 0;
    std::vector<ExprId> index;

    /// Per position: the length of a slice that begins at the index, or kNoExpr.
    std::vector<ExprId> slice_length;
    std::vector<LoopScope> loops;
    bool guarded = false;

    /// How many conditions decide whether it happens; an if of which both sides do it is none.
    int conditions = 0;
    bool is_store = false;
    Span span;
    std::vector<Span> index_spans;
};

/// One index of a store to `out`.
struct OutIndex {
    ExprId at = ir::kNoExpr;

    /// 1 unless it is a slice.
    ExprId length = ir::kNoExpr;

    /// What it makes of the extent of `out`, if `runs` holds or is kNoExpr; else 0.
    ExprId extent = ir::kNoExpr;
    ExprId runs = ir::kNoExpr;
    bool is_slice = false;
};

/// Uses of one operand axis at stride*v + offset.
struct Strided {
    std::set<std::int64_t> offsets;
    ExprId end = ir::kNoExpr;
    Span span;
};

/// The type of a var, as far as the rounds until now know it.
struct VarType {
    DType dtype = DType::Float32;
    DType nominal = DType::Float32;
    bool weak = true;

    /// A float only because a literal is: integers may join.
    bool lifted = false;

    /// Bit p: a tile was assigned that has absent lanes along axis p.
    std::uint32_t ragged = 0;
    std::vector<ExprId> capacities;
};

class Lowering {
public:
    Lowering(const Request& request, const Limits& limits, lang::Diagnostics& diagnostics);
    std::optional<Lowered> run();

private:
    friend class BlockScope;

    // lower.cc: the rounds and the frame of a kernel.
    void read_header();
    void read_decorators(NodeId decorators);
    void begin_round();
    void round();
    void body_over_axes();
    bool next_round();
    void check_broadcast();
    void declare_operands();
    ir::Stmt& push(ir::StmtKind kind, Span span);
    /// `otherwise` if it is no constant integer, which is reported.
    std::int64_t constant_of(NodeId id, std::string_view what, std::int64_t otherwise = 1);
    Span span_of(NodeId id) const { return tree_[id].span; }
    bool is_name(NodeId id, std::string_view text) const;

    // statements.cc
    void block(NodeId id);
    void statement(NodeId id);
    void for_loop(NodeId id, int first_loop, bool parallel);
    void open_loop(NodeId loop, bool parallel, const std::function<void()>& body);
    void if_statement(NodeId id);
    void declaration(NodeId id);
    void shared_declaration(NodeId id);
    void assignment(NodeId id);
    void assign_var(NodeId id, Local& var, Op op, NodeId value);
    void set_var(Local& var, Value value, Span span);
    bool accumulate(Local& var, NodeId value_node);
    void contribute(Local& var, ir::BinaryOp op, NodeId value_node, Span span);
    void assign_tile_var(Local& var, const Value& value, Span span, ir::StmtKind extents);
    void store_element(NodeId id, Local& target, NodeId index, Op op, NodeId value);
    void expression_statement(NodeId id);

    // output.cc
    void store_out(NodeId id, NodeId target, Op op, NodeId value);
    bool out_index(NodeId subscript, std::vector<OutIndex>& place, Access& access);
    void store_lanes(const Value& value, const std::vector<OutIndex>& place, std::size_t slices,
                     Span span);

    /// Whether all loops that the index depends on run, where the extent does not say it.
    ExprId loops_run(ExprId at, ExprId extent);
    bool is_axis_loop(std::size_t p) const {
        return p < axis_loops_.size() && axis_loops_[p].range.symbol != ir::kNone;
    }
    void finish_out(Value value, const std::vector<ExprId>& place, const std::vector<ExprId>& shape,
                    Span span);
    Value then_applied(Value value, Span span);
    bool type_out(const Value& value, int rank, Span span);
    /// `runs` is true when the loops around the store are not empty; kNoExpr if it does not matter.
    void add_candidate(std::size_t position, ExprId extent, ExprId runs = ir::kNoExpr);

    // reductions.cc
    void reduce_kernel(NodeId body);
    void yield(NodeId id);
    Value reduce_tile(ir::BinaryOp op, const Value& value, std::vector<int> axes, bool keep,
                      bool may_be_empty, Span span);
    /// Brings two factors to the dtype in which their products accumulate.
    bool factors(Value& a, Value& b, Value& products, Span span);
    Value contract(const Value& a, const Value& b, Span span);
    Value dot(const Value& a, const Value& b, Span span);
    ExprId identity(ir::BinaryOp op, DType dtype);
    void mark_reductions();

    // expressions.cc
    Value expression(NodeId id);
    Value scalar(NodeId id, std::string_view what);
    Value not_a_scalar(NodeId id, const Value& value, std::string_view what);
    Value name(NodeId id);
    Value local_value(Local& local, Span span);
    Value free_name(NodeId id);
    Value operand_value(std::uint32_t operand, Span span);
    Value number(NodeId id);
    Value unary(NodeId id);
    Value binary(NodeId id);
    Value logical(NodeId id);
    void bind_scale(NodeId divisor, ExprId contracted);
    Value arithmetic(ir::BinaryOp op, Value a, Value b, Span span);
    Value comparison(Op op, Value a, Value b, Span span);
    Value truth(const Value& value, NodeId id);
    void uses_to_rename(NodeId id, std::string_view name, const Local& local,
                        std::vector<Span>& uses) const;
    Value element_index(NodeId id);
    Value index_of(NodeId id, const Value& object, const std::string& object_name,
                   std::uint32_t operand);
    Value subscript(NodeId id);

    // functions.cc
    Value call(NodeId id);
    Value elementwise(Value a, DType dtype, DType nominal, bool weak,
                      const std::function<ExprId(ExprId)>& f);
    Value elementwise2(Value a, Value b, DType dtype, DType nominal, bool weak, Span span,
                       const std::function<ExprId(ExprId, ExprId)>& f);
    Value apply_unary(ir::UnaryOp op, bool wants_float, Value a, Span span);
    /// None if `name` is not a function of one value.
    std::optional<Value> unary_function(std::string_view name, Value a, Span span);
    Value special(std::string_view function, NodeId id, const std::vector<NodeId>& arguments);
    Value reduce_call(NodeId id, const std::vector<NodeId>& arguments);
    Value zeros(const std::vector<NodeId>& arguments, Span span);
    Value transpose(const Value& a, Span span);

    // types.cc
    Value convert(const Value& value, DType dtype);
    ExprId convert(ExprId weak, DType from, DType to);
    void warn_of_quotient(ExprId expr);
    bool unify(Value& a, Value& b, Span span, DType& nominal, bool& weak);
    bool join(VarType& type, const Value& value, Span span);
    static DType widened(DType dtype);
    Value poison(Span span);
    Value make_scalar(ExprId expr, Span span, bool weak = false);
    Value materialise(const Value& value, const std::string& name);
    void for_each(const std::vector<Axis>& axes,
                  const std::function<void(const std::vector<ExprId>&)>& body);
    bool changes(ExprId expr) const;
    bool is_let(ExprId expr) const {
        const ir::Expr& e = kernel_[expr];
        return e.kind == ir::ExprKind::Symbol && kernel_.symbols[e.a].kind == ir::SymbolKind::Let;
    }
    ExprId minimum(ExprId a, ExprId b);
    bool at_most(ExprId a, ExprId b) const;
    static bool is_ragged(const Axis& axis) { return axis.extent != axis.capacity; }

    /// The axis of an element by element operation on two of one capacity.
    Axis meet(const Axis& a, const Axis& b);
    ExprId zero() const { return zero_; }
    ExprId one() const { return one_; }

    /// Canonical; most are as they stand.
    ExprId simplify(ExprId id) { return is_leaf(id) ? id : ir::simplify(kernel_, id); }
    bool is_leaf(ExprId id) const {
        const ir::ExprKind kind = kernel_[id].kind;
        return kind == ir::ExprKind::Const || kind == ir::ExprKind::Dim ||
               kind == ir::ExprKind::Extent || kind == ir::ExprKind::Symbol;
    }

    // dimensions.cc
    ExprId extent_expression(NodeId id, bool may_be_opaque);
    ExprId dim_named(const std::string& name, Span span);
    void require(ExprId left, ExprId right, ir::Rule rule, Code code, Span span);
    void bind_index(std::uint32_t operand, int axis, ExprId index, Span span);
    void bind_strided();
    void bind_ranges();
    void bind_schema();
    void shape_output();

    /// Writes an operand's extent as the dim that it must equal, wherever the CIR uses it.
    void name_extents();
    bool is_bound(std::uint32_t dim) const;
    ExprId over_loops(ExprId expr, const std::vector<LoopScope>& loops, bool upper);

    // checks.cc, races.cc, barriers.cc: what the finished CIR shows.
    void check_bounds();
    void check_races();
    bool tells_apart(const ir::Affine& form, ExprId slice_length, const LoopScope& loop);
    bool is_mixed_radix(const ir::Affine& form, const std::vector<const LoopScope*>& loops);
    const LoopScope* not_told_apart(const Access& store);
    bool meet_at_two_points(const Access& x, const Access& y);
    void check_barriers();
    void check_coverage();
    void check_steps();

    lang::Diagnostics::Entry report(Code code, Span span, std::string message) {
        return diagnostics_.add(code, span, std::move(message));
    }

    const Request& request_;
    const Limits& limits_;
    lang::Diagnostics& diagnostics_;
    const lang::Tree tree_;
    Lowered result_;
    ir::Kernel& kernel_;
    const ExprId zero_;
    const ExprId one_;

    // Fixed by the header.
    Arguments numbers_;
    std::vector<std::string> operand_names_;
    std::vector<NodeId> operand_nodes_;
    std::map<std::string, std::int64_t, std::less<>> tile_names_;
    std::vector<std::pair<std::string, Span>> tile_order_;
    NodeId body_ = -1;
    bool is_reduce_ = false;
    bool is_arg_reduce_ = false;
    std::string reduce_op_;
    NodeId reduce_axis_ = -1;
    bool flat_ = false;
    NodeId broadcast_ = -1;
    NodeId shared_hint_ = -1;
    std::vector<std::string> defaults_;

    // Known better after each round.
    bool changed_ = false;
    std::map<NodeId, VarType> var_types_;
    std::set<std::string> dim_names_;
    std::set<std::string> guard_names_;
    std::set<std::string> not_dims_;
    VarType out_type_;
    VarType next_out_type_;
    int out_rank_ = -1;
    int next_out_rank_ = -1;
    bool out_is_typed_ = false;
    bool is_loop_free_ = false;
    bool loops_over_axes_ = false;
    std::uint32_t reduced_axes_ = 0;
    std::uint32_t next_reduced_axes_ = 0;
    bool axes_are_separable_ = true;

    // Of the present round.
    std::vector<ir::Stmt>* block_ = nullptr;
    std::vector<std::vector<Local>> scopes_;
    std::vector<LoopScope> loops_;
    std::vector<LoopScope> axis_loops_;
    std::vector<std::pair<ExprId, ExprId>> guards_;
    int guarded_ = 0;
    bool extent_context_ = false;
    bool guard_context_ = false;
    std::vector<Access> accesses_;
    std::map<std::tuple<std::uint32_t, int, SymbolId, std::int64_t>, Strided> strided_;
    std::vector<std::pair<std::int64_t, Span>> steps_;

    /// The lets that hold an extent of a tile, with what they hold.
    std::map<SymbolId, ExprId> tile_extents_;
    std::vector<ExprId> out_shape_;
    std::vector<std::vector<std::pair<ExprId, ExprId>>> out_candidates_;
    bool has_tiles_ = false;
    bool has_shared_ = false;
    std::vector<Span> barriers_;
    SymbolId yield_var_ = ir::kNone;
    SymbolId yield_index_ = ir::kNone;
    SymbolId yield_found_ = ir::kNone;
    ExprId contracted_ = ir::kNoExpr;
};

/// True if the expression has the same value for the whole launch.
bool is_fixed(const ir::Kernel& kernel, ExprId id);

/// The operator of `+=`, `-=`, `*=` or `/=`.
constexpr ir::BinaryOp compound_operator(Op op) {
    switch (op) {
        case Op::AddSet:
            return ir::BinaryOp::Add;
        case Op::SubSet:
            return ir::BinaryOp::Sub;
        case Op::MulSet:
            return ir::BinaryOp::Mul;
        default:
            return ir::BinaryOp::Div;
    }
}

/// Lowers into another block while it lives.
class BlockScope {
public:
    BlockScope(Lowering& lowering, std::vector<ir::Stmt>& block)
        : lowering_(lowering), outer_(lowering.block_) {
        lowering_.block_ = &block;
        lowering_.scopes_.emplace_back();
    }
    ~BlockScope() {
        lowering_.scopes_.pop_back();
        lowering_.block_ = outer_;
    }
    BlockScope(const BlockScope&) = delete;
    BlockScope& operator=(const BlockScope&) = delete;

private:
    Lowering& lowering_;
    std::vector<ir::Stmt>* outer_;
};

}  // namespace quern::semantics
