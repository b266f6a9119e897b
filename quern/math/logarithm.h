#pragma once

#include "quern/math/exponential.h"

// log and log2. x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
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

    /// Bits of a number that are kept where a product with 12 bits must be exact.
    static constexpr std::int64_t kHighBits = -0x1000;
    static constexpr double kLog2EHigh = 0x1.714p0, kLog2ELow = 0x1.47652b82fe177p-12;
};

template <>
struct LogarithmTable<double> {
    /// Error below 2^-59.4.
    static constexpr std::array kAtanh = {
        0x1.5555555555593p-1, 0x1.999999997f9f7p-2, 0x1.249249422a539p-2, 0x1.c71c51d7bf616p-3,
        0x1.746649b567753p-3, 0x1.39a09485f85f6p-3, 0x1.2f118f821d63bp-3};
    static constexpr std::int64_t kRootHalf = 0x3fe6a09e667f3bcd;
    static constexpr double kLeastNormal = 0x1p-1022, kLift = 0x1p53;
    static constexpr std::int64_t kHighBits = -0x8000000;
    static constexpr double kLog2EHigh = 0x1.715476p0, kLog2ELow = 0x1.4ae0bf85ddf44p-26;
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

/// log2 of 2^k (1 + f). log m = high + low with few bits in high, so that its product with the
/// first bits of log2 e is exact.
template <Value V>
V log2_of(Logarithm<V> p) {
    using Table = LogarithmTable<typename V::Element>;
    const V half_square = p.f * p.f * 0.5;
    const V excess = log_excess(p.f, half_square);
    const V near = p.f - half_square;
    const V high = from_bits(bits(near) & bits(near).constant(Table::kHighBits));
    const V low = ((p.f - high) - half_square) + excess;
    const V rest = (low + high) * Table::kLog2ELow + low * Table::kLog2EHigh;
    const V main = high * Table::kLog2EHigh;
    const V sum = p.k + main;
    return sum + ((main - (sum - p.k)) + rest);
}

template <Value V>
V log2(V x) {
    return log_special(x, log2_of(split(x)));
}

}  // namespace quern::math
