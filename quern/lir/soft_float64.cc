#include "quern/lir/soft_float64.h"

#include "quern/support/check.h"

namespace quern::lir {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
constexpr std::uint64_t kLeastNormal = std::uint64_t{1} << 52;
constexpr std::uint64_t kFraction = kLeastNormal - 1;
constexpr std::uint64_t kInfinity = std::uint64_t{0x7ff} << 52;
constexpr std::uint64_t kNaN = std::uint64_t{0xfff} << 51;
constexpr std::uint64_t kOne = std::uint64_t{0x3ff} << 52;
constexpr std::uint64_t kHalf = std::uint64_t{0x3fe} << 52;
constexpr int kBias = 1023;

/// What lies below the last bit of a result whose leading bit is bit 63.
constexpr int kBelow = 11;

}  // namespace

/// A number without its sign: significand * 2^(exponent - kBias - 63). The leading bit of the
/// significand is bit 63, but for denormal numbers, whose exponent is 1.
struct SoftFloat64::Parts {
    Word exponent;     // int32
    Word significand;  // uint64
};

/// A whole number; its significand is 0 if it is.
struct SoftFloat64::Integer {
    Word sign;
    Parts parts;
};

Word SoftFloat64::word(ValueId id) { return {&b_, id}; }

Word SoftFloat64::constant(DType dtype, std::uint64_t bits) {
    return {&b_, b_.constant(dtype, bits)};
}

Word SoftFloat64::is_nan(Word size) { return size.of(kInfinity) < size; }

SoftFloat64::Parts SoftFloat64::parts_of(Word size) {
    const Word leading = select(size < kLeastNormal, size.of(0), size.of(kLeastNormal));
    return {at_least((size >> 52).as(DType::Int32), 1), ((size & kFraction) | leading) << kBelow};
}

SoftFloat64::Parts SoftFloat64::normalised(Parts parts) {
    const Word n = leading_zeros(parts.significand);
    return {parts.exponent - n, parts.significand << n.widened()};
}

/// Of a uint64, as an int32; 63 for 0. The exponent of a float32 says where the first bit is, and
/// without the second one rounding does not change it.
Word SoftFloat64::leading_zeros(Word m) {
    const Word high = (m >> 32).as(DType::UInt32);
    const Word is_high = high != 0;
    const Word half = select(is_high, high, m.as(DType::UInt32));
    const Word first = half & ((half >> 1) ^ 0xffffffffu);
    const Word exponent = (first.as(DType::Float32).bits_as(DType::UInt32) >> 23).as(DType::Int32);
    return at_most(select(is_high, exponent.of(158), exponent.of(190)) - exponent, 63);
}

/// By an int32 below the width. The last bit says too whether one is lost.
Word SoftFloat64::shifted_right(Word m, Word by) {
    const Word n = by.as(DType::UInt32).as(m.dtype());
    const Word kept = m >> n;
    return kept | ((kept << n) != m).as(m.dtype());
}

/// m * 2^(exponent - kBias - 63), whose exponent is at least 1, and 1 where bit 63 of m is not set.
Word SoftFloat64::rounded(Word sign, Word exponent, Word m) {
    const Word kept = m >> kBelow;
    const Word rest = (m & ((1u << kBelow) - 1)) + (kept & 1);
    const Word up = rest.of(1u << (kBelow - 1)) < rest;
    // The leading bit adds 1 to the exponent, and so does a carry.
    const Word begin = (at_most(exponent, 2047) - 1).widened() << 52;
    return sign | at_most(begin + kept + up.as(DType::UInt64), kInfinity);
}

Word SoftFloat64::rounded_or_denormal(Word sign, Word exponent, Word m) {
    const Word below = at_most(at_least(exponent.of(1) - exponent, 0), 63);
    return rounded(sign, at_least(exponent, 1), shifted_right(m, below));
}

/// The upper 64 bits of a product of two uint64; the last one says too whether any below is set.
Word SoftFloat64::upper_product(Word a, Word b) {
    const auto low = [](Word v) { return v.as(DType::UInt32).as(DType::UInt64); };
    const Word al = low(a), ah = a >> 32, bl = low(b), bh = b >> 32;
    const Word lowest = al * bl, left = al * bh, right = ah * bl;
    const Word middle = (lowest >> 32) + low(left) + low(right);
    const Word rest = low(lowest) | low(middle);
    return (ah * bh + (left >> 32) + (right >> 32) + (middle >> 32)) |
           (rest != 0).as(DType::UInt64);
}

Word SoftFloat64::sum(Word a, Word b) {
    const Word is_other = (a & ~kSign) < (b & ~kSign);
    const Word x = select(is_other, b, a), y = select(is_other, a, b);
    const Word size = x & ~kSign, other = y & ~kSign;
    const Word differ = ((x ^ y) & kSign) != 0;
    const Parts large = parts_of(size), small = parts_of(other);
    // A bit above for a carry.
    const Word distance = at_most(large.exponent - small.exponent, 63);
    const Word moved = shifted_right(small.significand >> 1, distance);
    const Word begin = large.significand >> 1;
    const Word all = select(differ, begin - moved, begin + moved);
    const Word shift = leading_zeros(all).with(Op::Min, large.exponent);
    const Word number = rounded(x & kSign, large.exponent + 1 - shift, all << shift.widened());
    const Word result = select(all == 0, x & y & kSign, number);
    const Word none = is_nan(size) | (differ & (other == kInfinity));
    return select(size < kInfinity, result, select(none, size.of(kNaN), x));
}

Word SoftFloat64::product(Word a, Word b) {
    const Word sign = (a ^ b) & kSign;
    const Word x = a & ~kSign, y = b & ~kSign;
    const Word size = x.with(Op::Max, y), other = x.with(Op::Min, y);
    // Where both are denormal nothing is left of their product.
    const Parts large = parts_of(size), small = normalised(parts_of(other));
    const Word m = upper_product(large.significand, small.significand);
    const Word is_short = m < kSign;
    const Word exponent = large.exponent + small.exponent - (kBias - 1) - is_short.as(DType::Int32);
    const Word number = rounded_or_denormal(sign, exponent, select(is_short, m + m, m));
    const Word is_zero = other == 0;
    const Word result = select(is_zero, sign, number);
    const Word none = is_nan(size) | is_zero;
    return select(size < kInfinity, result, select(none, size.of(kNaN), sign | kInfinity));
}

Word SoftFloat64::quotient(Word a, Word b) {
    constexpr int kDigits = 56;
    const Word sign = (a ^ b) & kSign;
    const Word size = a & ~kSign, other = b & ~kSign;
    const Parts x = normalised(parts_of(size)), y = normalised(parts_of(other));
    const Word divisor = y.significand >> kBelow;
    const std::uint16_t lanes = b_.type(sign.id).lanes;
    const Word digits = word(b_.reg(b_.splat(size.of(0).id, lanes)));
    const Word rest = word(b_.reg(b_.splat((x.significand >> kBelow).id, lanes)));
    b_.begin_for(b_.integer(0), b_.integer(kDigits), 1);
    const Word left = word(b_.get(rest.id));
    const Word fits = !(left < divisor);
    b_.set(rest.id, (select(fits, left - divisor, left) << 1).id);
    b_.set(digits.id, ((word(b_.get(digits.id)) << 1) | fits.as(DType::UInt64)).id);
    b_.end_for();
    const Word is_more = (word(b_.get(rest.id)) != 0).as(DType::UInt64);
    const Word m = (word(b_.get(digits.id)) << (64 - kDigits)) | is_more;
    const Word is_short = m < kSign;
    const Word exponent = x.exponent - y.exponent + kBias - is_short.as(DType::Int32);
    const Word number = rounded_or_denormal(sign, exponent, select(is_short, m + m, m));
    const Word is_zero = size == 0, is_infinite = size == kInfinity;
    const Word by_zero = other == 0, by_infinity = other == kInfinity;
    const Word finite = select(is_zero | by_infinity, sign, number);
    const Word result = select(is_infinite | by_zero, sign | kInfinity, finite);
    const Word none =
        is_nan(size) | is_nan(other) | (is_zero & by_zero) | (is_infinite & by_infinity);
    return select(none, size.of(kNaN), result);
}

Word SoftFloat64::root(Word a) {
    constexpr int kDigits = 55;
    const Word size = a & ~kSign;
    const Parts x = normalised(parts_of(size));
    const Word exponent = x.exponent - kBias;
    const Word odd = exponent & 1;
    // Two bits of the radicand give one of the root.
    const Word radicand = select(odd == 1, x.significand, x.significand >> 1);
    const std::uint16_t lanes = b_.type(a.id).lanes;
    const Word left = word(b_.reg(b_.splat(radicand.id, lanes)));
    const Word digits = word(b_.reg(b_.splat(size.of(0).id, lanes)));
    const Word rest = word(b_.reg(b_.splat(size.of(0).id, lanes)));
    b_.begin_for(b_.integer(0), b_.integer(kDigits), 1);
    const Word next = word(b_.get(left.id)), found = word(b_.get(digits.id));
    const Word have = (word(b_.get(rest.id)) << 2) | (next >> 62);
    const Word tried = (found << 2) | 1;
    const Word fits = !(have < tried);
    b_.set(left.id, (next << 2).id);
    b_.set(rest.id, select(fits, have - tried, have).id);
    b_.set(digits.id, ((found << 1) | fits.as(DType::UInt64)).id);
    b_.end_for();
    const Word is_more = (word(b_.get(rest.id)) != 0).as(DType::UInt64);
    const Word m = (word(b_.get(digits.id)) << (64 - kDigits)) | is_more;
    const Word number = rounded(a.of(0), ((exponent - odd) >> 1) + kBias, m);
    const Word result = select((size == 0) | (a == kInfinity), a, number);
    const Word none = is_nan(size) | (a.of(kSign) < a);
    return select(none, a.of(kNaN), result);
}

/// Floor, Ceil, RoundEven.
Word SoftFloat64::whole(Op op, Word a) {
    const Word sign = a & kSign, size = a & ~kSign;
    const Word exponent = (size >> 52).as(DType::Int32) - kBias;
    const Word below = at_most(at_least(exponent.of(52) - exponent, 0), 63);
    const Word unit = size.of(1) << below.widened();
    const Word rest = size & (unit - 1);
    const Word kept = size ^ rest;
    const Word is_small = size < kOne;
    Word up = is_small, up_from_zero = is_small;
    if (op == Op::RoundEven) {
        const Word odd = ((kept & unit) != 0).as(DType::UInt64);
        up = (rest != 0) & ((unit >> 1) < rest + odd);
        up_from_zero = size.of(kHalf) < size;
    } else {
        const Word is_away = op == Op::Floor ? sign != 0 : sign == 0;
        up = (rest != 0) & is_away;
        up_from_zero = (size != 0) & is_away;
    }
    const Word zero = size.of(0);
    return sign | select(is_small, select(up_from_zero, size.of(kOne), zero),
                         kept + select(up, unit, zero));
}

Word SoftFloat64::scaled(Word a, Word by) {
    // Beyond this every number is 0 or infinite.
    constexpr int kMost = 4096;
    const Word n = to_integer(by, DType::Int32);
    const Word near = at_most(at_least(n, -kMost), kMost);
    const Word sign = a & kSign, size = a & ~kSign;
    const Parts x = normalised(parts_of(size));
    const Word number = rounded_or_denormal(sign, x.exponent + near, x.significand);
    return select((size == 0) | !(size < kInfinity), a, number);
}

Word SoftFloat64::extreme(Op op, Word a, Word b) {
    const Word comes_first = op == Op::Min ? compared(Op::Less, a, b) : compared(Op::Less, b, a);
    return select(is_nan(a & ~kSign) | comes_first, a, b);
}

Word SoftFloat64::compared(Op op, Word a, Word b) {
    const Word x = a & ~kSign, y = b & ~kSign;
    // In the order of the numbers, where 0 and -0 are one.
    const auto place = [](Word all, Word size) {
        return select(all < kSign, size, size.of(0) - size).bits_as(DType::Int64);
    };
    const Word are_ordered = !(is_nan(x) | is_nan(y));
    const Op order = op == Op::NotEqual ? Op::Equal : op;
    const Word holds = place(a, x).is(order, place(b, y)) & are_ordered;
    return op == Op::NotEqual ? !holds : holds;
}

SoftFloat64::Integer SoftFloat64::magnitude_of(Word number) {
    const bool is_signed = is_signed_integer(number.dtype());
    const Word all = number.as(is_signed ? DType::Int64 : DType::UInt64).as(DType::UInt64);
    const Word sign = is_signed ? all & kSign : all.of(0);
    const Word size = is_signed ? select(all < kSign, all, all.of(0) - all) : all;
    const Word n = leading_zeros(size);
    return {sign, {n.of(kBias + 63) - n, size << n.widened()}};
}

Word SoftFloat64::from_integer(Word number) {
    const auto [sign, parts] = magnitude_of(number);
    const Word zero = parts.significand.of(0);
    return select(parts.significand == 0, zero, rounded(sign, parts.exponent, parts.significand));
}

Word SoftFloat64::from_float32(Word number) {
    constexpr std::uint64_t kMoved = std::uint64_t{kBias - 127} << 52;
    const Word bits = number.bits_as(DType::UInt32);
    const Word sign = (bits & 0x80000000u).as(DType::UInt64) << 32;
    const Word size = (bits & 0x7fffffffu).as(DType::UInt64);
    const Word wide = size << 29;
    // A denormal number is so many times 2^-149.
    const Word n = leading_zeros(size);
    const Word exponent = n.of(kBias + 63 - 149 - 1) - n;
    const Word small =
        select(size == 0, size, (exponent.widened() << 52) + ((size << n.widened()) >> kBelow));
    const Word special = wide + std::int64_t(2 * kMoved);
    const Word normal = select(size < 0x7f800000u, wide + std::int64_t(kMoved), special);
    return sign | select(size < 0x800000u, small, normal);
}

Word SoftFloat64::to_integer(Word a, DType dtype) {
    const Word size = a & ~kSign;
    const Parts x = parts_of(size);
    // How far the last bit of a whole number is from that of the significand.
    const Word below = x.exponent.of(kBias + 63) - x.exponent;
    const Word cut = x.significand >> at_most(at_least(below, 0), 63).widened();
    const Word is_far = below < x.exponent.of(0);
    const int width = 8 * int(size_of(dtype));
    const bool is_signed = is_signed_integer(dtype);
    const Word zero = size.of(0);
    const std::uint64_t above = std::uint64_t{1} << (width - 1);
    const std::uint64_t most = is_signed ? above - 1 : above - 1 + above;
    const Word near = at_most(select(size < kOne, zero, cut), is_signed ? above : most);
    const Word whole = select(is_far, zero.of(is_signed ? above : most), near);
    const Word has_sign = !(a < kSign);
    const Word below_zero = is_signed ? zero - whole : zero;
    const Word result = select(has_sign, below_zero, at_most(whole, most));
    return select(is_nan(size), zero, result).as(dtype);
}

/// Rounding to odd keeps what is lost in the last bit, so that a narrower float is rounded as if
/// nothing were (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
Word SoftFloat64::to_float32(Word sign, Parts parts, Rounds rounds) {
    const Word low = (parts.significand.as(DType::UInt32) != 0).as(DType::UInt32);
    const Word m = (parts.significand >> 32).as(DType::UInt32) | low;
    const Word exponent = parts.exponent - (kBias - 127);
    const Word below = at_most(at_least(exponent.of(1) - exponent, 0), 31);
    const Word all = shifted_right(m, below);
    const Word begin = (at_most(at_least(exponent, 1), 255) - 1).as(DType::UInt32) << 23;
    const Word kept = all >> 8, rest = all & 0xff;
    const Word up = rest.of(0x80) < rest + (kept & 1);
    const Word last = rounds == Rounds::ToNearest ? begin + kept + up.as(DType::UInt32)
                                                  : begin + (kept | (rest != 0).as(DType::UInt32));
    const Word bits = at_most(last, 0x7f800000u) | (sign >> 32).as(DType::UInt32);
    return bits.bits_as(DType::Float32);
}

ValueId SoftFloat64::unary(Op op, ValueId a) {
    const Word x = word(a);
    switch (op) {
        case Op::Neg:
            return (x ^ kSign).id;
        case Op::Abs:
            return (x & ~kSign).id;
        case Op::Sqrt:
            return root(x).id;
        default:
            return whole(op, x).id;
    }
}

ValueId SoftFloat64::binary(Op op, ValueId a, ValueId b) {
    const Word x = word(a), y = word(b);
    switch (op) {
        case Op::Add:
            return sum(x, y).id;
        case Op::Sub:
            return sum(x, y ^ kSign).id;
        case Op::Mul:
            return product(x, y).id;
        case Op::Div:
            return quotient(x, y).id;
        case Op::Scale:
            return scaled(x, y).id;
        default:
            QUERN_CHECK(op == Op::Min || op == Op::Max, "an operation of floats");
            return extreme(op, x, y).id;
    }
}

ValueId SoftFloat64::compare(Op op, ValueId a, ValueId b) {
    return compared(op, word(a), word(b)).id;
}

ValueId SoftFloat64::from(ValueId number) {
    const Word x = word(number);
    if (x.dtype() == DType::Bool) {
        return select(x, constant(DType::UInt64, kOne), constant(DType::UInt64, 0)).id;
    }
    if (!is_floating(x.dtype())) return from_integer(x).id;
    return from_float32(x.as(DType::Float32)).id;
}

ValueId SoftFloat64::to(ValueId a, DType dtype) {
    const Word x = word(a), size = x & ~kSign;
    if (dtype == DType::Bool) return (size != 0).id;
    if (!is_floating(dtype)) return to_integer(x, dtype).id;
    const Rounds rounds = dtype == DType::Float32 ? Rounds::ToNearest : Rounds::ToOdd;
    const Word real = to_float32(x & kSign, parts_of(size), rounds);
    const Word none = constant(DType::UInt32, 0x7fc00000u).bits_as(DType::Float32);
    return select(is_nan(size), none, real).as(dtype).id;
}

ValueId SoftFloat64::narrowed(ValueId integer, DType dtype) {
    const auto [sign, parts] = magnitude_of(word(integer));
    const Word real = to_float32(sign, parts, Rounds::ToOdd);
    const Word zero = constant(DType::UInt32, 0).bits_as(DType::Float32);
    return select(parts.significand == 0, zero, real).as(dtype).id;
}

}  // namespace quern::lir
