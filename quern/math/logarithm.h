#pragma once

#include "quern/math/exponential.h"
#include "quern/math/two_parts.h"

// log, log1p, log2 and log10. x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
// log m = 2 atanh s = f - (f^2/2 - s (f^2/2 + R(s^2))), where f is exact and the rest small (Tang,
// "Table-driven implementation of the logarithm function", 1990, procedure 2 without the table).

namespace quern::math {

template <class Element>
struct LogarithmTable;

template <>
struct LogarithmTable<float> {
    /// 2 atanh(s) = 2 s + s^3 (c0 + c1 s^2 + ...), minimax on |s| <= 0.1717: error below 2^-30.1.
    static constexpr std::array kAtanh = {0x1.55557ap-1, 0x1.995eccp-2, 0x1.31e26cp-2};

    static constexpr std::int64_t kRootHalf = 0x3f3504f3;
    static constexpr double kLeastNormal = 0x1p-126, kLift = 0x1p24;

    static constexpr double kLog2EHigh = 0x1.714p0, kLog2ELow = 0x1.47652b82fe177p-12;
    static constexpr double kLog10EHigh = 0x1.bcap-2, kLog10ELow = 0x1.7b1526e50e32ap-14;

    /// The product of an exponent and the first is exact.
    static constexpr double kLog10Of2High = 0x1.344p-2, kLog10Of2Low = 0x1.3509f79fef312p-18;
};

template <>
struct LogarithmTable<double> {
    /// Error below 2^-59.4.
    static constexpr std::array kAtanh = {
        0x1.5555555555593p-1, 0x1.999999997f9f7p-2, 0x1.249249422a539p-2, 0x1.c71c51d7bf616p-3,
        0x1.746649b567753p-3, 0x1.39a09485f85f6p-3, 0x1.2f118f821d63bp-3};
    static constexpr std::int64_t kRootHalf = 0x3fe6a09e667f3bcd;
    static constexpr double kLeastNormal = 0x1p-1022, kLift = 0x1p53;
    static constexpr double kLog2EHigh = 0x1.715476p0, kLog2ELow = 0x1.4ae0bf85ddf44p-26;
    static constexpr double kLog10EHigh = 0x1.bcb7b1p-2, kLog10ELow = 0x1.49b9438ca9aaep-28;
    static constexpr double kLog10Of2High = 0x1.34413509f7p-2;
    static constexpr double kLog10Of2Low = 0x1.3fde623e2566bp-43;
};

/// x > 0 is 2^k (1 + f).
template <Value V>
struct Logarithm {
    V k, f;
};

template <Value V>
Logarithm<V> split_normal(V x, double lifted) {
    using Table = LogarithmTable<typename V::Element>;
    using Form = FormatOf<V>;
    const auto i = bits(x);
    const std::int64_t one = Form::kBias << Form::kMantissaBits;
    const auto biased = (i + i.constant(one - Table::kRootHalf)) >> Form::kMantissaBits;
    const V m = from_bits(i - ((biased - i.constant(Form::kBias)) << Form::kMantissaBits));
    // An integer below 2^22 is converted by writing it into the lowest bits of kRounder.
    const V k =
        from_bits(biased + i.constant(Form::kRounderBits)) - (Form::kRounder + double(Form::kBias));
    return {k - lifted, m - 1.0};
}

template <Value V>
Logarithm<V> split(V x) {
    using Table = LogarithmTable<typename V::Element>;
    const auto is_small = x < Table::kLeastNormal;
    const Logarithm<V> parts = split_normal(select(is_small, x * Table::kLift, x), 0);
    const double places = FormatOf<V>::kMantissaBits + 1;
    return {parts.k - select(is_small, parts.k.constant(places), parts.k.constant(0)), parts.f};
}

/// s (f^2/2 + R): what log m exceeds f - f^2/2 by.
template <Value V>
V log_excess(V f, V half_square) {
    const V s = f / (f + 2.0);
    const V z = s * s;
    return s *
           multiply_add(z, polynomial(z, LogarithmTable<typename V::Element>::kAtanh), half_square);
}

/// The logarithm of x, given that of the positive finite numbers.
template <Value V>
V log_special(V x, V result) {
    const V ends = select(x == 0.0, x.constant(-kInfinity), x.constant(kNan));
    return select(x > 0.0, select(x < kInfinity, result, x), ends);
}

template <Value V>
V log(V x) {
    using Exp = ExponentialTable<typename V::Element>;
    const Logarithm<V> p = split(x);
    const V half_square = p.f * p.f * 0.5;
    const V excess = multiply_add(p.k, Exp::kLn2Low, log_excess(p.f, half_square));
    return log_special(x, multiply_add(p.k, Exp::kLn2High, p.f - (half_square - excess)));
}

/// log(1 + x + low) + more ln 2, where low is small beside x, or x is 0.
template <Value V>
V log_of_sum(V x, V low, V more) {
    using Exp = ExponentialTable<typename V::Element>;
    const TwoParts<V> sum = exact_sum(x, x.constant(1));
    const Logarithm<V> p = split(sum.high);
    const V half_square = p.f * p.f * 0.5;
    const V k = p.k + more;
    const V excess = log_excess(p.f, half_square) + (sum.low + low) / sum.high;
    const V rest = half_square - multiply_add(k, Exp::kLn2Low, excess);
    return log_special(sum.high, multiply_add(k, Exp::kLn2High, p.f - rest));
}

template <Value V>
V log1p(V x) {
    const V zero = x.constant(0);
    return select(x == 0.0, x, log_of_sum(x, zero, zero));
}

/// log m = high + low with few bits in high, so that its product with the first bits of a constant
/// is exact.
template <Value V>
TwoParts<V> log_parts(V f) {
    const V half_square = f * f * 0.5;
    const V excess = log_excess(f, half_square);
    const V near = f - half_square;
    const auto i = bits(near);
    const V high = from_bits(i & i.constant(FormatOf<V>::kFirstHalf));
    return {high, ((f - high) - half_square) + excess};
}

/// log2 of 2^k (1 + f).
template <Value V>
V log2_of(Logarithm<V> p) {
    using Table = LogarithmTable<typename V::Element>;
    const TwoParts<V> m = log_parts(p.f);
    const V rest = (m.low + m.high) * Table::kLog2ELow + m.low * Table::kLog2EHigh;
    const TwoParts<V> sum = ordered_sum(p.k, m.high * Table::kLog2EHigh);
    return sum.high + (sum.low + rest);
}

template <Value V>
V log2(V x) {
    return log_special(x, log2_of(split(x)));
}

template <Value V>
V log10(V x) {
    using Table = LogarithmTable<typename V::Element>;
    const Logarithm<V> p = split(x);
    const TwoParts<V> m = log_parts(p.f);
    const V of_power = p.k * Table::kLog10Of2Low;
    const V rest = ((m.low + m.high) * Table::kLog10ELow + of_power) + m.low * Table::kLog10EHigh;
    const TwoParts<V> sum = ordered_sum(p.k * Table::kLog10Of2High, m.high * Table::kLog10EHigh);
    return log_special(x, sum.high + (sum.low + rest));
}

}  // namespace quern::math
