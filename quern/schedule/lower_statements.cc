#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>

#include "quern/schedule/loops.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"
#include "quern/schedule/reduction.h"
#include "quern/support/check.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using lir::Op;

namespace {

/// The operands of `and`s.
void conjuncts(const ir::Kernel& kernel, ExprId id, std::vector<ExprId>& all) {
    const ir::Expr& e = kernel[id];
    if (e.kind == ExprKind::Binary && static_cast<BinaryOp>(e.op) == BinaryOp::And) {
        conjuncts(kernel, ExprId{e.a}, all);
        conjuncts(kernel, ExprId{e.b}, all);
    } else {
        all.push_back(id);
    }
}

}  // namespace

void Lowerer::block(const std::vector<Stmt>& statements) {
    for (std::size_t i = 0; i < statements.size(); ++i) {
        const bool is_pair = i + 1 < statements.size() && statements[i].kind == StmtKind::Store &&
                             statements[i + 1].kind == StmtKind::Store;
        if (statements[i].kind == StmtKind::Store) b_.set_apart(number_of(statements[i]));
        if (is_pair && store_pair(statements[i], statements[i + 1])) {
            ++i;
        } else {
            statement(statements[i]);
        }
        b_.set_apart(0);
    }
}

void Lowerer::statement(const Stmt& s) {
    switch (s.kind) {
        case StmtKind::Let:
            names_[s.symbol] = {Name::Kind::Value, expr(s.value), 1};
            return;
        case StmtKind::Var:
            return declare(s);
        case StmtKind::Assign:
            return assign(s.symbol, expr(s.value));
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
            // One thread runs all of a point, in order.
            return;
        case StmtKind::Check: {
            const Bundle holds = expr(s.value);
            for_each_copy(holds.axes | (has_mask_ ? mask_.axes : 0), [&](const Copy& copy) {
                assert_where_active(at(holds, copy), copy, s.span);
            });
            return;
        }
    }
}

void Lowerer::declare(const Stmt& s) {
    const Bundle value = expr(s.value);
    Bundle registers;
    registers.axes = active_axes();
    for_each_copy(registers.axes, [&](const Copy& copy) {
        registers.copies.push_back(b_.reg(b_.splat(at(value, copy), active_lanes())));
    });
    names_[s.symbol] = {Name::Kind::Register, registers, 1, is_in_rest()};
}

/// Whether the lanes that take part are the first of them, as many as the loop has left.
bool Lowerer::is_in_rest() const {
    return has_mask_ && rows_ == 1 && mask_.is_single() && mask_.copies[0] == rest_;
}

void Lowerer::assign(ir::SymbolId symbol, const Bundle& value) {
    const Name& name = names_.at(symbol);
    const Bundle registers = name.bundle;
    // Nobody reads it in other lanes.
    const bool takes_all = name.is_of_rest && is_in_rest();
    for_each_copy(registers.axes | value.axes, [&](const Copy& copy) {
        const ValueId reg = at(registers, copy);
        const std::uint16_t lanes = b_.type(reg).lanes;
        ValueId v = b_.splat(at(value, copy), lanes);
        if (has_mask_ && !takes_all) v = b_.select(mask_at(copy, lanes), v, b_.get(reg));
        b_.set(reg, v);
    });
}

/// Takes value and index if value is better.
void Lowerer::arg_reduce(const Stmt& s) {
    const Bundle value = expr(s.value);
    const Bundle index = expr(s.index);
    const Bundle best = map(names_.at(s.symbol).bundle, [&](ValueId r) { return b_.get(r); });
    const Bundle best_index =
        map(names_.at(s.index_symbol).bundle, [&](ValueId r) { return b_.get(r); });
    const bool is_less = s.op == BinaryOp::Less;
    const Bundle takes = map(value, best, [&](ValueId x, ValueId y) {
        const std::uint16_t lanes = std::max(b_.type(x).lanes, b_.type(y).lanes);
        x = b_.splat(x, lanes);
        y = b_.splat(y, lanes);
        ValueId better = is_less ? b_.compare(Op::Less, x, y) : b_.compare(Op::Less, y, x);
        if (is_floating(b_.type(x).dtype)) {
            better = b_.binary(Op::Or, better, b_.compare(Op::NotEqual, x, x));
            better = b_.binary(Op::And, better, b_.compare(Op::Equal, y, y));
        }
        return better;
    });
    assign(s.symbol, map(takes, value, best,
                         [&](ValueId t, ValueId x, ValueId y) { return b_.select(t, x, y); }));
    assign(s.index_symbol, map(takes, index, best_index, [&](ValueId t, ValueId x, ValueId y) {
               return b_.select(t, x, y);
           }));
}

void Lowerer::branch(const Stmt& s) {
    const std::size_t guards = guards_.size();
    std::vector<ExprId> all;
    conjuncts(k_, s.value, all);
    const bool is_free =
        std::none_of(all.begin(), all.end(), [&](ExprId id) { return has_effects(k_, id); });
    if (in_lanes_ && is_free && s.otherwise.empty()) return guarded(s, all);
    const Bundle condition = expr(s.value);
    for (const ExprId id : all) guards_.push_back(ir::simplify(k_, id));
    const bool is_one = condition.is_single() && b_.type(condition.copies[0]).lanes == 1;
    if (is_one) {
        b_.begin_if(condition.copies[0]);
        inside(s.body);
        guards_.resize(guards);
        if (!s.otherwise.empty()) {
            b_.begin_else();
            inside(s.otherwise);
        }
        b_.end_if();
        return;
    }
    under(condition, s.body);
    guards_.resize(guards);
    if (!s.otherwise.empty()) {
        under(map(condition, [&](ValueId v) { return b_.unary(Op::Not, v); }), s.otherwise);
    }
}

void Lowerer::inside(const std::vector<Stmt>& statements) {
    const Scope scope(*this);
    block(statements);
}

void Lowerer::under(const Bundle& which, const std::vector<Stmt>& statements) {
    const Bundle mask = mask_;
    const bool had_mask = has_mask_;
    mask_ = masked(which);
    has_mask_ = true;
    inside(statements);
    mask_ = mask;
    has_mask_ = had_mask;
}

/// Whether all lanes that take part hold a comparison, by numbers: a side moves evenly from lane to
/// lane, so the lane in which the left one is farthest ahead says it for all, if no side wraps on
/// the way.
std::optional<Bundle> Lowerer::holds_in_all(ExprId id) {
    const ir::Expr e = k_[id];
    const auto op = static_cast<BinaryOp>(e.op);
    const bool compares = e.kind == ir::ExprKind::Binary &&
                          (op == BinaryOp::Less || op == BinaryOp::LessEqual) &&
                          k_[ExprId{e.a}].dtype == DType::Int64;
    if (!compares || rows_ > 1 || packets_.factor > 1) return std::nullopt;
    // So that a side wraps once at most.
    const auto is_small = [](std::int64_t step) {
        constexpr std::int64_t kMost = std::int64_t{1} << 24;
        return -kMost < step && step < kMost;
    };
    struct Side {
        Bundle first, last;
        std::int64_t step = 0;
    };
    std::array<Side, 2> sides;
    const ValueId last_lane =
        b_.sub(is_in_rest() ? rest_lanes_ : b_.integer(active_lanes()), b_.integer(1));
    std::optional<Bundle> holds;
    const auto require = [&](Op compare, const Bundle& x, const Bundle& y) {
        const Bundle one =
            map(x, y, [&](ValueId v, ValueId w) { return b_.compare(compare, v, w); });
        const auto both = [&](ValueId v, ValueId w) { return b_.binary(Op::And, v, w); };
        holds = holds ? map(*holds, one, both) : one;
    };
    for (Side& side : sides) {
        const ExprId value{&side == sides.data() ? e.a : e.b};
        if (has_lanes(value)) {
            const auto step = step_of(k_, value, lane_symbol_);
            const std::int64_t further = names_.at(lane_symbol_).step;
            if (!step || !is_small(*step) || !is_small(further)) return std::nullopt;
            side.step = *step * further;
        }
        side.first = first_lane(value);
        if (b_.type(side.first.copies[0]).lanes != 1) return std::nullopt;
        const ValueId span = b_.mul(last_lane, b_.integer(side.step));
        side.last = map(side.first, [&](ValueId v) { return b_.add(v, span); });
        if (side.step > 0) require(Op::LessEqual, side.first, side.last);
        if (side.step < 0) require(Op::LessEqual, side.last, side.first);
    }
    const auto& [left, right] = sides;
    const bool is_last = left.step > right.step;
    require(op == BinaryOp::Less ? Op::Less : Op::LessEqual, is_last ? left.last : left.first,
            is_last ? right.last : right.first);
    return holds;
}

/// if all of `conditions`, which no lane can fail: what is the same for all lanes is a branch, and
/// so is that all lanes hold the rest, as they do far from edges.
void Lowerer::guarded(const Stmt& s, const std::vector<ExprId>& conditions) {
    const std::size_t guards = guards_.size();
    const bool is_short = std::none_of(s.body.begin(), s.body.end(), [](const Stmt& inner) {
        return inner.kind == StmtKind::For || inner.kind == StmtKind::If;
    });
    const auto both = [&](ValueId x, ValueId y) { return b_.binary(Op::And, x, y); };
    const auto with = [&](std::optional<Bundle>& all, const Bundle& one) {
        all = all ? map(*all, one, both) : one;
    };
    // What lanes do not share, by lane; and that all lanes hold it, by numbers.
    std::optional<Bundle> same, rest, all;
    std::vector<ExprId> later;
    for (const ExprId id : conditions) {
        const ExprId simple = ir::simplify(k_, id);
        const auto holds_all = is_short && has_lanes(simple) ? holds_in_all(simple) : std::nullopt;
        if (holds_all) {
            with(all, *holds_all);
            later.push_back(id);
        } else {
            const Bundle holds = expr(id);
            const bool is_same = holds.is_single() && b_.type(holds.copies[0]).lanes == 1;
            with(is_same ? same : rest, holds);
        }
        guards_.push_back(simple);
    }
    if (same) b_.begin_if(same->copies[0]);
    if (!rest && !all) {
        inside(s.body);
    } else if (!is_short) {
        under(*rest, s.body);
    } else {
        ValueId none_fails = lir::kNone;
        const auto require = [&](ValueId holds) {
            none_fails = exists(none_fails) ? both(none_fails, holds) : holds;
        };
        if (all) std::ranges::for_each(all->copies, require);
        for (const ValueId holds : rest ? rest->copies : std::vector<ValueId>{}) {
            const ValueId some = b_.any(b_.unary(Op::Not, b_.splat(holds, active_lanes())));
            require(b_.unary(Op::Not, some));
        }
        b_.begin_if(none_fails);
        inside(s.body);
        b_.begin_else();
        {
            const Scope scope(*this);
            for (const ExprId id : later) with(rest, expr(id));
            under(*rest, s.body);
        }
        b_.end_if();
    }
    if (same) b_.end_if();
    guards_.resize(guards);
}

void Lowerer::alloc(const Stmt& s) {
    ValueId elements = b_.integer(1);
    for (const ExprId extent : k_.buffers[s.buffer].shape) {
        elements = b_.mul(elements, single(extent));
    }
    b_.alloc(s.buffer, elements);
}

Lowerer::Axis Lowerer::axis_of(const Stmt& s) {
    Axis axis;
    axis.loop = &s;
    axis.begin = single(s.value);
    axis.step = exists(s.step) ? single(s.step) : b_.integer(1);
    axis.step_number = b_.constant_of(axis.step).value_or(0);
    axis.has_packets = plan_.tiling.has(s.symbol, Level::Packet);
    axis.unroll = plan_.tiling.factor(s.symbol, axis.has_packets ? Level::Packet : Level::Unroll);
    axis.lanes = plan_.tiling.factor(s.symbol, Level::Vector);
    axis.rows = plan_.tiling.factor(s.symbol, Level::Rows);
    if (axis.step_number == 1) {
        const ExprId count = ir::simplify(k_, k_.binary(BinaryOp::Sub, s.end, s.value));
        axis.divisor = divisor_of(k_, facts_, count);
    }
    axis.is_apart = s.reduces.empty() && why_not_independent(k_, s).empty();
    return axis;
}

/// How many iterations a loop has; not positive if none.
ValueId Lowerer::trips(const Stmt& s, const Axis& axis) {
    const bool is_exact = is_span_exact(k_, s);
    ValueId end = single(s.end);
    if (!is_exact) end = b_.binary(Op::Max, end, axis.begin);
    ValueId span = b_.sub(end, axis.begin);
    const ValueId endless = b_.integer(kEndless);
    if (!is_exact) {
        span = b_.select(b_.compare(Op::Less, span, b_.integer(0)), endless, span);
    }
    if (axis.step_number == 1) return span;
    // A step more must not wrap either.
    if (!is_span_small(k_, s)) span = b_.binary(Op::Min, span, endless);
    const ValueId one = b_.integer(1);
    if (axis.step_number == 0) {
        const ValueId last = b_.binary(Op::Div, b_.sub(span, one), axis.step);
        const ValueId is_empty = b_.compare(Op::LessEqual, span, b_.integer(0));
        return b_.select(is_empty, b_.integer(0), b_.add(last, one));
    }
    const ValueId step = b_.integer(std::min(axis.step_number, kLargeStep));
    return b_.binary(Op::Div, b_.sub(b_.add(span, step), one), step);
}

void Lowerer::begin_loop(const Stmt& s) {
    loops_.push_back({s.symbol, s.value, s.end, s.step});
    ir::LoopRange reach = loops_.back();
    if (exists(s.step) && k_.is_constant(s.step)) {
        const std::int64_t step = k_.integer_value(s.step);
        const ExprId span = ir::simplify(k_, k_.binary(BinaryOp::Sub, s.end, s.value));
        if (divisor_of(k_, facts_, span) % step == 0) {
            const ExprId behind = k_.integer(step - 1);
            reach = {s.symbol, s.value, k_.binary(BinaryOp::Sub, s.end, behind)};
        }
    }
    reach_.push_back(reach);
}

void Lowerer::end_loop() {
    loops_.pop_back();
    reach_.pop_back();
}

void Lowerer::loop(const Stmt& s) {
    Axis axis = axis_of(s);
    if (axis.lanes > 1 && rows_ == 1) axis.lanes *= stage_rows_;
    begin_loop(s);
    const auto body = [&] { block(s.body); };
    const ValueId count = trips(s, axis);
    const bool is_tree =
        !s.reduces.empty() && plan_.tiling.numerics == Numerics::Reproducible && axis.lanes == 1;
    if (!s.reduces.empty() && axis.lanes > 1) {
        reduce_lanes(s, axis, body);
    } else if (is_tree) {
        tree_loop(s);
    } else if (plan_.tiling.has(s.symbol, Level::Stage)) {
        staged_loop(s, axis);
    } else if (has_long_sums(s)) {
        sums_of_blocks(s, count,
                       [&](ValueId begin, ValueId end) { passes(axis, begin, end, body); });
    } else {
        passes(axis, b_.integer(0), count, body);
    }
    end_loop();
}

ValueId Lowerer::numbers(const Axis& axis) {
    const ValueId lane = b_.iota(all_lanes());
    if (std::max(rows_, axis.rows) == 1) return lane;
    if (axis.rows == 1) return b_.binary(Op::And, lane, b_.integer(lanes_ - 1));
    return b_.binary(Op::ShiftRight, lane, b_.integer(std::countr_zero(unsigned(lanes_))));
}

ValueId Lowerer::is_first_of_row() {
    const ValueId place = b_.binary(Op::And, b_.iota(all_lanes()), b_.integer(lanes_ - 1));
    return b_.compare(Op::Equal, place, b_.integer(0));
}

void Lowerer::pass(const Pass& pass, const std::function<void()>& body) {
    const Axis& axis = pass.axis;
    const ir::SymbolId symbol = axis.loop->symbol;
    const bool was_in_lanes = in_lanes_;
    const int rows = rows_;
    const bool was_row_level = is_row_level_;
    const ir::SymbolId lane_symbol = lane_symbol_;
    const Packets packets = packets_;
    const int packet = axis.has_packets ? pass.unroll : 1;
    if (axis.width() > 1) in_lanes_ = true;
    if (axis.rows > 1) rows_ = axis.rows;
    if (axis.width() > 1) is_row_level_ = axis.rows > 1;
    // Lanes of rows are at any distance from each other.
    const bool is_shared = axis.width() > 1 && rows_ > 1;
    if (axis.lanes > 1) lane_symbol_ = is_shared ? ir::kNone : symbol;
    Name name;
    name.kind = axis.lanes > 1 && !is_shared ? Name::Kind::Lane : Name::Kind::Value;
    name.step = axis.step_number * packet;
    if (axis.lanes > 1) packets_ = {axis.loop, packet, unrolls_.size()};
    if (pass.unroll > 1) {
        unrolls_.push_back(pass.unroll);
        name.bundle.axes = 1u << (unrolls_.size() - 1);
    }
    for (int u = 0; u < pass.unroll; ++u) {
        const std::int64_t further = packet > 1 ? u : std::int64_t(u) * axis.width();
        const ValueId at = b_.add(pass.trip, b_.integer(further));
        ValueId value = b_.add(axis.begin, b_.mul(at, axis.step));
        if (is_shared) value = b_.add(value, b_.mul(numbers(axis), axis.step));
        name.bundle.copies.push_back(value);
    }
    names_[symbol] = name;
    if (is_shared) sharing_[symbol] = pass;
    {
        const Scope scope(*this);
        body();
    }
    sharing_.erase(symbol);
    names_.erase(symbol);
    in_lanes_ = was_in_lanes;
    rows_ = rows;
    is_row_level_ = was_row_level;
    lane_symbol_ = lane_symbol;
    packets_ = packets;
    if (pass.unroll > 1) unrolls_.pop_back();
}

void Lowerer::passes(const Axis& axis, ValueId from, ValueId to,
                     const std::function<void()>& body) {
    const bool has_one_body = axis.unroll * axis.width() == 1;
    QUERN_CHECK(has_one_body || axis.is_apart || !axis.loop->reduces.empty(),
                "stores of one number are apart");
    const auto whole = [&](ValueId begin, std::int64_t width, int unroll) {
        if (width == 1) {
            const ValueId trip = b_.begin_for(begin, to, 1, axis.is_apart);
            pass({axis, trip, unroll}, body);
            b_.end_for();
            return to;
        }
        const ValueId w = b_.integer(width);
        const ValueId many = b_.binary(Op::Div, b_.sub(to, begin), w);
        const ValueId end = b_.add(begin, b_.mul(many, w));
        const ValueId trip = b_.begin_for(begin, end, std::uint64_t(width), axis.is_apart);
        pass({axis, trip, unroll}, body);
        b_.end_for();
        return end;
    };
    ValueId done = from;
    if (axis.unroll > 1) {
        done = whole(done, std::int64_t(axis.unroll) * axis.width(), axis.unroll);
    }
    if (axis.width() == 1) {
        // Copies of what is left, if it is known to be a multiple of some.
        const auto some = int(std::gcd(axis.divisor, std::int64_t(axis.unroll)));
        if (some == 1 || some < axis.unroll) whole(done, some, some);
        return;
    }
    // Each further body is code: behind copies, what is left goes under a mask.
    const std::int64_t pass_width = std::int64_t(axis.unroll) * axis.width();
    const bool is_multiple = axis.divisor % axis.width() == 0;
    if (axis.unroll == 1 || (is_multiple && axis.divisor % pass_width != 0)) {
        done = whole(done, axis.width(), 1);
    }
    if (is_multiple) return;
    const ValueId trip = b_.begin_for(done, to, std::uint64_t(axis.width()), axis.is_apart);
    {
        const Scope scope(*this);
        const Bundle mask = mask_;
        const bool had_mask = has_mask_;
        const ValueId left = b_.sub(to, trip);
        const ValueId in_range = b_.compare(Op::Less, numbers(axis), left);
        mask_ = masked(Bundle(in_range));
        if (!had_mask) {
            rest_ = in_range;
            const ValueId all = b_.integer(axis.width());
            rest_lanes_ = b_.select(b_.compare(Op::Less, left, all), left, all);
        }
        has_mask_ = true;
        pass({axis, trip, 1, left}, body);
        mask_ = mask;
        has_mask_ = had_mask;
    }
    b_.end_for();
}

}  // namespace quern::schedule
