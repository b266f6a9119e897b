#pragma once

#include "quern/math/two_parts.h"

// x >= 0 as quarter pi/2 + rest, with the quarter modulo 4 and |rest| <= pi/4 (a little more where
// the two meet).
//
// Moderate x: the nearest multiple of pi/2 is subtracted in parts, the products with the first of
// which are exact (Cody & Waite, 1980). Large x: only those bits of 1/(2 pi) count whose product
// with x are fractions of a turn (Payne & Hanek, "Radian reduction for trigonometric functions",
// 1983). They are words of so few bits that products with them are exact, and selects bring those
// forward that belong to x's exponent.

namespace quern::math {

inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kTwoPi = 0x1.921fb54442d18p2, kTwoPiLow = 0x1.1a62633145c07p-52;

/// pi/2 is the sum of three parts of 33 bits and the rest.
inline constexpr double kHalfPi1 = 0x1.921fb544p0, kHalfPi2 = 0x1.0b4611a6p-34;
inline constexpr double kHalfPi3 = 0x1.3198a2ep-69, kHalfPi4 = 0x1.b839a252049cp-104;

/// pi/2 less its first part.
inline constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;

/// Up to here multiples of pi/2 have at most 20 bits.
inline constexpr double kLargeAngle = 0x1p20;

/// 1/(2 pi) is the sum of these, 28 bits each, and less.
inline constexpr std::array<double, 7> kTurnParts = {
    0x1.45f3068p-3,   0x1.727220ap-29,  0x1.29fc274p-58, 0x1.7d1f534p-86,
    0x1.bb81b68p-115, 0x1.14acc9ep-141, 0x1.0e4107p-172};

/// 1/(2 pi) is the sum of kTurnWords[i] 2^(26 - 26 i), and less.
inline constexpr std::array<double, 47> kTurnWords = {
    0,        0,        10680707, 28915984, 22192066, 30798973, 20241856, 57510486,
    26461241, 1081236,  23309278, 49223046, 57820899, 43029364, 48236105, 12298279,
    18424271, 59210439, 11610535, 16491016, 56578795, 47259962, 27029542, 47283705,
    1284381,  26108116, 54129820, 34700846, 64983683, 46661157, 67100165, 39862204,
    49354933, 42113863, 57489022, 54304556, 10188020, 26204583, 39840301, 30711531,
    8306271,  6213441,  54130570, 21646249, 46118395, 4711255,  17323523};

template <DoubleValue V>
struct Angle {
    V quarter, rest, rest_low;
};

template <DoubleValue V>
Angle<V> select(typename V::Mask m, Angle<V> x, Angle<V> y) {
    return {select(m, x.quarter, y.quarter), select(m, x.rest, y.rest),
            select(m, x.rest_low, y.rest_low)};
}

/// x less the nearest integer.
template <DoubleValue V>
V fraction_of(V x) {
    return x - round_even(x);
}

/// The angle of a float, which has 24 bits: the rest is right to 2^-26 of it.
template <DoubleValue V>
Angle<V> large_angle_of_float(V x) {
    // Parts whose products with x are whole turns are left out; four others are enough.
    const auto part = [x](std::size_t k) {
        const V far =
            select(x < 0x1p107, x.constant(kTurnParts[k + 2]), x.constant(kTurnParts[k + 3]));
        return select(x < 0x1p51, x.constant(kTurnParts[k]),
                      select(x < 0x1p79, x.constant(kTurnParts[k + 1]), far));
    };
    const TwoParts<V> turns = exact_sum(fraction_of(x * part(0)), fraction_of(x * part(1)));
    const V quarter = round_even(turns.high * 4.0);
    const V near = turns.high - quarter * 0.25;
    const V rest = (near + x * part(2)) + (turns.low + x * part(3));
    return {quarter, rest * kTwoPi, x.constant(0)};
}

template <DoubleValue V>
Angle<V> angle_of_float(V x) {
    const V quarter = round_even(x * kTwoOverPi);
    const V rest = multiply_add(quarter, -kHalfPiLow, multiply_add(quarter, -kHalfPi1, x));
    return rarely(x >= kLargeAngle, Angle<V>{quarter, rest, x.constant(0)},
                  [x] { return large_angle_of_float(x); });
}

/// Eight words of 1/(2 pi) from number `index` on. For each bit of the index the words move by as
/// many places as the bit says.
template <DoubleValue V>
std::array<V, 8> turn_words_from(typename V::Int index, V like) {
    std::array<V, kTurnWords.size() + 1> words;
    words.fill(like.constant(0));
    for (std::size_t w = 0; w < kTurnWords.size(); ++w) words[w] = like.constant(kTurnWords[w]);
    for (std::size_t places = 32; places > 0; places /= 2) {
        const auto bit = index & index.constant(std::int64_t(places));
        const auto stays = bit == index.constant(0);
        // Only what the steps after this one can reach.
        for (std::size_t w = 0; w < places + 7 && w + places < kTurnWords.size(); ++w) {
            words[w] = select(stays, words[w], words[w + places]);
        }
    }
    return {words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]};
}

/// x 2^(-26 n) in [1, 2^26), with n in the lowest bits of `index`.
template <DoubleValue V>
struct ScaledAngle {
    V x;
    typename V::Int index;
};

template <DoubleValue V>
ScaledAngle<V> scaled_angle(V x) {
    using Form = Format<double>;
    const auto i = bits(x);
    const auto mantissa = i & i.constant((std::int64_t(1) << Form::kMantissaBits) - 1);
    const V exponent = from_bits((i >> Form::kMantissaBits) + i.constant(Form::kRounderBits)) -
                       (Form::kRounder + double(Form::kBias));
    const V rounded = (exponent - 12.5) * (1.0 / 26) + Form::kRounder;
    const V low = exponent - (rounded - Form::kRounder) * 26.0;
    const auto biased = bits(low + Form::kRounder) + i.constant(Form::kBias - Form::kRounderBits);
    return {from_bits(mantissa | (biased << Form::kMantissaBits)), bits(rounded)};
}

template <DoubleValue V>
void add(TwoParts<V>& sum, V x) {
    const TwoParts<V> s = exact_sum(sum.high, x);
    sum = {s.high, sum.low + s.low};
}

/// The rest is right to 2^-100 of it. No double is nearer to a multiple of pi/2 than 2^-61.
template <DoubleValue V>
Angle<V> large_angle(V x) {
    const ScaledAngle<V> scaled = scaled_angle(x);
    const std::array<V, 8> words = turn_words_from(scaled.index, x);
    const TwoParts<V> y = halves(scaled.x);
    double scale = 0x1p26;
    std::array<V, 8> high = words, low = words;
    for (std::size_t w = 0; w < 8; ++w, scale *= 0x1p-26) {
        const V word = words[w] * scale;
        high[w] = y.high * word;
        low[w] = y.low * word;
    }
    // high[0] is whole turns. Fractions have 52 bits at most up to high[2] and low[1].
    const V first = fraction_of(fraction_of(low[0]) + fraction_of(high[1]));
    const V second = fraction_of(fraction_of(low[1]) + fraction_of(high[2]));
    TwoParts<V> turns = exact_sum(first + second, high[3]);
    add(turns, low[2]);
    const V quarter = round_even(turns.high * 4.0);
    turns = exact_sum(turns.high - quarter * 0.25, turns.low);
    // In order of size, since each sum may leave little of the one before.
    for (std::size_t w = 4; w < 6; ++w) {
        add(turns, high[w]);
        add(turns, low[w - 1]);
    }
    turns.low = turns.low + ((high[6] + low[5]) + (high[7] + low[6]));
    const TwoParts<V> radians =
        product(ordered_sum(turns.high, turns.low), constant_parts(x, kTwoPi, kTwoPiLow));
    // Infinity minus itself: the exponent's bits hid it.
    return {quarter, radians.high + (x - x), radians.low};
}

template <DoubleValue V>
Angle<V> angle_of(V x) {
    const V quarter = round_even(x * kTwoOverPi);
    const V first = x - quarter * kHalfPi1;
    const TwoParts<V> second = exact_sum(first, -(quarter * kHalfPi2));
    const TwoParts<V> third = exact_sum(second.high, -(quarter * kHalfPi3));
    const V low = (second.low + third.low) - quarter * kHalfPi4;
    const TwoParts<V> rest = ordered_sum(third.high, low);
    return rarely(x >= kLargeAngle, Angle<V>{quarter, rest.high, rest.low},
                  [x] { return large_angle(x); });
}

}  // namespace quern::math
