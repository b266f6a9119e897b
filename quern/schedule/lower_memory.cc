#include <algorithm>
#include <vector>

#include "quern/schedule/loops.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"

namespace quern::schedule {

using ir::BufferId;
using ir::ExprKind;
using lir::Op;

namespace {

/// How often it is tried to see that an index is in bounds.
constexpr int kProofs = 16;

/// What a processor loads of memory at once.
constexpr std::size_t kLineBytes = 64;

}  // namespace

ExprId Lowerer::extent(BufferId buffer, std::size_t axis) {
    return extent_of_axis(k_, buffer, axis);
}

/// Elements from one index of an axis to the next. `constant` is it if it is known, else 0.
ValueId Lowerer::stride(BufferId buffer, std::size_t axis, std::int64_t& constant) {
    constant = 0;
    const std::size_t rank = k_.buffers[buffer].shape.size();
    if (buffer <= k_.output()) {
        const bool is_last = axis + 1 == rank;
        if (is_last && facts_.operands[buffer].contiguous_axes >= 1) constant = 1;
        if (constant != 0) return b_.integer(constant);
        return b_.parameter({lir::ParameterKind::Stride, buffer, std::uint32_t(axis)});
    }
    ValueId product = b_.integer(1);
    for (std::size_t p = axis + 1; p < rank; ++p) {
        product = b_.mul(product, single(k_.buffers[buffer].shape[p]));
    }
    constant = b_.constant_of(product).value_or(0);
    return product;
}

/// True if the expression may differ between lanes.
bool Lowerer::has_lanes(ExprId id) {
    if (!in_lanes_) return false;
    for (const ExprId node : ir::reachable(k_, id)) {
        const ir::Expr& e = k_[node];
        if (e.kind != ExprKind::Symbol) continue;
        const auto found = names_.find(e.a);
        if (found == names_.end()) continue;
        if (found->second.kind == Name::Kind::Lane) return true;
        if (b_.type(found->second.bundle.copies[0]).lanes > 1) return true;
    }
    return false;
}

Lowerer::Place Lowerer::place(BufferId buffer, const std::vector<ExprId>& indices,
                              lang::Span span) {
    check_bounds(buffer, indices, span);
    Place place;
    bool is_affine = true;
    bool is_same = true;
    std::int64_t step = 0;
    for (std::size_t p = 0; p < indices.size(); ++p) {
        if (!has_lanes(indices[p])) continue;
        // Where lanes are in rows there is no first one, and names hold what lanes differ in: what
        // moves with them is a vector.
        const bool is_at_first = at_first_lane_ && rows_ == 1;
        if (is_at_first && b_.type(expr(indices[p]).copies[0]).lanes == 1) continue;
        is_same = false;
        is_affine = is_affine && rows_ == 1 && !is_at_first;
        if (!is_affine) continue;
        const auto index_step = step_of(k_, indices[p], lane_symbol_);
        // What moves by something else than the lane's variable has lanes even at lane 0.
        const Bundle first = first_lane(indices[p]);
        std::int64_t constant = 0;
        stride(buffer, p, constant);
        is_affine = is_affine && index_step && b_.type(first.copies[0]).lanes == 1 &&
                    (*index_step == 0 || constant != 0);
        if (index_step) step += *index_step * constant;
    }
    step *= names_.count(lane_symbol_) != 0 ? names_[lane_symbol_].step : 1;
    const bool has_packets = packets_.factor > 1;
    const bool are_near = is_affine && step == packets_.factor;
    // What lies between the elements of an array nobody may have written, which those who run lanes
    // one by one take for a mistake; and they have no use for vectors.
    const bool may_have_holes = !are_registers_ && buffer > k_.output();
    place.kind = is_same || (is_affine && step == 0)                       ? Place::Kind::Same
                 : has_packets && are_near && are_packets(buffer, indices) ? Place::Kind::Packets
                 : has_packets                                             ? Place::Kind::Spread
                 : are_near                                                ? Place::Kind::Neighbours
                 : is_affine && step == 2 && !may_have_holes               ? Place::Kind::Seconds
                                                                           : Place::Kind::Spread;
    place.offset = Bundle(b_.integer(0));
    for (std::size_t p = 0; p < indices.size(); ++p) {
        std::int64_t constant = 0;
        const ValueId scale = stride(buffer, p, constant);
        const Bundle index =
            place.kind == Place::Kind::Spread ? expr(indices[p]) : first_lane(indices[p]);
        place.offset = map(place.offset, index,
                           [&](ValueId sum, ValueId i) { return b_.add(sum, b_.mul(i, scale)); });
    }
    return place;
}

Bundle Lowerer::load(ExprId id) {
    if (const auto tile = staged_.find(id); tile != staged_.end()) return load_staged(tile->second);
    const ir::Expr e = k_[id];
    std::vector<ExprId> indices;
    for (int p = 0; p < e.count; ++p) indices.push_back(k_.index_of(e, p));
    const Place where = place(e.a, indices, e.span);
    if (where.kind == Place::Kind::Packets) return load_packets(e.a, where.offset);
    Bundle result;
    result.axes = where.offset.axes | (has_mask_ ? mask_.axes : 0);
    for_each_copy(result.axes, [&](const Copy& copy) {
        const ValueId offset = at(where.offset, copy);
        ValueId value = lir::kNone;
        if (where.kind == Place::Kind::Spread) {
            const std::uint16_t lanes = active_lanes();
            value = b_.gather(e.a, b_.splat(offset, lanes), mask_at(copy, lanes));
            if (e.a == stored_) b_.number_load(value, stored_number_);
        } else if (where.kind == Place::Kind::Seconds) {
            value = load_seconds(e.a, offset, mask_at(copy, active_lanes()));
        } else if (where.kind == Place::Kind::Neighbours) {
            value = b_.load(e.a, offset, active_lanes(), mask_at(copy, active_lanes()));
            if (e.a == stored_) b_.number_load(value, stored_number_);
        } else {
            // One element for all lanes: read if any of them asks for it.
            const ValueId mask = has_lane_at(copy);
            value = b_.load(e.a, offset, 1, mask);
        }
        result.copies.push_back(value);
    });
    const auto ahead = prefetched_.find(id);
    if (ahead != prefetched_.end() && where.kind == Place::Kind::Neighbours && !has_mask_) {
        prefetch(e.a, ahead->second, where.offset);
    }
    return result;
}

void Lowerer::prefetch(BufferId buffer, const Ahead& ahead, const Bundle& offset) {
    const auto per_line = int(kLineBytes / size_of(k_.buffers[buffer].dtype));
    std::int64_t constant = 0;
    const ValueId further =
        b_.mul(stride(buffer, ahead.axis, constant), b_.integer(ahead.distance));
    for (const ValueId here : offset.copies) {
        for (int lane = 0; lane < lanes_; lane += per_line) {
            b_.prefetch(buffer, b_.add(b_.add(here, further), b_.integer(lane)));
        }
    }
}

/// Every second element from two vectors of neighbours. The second begins at the last element of
/// the first, so that nothing beyond the last lane's element is read.
ValueId Lowerer::load_seconds(BufferId buffer, ValueId offset, ValueId mask) {
    const std::uint16_t lanes = active_lanes();
    std::vector<std::uint16_t> picks;
    for (std::uint16_t lane = 0; lane < lanes; ++lane) {
        const bool is_low = 2 * lane < lanes;
        picks.push_back(is_low ? std::uint16_t(2 * lane) : std::uint16_t(2 * lane + 1));
    }
    ValueId low_mask = lir::kNone, high_mask = lir::kNone;
    if (exists(mask)) {
        const ValueId never = b_.splat(b_.boolean(false), lanes);
        std::vector<std::uint16_t> low, high;
        for (std::uint16_t lane = 0; lane < lanes; ++lane) {
            const bool is_even = lane % 2 == 0;
            low.push_back(is_even ? std::uint16_t(lane / 2) : lanes);
            high.push_back(is_even ? lanes : std::uint16_t((lane + lanes - 1) / 2));
        }
        low_mask = b_.shuffle(mask, never, low);
        high_mask = b_.shuffle(mask, never, high);
    }
    const ValueId low = b_.load(buffer, offset, lanes, low_mask);
    const ValueId next = b_.add(offset, b_.integer(lanes - 1));
    return b_.shuffle(low, b_.load(buffer, next, lanes, high_mask), picks);
}

/// out[2 i] = a; out[2 i + 1] = b as two vectors of neighbours. False if the stores are no such
/// pair.
bool Lowerer::store_pair(const ir::Stmt& even, const ir::Stmt& odd) {
    if (!in_lanes_ || even.buffer != odd.buffer || even.indices.empty()) return false;
    const std::size_t last = even.indices.size() - 1;
    for (std::size_t p = 0; p < last; ++p) {
        if (even.indices[p] != odd.indices[p]) return false;
    }
    const ExprId next =
        ir::simplify(k_, k_.binary(ir::BinaryOp::Add, even.indices[last], k_.integer(1)));
    if (ir::simplify(k_, odd.indices[last]) != next) return false;
    for (const ExprId node : ir::reachable(k_, odd.value)) {
        const ir::Expr& e = k_[node];
        if (e.kind == ExprKind::Load && e.a == even.buffer) return false;
    }
    const Place where = place(even.buffer, even.indices, even.span);
    if (where.kind != Place::Kind::Seconds) return false;
    check_bounds(odd.buffer, odd.indices, odd.span);
    const bool streams = is_streamed(even);
    const Bundle a = expr(even.value), b = expr(odd.value);
    const std::uint16_t lanes = active_lanes();
    std::vector<std::uint16_t> low, high;
    for (std::uint16_t lane = 0; lane < lanes; ++lane) {
        const auto pick = std::uint16_t(lane / 2 + (lane % 2) * lanes);
        low.push_back(pick);
        high.push_back(std::uint16_t(pick + lanes / 2));
    }
    const std::uint32_t axes = where.offset.axes | a.axes | b.axes | (has_mask_ ? mask_.axes : 0);
    for_each_copy(axes, [&](const Copy& copy) {
        const ValueId x = b_.splat(at(a, copy), lanes), y = b_.splat(at(b, copy), lanes);
        const ValueId mask = mask_at(copy, lanes);
        const auto half = [&](const std::vector<std::uint16_t>& pattern) {
            return exists(mask) ? b_.shuffle(mask, mask, pattern) : lir::kNone;
        };
        const ValueId offset = at(where.offset, copy);
        const ValueId behind = b_.add(offset, b_.integer(lanes));
        if (streams) {
            b_.stream(even.buffer, offset, b_.shuffle(x, y, low));
            b_.stream(even.buffer, behind, b_.shuffle(x, y, high));
            return;
        }
        b_.store(even.buffer, offset, b_.shuffle(x, y, low), half(low));
        b_.store(even.buffer, behind, b_.shuffle(x, y, high), half(high));
    });
    return true;
}

/// True if lanes that store neighbours, whole vectors of them, do so past the caches: to an output
/// that is to be streamed, at places that are seen to be multiples of a vector.
bool Lowerer::is_streamed(const ir::Stmt& s) {
    const std::size_t rank = s.indices.size();
    if (s.buffer != k_.output() || !facts_.operands[k_.output()].is_streamed || reads_output_ ||
        !in_lanes_ || has_mask_ || rank == 0 || lanes_ % ir::kLine != 0) {
        return false;
    }
    const auto divides = [&](std::int64_t number) { return number % ir::kLine == 0; };
    // Rows are multiples of a vector, so the last index decides.
    const ir::Affine form = ir::affine_of(k_, ir::simplify(k_, s.indices[rank - 1]));
    return divides(form.constant) && std::ranges::all_of(form.terms, [&](const ir::Term& term) {
               const ir::Expr& atom = k_[term.atom];
               const auto loop = std::ranges::find_if(loops_, [&](const ir::LoopRange& range) {
                   return atom.kind == ExprKind::Symbol && range.symbol == atom.a;
               });
               // A pass over lanes begins a multiple of them behind the loop's begin.
               const bool is_lane = loop != loops_.end() && loop->symbol == lane_symbol_ &&
                                    k_.is_constant(loop->begin) &&
                                    divides(k_.integer_value(loop->begin)) &&
                                    (!exists(loop->step) || k_.is_constant(loop->step, 1));
               return is_lane || divides(term.coefficient);
           });
}

std::uint32_t Lowerer::number_of(const ir::Stmt& s) {
    const auto next = std::uint32_t(stores_.size() + 1);
    return stores_.emplace(&s, next).first->second;
}

void Lowerer::store(const ir::Stmt& s) {
    // Where a row has one iteration, its first lane stores what all of them read.
    stored_ = is_row_level_ ? ir::kNone : s.buffer;
    stored_number_ = number_of(s);
    const Bundle value = expr(s.value);
    stored_ = ir::kNone;
    const Place where = place(s.buffer, s.indices, s.span);
    if (where.kind == Place::Kind::Packets) return store_packets(s.buffer, where.offset, value);
    const bool streams = is_streamed(s);
    const std::uint32_t axes = where.offset.axes | value.axes | (has_mask_ ? mask_.axes : 0);
    for_each_copy(axes, [&](const Copy& copy) {
        const ValueId offset = at(where.offset, copy);
        const ValueId v = at(value, copy);
        if (where.kind == Place::Kind::Same) {
            // Lanes that store to one element are refused by legal(); one lane is all.
            b_.store(s.buffer, offset, v, has_lane_at(copy));
            return;
        }
        const std::uint16_t lanes = active_lanes();
        if (where.kind == Place::Kind::Neighbours && streams) {
            b_.stream(s.buffer, offset, b_.splat(v, lanes));
        } else if (where.kind == Place::Kind::Neighbours) {
            b_.store(s.buffer, offset, b_.splat(v, lanes), mask_at(copy, lanes));
        } else {
            ValueId offsets = offset;
            if (where.kind == Place::Kind::Seconds) {
                offsets = b_.add(offset, b_.mul(b_.iota(lanes), b_.integer(2)));
            }
            ValueId mask = mask_at(copy, lanes);
            if (is_row_level_) {
                const ValueId is_first = is_first_of_row();
                mask = exists(mask) ? b_.binary(Op::And, mask, is_first) : is_first;
            }
            b_.scatter(s.buffer, b_.splat(offsets, lanes), b_.splat(v, lanes), mask);
        }
    });
}

/// True if 0 <= index < extent for every value of the loops, or because a condition says so. What
/// is lowered once for each pass of a loop is proven once.
bool Lowerer::is_proven(ExprId index, ExprId extent) {
    std::vector<std::uint32_t> question{std::uint32_t(index), std::uint32_t(extent)};
    for (const ir::LoopRange& loop : reach_) {
        question.insert(question.end(), {loop.symbol, std::uint32_t(loop.begin),
                                         std::uint32_t(loop.end), std::uint32_t(loop.step)});
    }
    for (const ExprId guard : guards_) question.push_back(std::uint32_t(guard));
    // The last word says how many guards there are, so that no two questions are alike.
    question.push_back(std::uint32_t(guards_.size()));
    const auto [it, is_new] = proven_.emplace(std::move(question), false);
    if (is_new) it->second = prove(index, extent);
    return it->second;
}

bool Lowerer::prove(ExprId index, ExprId extent) {
    const ExprId zero = k_.integer(0);
    const ir::RangeOf ranges = ir::ranges_of(k_, reach_);
    const auto is_guarded = [&](ir::BinaryOp op, ExprId a, ExprId b) {
        const ExprId wanted = ir::simplify(k_, k_.binary(op, a, b));
        return k_.is_constant(wanted, 1) ||
               std::find(guards_.begin(), guards_.end(), wanted) != guards_.end();
    };
    bool is_above = is_guarded(ir::BinaryOp::LessEqual, zero, index);
    if (!is_above) {
        const ExprId low = ir::lower_bound(k_, index, reach_, ranges);
        is_above = exists(low) && ir::proves_at_least(k_, low, zero);
    }
    if (!is_above) return false;
    if (is_guarded(ir::BinaryOp::Less, index, extent)) return true;
    std::vector<ir::LoopRange> loops = reach_;
    int proofs = kProofs;
    return is_below(index, extent, loops, ranges, 0, proofs);
}

/// Whether an index is below an extent, whichever of the expressions that it is never above each
/// loop from the one of a number on is taken to end at. The ranges are those of the loops, if they
/// are known.
bool Lowerer::is_below(ExprId index, ExprId extent, std::vector<ir::LoopRange>& loops,
                       const ir::RangeOf& ranges, std::size_t from, int& proofs) {
    for (; from < loops.size(); ++from) {
        const ExprId end = loops[from].end;
        if (!ir::depends_on(k_, index, loops[from].symbol)) continue;
        const std::vector<ExprId> above = ends_.above(end);
        if (above == std::vector<ExprId>{end}) continue;
        const bool is_one = std::ranges::any_of(above, [&](ExprId other) {
            loops[from].end = other;
            return is_below(index, extent, loops, other == end ? ranges : ir::RangeOf{}, from + 1,
                            proofs);
        });
        loops[from].end = end;
        return is_one;
    }
    if (--proofs < 0) return false;
    const ExprId high = ir::upper_bound(k_, index, loops, ranges);
    return exists(high) && ir::proves_less(k_, high, extent);
}

void Lowerer::check_bounds(BufferId buffer, const std::vector<ExprId>& indices, lang::Span span) {
    for (std::size_t p = 0; p < indices.size(); ++p) {
        const ExprId most = extent(buffer, p);
        if (is_proven(indices[p], most)) continue;
        const Bundle index = expr(indices[p]);
        const Bundle bound = first_lane(most);
        const Bundle holds = map(index, bound, [&](ValueId i, ValueId n) {
            return b_.binary(Op::And, b_.compare(Op::LessEqual, b_.integer(0), i),
                             b_.compare(Op::Less, i, n));
        });
        for_each_copy(holds.axes | (has_mask_ ? mask_.axes : 0),
                      [&](const Copy& copy) { assert_where_active(at(holds, copy), copy, span); });
    }
}

}  // namespace quern::schedule
