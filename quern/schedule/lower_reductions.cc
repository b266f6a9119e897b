#include <algorithm>
#include <limits>

#include "quern/schedule/lowerer.h"
#include "quern/schedule/reduction.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprKind;
using ir::Stmt;
using lir::Op;

namespace {

Op fold_of(BinaryOp op, DType dtype) {
    const bool is_bool = dtype == DType::Bool;
    switch (op) {
        case BinaryOp::Mul:
            return Op::Mul;
        case BinaryOp::Min:
            return is_bool ? Op::And : Op::Min;
        case BinaryOp::Max:
            return is_bool ? Op::Or : Op::Max;
        case BinaryOp::And:
            return Op::And;
        case BinaryOp::Or:
            return Op::Or;
        default:
            return Op::Add;
    }
}

}  // namespace

void Lowerer::accumulate(const Stmt& s) {
    const ir::Expr value = k_[s.value];
    const DType dtype = k_.symbols[s.symbol].dtype;
    const bool is_product = value.kind == ExprKind::Binary &&
                            static_cast<BinaryOp>(value.op) == BinaryOp::Mul &&
                            s.op == BinaryOp::Add && value.dtype == dtype &&
                            (dtype == DType::Float32 || dtype == DType::Float64);
    const Bundle registers = names_.at(s.symbol).bundle;
    const auto present = [&] { return map(registers, [&](ValueId r) { return b_.get(r); }); };
    const bool is_loose = !fuses_ && fuses_loosely_ && dtype == DType::Float32;
    if (is_product && (fuses_ || is_loose)) {
        const Bundle a = expr(ExprId{value.a});
        const Bundle b = expr(ExprId{value.b});
        b_.set_relaxed(is_loose);
        assign(s.symbol, map(a, b, present(),
                             [&](ValueId x, ValueId y, ValueId sum) { return b_.fma(x, y, sum); }));
        b_.set_relaxed(plan_.tiling.numerics == Numerics::Fast);
        return;
    }
    if (const auto seen = nan_seen_.find(s.symbol); seen != nan_seen_.end()) {
        return extreme_in_lanes(s, seen->second);
    }
    const Bundle v = expr(s.value);
    // An extremum looks whether its first operand is NaN: of a new element it may do so before the
    // others are taken. Which of two equal zeros is taken depends on the order.
    const bool swaps = (s.op == BinaryOp::Min || s.op == BinaryOp::Max) &&
                       plan_.tiling.numerics != Numerics::Reproducible;
    assign(s.symbol, map(present(), v, [&](ValueId sum, ValueId x) {
               const std::uint16_t lanes = std::max(b_.type(sum).lanes, b_.type(x).lanes);
               const ValueId a = b_.splat(sum, lanes), b = b_.splat(x, lanes);
               return swaps ? arithmetic(s.op, b, a) : arithmetic(s.op, a, b);
           }));
}

/// An extremum is one operation where no element is NaN: whether one is, is kept for all copies
/// together, two of which are asked at once.
void Lowerer::extreme_in_lanes(const Stmt& s, ValueId seen) {
    const Bundle v = expr(s.value);
    const Bundle registers = names_.at(s.symbol).bundle;
    const Bundle present = map(registers, [&](ValueId r) { return b_.get(r); });
    assign(s.symbol, map(present, v, [&](ValueId best, ValueId x) {
               const std::uint16_t lanes = b_.type(best).lanes;
               x = b_.splat(x, lanes);
               const ValueId stays = s.op == BinaryOp::Max ? b_.compare(Op::Less, x, best)
                                                           : b_.compare(Op::Less, best, x);
               return b_.select(stays, best, x);
           }));
    std::vector<ValueId> found;
    for_each_copy(v.axes | (has_mask_ ? mask_.axes : 0), [&](const Copy& copy) {
        const std::uint16_t lanes = active_lanes();
        const ValueId x = b_.splat(at(v, copy), lanes);
        const ValueId is_nan = b_.compare(Op::NotEqual, x, x);
        found.push_back(has_mask_ ? b_.binary(Op::And, is_nan, mask_at(copy, lanes)) : is_nan);
    });
    for (; found.size() > 1; found.resize((found.size() + 1) / 2)) {
        for (std::size_t i = 0; i < found.size(); i += 2) {
            const bool is_pair = i + 1 < found.size();
            found[i / 2] = is_pair ? b_.binary(Op::Or, found[i], found[i + 1]) : found[i];
        }
    }
    b_.set(seen, b_.binary(Op::Or, b_.get(seen), found[0]));
}

/// Lane l adds up iterations l, l + lanes, ...: partial l of the tree. Unrolled, each copy has sums
/// of its own. In rows, each has those of its lanes.
void Lowerer::reduce_lanes(const Stmt& s, const Axis& axis, const std::function<void()>& body) {
    const auto combined = [&](BinaryOp op, ValueId x, ValueId y) { return arithmetic(op, x, y); };
    std::vector<Name> outer;
    for (const ir::SymbolId symbol : s.reduces) {
        const BinaryOp op = operator_of(s.body, symbol);
        const ValueId start = expr(identity(k_, op, k_.symbols[symbol].dtype)).copies[0];
        Name name;
        name.kind = Name::Kind::Register;
        if (axis.unroll > 1) unrolls_.push_back(axis.unroll);
        name.bundle.axes = active_axes();
        for_each_copy(name.bundle.axes, [&](const Copy&) {
            name.bundle.copies.push_back(b_.reg(b_.splat(start, all_lanes())));
        });
        if (axis.unroll > 1) unrolls_.pop_back();
        outer.push_back(names_.at(symbol));
        names_[symbol] = name;
        const DType dtype = k_.symbols[symbol].dtype;
        const bool is_extreme = (op == BinaryOp::Min || op == BinaryOp::Max) &&
                                (dtype == DType::Float32 || dtype == DType::Float64);
        if (is_extreme && unrolls_.empty()) {
            nan_seen_[symbol] = b_.reg(b_.splat(b_.boolean(false), all_lanes()));
        }
    }
    passes(axis, b_.integer(0), trips(s, axis), body);
    const auto row = std::uint16_t(rows_ > 1 ? lanes_ : 0);
    for (std::size_t i = 0; i < s.reduces.size(); ++i) {
        const ir::SymbolId symbol = s.reduces[i];
        const BinaryOp op = operator_of(s.body, symbol);
        Bundle total;
        total.axes = active_axes();
        const std::vector<ValueId> registers = names_[symbol].bundle.copies;
        const auto copies = std::size_t(axis.unroll);
        for (std::size_t r = 0; r < registers.size(); r += copies) {
            ValueId sum = b_.get(registers[r]);
            for (std::size_t u = 1; u < copies; ++u) {
                sum = combined(op, sum, b_.get(registers[r + u]));
            }
            const DType dtype = k_.symbols[symbol].dtype;
            sum = b_.fold(fold_of(op, dtype), sum, row);
            if (const auto seen = nan_seen_.find(symbol); seen != nan_seen_.end()) {
                const double nan = std::numeric_limits<double>::quiet_NaN();
                const ValueId all = b_.get(seen->second);
                const ValueId is_nan = row > 0 ? b_.fold(Op::Or, all, row) : b_.any(all);
                sum = b_.select(is_nan, b_.splat(number(nan, dtype), b_.type(sum).lanes), sum);
                nan_seen_.erase(seen);
            }
            total.copies.push_back(sum);
        }
        names_[symbol] = outer[i];
        const Bundle before = map(outer[i].bundle, [&](ValueId r) { return b_.get(r); });
        assign(symbol,
               map(before, total, [&](ValueId x, ValueId y) { return combined(op, x, y); }));
    }
}

/// Sums of floats that one lane takes one after the other, where there are no lanes that share
/// them. Those of several lanes, staged ones too, and of tiles, which would be twice as many, and
/// what is left of tiles, only where there may be many numbers: an element has the same bits
/// wherever it lies.
bool Lowerer::has_long_sums(const Stmt& s) {
    const bool are_sums = std::ranges::all_of(s.reduces, [&](ir::SymbolId symbol) {
        return is_floating(k_.symbols[symbol].dtype) &&
               operator_of(s.body, symbol) == BinaryOp::Add;
    });
    if (s.reduces.empty() || !are_sums) return false;
    const bool has_tiles = std::ranges::any_of(loops_, [&](const ir::LoopRange& loop) {
        return plan_.tiling.has(loop.symbol, Level::Unroll);
    });
    return (lanes_ == 1 && !has_tiles) || most_trips(k_, s, loops_, ranges_of(k_, facts_)) > kChunk;
}

/// A sum of blocks of neighbours, each summed up alone: a number is rounded with those of its block
/// and as part of one, not with all before it.
void Lowerer::sums_of_blocks(const Stmt& s, ValueId count,
                             const std::function<void(ValueId, ValueId)>& body) {
    const ValueId begin = b_.begin_for(b_.integer(0), count, kBlock);
    std::vector<Bundle> before;
    for (const ir::SymbolId symbol : s.reduces) {
        const Bundle& sums = names_.at(symbol).bundle;
        before.push_back(map(sums, [&](ValueId sum) { return b_.get(sum); }));
        const ValueId none = number(0, k_.symbols[symbol].dtype);
        for (const ValueId sum : sums.copies) b_.set(sum, b_.splat(none, b_.type(sum).lanes));
    }
    const ValueId end = b_.binary(Op::Min, b_.add(begin, b_.integer(kBlock)), count);
    body(begin, end);
    for (std::size_t i = 0; i < s.reduces.size(); ++i) {
        const Bundle& sums = names_.at(s.reduces[i]).bundle;
        const Bundle of_block = map(sums, [&](ValueId sum) { return b_.get(sum); });
        // Lanes that take no part keep what they had.
        for (std::size_t c = 0; c < sums.copies.size(); ++c) {
            b_.set(sums.copies[c], before[i].copies[c]);
        }
        assign(s.reduces[i], map(before[i], of_block, [&](ValueId x, ValueId y) {
                   return arithmetic(BinaryOp::Add, x, y);
               }));
    }
    b_.end_for();
}

/// Iteration k goes to partial k mod 16, which lie in memory.
void Lowerer::tree_loop(const Stmt& s) {
    using ir::kPartials;
    const Axis axis = axis_of(s);
    struct Partial {
        ir::SymbolId symbol;
        BinaryOp op;
        Name outer;
        lir::BufferId buffer;
        std::int64_t width;
    };
    std::vector<Partial> partials;
    const auto each = [&](const Partial& p, ValueId k, const auto& use) {
        std::int64_t number = 0;
        for_each_copy(p.outer.bundle.axes, [&](const Copy& copy) {
            const ValueId slot =
                b_.add(b_.mul(k, b_.integer(p.width)), b_.integer(number++ * p.width * kPartials));
            use(at(p.outer.bundle, copy), slot);
        });
    };
    for (const ir::SymbolId symbol : s.reduces) {
        Partial p{symbol, operator_of(s.body, symbol), names_.at(symbol), 0, 1};
        const lir::Type type = b_.type(p.outer.bundle.copies[0]);
        p.width = type.lanes;
        p.buffer = b_.buffer(k_.symbols[symbol].name + ".tree", type.dtype, lir::Space::Lane, true);
        b_.alloc(p.buffer,
                 b_.integer(kPartials * p.width * std::int64_t(p.outer.bundle.copies.size())));
        const ValueId start = expr(identity(k_, p.op, type.dtype)).copies[0];
        const ValueId k = b_.begin_for(b_.integer(0), b_.integer(kPartials), 1);
        each(p, k,
             [&](ValueId, ValueId slot) { b_.store(p.buffer, slot, b_.splat(start, type.lanes)); });
        b_.end_for();
        partials.push_back(p);
    }
    std::vector<Bundle> kept;
    for (const Partial& p : partials) {
        kept.push_back(map(p.outer.bundle, [&](ValueId r) { return b_.get(r); }));
    }
    const ValueId trip = b_.begin_for(b_.integer(0), trips(s, axis), 1);
    const ValueId k = b_.binary(Op::And, trip, b_.integer(kPartials - 1));
    for (const Partial& p : partials) {
        each(p, k, [&](ValueId reg, ValueId slot) {
            b_.set(reg, b_.load(p.buffer, slot, b_.type(reg).lanes));
        });
    }
    Axis one = axis;
    one.unroll = 1;
    pass({one, trip}, [&] { block(s.body); });
    for (const Partial& p : partials) {
        each(p, k, [&](ValueId reg, ValueId slot) { b_.store(p.buffer, slot, b_.get(reg)); });
    }
    b_.end_for();
    for (std::size_t i = 0; i < partials.size(); ++i) {
        const Partial& p = partials[i];
        for (std::int64_t half = kPartials / 2; half >= 1; half /= 2) {
            const ValueId low = b_.begin_for(b_.integer(0), b_.integer(half), 1);
            std::vector<ValueId> others;
            each(p, b_.add(low, b_.integer(half)), [&](ValueId reg, ValueId slot) {
                others.push_back(b_.load(p.buffer, slot, b_.type(reg).lanes));
            });
            std::size_t n = 0;
            each(p, low, [&](ValueId reg, ValueId slot) {
                const ValueId x = b_.load(p.buffer, slot, b_.type(reg).lanes);
                b_.store(p.buffer, slot, arithmetic(p.op, x, others[n++]));
            });
            b_.end_for();
        }
        Bundle total;
        total.axes = p.outer.bundle.axes;
        std::size_t n = 0;
        each(p, b_.integer(0), [&](ValueId reg, ValueId slot) {
            total.copies.push_back(b_.load(p.buffer, slot, b_.type(reg).lanes));
            // Lanes that take no part keep what they had.
            b_.set(reg, kept[i].copies[n++]);
        });
        assign(p.symbol,
               map(kept[i], total, [&](ValueId x, ValueId y) { return arithmetic(p.op, x, y); }));
    }
}

}  // namespace quern::schedule
