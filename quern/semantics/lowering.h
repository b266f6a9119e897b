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

    /// A float only because a literal met integers: more integers may join.
    bool lifted = false;

    /// What a cast of the text gives: a product in it is no wider under a sum.
    bool is_cast = false;

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

/// What the subscripts of one Index node say of the axes of its object.
struct Indexed {
    std::vector<ExprId> start;
    std::vector<Axis> axes;

    /// Which axes of the object the remaining ones are.
    std::vector<int> free;
    Access access;
    bool bad = false;
    bool sliced = false;
    bool moving = false;
};

/// A slice of an operand.
struct Slice {
    std::uint32_t operand = 0;
    int axis = 0;
    ExprId start = ir::kNoExpr;
    ExprId stop = ir::kNoExpr;
    bool has_stop = false;
    Span span;
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

/// What one store writes: all of `out`, or, along one axis, the elements `residue` modulo a modulus
/// (or the single one, where it is stored at a constant).
struct Coverage {
    bool whole = true;

    /// Axis, modulus (or extent), whether it is stored at a constant.
    std::tuple<std::size_t, std::int64_t, bool> group;
    std::int64_t residue = 0;
    std::set<SymbolId> loops;
};

/// The loops of a reduce kernel, and where in `out`, of which shape, its points store.
struct ReduceNest {
    std::vector<NodeId> kept;
    std::vector<NodeId> reduced;
    NodeId innermost = -1;
    std::vector<ExprId> place;
    std::vector<ExprId> shape;
};

/// Uses of one operand axis at stride*v + offset.
struct Strided {
    std::set<std::int64_t> offsets;
    ExprId end = ir::kNoExpr;
    Span span;
};

/// A bit for each axis of what operands make, which have fewer.
using AxisBits = std::uint64_t;
constexpr AxisBits axis_bit(int axis) { return axis < 64 ? AxisBits(1) << axis : 0; }

/// The type of a var, as far as the rounds until now know it.
struct VarType {
    DType dtype = DType::Float32;
    DType nominal = DType::Float32;
    bool weak = true;

    /// A float only because a literal is: integers may join.
    bool lifted = false;

    /// Bit p: a tile was assigned that has absent lanes along axis p.
    AxisBits ragged = 0;
    std::vector<ExprId> capacities;

    bool operator==(const VarType&) const = default;
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
    void read_kind(const std::vector<NodeId>& arguments);
    void read_conv2d();
    void begin_round();
    void round();
    void body_over_axes();
    bool next_round();
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

    /// What follows is evaluated only where the condition holds.
    void guard_by(const Value& condition);
    void declaration(NodeId id);
    std::optional<DType> declared_dtype(NodeId type);
    void declare_let(Local local, Value value, Span span);
    void declare_var(Local local, const Value& value, NodeId id);
    void declare_tile_var(Local local, const Value& value, const VarType& var, Span span);
    void shared_declaration(NodeId id);
    void assignment(NodeId id);
    void assign_var(NodeId id, Local& var, Op op, NodeId value);
    void set_var(Local& var, Value value, Span span);
    bool accumulate(Local& var, NodeId value_node);
    void contribute(Local& var, ir::BinaryOp op, NodeId value_node, Span span,
                    bool is_negated = false);
    void assign_tile_var(Local& var, const Value& value, Span span, ir::StmtKind extents);
    void store_element(NodeId id, Local& target, NodeId index, Op op, NodeId value);
    void expression_statement(NodeId id);

    // output.cc
    void store_out(NodeId id, NodeId target, Op op, NodeId value);
    bool out_index(NodeId subscript, std::vector<OutIndex>& place, Access& access);
    bool out_extent(OutIndex& index, Span span);
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
    std::optional<ReduceNest> read_nest(NodeId body);
    NodeId mention_of(std::string_view name, NodeId node) const;
    NodeId dependence_of(NodeId loop, NodeId other) const;

    /// Whether no loop that is kept depends on one that is reduced; else reports it.
    bool are_outside(const ReduceNest& nest);
    bool is_rectangular(const ReduceNest& nest) const;
    void over_kept(ReduceNest& nest, std::size_t k);
    void over_reduced(const ReduceNest& nest, std::size_t k);
    void reduce_point(const ReduceNest& nest);
    SymbolId point_var(const char* name, ExprId value);

    /// Fails the launch with E0620 and the reason unless the condition holds.
    void check_some(ExprId condition, Span span, std::string_view op, const std::string& reason);
    void check_axes(ir::BinaryOp op, const Tile& tile, const std::vector<int>& axes, Span span);
    void yield(NodeId id);

    /// Brings a value to the dtype in which `op` reduces it, and `op` to what it is there.
    bool reduced_dtype(ir::BinaryOp& op, Value& value, Span span);

    /// Reduces the axes of the tile, of which `inner` has the extents, at one place of the others.
    SymbolId reduce_at(ir::BinaryOp op, const Value& value, const std::vector<Axis>& inner,
                       const std::vector<int>& axes, const std::vector<ExprId>& at, Span span);
    BufferId reduced_buffer(DType dtype, std::vector<Axis>& axes, Span span);
    Value reduce_tile(ir::BinaryOp op, const Value& value, std::vector<int> axes, bool keep,
                      bool may_be_empty, Span span);
    /// Brings two factors to the dtype in which their products accumulate.
    bool factors(Value& a, Value& b, Value& products, Span span);
    Value contract(const Value& a, const Value& b, Span span);
    Value dot(const Value& a, const Value& b, Span span);
    ExprId identity(ir::BinaryOp op, DType dtype);
    void mark_reductions();
    bool bounds_read(const ir::Stmt& loop, SymbolId symbol) const;

    // expressions.cc
    Value expression(NodeId id);
    Value scalar(NodeId id, std::string_view what);
    Value not_a_scalar(NodeId id, const Value& value, std::string_view what);
    Value name(NodeId id);
    Value local_value(Local& local, Span span);
    Value free_name(NodeId id);
    bool is_new_dimension(const std::string& name);

    /// A number of the host; if `assumed`, any name is one.
    std::optional<Value> host_number(const std::string& name, bool assumed, Span span);
    Value undefined_name(const std::string& name, bool bindable, Span span);
    Value operand_value(std::uint32_t operand, Span span);
    Value number(NodeId id);
    Value unary(NodeId id);
    Value binary(NodeId id);
    Value logical(NodeId id);
    void bind_scale(NodeId divisor, ExprId contracted);
    Value arithmetic(ir::BinaryOp op, Value a, Value b, Span span);
    Value comparison(Op op, Value a, Value b, Span span);
    Value truth(const Value& value, NodeId id);

    // subscripts.cc
    void uses_to_rename(NodeId id, std::string_view name, const Local& local,
                        std::vector<Span>& uses) const;
    Value element_index(NodeId id);
    void warn_of_hidden_loop(const Local& local);
    void index_position(NodeId node, int position, std::uint32_t operand, Indexed& indexed);
    ExprId slice_end(NodeId node, ExprId absent, bool& bad);

    /// The same at every point and at least 1 as far as the text shows, or kNoExpr.
    ExprId slice_length(ExprId start, ExprId stop, Span span);
    void slice_position(NodeId node, int position, const Axis& whole, std::uint32_t operand,
                        Indexed& indexed);
    Value index_of(NodeId id, const Value& object, const std::string& object_name,
                   std::uint32_t operand);
    std::shared_ptr<const Tile> part_of(const Tile& object, const Indexed& indexed, bool is_operand,
                                        Span span);
    Value subscript(NodeId id);

    // functions.cc
    Value call(NodeId id);
    Value elementwise(Value a, DType dtype, DType nominal, bool weak,
                      std::function<ExprId(ExprId)> f);
    Value elementwise2(Value a, Value b, DType dtype, DType nominal, bool weak, Span span,
                       std::function<ExprId(ExprId, ExprId)> f);
    Value apply_unary(ir::UnaryOp op, bool wants_float, Value a, Span span);
    /// None if `name` is not a function of one value.
    std::optional<Value> unary_function(std::string_view name, Value a, Span span);
    Value special(std::string_view function, NodeId id, const std::vector<NodeId>& arguments);
    Value power(Value a, Value b, Span span);
    Value select(const std::vector<NodeId>& arguments, Span span);
    Value reduce_rows(ir::BinaryOp op, const Value& a, std::string_view function, Span span);

    /// True, and reported, for a dtype that tensors hold and kernels do not compute with.
    bool refuse_storage(DType dtype, Span span);
    Value reduce_call(NodeId id, const std::vector<NodeId>& arguments);
    Value zeros(const std::vector<NodeId>& arguments, Span span);
    Value transpose(const Value& a, Span span);

    // types.cc
    Value convert(const Value& value, DType dtype);
    ExprId convert(ExprId weak, DType from, DType to);
    /// Of each quotient of integers that reaches the float through sums and products.
    void warn_of_quotient(ExprId expr);
    bool divides(ExprId quotient, ExprId divisor) const;
    bool unify(Value& a, Value& b, Span span, DType& nominal, bool& weak);
    bool join(VarType& type, const Value& value, Span span);
    bool join_dtype(VarType& joined, const Value& value, Span span);
    bool join_strong(VarType& joined, const Value& value, Span span);
    void join_shape(VarType& joined, const Tile& tile);

    /// What a sum in `wide` adds up: a product is made there, so that it is rounded, or wraps, only
    /// with the sum.
    ExprId widen(ExprId expr, DType wide, bool is_cast);
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

    /// An axis beside one of capacity 1, whose lane is each of its lanes: absent if that is.
    Axis spread(const Axis& one, const Axis& axis);
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
    void tie_len(ExprId extent, Span span);

    /// The dimension that stands for an extent which is no sum of dimensions, such as n / 2.
    ExprId opaque_dim(ExprId expr, NodeId id);
    void require(ExprId left, ExprId right, ir::Rule rule, Code code, Span span);

    /// Whether a shape declares another extent, and all dims of `end` have values of declarations
    /// or of the host: indices below `end` then read a part of the axis.
    bool is_part_of_declared(ExprId end, ExprId extent);

    /// That indices below `end` reach all of an axis, unless they read a part of a declared one.
    void require_whole(ExprId end, ExprId extent, ir::Rule rule, Span span);
    void bind_index(std::uint32_t operand, int axis, ExprId index, Span span);

    /// The E of an index that takes each of 0, ..., E - 1: a loop variable, or its quotient or
    /// remainder by what divides its range. kNoExpr for others.
    ExprId run_of(ExprId index, const std::vector<LoopScope>& loops);

    /// Whether it is the step of a loop, whose end that of the axis then is.
    bool bind_slice(const Slice& slice);

    /// What a dim adds to the end of a slice.
    std::optional<ir::Term> stop_term(const Slice& slice, std::uint32_t dim);
    void bind_strided();

    /// For each dim the largest value that keeps the reads in bounds.
    using Answers = std::map<std::uint32_t, std::pair<ExprId, Span>>;
    void add_range(Answers& answers, std::uint32_t dim, std::int64_t factor, ExprId room,
                   Span span);
    void range_of_read(const Access& access, const LoopScope& loop, Answers& answers);
    void bind_ranges();
    void bind_schema();
    void shape_output();

    /// Writes an operand's extent as the dim that it must equal, wherever the CIR uses it.
    void name_extents();
    std::set<std::uint32_t> dims_of(ExprId id) const;
    bool is_multiple_of(ExprId id, std::uint32_t dim) const;

    /// The dims to which the constraints so far give a value.
    std::set<std::uint32_t> bound_dims() const;
    std::set<std::uint32_t> bound_by(bool (*counts)(const ir::Constraint&)) const;

    /// The least or largest value of an expression, or nothing: one that it has if no loop is
    /// empty, or one that it does not pass.
    ExprId attained_over_loops(ExprId expr, const std::vector<LoopScope>& loops, bool upper);
    ExprId over_loops(ExprId expr, const std::vector<LoopScope>& loops, bool upper);

    /// What the text says that an integer is at most, whatever the data: 16 of min(at[i], 16). The
    /// integer itself if no data is in it, none if only its dtype limits it.
    ExprId stated_limit(ExprId id);
    bool depends_on_data(ExprId id) const;

    /// The end without the begin of an open loop where that is largest; none if nothing says
    /// that before it runs.
    ExprId most_iterations(const ir::LoopRange& range);

    // checks.cc, races.cc, barriers.cc: what the finished CIR shows.
    void check_bounds();
    void check_races();
    bool tells_apart(const ir::Affine& form, ExprId slice_length, const LoopScope& loop);

    /// Where elements end that only this step of the loop has, if `inner` begins with the first of
    /// them and passes none of another step; else nothing.
    ExprId block_of(const LoopScope& inner, const LoopScope& loop);

    /// Whether `inner` runs through all of those below the extent, and the first one is 0.
    bool fills_block_of(const LoopScope& inner, const LoopScope& loop, ExprId extent);
    /// Iterations in steps of 1, written out where the end is an opaque name.
    ExprId trips_of(const ir::LoopRange& range);
    bool is_mixed_radix(const ir::Affine& form, const std::vector<const LoopScope*>& loops);

    /// What an index is a quotient of, and by what in all: i and b*c of i / b / c, x and 1 of x.
    std::pair<ExprId, ExprId> quotient_of(ExprId id);

    /// Whether indices that are quotients and remainders of number / divisor determine it.
    bool digits_tell(const std::vector<ExprId>& indices, ExprId number, ExprId divisor);
    const LoopScope* not_told_apart(const Access& store);
    bool meet_at_two_points(const Access& x, const Access& y);
    void check_barriers();
    void check_coverage();
    void check_piped();
    bool is_of_loops(ExprId id, const std::vector<LoopScope>& loops) const;

    /// Whether a loop over an index leaves none of its elements out, whatever the others do.
    bool covers_run(const LoopScope& loop, const Access& store, ExprId extent, Coverage& coverage);
    std::optional<Coverage> covers(const Access& store, bool single);

    /// False if the index is no sum of one loop and numbers; none if it leaves elements out.
    std::optional<bool> covers_axis(const Access& store, std::size_t p, ExprId extent, bool single,
                                    Coverage& coverage);
    bool covers_digits(const Access& store, const std::vector<ExprId>& digits,
                       const std::set<SymbolId>& bare);
    void check_steps();
    void check_broadcast(NodeId decorator);

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

    /// Operands are read by their row-major positions, but for scalars beside others.
    bool flat_ = false;
    bool are_scalars_ = false;
    std::vector<NodeId> broadcasts_;
    NodeId shared_hint_ = -1;
    std::vector<std::string> defaults_;

    /// The kind of @kernel, and its stride where it says one: what conv2d is asked to be.
    Span kind_span_;
    Span stride_span_;

    /// Where declarations that warn_of_hidden_loop has named are.
    std::set<std::uint32_t> hidden_loops_;

    // Known better after each round.
    bool changed_ = false;
    std::map<NodeId, VarType> var_types_;

    /// Vars that begin with what had no type yet: an element of `out` before anything stored there.
    std::set<NodeId> untyped_vars_;
    std::set<std::string> dim_names_;
    std::set<std::string> guard_names_;
    std::set<std::string> not_dims_;
    VarType out_type_;
    VarType next_out_type_;
    int out_rank_ = -1;
    int next_out_rank_ = -1;

    /// Where `out` is read before anything says its rank.
    std::optional<Span> unranked_read_;
    bool out_is_typed_ = false;
    bool is_loop_free_ = false;
    bool loops_over_axes_ = false;
    AxisBits reduced_axes_ = 0;
    AxisBits next_reduced_axes_ = 0;
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
    bool slice_context_ = false;
    std::vector<Access> accesses_;
    std::map<std::tuple<std::uint32_t, int, SymbolId, std::int64_t>, Strided> strided_;
    std::vector<std::pair<std::int64_t, Span>> steps_;

    /// Extents that are dims of their own because they cannot be inverted.
    std::map<std::uint32_t, ExprId> opaque_;

    /// Slices of operands that begin at one place for the whole launch.
    std::vector<Slice> slices_;

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
    SymbolId yield_reached_ = ir::kNone;
    Span first_yield_;
    ExprId contracted_ = ir::kNoExpr;
};

/// Whether the name occurs below the node.
bool occurs(const lang::Tree& tree, NodeId id, std::string_view name);

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
