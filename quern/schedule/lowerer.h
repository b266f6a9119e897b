#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "quern/ir/index.h"
#include "quern/lir/builder.h"
#include "quern/schedule/ends.h"
#include "quern/schedule/functions.h"
#include "quern/schedule/matrices.h"
#include "quern/schedule/passes.h"
#include "quern/schedule/plan.h"

// From scheduled CIR to LIR. A pass over a loop body covers several iterations: the lanes of a
// vector, and copies where a loop is unrolled. A CIR value is then a bundle of LIR values, one for
// each copy on which it depends; what does not depend on lanes is one lane.

namespace quern::schedule {

using ir::ExprId;
using lir::ValueId;

/// Bits of the unrolled loops that a bundle depends on, and a value for each combination of their
/// copies, the first loop slowest.
struct Bundle {
    std::uint32_t axes = 0;
    std::vector<ValueId> copies;

    Bundle() = default;
    explicit Bundle(ValueId one) : copies{one} {}
    bool is_single() const { return copies.size() == 1; }
};

/// The number of the copy of each unrolled loop.
using Copy = std::array<int, 8>;

class Lowerer {
public:
    Lowerer(Plan& plan, const ir::Facts& facts, const Target& target)
        : plan_(plan),
          k_(plan.kernel),
          ends_(plan.kernel),
          facts_(facts),
          lanes_(target.lanes),
          fuses_(target.native.fma && plan.tiling.numerics != Numerics::Reproducible),
          fuses_loosely_(target.native.loose_fma && plan.tiling.numerics != Numerics::Reproducible),
          has_scale_(target.native.scale),
          are_registers_(target.rows == 1),
          subgroup_(target.subgroup),
          group_bytes_(target.group_bytes) {}

    void run();

private:
    struct Name {
        enum class Kind : std::uint8_t { Value, Lane, Register } kind = Kind::Value;

        /// The value; of a lane variable that of lane 0; of a register the register.
        Bundle bundle;

        /// Of a lane variable: from one lane to the next.
        std::int64_t step = 1;

        /// Of a register that was made in the last pass of a loop.
        bool is_of_rest = false;
    };

    /// A loop as the number of its iteration: symbol = begin + trip * step.
    struct Axis {
        const ir::Stmt* loop = nullptr;
        ValueId begin = lir::kNone;
        ValueId step = lir::kNone;
        std::int64_t step_number = 0;
        int unroll = 1;
        int lanes = 1;
        int rows = 1;

        /// Copies are neighbours, each lane's one after the other.
        bool has_packets = false;

        /// Divides the number of iterations in every launch of which the facts hold.
        std::int64_t divisor = 1;

        /// No iteration touches an element that another one stores.
        bool is_apart = false;

        /// Iterations that run at once.
        int width() const { return lanes * rows; }
    };

    /// The pass that runs of an axis whose iterations are lanes or rows of them.
    struct Pass {
        Axis axis;
        ValueId trip = lir::kNone;
        int unroll = 1;

        /// How many iterations are left; none if lanes and copies all have one.
        ValueId left = lir::kNone;
    };

    /// The sums of a pass as matrices of subgroups, row by row of those that one has.
    struct Matrices {
        ir::SymbolId sum = ir::kNone;
        ExprId left{}, right{};
        Share share;

        /// Rows and columns of the pass, and those before the subgroup's own, in each lane.
        std::int64_t rows = 0, columns = 0;
        ValueId row = lir::kNone, column = lir::kNone;

        /// Registers.
        std::vector<ValueId> sums;
    };

    /// A read that lanes of other rows, or other lanes of rows, make too. The group's array holds
    /// what `depth` iterations of the staged loop and a pass of `across` read.
    struct Staged {
        lir::BufferId array = 0;
        ir::SymbolId across = ir::kNone;
        std::int64_t depth = 0;

        /// How many iterations a pass of `across` has.
        std::int64_t extent = 0;

        /// Neighbours in memory are iterations of the staged loop, not of `across`.
        bool is_along_loop = false;

        /// From one row of neighbours to the next, in elements.
        std::int64_t pitch = 0;
        std::int64_t row() const { return is_along_loop ? depth : extent; }
        std::int64_t elements() const { return depth * extent / row() * pitch; }
    };

    // Stages
    void open(const std::string& name);
    void close(std::vector<GridAxis> grid, ExprId iterations);
    void serial_stage(const std::vector<const ir::Stmt*>& statements);
    void grid_stage(const ir::Stmt& outermost);
    void grid_axis(const std::vector<const ir::Stmt*>& nest, std::size_t p,
                   const std::vector<ValueId>& from, const std::vector<ValueId>& to);
    lir::BufferId slot(ir::SymbolId symbol);

    // Statements
    void block(const std::vector<ir::Stmt>& statements);
    void statement(const ir::Stmt& s);
    void declare(const ir::Stmt& s);
    void assign(ir::SymbolId symbol, const Bundle& value);
    void accumulate(const ir::Stmt& s);
    void extreme_in_lanes(const ir::Stmt& s, ValueId seen);
    void arg_reduce(const ir::Stmt& s);
    void store(const ir::Stmt& s);
    bool store_pair(const ir::Stmt& even, const ir::Stmt& odd);
    ValueId load_seconds(ir::BufferId buffer, ValueId offset, ValueId mask);
    bool are_packets(ir::BufferId buffer, const std::vector<ExprId>& indices);
    Bundle load_packets(ir::BufferId buffer, const Bundle& offset);
    void store_packets(ir::BufferId buffer, const Bundle& offset, const Bundle& value);
    void branch(const ir::Stmt& s);
    bool is_in_rest() const;
    std::optional<Bundle> holds_in_all(ExprId id);
    void guarded(const ir::Stmt& s, const std::vector<ExprId>& conditions);
    void inside(const std::vector<ir::Stmt>& statements);
    void under(const Bundle& which, const std::vector<ir::Stmt>& statements);
    void alloc(const ir::Stmt& s);
    void begin_loop(const ir::Stmt& s);
    void end_loop();
    void loop(const ir::Stmt& s);
    void tree_loop(const ir::Stmt& s);

    /// Numbers that are summed up one after the other.
    static constexpr std::int64_t kBlock = 256;
    bool has_long_sums(const ir::Stmt& s);
    void sums_of_blocks(const ir::Stmt& s, ValueId count,
                        const std::function<void(ValueId, ValueId)>& body);
    void staged_loop(const ir::Stmt& s, const Axis& axis);
    Axis axis_of(const ir::Stmt& s);
    ValueId trips(const ir::Stmt& s, const Axis& axis);

    /// Iterations [from, to) of an axis: unrolled, then one vector at a time, then what is left
    /// under a mask. `body` lowers one pass.
    void passes(const Axis& axis, ValueId from, ValueId to, const std::function<void()>& body);
    void pass(const Pass& pass, const std::function<void()>& body);

    /// Which iteration of a pass is whose, for each lane.
    ValueId numbers(const Axis& axis);
    ValueId is_first_of_row();
    void reduce_lanes(const ir::Stmt& s, const Axis& axis, const std::function<void()>& body);

    // Expressions
    Bundle expr(ExprId id);
    Bundle compute(ExprId id);
    Bundle constant(const ir::Expr& e);
    Bundle symbol(const ir::Expr& e);
    Bundle load(ExprId id);
    Bundle unary(const ir::Expr& e);
    Bundle binary(const ir::Expr& e);
    ir::ExprId logistic_operand(const ir::Expr& e) const;
    Bundle logistic(ir::ExprId id);
    Bundle logical(const ir::Expr& e);
    Bundle select(const ir::Expr& e);
    ValueId arithmetic(ir::BinaryOp op, ValueId a, ValueId b);
    /// A function of quern/math, whose operations are as written there in every mode.
    template <class F>
    ValueId exactly(F expand);
    Bundle divide(ir::BinaryOp op, const Bundle& a, const Bundle& b, lang::Span span);
    ValueId quotient(ir::BinaryOp op, ValueId x, ValueId y);
    Bundle integer_powers(const Bundle& x, const Bundle& n, lang::Span span);
    ValueId number(double value, DType dtype);

    /// The expression at lane 0.
    Bundle first_lane(ExprId id);
    ValueId single(ExprId id);

    // Memory
    struct Place {
        /// One element for all lanes, neighbours, packets of them, every second element, or
        /// anything.
        enum class Kind : std::uint8_t { Same, Neighbours, Packets, Seconds, Spread };
        Kind kind = Kind::Same;

        /// Of lane 0, but of each lane if spread.
        Bundle offset;
    };
    bool is_streamed(const ir::Stmt& store);
    std::uint32_t number_of(const ir::Stmt& store);
    bool is_far(ir::BufferId buffer);
    std::optional<Staged> staged(ExprId load, const ir::Stmt& s);
    void fill(ExprId load, const Staged& tile, const Pass& along);
    ValueId read_apart(ExprId load, const std::map<ir::SymbolId, ValueId>& at, ValueId mask);
    Bundle load_staged(const Staged& tile);
    std::optional<Matrices> matrices(const ir::Stmt& s);
    void multiply(const Matrices& m);
    void add_up(const Matrices& m);
    void prefetch(ir::BufferId buffer, const Ahead& ahead, const Bundle& offset);
    Place place(ir::BufferId buffer, const std::vector<ExprId>& indices, lang::Span span);
    void check_bounds(ir::BufferId buffer, const std::vector<ExprId>& indices, lang::Span span);
    bool is_proven(ExprId index, ExprId extent);
    bool prove(ExprId index, ExprId extent);
    bool is_below(ExprId index, ExprId extent, std::vector<ir::LoopRange>& loops,
                  const ir::RangeOf& ranges, std::size_t from, int& proofs);
    ExprId extent(ir::BufferId buffer, std::size_t axis);
    ValueId stride(ir::BufferId buffer, std::size_t axis, std::int64_t& constant);
    bool has_lanes(ExprId id);

    // Bundles
    template <class F>
    void for_each_copy(std::uint32_t axes, F f) const;
    ValueId at(const Bundle& bundle, const Copy& copy) const;

    /// What `lower` makes for each copy of its result, one operation of each copy after the other:
    /// the operations of one wait for each other.
    template <class F>
    Bundle in_turn(F lower);
    template <class F>
    Bundle map(const Bundle& a, F f);
    template <class F>
    Bundle map(const Bundle& a, const Bundle& b, F f);
    template <class F>
    Bundle map(const Bundle& a, const Bundle& b, const Bundle& c, F f);
    Bundle masked(const Bundle& condition);
    ValueId mask_at(const Copy& copy, std::uint16_t lanes) const;

    /// Whether the mask leaves a lane; none: it does.
    ValueId has_lane_at(const Copy& copy);

    /// Fails where `holds` is false for a lane that the mask does not leave out.
    void assert_where_active(ValueId holds, const Copy& copy, lang::Span span);
    std::uint16_t active_lanes() const { return in_lanes_ ? all_lanes() : 1; }
    std::uint16_t all_lanes() const { return std::uint16_t(lanes_ * stage_rows_); }
    std::uint32_t active_axes() const { return (1u << unrolls_.size()) - 1; }

    class Scope;

    Plan& plan_;
    ir::Kernel& k_;
    Ends ends_;
    const ir::Facts& facts_;
    int lanes_;
    /// A product and a sum may be one operation, where the language leaves it open.
    bool fuses_;
    bool fuses_loosely_;
    bool has_scale_;

    /// Vectors are registers, and not the lanes of a work-group.
    bool are_registers_;
    int subgroup_;
    std::int64_t group_bytes_;
    bool reads_output_ = false;

    std::map<ExprId, Ahead> prefetched_;

    /// The number of each store: see lir::Inst.
    std::unordered_map<const ir::Stmt*, std::uint32_t> stores_;

    /// The store whose value is evaluated: what it writes, and its number.
    ir::BufferId stored_ = ir::kNone;
    std::uint32_t stored_number_ = 0;

    lir::Builder b_{""};
    std::unordered_map<ir::SymbolId, Name> names_;
    std::map<ir::SymbolId, std::uint32_t> slots_;
    std::set<ir::SymbolId> shared_vars_;
    std::set<ir::BufferId> shared_arrays_;

    /// Values of nodes that neither load nor read a var, for each open block; the second for lane
    /// 0.
    std::vector<std::array<std::unordered_map<std::uint32_t, Bundle>, 2>> memo_;
    std::vector<int> unrolls_;

    /// Of an extremum that lanes reduce: a register that says in which lanes a NaN was.
    std::unordered_map<ir::SymbolId, ValueId> nan_seen_;
    bool in_lanes_ = false;

    /// Of the function's vectors, and of the loop around that has rows: 1 outside of it, where a
    /// loop in lanes has those of all rows.
    int stage_rows_ = 1;
    int rows_ = 1;

    /// Each row is one iteration: no loop inside of the rows has the lanes.
    bool is_row_level_ = false;

    /// Of the axes that have the lanes, where there are rows.
    std::map<ir::SymbolId, Pass> sharing_;
    std::map<ExprId, Staged> staged_;

    /// Of the function.
    std::map<ExprId, lir::BufferId> stage_arrays_;

    /// The sums of each var, of the function.
    std::map<ir::SymbolId, lir::BufferId> matrix_arrays_;

    /// The number of an iteration in those that are staged together.
    ValueId staged_number_ = lir::kNone;
    bool at_first_lane_ = false;

    /// How many neighbours each lane does, the copies of an unrolled loop of that number.
    struct Packets {
        const ir::Stmt* loop = nullptr;
        int factor = 1;
        std::size_t axis = 0;
    };
    Packets packets_;
    ir::SymbolId lane_symbol_ = ir::kNone;
    bool has_mask_ = false;
    Bundle mask_;

    /// That of the last pass of a loop, which has a first lane.
    ValueId rest_ = lir::kNone;

    /// How many lanes it has.
    ValueId rest_lanes_ = lir::kNone;

    /// The loops around; the second with the numbers from the first to the last that each takes,
    /// where whole steps are seen to lead to its end.
    std::vector<ir::LoopRange> loops_, reach_;
    std::vector<ExprId> guards_;

    /// Answers of is_proven.
    std::map<std::vector<std::uint32_t>, bool> proven_;
};

// Inline definitions of the templates.

template <class F>
void Lowerer::for_each_copy(std::uint32_t axes, F f) const {
    Copy copy{};
    const std::function<void(std::size_t)> next = [&](std::size_t axis) {
        if (axis == unrolls_.size()) return f(copy);
        const int count = (axes >> axis & 1) != 0 ? unrolls_[axis] : 1;
        for (copy[axis] = 0; copy[axis] < count; ++copy[axis]) next(axis + 1);
        copy[axis] = 0;
    };
    next(0);
}

template <class F>
ValueId Lowerer::exactly(F expand) {
    b_.set_relaxed(false);
    const ValueId value = expand(FunctionPlace{b_, fuses_, has_scale_});
    b_.set_relaxed(plan_.tiling.numerics == Numerics::Fast);
    return value;
}

template <class F>
Bundle Lowerer::in_turn(F lower) {
    const std::size_t first = b_.position();
    Bundle result = lower();
    b_.interleave(first, result.copies.size());
    return result;
}

template <class F>
Bundle Lowerer::map(const Bundle& a, F f) {
    Bundle result;
    result.axes = a.axes;
    for (const ValueId v : a.copies) result.copies.push_back(f(v));
    return result;
}

template <class F>
Bundle Lowerer::map(const Bundle& a, const Bundle& b, F f) {
    Bundle result;
    result.axes = a.axes | b.axes;
    for_each_copy(result.axes,
                  [&](const Copy& c) { result.copies.push_back(f(at(a, c), at(b, c))); });
    return result;
}

template <class F>
Bundle Lowerer::map(const Bundle& a, const Bundle& b, const Bundle& c, F f) {
    Bundle result;
    result.axes = a.axes | b.axes | c.axes;
    for_each_copy(result.axes, [&](const Copy& copy) {
        result.copies.push_back(f(at(a, copy), at(b, copy), at(c, copy)));
    });
    return result;
}

/// A block of LIR: what is computed in it is forgotten after it.
class Lowerer::Scope {
public:
    explicit Scope(Lowerer& lowerer) : lowerer_(lowerer) { lowerer_.memo_.emplace_back(); }
    ~Scope() { lowerer_.memo_.pop_back(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

private:
    Lowerer& lowerer_;
};

}  // namespace quern::schedule
