#pragma once

#include <bit>

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

template <class Element>
struct AngleTable;

template <>
struct AngleTable<float> {
    /// Up to here multiples of pi/2 have at most 13 bits.
    static constexpr double kLarge = 0x1p13;

    /// pi/2 is the sum of parts of 11 bits and the rest.
    static constexpr std::array kHalfPi = {0x1.92p0, 0x1.fbp-12, 0x1.51p-22, 0x1.0bp-34};
    static constexpr double kHalfPiRest = 0x1.18469898cc517p-44;

    static constexpr double kTwoPi = 0x1.921fb6p2, kTwoPiLow = -0x1.777a5cf72cecep-23;

    /// 1/(2 pi) is the sum of kTurnWords[i] 2^(kWordBits (1 - i)), and less.
    static constexpr int kWordBits = 12;
    static constexpr std::array<double, 18> kTurnWords = {0,    0,    651,  3680, 3513, 913,
                                                          84,   2687, 157,  1524, 2004, 3383,
                                                          1795, 1752, 2646, 1615, 270,  1040};
};

template <>
struct AngleTable<double> {
    static constexpr double kLarge = 0x1p20;

    /// Parts of 33 bits.
    static constexpr std::array kHalfPi = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69};
    static constexpr double kHalfPiRest = 0x1.b839a252049cp-104;

    static constexpr double kTwoPi = 0x1.921fb54442d18p2, kTwoPiLow = 0x1.1a62633145c07p-52;
    static constexpr int kWordBits = 26;
    static constexpr std::array<double, 47> kTurnWords = {
        0,        0,        10680707, 28915984, 22192066, 30798973, 20241856, 57510486,
        26461241, 1081236,  23309278, 49223046, 57820899, 43029364, 48236105, 12298279,
        18424271, 59210439, 11610535, 16491016, 56578795, 47259962, 27029542, 47283705,
        1284381,  26108116, 54129820, 34700846, 64983683, 46661157, 67100165, 39862204,
        49354933, 42113863, 57489022, 54304556, 10188020, 26204583, 39840301, 30711531,
        8306271,  6213441,  54130570, 21646249, 46118395, 4711255,  17323523};
};

template <Value V>
struct Angle {
    V quarter, rest, rest_low;
};

template <Value V>
Angle<V> select(typename V::Mask m, Angle<V> x, Angle<V> y) {
    return {select(m, x.quarter, y.quarter), select(m, x.rest, y.rest),
            select(m, x.rest_low, y.rest_low)};
}

/// x less the nearest integer.
template <Value V>
V fraction_of(V x) {
    return x - round_even(x);
}

/// Eight words of 1/(2 pi) from number `index` on. For each bit of the index the words move by as
/// many places as the bit says.
template <Value V>
std::array<V, 8> turn_words_from(typename V::Int index, V like) {
    constexpr auto& all = AngleTable<typename V::Element>::kTurnWords;
    std::array<V, all.size() + 1> words;
    words.fill(like.constant(0));
    for (std::size_t w = 0; w < all.size(); ++w) words[w] = like.constant(all[w]);
    for (std::size_t places = std::bit_floor(all.size() - 8); places > 0; places /= 2) {
        const auto bit = index & index.constant(std::int64_t(places));
        const auto stays = bit == index.constant(0);
        // Only what the steps after this one can reach.
        for (std::size_t w = 0; w < places + 7 && w + places < all.size(); ++w) {
            words[w] = select(stays, words[w], words[w + places]);
        }
    }
    return {words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]};
}

/// x 2^(-b n) in [1, 2^b), where b is kWordBits, with n in the lowest bits of `index`.
template <Value V>
struct ScaledAngle {
    V x;
    typename V::Int index;
};

template <Value V>
ScaledAngle<V> scaled_angle(V x) {
    using Form = FormatOf<V>;
    constexpr int b = AngleTable<typename V::Element>::kWordBits;
    const auto i = bits(x);
    const auto mantissa = i & i.constant((std::int64_t(1) << Form::kMantissaBits) - 1);
    const V exponent = from_bits((i >> Form::kMantissaBits) + i.constant(Form::kRounderBits)) -
                       (Form::kRounder + double(Form::kBias));
    const V rounded = (exponent - (b - 1) * 0.5) * (1.0 / b) + Form::kRounder;
    const V low = exponent - (rounded - Form::kRounder) * double(b);
    const auto biased = bits(low + Form::kRounder) + i.constant(Form::kBias - Form::kRounderBits);
    return {from_bits(mantissa | (biased << Form::kMantissaBits)), bits(rounded)};
}

template <Value V>
void add(TwoParts<V>& sum, V x) {
    const TwoParts<V> s = exact_sum(sum.high, x);
    sum = {s.high, sum.low + s.low};
}

/// The rest is right to 2^-100 of it, for float to 2^-27. No double is nearer to a multiple of pi/2
/// than 2^-61, no float than 2^-29.
template <Value V>
Angle<V> large_angle(V x) {
    using Table = AngleTable<typename V::Element>;
    const ScaledAngle<V> scaled = scaled_angle(x);
    const std::array<V, 8> words = turn_words_from(scaled.index, x);
    const TwoParts<V> y = halves(scaled.x);
    constexpr double kWord = double(std::int64_t(1) << Table::kWordBits);
    double scale = kWord;
    std::array<V, 8> high = words, low = words;
    for (std::size_t w = 0; w < 8; ++w, scale /= kWord) {
        const V word = words[w] * scale;
        high[w] = y.high * word;
        low[w] = y.low * word;
    }
    // high[0] is whole turns. Fractions have as many bits as a number up to high[2] and low[1].
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
    const TwoParts<V> radians = product(ordered_sum(turns.high, turns.low),
                                        constant_parts(x, Table::kTwoPi, Table::kTwoPiLow));
    // Infinity minus itself: the exponent's bits hid it.
    return {quarter, radians.high + (x - x), radians.low};
}

template <Value V>
Angle<V> angle_of(V x) {
    using Table = AngleTable<typename V::Element>;
    const V quarter = round_even(x * kTwoOverPi);
    V rest = x - quarter * Table::kHalfPi[0];
    V low = quarter * -Table::kHalfPiRest;
    for (std::size_t p = 1; p < Table::kHalfPi.size(); ++p) {
        const TwoParts<V> sum = exact_sum(rest, -(quarter * Table::kHalfPi[p]));
        rest = sum.high;
        low = low + sum.low;
    }
    const TwoParts<V> sum = ordered_sum(rest, low);
    return rarely(x >= Table::kLarge, Angle<V>{quarter, sum.high, sum.low},
                  [x] { return large_angle(x); });
}

}  // namespace quern::math
