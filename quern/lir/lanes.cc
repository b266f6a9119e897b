#include "quern/lir/lanes.h"

#include <algorithm>
#include <bit>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "quern/lir/group_arrays.h"
#include "quern/lir/hazards.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

class LanesPass {
public:
    /// Who sees that an assertion does not hold: the lane, or all of them.
    enum class Fails : std::uint8_t { Alone, Together };

    LanesPass(const Function& from, std::span<const std::uint32_t> elements, std::uint32_t lanes,
              std::uint32_t subgroup, Fails fails)
        : from_(from),
          fails_(fails),
          lanes_(lanes),
          subgroup_(std::min(subgroup, lanes)),
          hazards_(from, subgroup_),
          values_(from.insts.size(), kNone) {
        to_.name = from.name;
        to_.lanes = lanes;
        to_.subgroup = subgroup_;
        to_.atom = from.atom;
        to_.parameters = from.parameters;
        to_.buffers = from.buffers;
        for (Buffer& buffer : to_.buffers) {
            if (buffer.space == Space::Lane) buffer.space = Space::Group;
        }
        for (BufferId b = 0; b < elements.size(); ++b) {
            to_.buffers[b].elements = elements[b];
            if (elements[b] > 0) hazards_.keep(b);
        }
    }

    Function run() {
        block(0);
        return std::move(to_);
    }

private:
    // Instructions of the result

    ValueId append(Inst inst) {
        const auto id = ValueId(to_.insts.size());
        to_.insts.push_back(inst);
        to_.blocks[open_].push_back(id);
        return id;
    }

    ValueId constant(DType dtype, std::uint64_t bits) {
        return append({.op = Op::Constant, .type = {dtype, 1}, .bits = bits});
    }
    ValueId lane(DType dtype) { return append({.op = Op::Lane, .type = {dtype, 1}}); }
    ValueId binary(Op op, DType dtype, ValueId a, ValueId b) {
        return append({.op = op, .type = {dtype, 1}, .a = a, .b = b});
    }
    ValueId equal(ValueId a, ValueId b) { return binary(Op::Equal, DType::Bool, a, b); }
    ValueId negated(ValueId a) { return append({.op = Op::Not, .type = {DType::Bool, 1}, .a = a}); }
    ValueId cast(ValueId a, DType from, DType to) {
        if (from == to) return a;
        return append({.op = Op::Cast, .type = {to, 1}, .a = a});
    }
    ValueId same_bits(ValueId a, DType from, DType to) {
        if (!is_floating(from) && !is_floating(to)) return cast(a, from, to);
        return append({.op = Op::Bitcast, .type = {to, 1}, .a = a});
    }

    /// None where nothing must be ordered.
    void barrier(Spaces spaces) {
        if (spaces == Spaces::None) return;
        const Scope scope = subgroup_ == lanes_ ? Scope::Subgroup : Scope::Group;
        append({.op = Op::Barrier, .scope = scope, .spaces = spaces, .type = {DType::Bool, 1}});
    }

    // The function's own

    ValueId value(ValueId id) const { return exists(id) ? values_[std::uint32_t(id)] : kNone; }
    Type type(ValueId id) const { return from_[id].type; }

    BlockId block(BlockId number) {
        to_.blocks.emplace_back();
        const auto made = BlockId(to_.blocks.size() - 1);
        const BlockId before = std::exchange(open_, made);
        for (const ValueId id : from_.blocks[number]) visit(from_[id], id);
        open_ = before;
        return made;
    }

    void visit(const Inst& i, ValueId id) {
        QUERN_CHECK(i.type.lanes == 1 || i.type.lanes == lanes_, "vectors of one length");
        ValueId& result = values_[std::uint32_t(id)];
        if (i.op == Op::Iota) {
            result = lane(i.type.dtype);
        } else if (class_of(i.op) == OpClass::Lanes) {
            result = lanes(i);
        } else if (class_of(i.op) == OpClass::Memory) {
            result = memory(i, id);
        } else if (class_of(i.op) == OpClass::Matrix) {
            barrier(hazards_.before_access(id));
            result = append(of_lane(i));
        } else if (i.op == Op::For) {
            loop(i, id);
        } else if (i.op == Op::If) {
            branch(i);
        } else if (i.op == Op::Assert) {
            assertion(i);
        } else {
            QUERN_CHECK(i.op != Op::Barrier, "barriers are where lanes need them");
            result = append(of_lane(i));
        }
    }

    /// The same of one lane.
    Inst of_lane(const Inst& i) const {
        Inst inst = i;
        inst.type.lanes = 1;
        inst.a = value(i.a);
        inst.b = value(i.b);
        inst.c = value(i.c);
        return inst;
    }

    ValueId memory(const Inst& i, ValueId id) {
        // The other lanes come for the neighbours.
        if (i.op == Op::Prefetch) return kNone;
        barrier(hazards_.before_access(id));
        Inst access = of_lane(i);
        if (i.op == Op::Alloc) return to_.buffers[i.buffer].elements > 0 ? kNone : append(access);
        const bool is_store = i.op == Op::Store || i.op == Op::Scatter;
        access.is_streamed = false;
        if (i.type.lanes > 1 && (i.op == Op::Load || i.op == Op::Store)) {
            const DType dtype = type(i.a).dtype;
            ValueId own = lane(dtype);
            if (i.type.packet > 1) {
                own = binary(Op::Mul, dtype, own, constant(dtype, i.type.packet));
            }
            access.a = binary(Op::Add, dtype, access.a, own);
        }
        access.op = is_store ? Op::Store : Op::Load;
        if (is_store && i.type.lanes == 1) {
            const ValueId is_first = equal(lane(kIndex), constant(kIndex, 0));
            access.c =
                exists(access.c) ? binary(Op::And, DType::Bool, access.c, is_first) : is_first;
        }
        return append(access);
    }

    // What lanes tell each other

    /// What another lane has, in words of 32 bits.
    ValueId from_lane(DType dtype, ValueId mine, ValueId lane) {
        const auto ask = [&](DType d, ValueId word) {
            return append({.op = Op::FromLane, .type = {d, 1}, .a = word, .b = lane});
        };
        if (size_of(dtype) == 4) return ask(dtype, mine);
        constexpr DType kWord = DType::UInt32, kWide = DType::UInt64;
        const DType bits = size_of(dtype) == 8   ? kWide
                           : size_of(dtype) == 2 ? DType::UInt16
                                                 : DType::UInt8;
        const ValueId own = same_bits(mine, dtype, bits);
        ValueId got = cast(ask(kWord, cast(own, bits, kWord)), kWord, bits);
        if (bits == kWide) {
            const ValueId half = constant(kWide, 32);
            const ValueId high = cast(binary(Op::ShiftRight, kWide, own, half), kWide, kWord);
            const ValueId upper = cast(ask(kWord, high), kWord, kWide);
            got = binary(Op::Or, kWide, got, binary(Op::ShiftLeft, kWide, upper, half));
        }
        return same_bits(got, bits, dtype);
    }

    /// An array with two values of a lane.
    BufferId array_of(DType dtype) {
        for (const auto& [of, buffer] : arrays_) {
            if (of == dtype) return buffer;
        }
        const auto buffer = BufferId(to_.buffers.size());
        to_.buffers.push_back({"shown", dtype, Space::Group, true, 2 * lanes_});
        arrays_.emplace_back(dtype, buffer);
        return buffer;
    }

    void put(DType dtype, ValueId place, ValueId mine) {
        append({.op = Op::Store,
                .type = {dtype, 1},
                .buffer = array_of(dtype),
                .a = place,
                .b = mine});
    }

    /// Puts what each lane has where all can see it.
    void show(DType dtype, ValueId mine, ValueId second = kNone) {
        if (hazards_.before_exchange(dtype)) barrier(Spaces::Group);
        put(dtype, lane(kIndex), mine);
        if (exists(second)) {
            put(dtype, binary(Op::Add, kIndex, lane(kIndex), constant(kIndex, lanes_)), second);
        }
        barrier(Spaces::Group);
    }

    ValueId shown(DType dtype, ValueId place) {
        return append({.op = Op::Load, .type = {dtype, 1}, .buffer = array_of(dtype), .a = place});
    }
    ValueId shown(DType dtype, std::uint64_t lane) { return shown(dtype, constant(kIndex, lane)); }

    ValueId lanes(const Inst& i) {
        if (i.op == Op::Splat) return value(i.a);
        if (i.op == Op::Any) return any(value(i.a));
        const DType own = type(i.a).dtype, dtype = *exchanged_as(from_, i);
        const auto mine = [&](ValueId id) { return cast(value(id), own, dtype); };
        if (i.op == Op::Fold) {
            const std::uint32_t row = i.bits == 0 ? lanes_ : std::uint32_t(i.bits);
            return cast(fold(i.fold, dtype, mine(i.a), row), dtype, own);
        }
        const bool are_shown = hazards_.shown_as(i).has_value();
        ValueId result = kNone;
        if (i.op == Op::Extract) {
            if (are_shown) show(dtype, mine(i.a));
            result = are_shown ? shown(dtype, i.bits)
                               : from_lane(dtype, mine(i.a), constant(kIndex, i.bits));
        } else {
            if (are_shown) show(dtype, mine(i.a), mine(i.b));
            const ValueId place = place_in(from_.patterns[i.bits]);
            result = are_shown ? shown(dtype, place) : from_two(dtype, mine(i.a), mine(i.b), place);
        }
        return cast(result, dtype, own);
    }

    /// Lane `place` of a, or of b's lanes behind them.
    ValueId from_two(DType dtype, ValueId a, ValueId b, ValueId place) {
        const ValueId lane = binary(Op::And, kIndex, place, constant(kIndex, lanes_ - 1));
        const ValueId of_a = from_lane(dtype, a, lane), of_b = from_lane(dtype, b, lane);
        return append(
            {.op = Op::Select, .type = {dtype, 1}, .a = equal(lane, place), .b = of_a, .c = of_b});
    }

    /// Over a row of neighbours, halves first. Lanes of different subgroups show each other values,
    /// those of one exchange what comes of these with the lane that is half, a quarter, ... of the
    /// subgroup away.
    ValueId fold(Op op, DType dtype, ValueId mine, std::uint32_t row) {
        const std::uint32_t together = std::min(subgroup_, row);
        std::vector<ValueId> all = {mine};
        if (together < row) {
            show(dtype, mine);
            const ValueId first = first_of(row, together);
            for (std::uint32_t n = 0; n < row; n += together) {
                const ValueId at = constant(kIndex, n);
                const ValueId place = exists(first) ? binary(Op::Add, kIndex, first, at) : at;
                if (n == 0) all.clear();
                all.push_back(shown(dtype, place));
            }
        }
        for (std::size_t half = all.size() / 2; half > 0; half /= 2) {
            for (std::size_t n = 0; n < half; ++n) {
                all[n] = folded(op, dtype, all[n], all[n + half]);
            }
        }
        ValueId result = all[0];
        for (std::uint32_t half = together / 2; half > 0; half /= 2) {
            const ValueId other = binary(Op::Xor, kIndex, lane(kIndex), constant(kIndex, half));
            result = folded(op, dtype, result, from_lane(dtype, result, other));
        }
        // Of zeros that differ in sign the second is taken: lanes have them in other orders.
        const bool has_order = is_floating(dtype) && (op == Op::Min || op == Op::Max);
        if (together == 1 || !has_order) return result;
        const ValueId others = constant(kIndex, std::uint32_t(0) - together);
        return from_lane(dtype, result, binary(Op::And, kIndex, lane(kIndex), others));
    }

    /// The first lane of this lane's row that has its place in a subgroup; none: lane 0.
    ValueId first_of(std::uint32_t row, std::uint32_t together) {
        const std::uint32_t bits = (lanes_ - row) | (together - 1);
        if (bits == 0) return kNone;
        return binary(Op::And, kIndex, lane(kIndex), constant(kIndex, bits));
    }

    /// Which lane's value this lane gets.
    ValueId place_in(const std::vector<std::uint16_t>& pattern) {
        std::uint32_t moved = 0;
        for (std::uint32_t n = 0; n < lanes_; ++n) moved |= pattern[n] ^ n ^ pattern[0];
        if (moved == 0) {
            return binary(Op::Xor, kIndex, lane(kIndex), constant(kIndex, pattern[0]));
        }
        ValueId place = constant(kIndex, pattern[0]);
        for (std::uint32_t n = 1; n < lanes_; ++n) {
            place = append({.op = Op::Select,
                            .type = {kIndex, 1},
                            .a = equal(lane(kIndex), constant(kIndex, n)),
                            .b = constant(kIndex, pattern[n]),
                            .c = place});
        }
        return place;
    }

    /// Narrow floats are added as floats, each sum rounded.
    ValueId folded(Op op, DType dtype, ValueId a, ValueId b) {
        const bool is_narrow = is_floating(dtype) && size_of(dtype) == 2;
        const DType wide = is_narrow ? DType::Float32 : dtype;
        return cast(binary(op, wide, cast(a, dtype, wide), cast(b, dtype, wide)), wide, dtype);
    }

    /// Whether a bool is true in some lane.
    ValueId any(ValueId condition) {
        const DType dtype = DType::UInt32;
        const ValueId mine = cast(condition, DType::Bool, dtype);
        return cast(fold(Op::Or, dtype, mine, lanes_), dtype, DType::Bool);
    }

    // Control flow

    void assertion(const Inst& i) {
        const bool has_mask = exists(i.c);
        if (fails_ == Fails::Alone || !exchanged_as(from_, i)) {
            append(of_lane(i));
            return;
        }
        ValueId broken = negated(value(i.a));
        if (has_mask) broken = binary(Op::And, DType::Bool, broken, value(i.c));
        append({.op = Op::Assert,
                .type = {DType::Bool, 1},
                .a = negated(any(broken)),
                .span = i.span});
    }

    /// What was touched on another way to here too.
    void join(const Hazards::State& other) {
        Hazards::State both = hazards_.now();
        both.add(other);
        hazards_.continue_from(std::move(both));
    }

    void loop(const Inst& i, ValueId id) {
        barrier(hazards_.before_loop(id));
        const Hazards::State before = hazards_.now();
        const ValueId made = append(of_lane(i));
        values_[std::uint32_t(id)] = made;
        const BlockId body = block(i.body);
        to_.insts[std::uint32_t(made)].body = body;
        join(before);
    }

    void branch(const Inst& i) {
        const ValueId made = append(of_lane(i));
        const Hazards::State before = hazards_.now();
        const BlockId body = block(i.body);
        to_.insts[std::uint32_t(made)].body = body;
        if (i.otherwise == kNoBlock) {
            join(before);
            return;
        }
        const Hazards::State of_body = hazards_.now();
        hazards_.continue_from(before);
        const BlockId otherwise = block(i.otherwise);
        to_.insts[std::uint32_t(made)].otherwise = otherwise;
        join(of_body);
    }

    const Function& from_;
    Fails fails_;
    std::uint32_t lanes_;
    std::uint32_t subgroup_;
    Hazards hazards_;
    Function to_;
    BlockId open_ = 0;

    /// What was made of each instruction.
    std::vector<ValueId> values_;
    std::vector<std::pair<DType, BufferId>> arrays_;
};

bool asserts_in_lanes(const Function& function) {
    return std::ranges::any_of(function.insts, [&](const Inst& i) {
        return i.op == Op::Assert && exchanged_as(function, i).has_value();
    });
}

/// Whether lanes wait for each other wherever they keep their arrays.
bool exchanges(const Function& function) {
    return std::ranges::any_of(function.insts, [&](const Inst& i) {
        return (i.op != Op::Assert && exchanged_as(function, i)) ||
               class_of(i.op) == OpClass::Matrix;
    });
}

/// Whether a lane would wait in vain for one that has ended.
bool waits(const Function& function) {
    return std::ranges::any_of(function.insts, [](const Inst& i) { return meets(i.op); });
}

/// Of the arrays by which lanes show each other values.
std::uint32_t bytes_shown(const Function& function, std::uint32_t lanes, std::uint32_t subgroup) {
    const Hazards hazards(function, subgroup);
    std::set<DType> shown;
    for (const Inst& i : function.insts) {
        if (const auto dtype = hazards.shown_as(i)) shown.insert(*dtype);
    }
    std::uint32_t bytes = 0;
    for (const DType dtype : shown) {
        bytes += 2 * lanes * std::max<std::uint32_t>(std::uint32_t(size_of(dtype)), 4);
    }
    return bytes;
}

}  // namespace

std::uint32_t lanes_of(const Function& function) {
    std::uint32_t most = 1;
    for (const Inst& i : function.insts) most = std::max<std::uint32_t>(most, i.type.lanes);
    return most;
}

Function for_lanes(const Function& function, std::uint32_t subgroup, std::uint32_t bytes) {
    QUERN_CHECK(std::has_single_bit(subgroup), "a power of two lanes run together");
    const std::uint32_t lanes = lanes_of(function);
    if (lanes == 1) return function;
    const GroupArrays arrays =
        group_arrays(function, bytes - bytes_shown(function, lanes, std::min(subgroup, lanes)));
    const auto made = [&](LanesPass::Fails fails) {
        return LanesPass(arrays.function, arrays.elements, lanes, subgroup, fails).run();
    };
    const bool asserts = asserts_in_lanes(function);
    if (asserts && exchanges(function)) return made(LanesPass::Fails::Together);
    Function alone = made(LanesPass::Fails::Alone);
    return asserts && waits(alone) ? made(LanesPass::Fails::Together) : std::move(alone);
}

bool has_room_for_matrices(const Function& function) {
    return std::ranges::all_of(function.insts, [&](const Inst& i) {
        return !touches_matrix(i.op) || function.buffers[i.buffer].elements > 0;
    });
}

}  // namespace quern::lir
