#include "quern/lir/legalise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "quern/lir/rewrite.h"
#include "quern/lir/without_float64.h"
#include "quern/lir/without_int64.h"
#include "quern/lir/word.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

/// Number n is in a set if its bit n is 1.
template <class T>
struct Set {
    std::uint64_t bits = 0;

    constexpr Set(std::initializer_list<T> all) {
        for (const T one : all) bits |= std::uint64_t{1} << static_cast<int>(one);
    }
    constexpr Set operator|(Set other) const {
        other.bits |= bits;
        return other;
    }
    constexpr Set but(T one) const {
        Set rest = *this;
        rest.bits &= ~(std::uint64_t{1} << static_cast<int>(one));
        return rest;
    }
    constexpr bool has(T one) const { return bits >> static_cast<int>(one) & 1; }
};

constexpr Set<DType> kInts8 = {DType::Int8, DType::UInt8};
constexpr Set<DType> kInts16 = {DType::Int16, DType::UInt16};
constexpr Set<DType> kWide = {DType::Int32, DType::UInt32, DType::Int64, DType::UInt64};
constexpr Set<DType> kSigned = {DType::Int8, DType::Int16, DType::Int32, DType::Int64};
constexpr Set<DType> kHalves = {DType::Float16, DType::BFloat16};
constexpr Set<DType> kReals = {DType::Float32, DType::Float64};
constexpr Set<DType> kAll = Set{DType::Bool} | kInts8 | kInts16 | kWide | kHalves | kReals;

constexpr Set<Op> kComparisons = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual};
constexpr Set<Op> kExtremes = {Op::Min, Op::Max};
constexpr Set<Op> kArithmetic =
    kComparisons | kExtremes | Set{Op::Neg, Op::Not,       Op::Abs,       Op::Add, Op::Sub,
                                   Op::Mul, Op::Div,       Op::Rem,       Op::And, Op::Or,
                                   Op::Xor, Op::ShiftLeft, Op::ShiftRight};

class LegalisePass : public Rewrite {
public:
    LegalisePass(const Function& from, const Native& native)
        : Rewrite(from, outline_of(from)), native_(native) {}

    using Rule = ValueId (LegalisePass::*)(const Inst&);

    ValueId in_32_bits(const Inst& i);
    ValueId compared_to_zero(const Inst& i);
    ValueId by_float32(const Inst& i);
    ValueId integer_to_narrow(const Inst& i);
    ValueId double_to_half(const Inst& i);
    ValueId float16_to_float32(const Inst& i);
    ValueId float32_to_float16(const Inst& i);
    ValueId bfloat16_to_float32(const Inst& i);
    ValueId float32_to_bfloat16(const Inst& i);
    ValueId saturated(const Inst& i);
    ValueId chosen(const Inst& i);
    ValueId compared_as_float32(const Inst& i);
    ValueId sign_changed(const Inst& i);
    ValueId folded(const Inst& i);
    ValueId by_quotient(const Inst& i);
    ValueId by_smaller(const Inst& i);

private:
    ValueId written(const Inst&, const Inst& copied) override { return legal(copied); }

    /// An instruction, or what stands for it.
    ValueId legal(const Inst& inst);

    ValueId legal(Op op, ValueId a, ValueId b) {
        const bool is_comparison = class_of(op) == OpClass::Compare;
        const DType dtype = is_comparison ? DType::Bool : b_.type(a).dtype;
        return legal({.op = op, .type = {dtype, b_.type(a).lanes}, .a = a, .b = b});
    }
    ValueId cast(ValueId a, DType to) {
        if (b_.type(a).dtype == to) return a;
        return legal({.op = Op::Cast, .type = {to, b_.type(a).lanes}, .a = a});
    }

    bool is_below_large(ValueId id) const;

    Word word(ValueId id) { return {&b_, id}; }
    Word real(DType dtype, double value) {
        return word(b_.constant(dtype, dtype == DType::Float64
                                           ? std::bit_cast<std::uint64_t>(value)
                                           : std::bit_cast<std::uint32_t>(float(value))));
    }

    Native native_;
};

/// What stands for an operation where a target lacks it. The first row that fits counts, and what
/// it makes is looked up again.
struct Row {
    /// By what a target does it itself; null: no target does.
    bool Native::*native;
    Set<Op> ops;

    /// Of the first operand and of the result.
    Set<DType> of, to;
    LegalisePass::Rule becomes;
};

constexpr Row kTable[] = {
    {&Native::int8, kArithmetic, kInts8, kAll, &LegalisePass::in_32_bits},
    {&Native::int16, kArithmetic, kInts16, kAll, &LegalisePass::in_32_bits},
    {&Native::signed_remainders, {Op::Rem}, kSigned, kSigned, &LegalisePass::by_quotient},
    {&Native::extremes, kExtremes, kAll, kAll, &LegalisePass::chosen},
    {nullptr, kExtremes, kHalves, kHalves, &LegalisePass::chosen},
    {nullptr, kComparisons, kHalves, {DType::Bool}, &LegalisePass::compared_as_float32},
    {nullptr, {Op::Neg, Op::Abs}, kHalves, kHalves, &LegalisePass::sign_changed},
    {nullptr, {Op::Fold}, kHalves, kHalves, &LegalisePass::folded},
    {nullptr, {Op::Cast}, kAll, {DType::Bool}, &LegalisePass::compared_to_zero},
    {nullptr, {Op::Cast}, kHalves, kAll.but(DType::Float32), &LegalisePass::by_float32},
    {nullptr, {Op::Cast}, Set{DType::Bool} | kInts8 | kInts16, kHalves, &LegalisePass::by_float32},
    {nullptr, {Op::Cast}, kWide, kHalves, &LegalisePass::integer_to_narrow},
    {&Native::wide_to_float32,
     {Op::Cast},
     {DType::Int64, DType::UInt64},
     {DType::Float32},
     &LegalisePass::integer_to_narrow},
    {nullptr, {Op::Cast}, {DType::Float64}, kHalves, &LegalisePass::double_to_half},
    {&Native::half_casts,
     {Op::Cast},
     {DType::Float16},
     {DType::Float32},
     &LegalisePass::float16_to_float32},
    {&Native::half_casts,
     {Op::Cast},
     {DType::Float32},
     {DType::Float16},
     &LegalisePass::float32_to_float16},
    {nullptr, {Op::Cast}, {DType::BFloat16}, {DType::Float32}, &LegalisePass::bfloat16_to_float32},
    {nullptr, {Op::Cast}, {DType::Float32}, {DType::BFloat16}, &LegalisePass::float32_to_bfloat16},
    {&Native::saturating_casts,
     {Op::Cast},
     kReals,
     kInts8 | kInts16 | kWide,
     &LegalisePass::saturated},
    {&Native::large_divisors,
     {Op::Div},
     {DType::Float32},
     {DType::Float32},
     &LegalisePass::by_smaller},
};

const Row* row_of(const Inst& i, DType of, const Native& native) {
    // Of a float that is known to be in range.
    if ((i.op == Op::Cast || i.op == Op::Div) && i.bits == kInRange) return nullptr;
    for (const Row& row : kTable) {
        const bool is_native = row.native && native.*row.native;
        const bool fits = row.ops.has(i.op) && row.of.has(of) && row.to.has(i.type.dtype);
        if (fits && !is_native) return &row;
    }
    return nullptr;
}

/// The first instruction that a row stands for.
const Inst* first_lacking(const Function& function, const Native& native) {
    for (const auto& block : function.blocks) {
        for (const ValueId id : block) {
            const Inst& i = function[id];
            if (exists(i.a) && row_of(i, function[i.a].type.dtype, native)) return &i;
        }
    }
    return nullptr;
}

ValueId LegalisePass::legal(const Inst& inst) {
    const Row* row = exists(inst.a) ? row_of(inst, b_.type(inst.a).dtype, native_) : nullptr;
    return row ? (this->*row->becomes)(inst) : b_.copy(inst);
}

// Integers

ValueId LegalisePass::in_32_bits(const Inst& i) {
    const DType of = b_.type(i.a).dtype;
    const DType wide = is_signed_integer(of) ? DType::Int32 : DType::UInt32;
    const ValueId b = exists(i.b) ? b_.cast(i.b, wide) : kNone;
    Inst inst = i;
    inst.a = b_.cast(i.a, wide);
    inst.b = b;
    if (class_of(i.op) == OpClass::Compare) return legal(inst);
    inst.type.dtype = wide;
    return b_.cast(legal(inst), of);
}

ValueId LegalisePass::by_quotient(const Inst& i) {
    const Word a = word(i.a), b = word(i.b);
    return (a - a.with(Op::Div, b) * b).id;
}

// Comparisons

ValueId LegalisePass::chosen(const Inst& i) {
    const ValueId better = i.op == Op::Max ? legal(Op::Less, i.b, i.a) : legal(Op::Less, i.a, i.b);
    const ValueId best = b_.select(better, i.a, i.b);
    if (!is_floating(i.type.dtype)) return best;
    return b_.select(legal(Op::NotEqual, i.a, i.a), i.a, best);
}

ValueId LegalisePass::compared_as_float32(const Inst& i) {
    return legal(i.op, cast(i.a, DType::Float32), cast(i.b, DType::Float32));
}

ValueId LegalisePass::compared_to_zero(const Inst& i) {
    const Type type = b_.type(i.a);
    return legal(Op::NotEqual, i.a, b_.splat(b_.constant(type.dtype, 0), type.lanes));
}

// Floats of 16 bits

ValueId LegalisePass::sign_changed(const Inst& i) {
    const Word bits = word(i.a).bits_as(DType::UInt16);
    const std::uint16_t lanes = b_.type(i.a).lanes;
    const bool is_negation = i.op == Op::Neg;
    const Word mask = word(b_.splat(bits.of(is_negation ? 0x8000 : 0x7fff).id, lanes));
    return b_.bitcast(legal(is_negation ? Op::Xor : Op::And, bits.id, mask.id), i.type.dtype);
}

/// Each sum rounded. Halves first, as in lir.h.
ValueId LegalisePass::folded(const Inst& i) {
    const DType dtype = i.type.dtype;
    const auto both = [&](ValueId a, ValueId b) {
        if (kExtremes.has(i.fold)) return legal(i.fold, a, b);
        return cast(b_.binary(i.fold, cast(a, DType::Float32), cast(b, DType::Float32)), dtype);
    };
    QUERN_CHECK(i.bits == 0, "rows of lanes are of work-groups");
    ValueId all = i.a;
    for (std::uint16_t half = b_.type(all).lanes / 2; half > 1; half /= 2) {
        std::vector<std::uint16_t> lower(half), upper(half);
        std::iota(lower.begin(), lower.end(), std::uint16_t(0));
        std::iota(upper.begin(), upper.end(), half);
        all = both(b_.shuffle(all, all, lower), b_.shuffle(all, all, upper));
    }
    return both(b_.extract(all, 0), b_.extract(all, 1));
}

ValueId LegalisePass::by_float32(const Inst& i) {
    return cast(cast(i.a, DType::Float32), i.type.dtype);
}

/// By an integer that is a float of its size, and rounds to a narrower float as the given one does:
/// from where floats have gaps, what 12 bits say is only whether they are 0. Narrower floats are
/// farther apart there.
ValueId LegalisePass::integer_to_narrow(const Inst& i) {
    const DType from = b_.type(i.a).dtype;
    const bool is_signed = is_signed_integer(from), is_wide = size_of(from) == 8;
    const std::uint64_t exact = std::uint64_t{1} << (is_wide ? 53 : 24);
    const Word n = word(i.a).as(is_wide ? DType::UInt64 : DType::UInt32);
    const Word is_exact = is_signed ? n + std::int64_t(exact) <= 2 * exact : n <= exact;
    const Word high = n & ~std::uint64_t{0xfff};
    const Word sticky = select((n & 0xfff) == 0, high, high | 0x800);
    const Word real = select(is_exact, n, sticky).as(from);
    return cast(real.as(is_wide ? DType::Float64 : DType::Float32).id, i.type.dtype);
}

/// By a float that rounds to a narrower format as the double does: where the double does not fit,
/// the neighbour of it whose last bit is set.
ValueId LegalisePass::double_to_half(const Inst& i) {
    const Word value = word(i.a), near = value.as(DType::Float32), back = near.as(DType::Float64);
    const auto size = [&](Word x) { return word(b_.unary(Op::Abs, x.id)); };
    const Word bits = near.bits_as(DType::UInt32);
    const Word below = size(back) < size(value), above = size(value) < size(back);
    const Word moved = bits + below.as(DType::UInt32) - above.as(DType::UInt32);
    const Word sticky = select((bits & 1) != 0, bits, moved);
    return cast(sticky.bits_as(DType::Float32).id, i.type.dtype);
}

/// Normal numbers move to the other exponent; denormal ones are integers times 2^-24.
ValueId LegalisePass::float16_to_float32(const Inst& i) {
    const Word bits = word(i.a).bits_as(DType::UInt16).as(DType::UInt32);
    const Word sign = (bits & 0x8000) << 16;
    const Word rest = bits & 0x7fff;
    const Word moved = rest << 13;
    const Word units = rest.as(DType::Int32).as(DType::Float32);
    const Word small = (units * real(DType::Float32, 0x1p-24)).bits_as(DType::UInt32);
    Word size = select(rest < 0x400, small, moved + std::int64_t{112 << 23});
    size = select(rest.of(0x7c00) <= rest, moved | 0x7f800000, size);
    // A signalling NaN becomes quiet.
    size = select(rest.of(0x7c00) < rest, size | 0x400000, size);
    return (size | sign).bits_as(DType::Float32).id;
}

/// Adding 0.5 aligns a denormal result's last bit with a float's; the rest rounds by its bits.
ValueId LegalisePass::float32_to_float16(const Inst& i) {
    const Word bits = word(i.a).bits_as(DType::UInt32);
    const Word sign = (bits >> 16) & 0x8000;
    const Word rest = bits & 0x7fffffff;
    const Word aligned = rest.bits_as(DType::Float32) + real(DType::Float32, 0.5);
    const Word small = aligned.bits_as(DType::UInt32) - std::int64_t{0x3f000000};
    const Word odd = (rest >> 13) & 1;
    const Word normal = (rest + (odd + 0xfff) - std::int64_t{112 << 23}) >> 13;
    Word size = select(rest < 0x38800000, small, normal);
    size = select(rest.of(0x47800000) <= rest, size.of(0x7c00), size);
    const Word nan = ((rest >> 13) & 0x3ff) | 0x7e00;
    size = select(rest.of(0x7f800000) < rest, nan, size);
    return (size | sign).as(DType::UInt16).bits_as(DType::Float16).id;
}

ValueId LegalisePass::bfloat16_to_float32(const Inst& i) {
    const Word bits = word(i.a).bits_as(DType::UInt16).as(DType::UInt32);
    return (bits << 16).bits_as(DType::Float32).id;
}

ValueId LegalisePass::float32_to_bfloat16(const Inst& i) {
    const Word bits = word(i.a).bits_as(DType::UInt32);
    const Word high = bits >> 16;
    const Word rounded = (bits + ((high & 1) + 0x7fff)) >> 16;
    const Word is_nan = bits.of(0x7f800000) < (bits & 0x7fffffff);
    const Word half = select(is_nan, high | 0x40, rounded);
    return half.as(DType::UInt16).bits_as(DType::BFloat16).id;
}

// Quotients

/// Divisors and what is divided get smaller alike, which is exact: where what is divided would be
/// denormal, the quotient is zero.
ValueId LegalisePass::by_smaller(const Inst& i) {
    Inst quotient = i;
    quotient.bits = kInRange;
    if (!is_below_large(i.b)) {
        const Word size = word(b_.unary(Op::Abs, i.b));
        const Word scale = select(size < real(DType::Float32, 0x1p125), real(DType::Float32, 1),
                                  real(DType::Float32, 0x1p-4));
        // Else a driver might take both out of the quotient again.
        b_.set_relaxed(false);
        quotient.a = (word(i.a) * scale).id;
        quotient.b = (word(i.b) * scale).id;
        b_.set_relaxed(i.is_relaxed);
    }
    return b_.copy(quotient);
}

/// Whether it is seen that a float32 is below 2^125, or no number.
bool LegalisePass::is_below_large(ValueId id) const {
    const Inst& i = b_[id];
    if (i.op == Op::Splat) return is_below_large(i.a);
    if (i.op == Op::Cast) {
        const DType from = b_.type(i.a).dtype;
        return !is_floating(from) || from == DType::Float16;
    }
    const float value = std::bit_cast<float>(std::uint32_t(i.bits));
    return i.op == Op::Constant && !(std::abs(value) >= 0x1p125f);
}

// Floats to integers

ValueId LegalisePass::saturated(const Inst& i) {
    const DType from = b_.type(i.a).dtype, to = i.type.dtype;
    const bool is_signed = is_signed_integer(to);
    const auto width = int(8 * size_of(to));
    const double beyond = std::ldexp(1.0, is_signed ? width - 1 : width);
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - width);
    const std::uint64_t most = is_signed ? all >> 1 : all;
    const Word x = word(i.a);
    const Word is_high = real(from, beyond) <= x;
    const Word is_low = x <= real(from, is_signed ? -beyond : 0);
    const Word is_outside = is_high | is_low | (x != x);
    const Word inside = select(is_outside, real(from, 0), x);
    // No device must convert to integers narrower than 32 bits.
    const DType wide = width >= 32 ? to : is_signed ? DType::Int32 : DType::UInt32;
    const Type type = {wide, b_.type(inside.id).lanes};
    const Word whole =
        word(b_.copy({.op = Op::Cast, .type = type, .a = inside.id, .bits = kInRange})).as(to);
    const Word high = select(is_high, whole.of(most), whole);
    return select(is_low, whole.of(is_signed ? most + 1 : 0), high).id;
}

}  // namespace

Represented represented(Function function, const Native& native, bool are_small) {
    Represented result;
    if (!native.float64) {
        std::optional<Function> soft = without_float64(function);
        result.has_soft_float64 = soft.has_value();
        if (soft) function = std::move(*soft);
    }
    if (!native.int64) {
        function = without_int64(function, are_small);
        result.is_small = are_small;
    } else if (are_small) {
        if (std::optional<Function> narrow = narrowed(function)) {
            result.wide = std::exchange(function, std::move(*narrow));
            result.is_small = true;
        }
    }
    result.function = std::move(function);
    return result;
}

Function legalise(Function function, const Native& native) {
    if (!first_lacking(function, native)) return function;
    return LegalisePass(function, native).run();
}

std::string lacking(const Function& function, const Native& native) {
    const Inst* const i = first_lacking(function, native);
    if (!i) return {};
    std::string text(to_string(i->op));
    text += " " + std::string(quern::to_string(function[i->a].type.dtype));
    if (i->op == Op::Cast) text += " to " + std::string(quern::to_string(i->type.dtype));
    return text;
}

}  // namespace quern::lir
