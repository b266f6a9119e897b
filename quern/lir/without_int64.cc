#include "quern/lir/without_int64.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "quern/lir/builder.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

/// Extents, points and bounds of loops: a step beyond them still fits.
constexpr std::int64_t kExtent = std::int64_t{1} << 30;

/// Of an integer of 64 bits: an int32 between two bounds, or two uint32. Of another value: itself.
struct Value {
    ValueId low = kNone;
    ValueId high = kNone;
    std::int64_t least = kLeast;
    std::int64_t most = kMost;

    bool is_pair() const { return exists(high); }
};

class Int64Pass {
public:
    Int64Pass(const Function& from, bool are_small)
        : from_(from), are_small_(are_small), b_(from.name), values_(from.insts.size()) {}

    Function run() {
        for (const Buffer& buffer : from_.buffers) {
            b_.buffer(buffer.name, is_wide(buffer.dtype) ? DType::UInt32 : buffer.dtype,
                      buffer.space, buffer.is_written);
        }
        b_.set_atom(from_.atom);
        for (const Parameter& p : from_.parameters) b_.parameter(p, DType::Int32);
        if (!are_small_) check_parameters();
        block(0);
        return b_.take();
    }

private:
    // Numbers of 32 bits

    ValueId u32(std::uint32_t value) { return b_.constant(DType::UInt32, value); }
    ValueId i32(std::int64_t value) {
        return b_.constant(DType::Int32, static_cast<std::uint64_t>(value));
    }
    ValueId less(ValueId a, ValueId b) { return b_.compare(Op::Less, a, b); }
    ValueId equal(ValueId a, ValueId b) { return b_.compare(Op::Equal, a, b); }
    ValueId both(ValueId a, ValueId b) { return b_.binary(Op::And, a, b); }
    ValueId either(ValueId a, ValueId b) { return b_.binary(Op::Or, a, b); }
    ValueId left(ValueId a, ValueId by) { return b_.binary(Op::ShiftLeft, a, by); }
    ValueId right(ValueId a, ValueId by) { return b_.binary(Op::ShiftRight, a, by); }
    ValueId as_unsigned(ValueId a) { return b_.cast(a, DType::UInt32); }
    ValueId as_signed(ValueId a) { return b_.cast(a, DType::Int32); }

    // Values

    Value narrow(ValueId id, std::int64_t least, std::int64_t most) {
        return {id, kNone, least, most};
    }
    Value pair(ValueId low, ValueId high) {
        const std::uint16_t lanes = std::max(b_.type(low).lanes, b_.type(high).lanes);
        return {b_.splat(low, lanes), b_.splat(high, lanes), 0, 0};
    }

    Value constant(std::int64_t value) {
        if (kLeast <= value && value <= kMost) return narrow(i32(value), value, value);
        const auto bits = static_cast<std::uint64_t>(value);
        return pair(u32(std::uint32_t(bits)), u32(std::uint32_t(bits >> 32)));
    }

    Value as_pair(const Value& v) {
        if (v.is_pair()) return v;
        const ValueId high = v.least >= 0 ? u32(0) : as_unsigned(right(v.low, i32(31)));
        return pair(as_unsigned(v.low), high);
    }

    /// The low 32 bits.
    ValueId low_of(const Value& v) { return v.is_pair() ? as_signed(v.low) : v.low; }

    static bool fits(std::int64_t least, std::int64_t most) {
        return kLeast <= least && most <= kMost;
    }

    const Value& value(ValueId id) const { return values_[std::uint32_t(id)]; }
    ValueId single(ValueId id) const { return exists(id) ? value(id).low : kNone; }
    DType dtype(ValueId id) const { return from_[id].type.dtype; }

    // Arithmetic. Bounds of narrow values are of 32 bits, so what is made of two fits in 64.

    Value add(const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair() && fits(a.least + b.least, a.most + b.most)) {
            return narrow(b_.add(a.low, b.low), a.least + b.least, a.most + b.most);
        }
        const Value x = as_pair(a), y = as_pair(b);
        const ValueId low = b_.add(x.low, y.low);
        const ValueId carry = as_unsigned(less(low, x.low));
        return pair(low, b_.add(b_.add(x.high, y.high), carry));
    }

    Value sub(const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair() && fits(a.least - b.most, a.most - b.least)) {
            return narrow(b_.sub(a.low, b.low), a.least - b.most, a.most - b.least);
        }
        const Value x = as_pair(a), y = as_pair(b);
        const ValueId borrow = as_unsigned(less(x.low, y.low));
        return pair(b_.sub(x.low, y.low), b_.sub(b_.sub(x.high, y.high), borrow));
    }

    /// The upper half of a product of two uint32, by halves of 16 bits.
    ValueId upper_product(ValueId a, ValueId b) {
        const auto high = [&](ValueId v) { return right(v, u32(16)); };
        const auto low = [&](ValueId v) { return b_.binary(Op::And, v, u32(0xffff)); };
        const ValueId cross = b_.add(b_.mul(high(a), low(b)), high(b_.mul(low(a), low(b))));
        const ValueId other = b_.add(b_.mul(low(a), high(b)), low(cross));
        return b_.add(b_.mul(high(a), high(b)), b_.add(high(cross), high(other)));
    }

    Value mul(const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair()) {
            const std::array<std::int64_t, 4> ends = {a.least * b.least, a.least * b.most,
                                                      a.most * b.least, a.most * b.most};
            const auto [least, most] = std::minmax_element(ends.begin(), ends.end());
            if (fits(*least, *most)) return narrow(b_.mul(a.low, b.low), *least, *most);
        }
        const Value x = as_pair(a), y = as_pair(b);
        const ValueId cross = b_.add(b_.mul(x.low, y.high), b_.mul(x.high, y.low));
        return pair(b_.mul(x.low, y.low), b_.add(upper_product(x.low, y.low), cross));
    }

    ValueId is_less(const Value& a, const Value& b, bool is_signed) {
        if (!a.is_pair() && !b.is_pair()) return less(a.low, b.low);
        const Value x = as_pair(a), y = as_pair(b);
        const auto order = [&](ValueId v) { return is_signed ? as_signed(v) : v; };
        return either(less(order(x.high), order(y.high)),
                      both(equal(x.high, y.high), less(x.low, y.low)));
    }

    ValueId is_equal(const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair()) return equal(a.low, b.low);
        const Value x = as_pair(a), y = as_pair(b);
        return both(equal(x.low, y.low), equal(x.high, y.high));
    }

    ValueId compare(Op op, const Value& a, const Value& b, bool is_signed) {
        switch (op) {
            case Op::Less:
                return is_less(a, b, is_signed);
            case Op::LessEqual:
                return b_.unary(Op::Not, is_less(b, a, is_signed));
            case Op::Equal:
                return is_equal(a, b);
            default:
                return b_.unary(Op::Not, is_equal(a, b));
        }
    }

    Value select(ValueId condition, const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair()) {
            return narrow(b_.select(condition, a.low, b.low), std::min(a.least, b.least),
                          std::max(a.most, b.most));
        }
        const Value x = as_pair(a), y = as_pair(b);
        return pair(b_.select(condition, x.low, y.low), b_.select(condition, x.high, y.high));
    }

    Value negated(const Value& a) { return sub(constant(0), a); }

    Value magnitude(const Value& a) {
        if (!a.is_pair() && a.least >= 0) return a;
        return select(is_less(a, constant(0), true), negated(a), a);
    }

    Value logic(Op op, const Value& a, const Value& b) {
        if (!a.is_pair() && !b.is_pair()) {
            const ValueId id = b_.binary(op, a.low, b.low);
            if (op == Op::And && b.least >= 0) return narrow(id, 0, b.most);
            const bool has_sign = a.least < 0 || b.least < 0;
            return narrow(id, has_sign ? kLeast : 0, kMost);
        }
        const Value x = as_pair(a), y = as_pair(b);
        return pair(b_.binary(op, x.low, y.low), b_.binary(op, x.high, y.high));
    }

    /// By 0 to 63.
    Value shifted_left(const Value& a, const Value& by) {
        if (!a.is_pair() && !by.is_pair() && by.least == by.most && 0 <= by.least &&
            by.least < 31 && fits(a.least << by.least, a.most << by.least)) {
            return narrow(left(a.low, by.low), a.least << by.least, a.most << by.least);
        }
        const Value x = as_pair(a);
        return shift(by, [&](ValueId n, bool is_long) {
            if (is_long) return pair(u32(0), left(x.low, n));
            return pair(left(x.low, n), either(left(x.high, n), carried(x.low, n, Op::ShiftRight)));
        });
    }

    Value shifted_right(const Value& a, const Value& by, bool is_signed) {
        if (!a.is_pair() && a.least >= 0 && !by.is_pair() && by.least >= 0 && by.most < 32) {
            return narrow(right(a.low, by.low), 0, a.most >> by.least);
        }
        const Value x = as_pair(a);
        const auto upper = [&](ValueId n) {
            if (!is_signed) return right(x.high, n);
            return as_unsigned(right(as_signed(x.high), as_signed(n)));
        };
        return shift(by, [&](ValueId n, bool is_long) {
            if (is_long) return pair(upper(n), is_signed ? upper(u32(31)) : u32(0));
            return pair(either(right(x.low, n), carried(x.high, n, Op::ShiftLeft)), upper(n));
        });
    }

    /// What a shift by n (0 to 31) moves to the other half.
    ValueId carried(ValueId v, ValueId n, Op op) {
        const ValueId rest = b_.binary(Op::And, b_.sub(u32(32), n), u32(31));
        return b_.select(equal(n, u32(0)), u32(0), b_.binary(op, v, rest));
    }

    template <class Shifted>
    Value shift(const Value& by, const Shifted& shifted) {
        if (!by.is_pair() && by.least == by.most) {
            return shifted(u32(std::uint32_t(by.least) & 31), by.least >= 32);
        }
        const ValueId all = as_unsigned(low_of(by));
        const ValueId n = b_.binary(Op::And, all, u32(31));
        return select(less(u32(31), all), shifted(n, true), shifted(n, false));
    }

    /// Quotient and remainder of numbers without sign, bit by bit.
    std::pair<Value, Value> divided(const Value& a, const Value& b) {
        const std::uint16_t lanes = std::max(b_.type(a.low).lanes, b_.type(b.low).lanes);
        const auto variable = [&](ValueId begin) { return b_.reg(b_.splat(begin, lanes)); };
        const ValueId low = variable(a.low), high = variable(a.high);
        const ValueId rest_low = variable(u32(0)), rest_high = variable(u32(0));
        b_.begin_for(i32(0), i32(64), 1);
        // The bits of the dividend go out above, those of the quotient come in below.
        const auto up = [&](ValueId v, ValueId below) {
            return either(left(v, u32(1)), right(below, u32(31)));
        };
        const ValueId l = b_.get(low), h = b_.get(high);
        const ValueId rl = b_.get(rest_low), rh = b_.get(rest_high);
        // Where a bit leaves the remainder above, it is more than any divisor.
        const ValueId leaves = b_.compare(Op::NotEqual, right(rh, u32(31)), u32(0));
        const Value rest = pair(up(rl, h), up(rh, rl));
        const ValueId takes = either(leaves, b_.unary(Op::Not, is_less(rest, b, false)));
        const Value reduced = select(takes, sub(rest, b), rest);
        b_.set(low, either(left(l, u32(1)), as_unsigned(takes)));
        b_.set(high, up(h, l));
        b_.set(rest_low, reduced.low);
        b_.set(rest_high, reduced.high);
        b_.end_for();
        return {pair(b_.get(low), b_.get(high)), pair(b_.get(rest_low), b_.get(rest_high))};
    }

    /// Toward zero; a remainder has the sign of the dividend.
    Value quotient(Op op, const Value& a, const Value& b, bool is_signed) {
        const bool overflows = a.least == kLeast && b.least <= -1 && b.most >= -1;
        if (!a.is_pair() && !b.is_pair() && b.least > 0) {
            const ValueId whole = b_.binary(op, a.low, b.low);
            const std::int64_t most = op == Op::Div
                                          ? std::max<std::int64_t>(a.most / b.least, 0)
                                          : std::clamp<std::int64_t>(a.most, 0, b.most - 1);
            const std::int64_t least = op == Op::Div
                                           ? std::min<std::int64_t>(a.least / b.least, 0)
                                           : std::clamp<std::int64_t>(a.least, 1 - b.most, 0);
            return narrow(whole, least, most);
        }
        if (!a.is_pair() && !b.is_pair() && !overflows) {
            const std::int64_t most = std::max(std::abs(a.least), std::abs(a.most));
            const bool has_sign = a.least < 0 || b.least < 0;
            return narrow(b_.binary(op, a.low, b.low), has_sign ? std::max(-most, kLeast) : 0,
                          std::min(most, kMost));
        }
        if (!is_signed) {
            const auto [whole, rest] = divided(as_pair(a), as_pair(b));
            return op == Op::Div ? whole : rest;
        }
        const Value zero = constant(0);
        const auto [whole, rest] = divided(as_pair(magnitude(a)), as_pair(magnitude(b)));
        const ValueId a_has_sign = is_less(a, zero, true);
        if (op == Op::Rem) return select(a_has_sign, negated(rest), rest);
        const ValueId is_below = b_.compare(Op::NotEqual, a_has_sign, is_less(b, zero, true));
        return select(is_below, negated(whole), whole);
    }

    /// Below 0 what has no sign is large.
    Value wrapped(const Value& v, bool is_signed) {
        return is_signed || v.is_pair() || v.least >= 0 ? v : as_pair(v);
    }

    Value binary(Op op, const Value& a, const Value& b, bool is_signed) {
        return wrapped(arithmetic(op, a, b, is_signed), is_signed);
    }

    Value arithmetic(Op op, const Value& a, const Value& b, bool is_signed) {
        switch (op) {
            case Op::Add:
                return add(a, b);
            case Op::Sub:
                return sub(a, b);
            case Op::Mul:
                return mul(a, b);
            case Op::Div:
            case Op::Rem:
                return quotient(op, a, b, is_signed);
            case Op::Min:
            case Op::Max:
                return extreme(op, a, b, is_signed);
            case Op::ShiftLeft:
                return shifted_left(a, b);
            case Op::ShiftRight:
                return shifted_right(a, b, is_signed);
            default:
                return logic(op, a, b);
        }
    }

    Value extreme(Op op, const Value& a, const Value& b, bool is_signed) {
        const bool is_least = op == Op::Min;
        if (a.is_pair() || b.is_pair()) {
            return select(is_least ? is_less(b, a, is_signed) : is_less(a, b, is_signed), b, a);
        }
        const auto chosen = [&](std::int64_t x, std::int64_t y) {
            return is_least ? std::min(x, y) : std::max(x, y);
        };
        return narrow(b_.binary(op, a.low, b.low), chosen(a.least, b.least),
                      chosen(a.most, b.most));
    }

    // Conversions

    Value from_number(ValueId id, DType from, DType to) {
        if (is_floating(from)) return from_float(b_.cast(id, DType::Float32), to);
        if (from == DType::UInt32) return pair(id, u32(0));
        const ValueId as_int = b_.cast(id, DType::Int32);
        if (from == DType::Bool) return narrow(as_int, 0, 1);
        const int bits = 8 * int(size_of(from));
        const std::int64_t most =
            (std::int64_t{1} << (is_signed_integer(from) ? bits - 1 : bits)) - 1;
        const Value v = narrow(as_int, is_signed_integer(from) ? -most - 1 : 0, most);
        return wrapped(v, to == DType::Int64);
    }

    /// Truncated, and the nearest there is for what is out of range; 0 for NaN. Each step is exact.
    Value from_float(ValueId id, DType to) {
        const auto real = [&](float value) {
            return b_.constant(DType::Float32, std::bit_cast<std::uint32_t>(value));
        };
        const bool is_signed = to == DType::Int64;
        const ValueId size = b_.unary(Op::Abs, id);
        const ValueId above = b_.unary(Op::Floor, b_.mul(size, real(0x1p-32f)));
        const ValueId below = b_.sub(size, b_.mul(above, real(0x1p32f)));
        const Value whole = pair(b_.cast(below, DType::UInt32), b_.cast(above, DType::UInt32));
        const ValueId has_sign = less(id, real(0));
        // A comparison with NaN is false.
        const ValueId is_small = less(size, real(is_signed ? 0x1p63f : 0x1p64f));
        const ValueId is_number = equal(id, id);
        const Value zero = as_pair(constant(0));
        const std::uint32_t top = is_signed ? 0x7fffffffu : 0xffffffffu;
        Value far = pair(u32(0xffffffffu), u32(top));
        if (is_signed) far = select(has_sign, pair(u32(0), u32(0x80000000u)), far);
        Value result =
            select(is_small, is_signed ? select(has_sign, negated(whole), whole) : whole, far);
        if (!is_signed) result = select(has_sign, zero, result);
        return select(is_number, result, zero);
    }

    ValueId to_number(const Value& v, DType from, DType to) {
        if (to == DType::Bool) return b_.unary(Op::Not, is_equal(v, constant(0)));
        if (!v.is_pair()) return b_.cast(v.low, to);
        if (is_floating(to)) return to_float(v, from == DType::Int64, to);
        return b_.cast(v.low, to);
    }

    /// The 32 bits from the first that is set, of which the last says too whether any behind them
    /// is: a float of that is the nearest one, for it has fewer bits.
    ValueId to_float(const Value& v, bool is_signed, DType to) {
        const Value size = is_signed ? as_pair(magnitude(v)) : v;
        ValueId low = size.low, high = size.high;
        const auto real = [&](float value) {
            return b_.constant(DType::Float32, std::bit_cast<std::uint32_t>(value));
        };
        ValueId scale = real(1);
        for (const int step : {16, 8, 4, 2, 1, 1}) {
            const auto n = std::uint32_t(step);
            // After five steps that halve there is at most one bit above.
            const ValueId is_above =
                b_.compare(Op::NotEqual, step == 1 ? high : right(high, u32(n - 1)), u32(0));
            const ValueId lost =
                b_.compare(Op::NotEqual, b_.binary(Op::And, low, u32((1u << n) - 1)), u32(0));
            const ValueId moved =
                either(either(right(low, u32(n)), left(high, u32(32 - n))), as_unsigned(lost));
            low = b_.select(is_above, moved, low);
            high = b_.select(is_above, right(high, u32(n)), high);
            scale = b_.select(is_above, b_.mul(scale, real(float(1u << step))), scale);
        }
        if (to == DType::Float16) {
            // What is above 2^20 is infinite there.
            const ValueId near = b_.select(less(u32(0), size.high), u32(1u << 20), size.low);
            const ValueId half = b_.cast(b_.binary(Op::Min, near, u32(1u << 20)), to);
            return is_signed ? signed_as(v, half) : half;
        }
        // 21 bits and one that says whether there are more are a float, and enough for a bfloat16.
        if (to == DType::BFloat16) {
            const ValueId rest = b_.binary(Op::And, low, u32(0x7ff));
            const ValueId more = left(as_unsigned(b_.compare(Op::NotEqual, rest, u32(0))), u32(10));
            const ValueId cut = either(b_.binary(Op::And, low, u32(~0x7ffu)), more);
            low = b_.select(less(low, u32(1u << 24)), low, cut);
        }
        const ValueId whole = b_.mul(b_.cast(low, DType::Float32), scale);
        const ValueId result = is_signed ? signed_as(v, whole) : whole;
        return b_.cast(result, to);
    }

    ValueId signed_as(const Value& v, ValueId real) {
        return b_.select(is_less(v, constant(0), true), b_.unary(Op::Neg, real), real);
    }

    // Instructions

    void check_parameters() {
        ValueId all = kNone;
        for (std::uint64_t n = 0; n < from_.parameters.size(); ++n) {
            const ParameterKind kind = from_.parameters[n].kind;
            if (kind == ParameterKind::Scalar || kind == ParameterKind::ScalarAs) continue;
            const ValueId low = b_.parameter(from_.parameters[n], DType::Int32);
            const ValueId high = b_.parameter_high(from_.parameters[n]);
            const ValueId sign = as_unsigned(right(low, i32(31)));
            ValueId holds = equal(high, sign);
            if (kind != ParameterKind::Stride) {
                const ValueId size = as_unsigned(low);
                const ValueId is_extent = less(size, u32(kExtent));
                holds = both(is_extent, equal(high, u32(0)));
            }
            all = exists(all) ? both(all, holds) : holds;
        }
        if (exists(all)) b_.assert_that(all, kNone, {});
    }

    Value parameter(const Inst& i) {
        const Parameter& p = from_.parameters[i.bits];
        if (p.kind == ParameterKind::Scalar) {
            return pair(b_.parameter(p, DType::UInt32), b_.parameter_high(p));
        }
        const bool is_stride = p.kind == ParameterKind::Stride;
        const std::int64_t least = is_stride ? kLeast : p.kind == ParameterKind::Block ? 1 : 0;
        return narrow(b_.parameter(p, DType::Int32), least, is_stride ? kMost : kExtent - 1);
    }

    void block(BlockId number) {
        for (const ValueId id : from_.blocks[number]) {
            const Value made = visit(from_[id], id);
            // A loop's variable is there before its body.
            if (from_[id].op != Op::For) values_[std::uint32_t(id)] = made;
        }
    }

    Value visit(const Inst& i, ValueId id) {
        b_.set_relaxed(i.is_relaxed);
        const OpClass kind = class_of(i.op);
        if (kind == OpClass::Memory) return memory(i);
        if (kind == OpClass::Matrix) return matrix(i);
        if (kind == OpClass::Control) return control(i, id);
        const bool is_int = is_wide(i.type.dtype);
        const bool takes_int = exists(i.a) && is_wide(dtype(i.a));
        if (!is_int && !takes_int) return {copy(i)};
        const bool is_signed = is_int ? i.type.dtype == DType::Int64 : dtype(i.a) == DType::Int64;
        switch (kind) {
            case OpClass::Leaf:
                if (i.op == Op::Parameter) return parameter(i);
                if (i.op == Op::Constant) return constant_of(i);
                return narrow(b_.iota(i.type.lanes, DType::Int32), 0, i.type.lanes - 1);
            case OpClass::Unary:
                if (i.op == Op::Neg) return wrapped(negated(value(i.a)), is_signed);
                if (i.op == Op::Abs) return is_signed ? magnitude(value(i.a)) : value(i.a);
                return inverted(as_pair(value(i.a)));
            case OpClass::Binary:
                if (const auto known = known_sum(i)) return *known;
                return binary(i.op, value(i.a), value(i.b), is_signed);
            case OpClass::Compare:
                return {compare(i.op, value(i.a), value(i.b), is_signed)};
            case OpClass::Select:
                return select(single(i.a), value(i.b), value(i.c));
            case OpClass::Convert:
                return convert(i);
            case OpClass::Lanes:
                return lanes(i);
            case OpClass::Register:
                return reg(i);
            default:
                QUERN_CHECK(false, "an operation of integers");
                return {};
        }
    }

    /// What is between two numbers though its operands' ranges do not say so: the first iteration
    /// of a point, and x + (end - x) / w * w.
    std::optional<Value> known_sum(const Inst& i) {
        if (i.type.dtype != DType::Int64 || i.type.lanes > 1) return std::nullopt;
        const Value &a = value(i.a), &b = value(i.b);
        if (a.is_pair() || b.is_pair()) return std::nullopt;
        if (are_small_ && i.op == Op::Mul && is_block(i.b) && a.least >= 0) {
            return narrow(b_.mul(a.low, b.low), 0, kExtent - 1);
        }
        if (i.op != Op::Add || from_[i.b].op != Op::Mul) return std::nullopt;
        const Inst& steps = from_[i.b];
        const Inst& number = from_[steps.a];
        if (number.op != Op::Div || number.b != steps.b) return std::nullopt;
        const Inst& all = from_[number.a];
        if (all.op != Op::Sub || all.b != i.a || value(all.a).is_pair()) return std::nullopt;
        const Value& end = value(all.a);
        return narrow(b_.add(a.low, b.low), std::min(a.least, end.least),
                      std::max(a.most, end.most));
    }

    bool is_block(ValueId id) const {
        return from_[id].op == Op::Parameter &&
               from_.parameters[from_[id].bits].kind == ParameterKind::Block;
    }

    Value constant_of(const Inst& i) {
        const auto number = static_cast<std::int64_t>(i.bits);
        const Value v = constant(number);
        return wrapped(v, i.type.dtype == DType::Int64);
    }

    Value inverted(const Value& a) {
        return pair(b_.unary(Op::Not, a.low), b_.unary(Op::Not, a.high));
    }

    ValueId copy(const Inst& from) {
        Inst i = from;
        i.a = single(i.a);
        i.b = single(i.b);
        i.c = single(i.c);
        if (i.op == Op::Shuffle) return b_.shuffle(i.a, i.b, from_.patterns[i.bits]);
        if (i.op == Op::Parameter) return b_.parameter(from_.parameters[i.bits], i.type.dtype);
        return b_.copy(i);
    }

    Value convert(const Inst& i) {
        const DType from = dtype(i.a), to = i.type.dtype;
        const Value& v = value(i.a);
        if (is_wide(from) && is_wide(to)) return wrapped(v, to == DType::Int64);
        if (is_wide(from)) return {to_number(v, from, to)};
        return from_number(single(i.a), from, to);
    }

    Value lanes(const Inst& i) {
        const Value& a = value(i.a);
        const auto each = [&](const auto& one) {
            if (!a.is_pair()) return narrow(one(a.low), a.least, a.most);
            return pair(one(a.low), one(a.high));
        };
        if (i.op == Op::Splat) {
            return each([&](ValueId v) { return b_.splat(v, i.type.lanes); });
        }
        if (i.op == Op::Extract) {
            return each([&](ValueId v) { return b_.extract(v, std::uint16_t(i.bits)); });
        }
        if (i.op == Op::Shuffle) {
            const auto& pattern = from_.patterns[i.bits];
            const Value& b = value(i.b);
            if (!a.is_pair() && !b.is_pair()) {
                return narrow(b_.shuffle(a.low, b.low, pattern), std::min(a.least, b.least),
                              std::max(a.most, b.most));
            }
            const Value x = as_pair(a), y = as_pair(b);
            return pair(b_.shuffle(x.low, y.low, pattern), b_.shuffle(x.high, y.high, pattern));
        }
        if (i.bits != 0) return fold_of_rows(i, a);
        std::vector<Value> all;
        const std::uint16_t count = b_.type(a.low).lanes;
        for (std::uint16_t n = 0; n < count; ++n) {
            all.push_back(each([&](ValueId v) { return b_.extract(v, n); }));
        }
        for (std::size_t half = count / 2; half > 0; half /= 2) {
            for (std::size_t n = 0; n < half; ++n) {
                all[n] = binary(i.fold, all[n], all[n + half], i.type.dtype == DType::Int64);
            }
        }
        return all[0];
    }

    /// What a lane has, with that of the lane that is half, a quarter, ... of a row away.
    Value fold_of_rows(const Inst& i, Value all) {
        std::vector<std::uint16_t> pattern(i.type.lanes);
        const auto moved = [&](ValueId v) { return b_.shuffle(v, v, pattern); };
        for (std::uint64_t half = i.bits / 2; half > 0; half /= 2) {
            for (std::size_t n = 0; n < pattern.size(); ++n) pattern[n] = std::uint16_t(n ^ half);
            const Value other = all.is_pair() ? pair(moved(all.low), moved(all.high))
                                              : narrow(moved(all.low), all.least, all.most);
            all = binary(i.fold, all, other, i.type.dtype == DType::Int64);
        }
        return all;
    }

    /// Whatever it will hold fits in a pair.
    Value reg(const Inst& i) {
        if (i.op == Op::Register) {
            const Value begin = as_pair(value(i.a));
            return {b_.reg(begin.low), b_.reg(begin.high), 0, 0};
        }
        const Value& place = value(i.a);
        if (i.op == Op::Get) return {b_.get(place.low), b_.get(place.high), 0, 0};
        const Value stored = as_pair(value(i.b));
        b_.set(place.low, stored.low);
        b_.set(place.high, stored.high);
        return {};
    }

    Value memory(const Inst& i) {
        Inst access = i;
        const ValueId offset = low_of(value(i.a));
        access.a = offset;
        access.c = single(i.c);
        const DType d = i.op == Op::Alloc ? from_.buffers[i.buffer].dtype : i.type.dtype;
        if (!is_wide(d)) {
            access.b = single(i.b);
            return {b_.copy(access)};
        }
        access.a = left(offset, i32(1));
        if (i.op == Op::Alloc || i.op == Op::Prefetch) {
            if (i.op == Op::Prefetch) access.type.dtype = DType::UInt32;
            return {b_.copy(access)};
        }
        // Halves of neighbours are not neighbours.
        const bool is_store = i.op == Op::Store || i.op == Op::Scatter;
        access.type.dtype = DType::UInt32;
        if (i.type.lanes > 1) {
            access.op = is_store ? Op::Scatter : Op::Gather;
            access.is_streamed = false;
            if (b_.type(offset).lanes == 1) {
                const ValueId each = b_.add(offset, b_.iota(i.type.lanes, DType::Int32));
                access.a = left(each, i32(1));
            }
        }
        const Value stored = is_store ? as_pair(value(i.b)) : Value{};
        access.b = stored.low;
        const ValueId low = b_.copy(access);
        access.a = b_.add(access.a, i32(1));
        access.b = stored.high;
        const ValueId high = b_.copy(access);
        return {low, is_store ? kNone : high, 0, 0};
    }

    Value matrix(const Inst& i) {
        Inst copied = i;
        copied.a = is_wide(dtype(i.a)) ? low_of(value(i.a)) : single(i.a);
        copied.b = single(i.b);
        copied.c = single(i.c);
        return {b_.copy(copied)};
    }

    /// A bound of a loop, below 2^30 in size.
    Value bound(const Value& v) {
        if (!v.is_pair() && -kExtent <= v.least && v.most <= kExtent) return v;
        const ValueId low = low_of(v);
        const ValueId near = both(less(i32(-kExtent), low), less(low, i32(kExtent)));
        b_.assert_that(v.is_pair() ? both(near, is_equal(v, narrow(low, kLeast, kMost))) : near,
                       kNone, {});
        return narrow(low, -kExtent, kExtent);
    }

    Value control(const Inst& i, ValueId id) {
        if (i.op == Op::Assert) {
            b_.assert_that(single(i.a), single(i.c), i.span);
        } else if (i.op == Op::If) {
            b_.begin_if(single(i.a));
            block(i.body);
            if (i.otherwise != kNoBlock) {
                b_.begin_else();
                block(i.otherwise);
            }
            b_.end_if();
        } else if (i.op == Op::For) {
            const Value begin = bound(value(i.a)), end = bound(value(i.b));
            const auto most = static_cast<std::uint64_t>(kExtent);
            if (i.bits > most) b_.assert_that(b_.boolean(false), kNone, i.span);
            const ValueId variable =
                b_.begin_for(begin.low, end.low, std::min(i.bits, most), i.is_apart);
            values_[std::uint32_t(id)] =
                narrow(variable, begin.least, std::max(begin.least, end.most - 1));
            block(i.body);
            b_.end_for();
        } else {
            b_.copy(i);
        }
        return {};
    }

    const Function& from_;
    bool are_small_;
    Builder b_;
    std::vector<Value> values_;
};

/// Leaves out what nothing uses.
class Sweep {
public:
    explicit Sweep(Function& function) : f_(function), is_used_(f_.insts.size()) {}

    void run() {
        for (std::size_t n = f_.insts.size(); n-- > 0;) {
            if (has_effect(f_.insts[n])) use(ValueId(n));
        }
        for (auto& block : f_.blocks) {
            std::erase_if(block, [&](ValueId id) { return !is_used_[std::uint32_t(id)]; });
        }
    }

private:
    static bool has_effect(const Inst& i) {
        const OpClass kind = class_of(i.op);
        return kind == OpClass::Control || i.op == Op::Store || i.op == Op::Scatter ||
               i.op == Op::Prefetch || i.op == Op::Alloc || i.op == Op::Set ||
               i.op == Op::MatrixStore;
    }

    void use(ValueId first) {
        std::vector<ValueId> left = {first};
        while (!left.empty()) {
            const ValueId id = left.back();
            left.pop_back();
            if (!exists(id) || is_used_[std::uint32_t(id)]) continue;
            is_used_[std::uint32_t(id)] = true;
            const Inst& i = f_[id];
            left.insert(left.end(), {i.a, i.b, i.c});
        }
    }

    Function& f_;
    std::vector<bool> is_used_;
};

}  // namespace

Function without_int64(const Function& function, bool are_small) {
    Function result = Int64Pass(function, are_small).run();
    Sweep(result).run();
    return result;
}

namespace {

std::size_t assertions(const Function& function) {
    std::size_t count = 0;
    for (const auto& block : function.blocks) {
        count += std::size_t(std::ranges::count_if(
            block, [&](ValueId id) { return function[id].op == Op::Assert; }));
    }
    return count;
}

/// Of a device that has both: an integer of 64 bits is two of 32, and what only renames bits is
/// nothing.
std::size_t work(const Function& function) {
    std::size_t sum = 0;
    for (const auto& block : function.blocks) {
        for (const ValueId id : block) {
            const Inst& i = function[id];
            const bool is_cast = i.op == Op::Cast && !is_wide(i.type.dtype) &&
                                 is_integer(i.type.dtype) && is_integer(function[i.a].type.dtype) &&
                                 size_of(i.type.dtype) == size_of(function[i.a].type.dtype);
            const bool is_free = i.op == Op::Constant || i.op == Op::Splat || is_cast;
            sum += is_free ? 0 : is_wide(i.type.dtype) ? 2 : 1;
        }
    }
    return sum;
}

}  // namespace

std::optional<Function> narrowed(const Function& function) {
    const bool has_float64 = std::ranges::any_of(
        function.insts, [](const Inst& i) { return i.type.dtype == DType::Float64; });
    if (has_float64) return std::nullopt;
    Function narrow = without_int64(function, true);
    const bool asserts_more = assertions(narrow) > assertions(function);
    if (asserts_more || work(narrow) > work(function)) return std::nullopt;
    return narrow;
}

}  // namespace quern::lir
