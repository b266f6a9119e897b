#include "quern/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/tensor_test.h"

namespace quern {
namespace {

constexpr float kFloatNaN = std::numeric_limits<float>::quiet_NaN();

/// A narrow format as the standards define it, and the functions under test.
struct Narrow {
    const char* name;
    int exponent_bits;
    int mantissa_bits;

    /// The largest finite pattern. The one after it is what overflow gives.
    unsigned largest;
    std::function<unsigned(float)> from_float;
    std::function<unsigned(double)> from_double;
    std::function<float(unsigned)> to_float;

    unsigned sign() const { return 1u << (exponent_bits + mantissa_bits); }
    bool is_nan(unsigned bits) const {
        const unsigned magnitude = bits & (sign() - 1);
        return mantissa_bits == 3 ? magnitude == 0x7F : magnitude > largest + 1;
    }

    /// The value of a pattern without sign; `largest + 1` continues the binade.
    double magnitude(unsigned bits) const {
        const int exponent = static_cast<int>(bits >> mantissa_bits);
        const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
        const int bias = (1 << (exponent_bits - 1)) - 1;
        const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
        return std::ldexp(mantissa + implicit, std::max(exponent, 1) - bias - mantissa_bits);
    }

    /// The nearest pattern, found by search; of two equally near the even one.
    unsigned nearest(double value) const {
        const unsigned sign_bits = std::signbit(value) ? sign() : 0;
        const double wanted = std::abs(value);
        unsigned low = 0, high = largest + 1;
        if (wanted >= magnitude(high)) return sign_bits | high;
        while (high - low > 1) {
            const unsigned middle = (low + high) / 2;
            (magnitude(middle) <= wanted ? low : high) = middle;
        }
        const double tie = (magnitude(low) + magnitude(high)) / 2;
        const bool down = wanted < tie || (wanted == tie && low % 2 == 0);
        return sign_bits | (down ? low : high);
    }
};

const std::vector<Narrow>& formats() {
    static const std::vector<Narrow> all = {
        {"float16", 5, 10, 0x7BFF, float16_from_float, float16_from_double,
         [](unsigned b) { return float_from_float16(std::uint16_t(b)); }},
        {"bfloat16", 8, 7, 0x7F7F, bfloat16_from_float, bfloat16_from_double,
         [](unsigned b) { return float_from_bfloat16(std::uint16_t(b)); }},
        {"float8_e4m3", 4, 3, 0x7E, float8_e4m3_from_float, float8_e4m3_from_double,
         [](unsigned b) { return float_from_float8_e4m3(std::uint8_t(b)); }},
        {"float8_e5m2", 5, 2, 0x7B, float8_e5m2_from_float, float8_e5m2_from_double,
         [](unsigned b) { return float_from_float8_e5m2(std::uint8_t(b)); }},
    };
    return all;
}

TEST(DTypes, HaveTheSizesOfTheirNames) {
    for (const DType dtype : kAllDTypes) {
        const std::string name(to_string(dtype));
        const std::size_t digit = name.find_first_of("0123456789");
        const std::size_t bits = dtype == DType::Bool ? 8 : std::stoul(name.substr(digit));
        EXPECT_EQ(size_of(dtype) * 8, bits) << name;
    }
}

TEST(DTypes, AreReadFromLongAndShortNames) {
    for (const DType dtype : kAllDTypes) EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
    EXPECT_EQ(dtype_from_string("f32"), DType::Float32);
    EXPECT_EQ(dtype_from_string("f64"), DType::Float64);
    EXPECT_EQ(dtype_from_string("f16"), DType::Float16);
    EXPECT_EQ(dtype_from_string("bf16"), DType::BFloat16);
    EXPECT_EQ(dtype_from_string("i8"), DType::Int8);
    EXPECT_EQ(dtype_from_string("i16"), DType::Int16);
    EXPECT_EQ(dtype_from_string("i32"), DType::Int32);
    EXPECT_EQ(dtype_from_string("i64"), DType::Int64);
    EXPECT_EQ(dtype_from_string("u8"), DType::UInt8);
    EXPECT_EQ(dtype_from_string("u16"), DType::UInt16);
    EXPECT_EQ(dtype_from_string("u32"), DType::UInt32);
    EXPECT_EQ(dtype_from_string("u64"), DType::UInt64);
    EXPECT_EQ(dtype_from_string("f8_e4m3"), DType::Float8E4M3);
    EXPECT_EQ(dtype_from_string("f8_e5m2"), DType::Float8E5M2);
    for (const char* name : {"", "f", "float", "Float32", "f32 ", "int", "boolean"}) {
        EXPECT_EQ(dtype_from_string(name), std::nullopt) << name;
    }
}

TEST(DTypes, BelongToOneKind) {
    for (const DType dtype : kAllDTypes) {
        const std::string name(to_string(dtype));
        EXPECT_EQ(is_floating(dtype), name.find("float") != std::string::npos) << name;
        EXPECT_EQ(is_signed_integer(dtype), name.starts_with("int")) << name;
        EXPECT_EQ(is_unsigned_integer(dtype), name.starts_with("uint")) << name;
        EXPECT_EQ(is_integer(dtype), name.find("int") != std::string::npos) << name;
    }
}

TEST(NarrowFloats, WidenEveryPatternExactly) {
    for (const Narrow& f : formats()) {
        for (unsigned bits = 0; bits < 2 * f.sign(); ++bits) {
            const float value = f.to_float(bits);
            const unsigned positive = bits & (f.sign() - 1);
            ASSERT_EQ(std::signbit(value), bits >= f.sign()) << f.name << " " << bits;
            if (f.is_nan(bits)) {
                ASSERT_TRUE(std::isnan(value)) << f.name << " " << bits;
            } else if (positive == f.largest + 1) {
                ASSERT_TRUE(std::isinf(value)) << f.name << " " << bits;
            } else {
                ASSERT_EQ(std::abs(double(value)), f.magnitude(positive)) << f.name << " " << bits;
            }
        }
    }
}

TEST(NarrowFloats, ComeBackFromFloatAndDoubleUnchanged) {
    for (const Narrow& f : formats()) {
        for (unsigned bits = 0; bits < 2 * f.sign(); ++bits) {
            const float value = f.to_float(bits);
            const unsigned by_float = f.from_float(value), by_double = f.from_double(value);
            ASSERT_EQ(by_float, by_double) << f.name << " " << bits;
            if (f.is_nan(bits)) {
                ASSERT_TRUE(f.is_nan(by_float)) << f.name << " " << bits;
                ASSERT_EQ(by_float & f.sign(), bits & f.sign()) << f.name << " " << bits;
            } else {
                ASSERT_EQ(by_float, bits) << f.name;
            }
        }
    }
}

TEST(NarrowFloats, RoundTiesToEvenAndTheirNeighboursToNearest) {
    for (const Narrow& f : formats()) {
        for (unsigned bits = 0; bits <= f.largest; ++bits) {
            const double tie = (f.magnitude(bits) + f.magnitude(bits + 1)) / 2;
            const unsigned even = bits + bits % 2;
            ASSERT_EQ(f.from_double(tie), even) << f.name;
            ASSERT_EQ(f.from_double(-tie), even | f.sign()) << f.name;
            // A step of a double, which a first rounding to float would lose.
            ASSERT_EQ(f.from_double(std::nextafter(tie, 0)), bits) << f.name;
            ASSERT_EQ(f.from_double(std::nextafter(tie, kInfinity)), bits + 1) << f.name;

            const auto float_tie = static_cast<float>(tie);
            if (float_tie != tie) continue;
            ASSERT_EQ(f.from_float(float_tie), even) << f.name;
            ASSERT_EQ(f.from_float(-float_tie), even | f.sign()) << f.name;
            ASSERT_EQ(f.from_float(std::nextafter(float_tie, 0.0f)), bits) << f.name;
            if (std::nextafter(float_tie, HUGE_VALF) < HUGE_VALF) {
                ASSERT_EQ(f.from_float(std::nextafter(float_tie, HUGE_VALF)), bits + 1) << f.name;
            }
        }
    }
}

TEST(NarrowFloats, OverflowAsTheirFormatSays) {
    EXPECT_EQ(float16_from_float(65519.996f), 0x7BFF);
    EXPECT_EQ(float16_from_float(65520.0f), 0x7C00);
    EXPECT_EQ(float16_from_double(-1e300), 0xFC00);
    EXPECT_EQ(bfloat16_from_float(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(bfloat16_from_double(-1e300), 0xFF80);
    EXPECT_EQ(float8_e4m3_from_float(448.0f), 0x7E);
    EXPECT_EQ(float8_e4m3_from_float(464.0f), 0x7E);
    EXPECT_EQ(float8_e4m3_from_float(464.1f), 0x7F);
    EXPECT_EQ(float8_e4m3_from_float(-HUGE_VALF), 0xFF);
    EXPECT_EQ(float8_e5m2_from_float(57344.0f), 0x7B);
    EXPECT_EQ(float8_e5m2_from_float(61440.0f), 0x7C);
    EXPECT_EQ(float8_e5m2_from_float(-HUGE_VALF), 0xFC);
    for (const Narrow& f : formats()) {
        EXPECT_EQ(f.from_float(HUGE_VALF), f.largest + 1) << f.name;
        EXPECT_EQ(f.from_double(-kInfinity), (f.largest + 1) | f.sign()) << f.name;
    }
}

TEST(NarrowFloats, KeepTheSignOfZeroAndOfWhatUnderflows) {
    for (const Narrow& f : formats()) {
        for (const double tiny : {0.0, 5e-324, 1e-60}) {
            EXPECT_EQ(f.from_double(tiny), 0u) << f.name;
            EXPECT_EQ(f.from_double(-tiny), f.sign()) << f.name;
        }
        EXPECT_EQ(f.from_float(-0.0f), f.sign()) << f.name;
        EXPECT_EQ(f.from_float(std::numeric_limits<float>::denorm_min()), 0u) << f.name;
    }
}

TEST(NarrowFloats, KeepNaNsEvenIfOnlyTheirLastBitIsSet) {
    for (const Narrow& f : formats()) {
        EXPECT_TRUE(f.is_nan(f.from_float(kFloatNaN))) << f.name;
        EXPECT_TRUE(f.is_nan(f.from_float(std::bit_cast<float>(0x7F800001u)))) << f.name;
        EXPECT_TRUE(f.is_nan(f.from_float(std::bit_cast<float>(0xFFFFFFFFu)))) << f.name;
        EXPECT_TRUE(f.is_nan(f.from_double(std::bit_cast<double>(0x7FF0000000000001u)))) << f.name;
    }
}

TEST(NarrowFloats, AgreeWithASearchOnRandomNumbers) {
    Random random(7);
    for (int i = 0; i < 200'000; ++i) {
        const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
        // Exponents from -160 to 160: most doubles would only overflow.
        const double spread =
            std::ldexp(static_cast<double>(random.integer(-(1ll << 53), 1ll << 53)),
                       static_cast<int>(random.integer(-213, 107)));
        for (const Narrow& f : formats()) {
            ASSERT_EQ(f.from_double(spread), f.nearest(spread)) << f.name << " " << spread;
            if (std::isnan(single)) continue;
            ASSERT_EQ(f.from_float(single), f.nearest(single)) << f.name << " " << single;
        }
    }
}

/// Rounds to a multiple of the spacing of float16 there, in double arithmetic.
double rounded_to_float16(float value) {
    if (value == 0 || !std::isfinite(value)) return value;
    const double spacing = std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
    const double rounded = std::nearbyint(value / spacing) * spacing;
    return std::abs(rounded) < 65536 ? rounded : std::copysign(kInfinity, value);
}

TEST(NarrowFloats, AgreeWithOtherArithmeticOnADenseSampleOfFloats) {
    for (std::uint32_t i = 0; i < 1u << 24; ++i) {
        const std::uint32_t bits = (i << 8) | ((i * 2654435761u) >> 24);
        const auto value = std::bit_cast<float>(bits);
        const std::uint16_t half = float16_from_float(value), brain = bfloat16_from_float(value);
        if (std::isnan(value)) {
            ASSERT_TRUE((half & 0x7FFF) > 0x7C00 && (brain & 0x7FFF) > 0x7F80) << bits;
            continue;
        }
        ASSERT_EQ(double(float_from_float16(half)), rounded_to_float16(value)) << bits;
        ASSERT_EQ(half >> 15, bits >> 31) << bits;
        ASSERT_EQ(brain, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << bits;
    }
}

#if defined(__FLT16_MANT_DIG__) && (!defined(__clang__) || __clang_major__ >= 15)
__extension__ typedef _Float16 CompilerHalf;

TEST(NarrowFloats, AgreeWithTheHalfOfTheCompiler) {
    for (unsigned bits = 0; bits < 1u << 16; ++bits) {
        const auto half = std::bit_cast<CompilerHalf>(static_cast<std::uint16_t>(bits));
        const float value = float_from_float16(static_cast<std::uint16_t>(bits));
        if (std::isnan(value)) continue;
        ASSERT_EQ(static_cast<float>(half), value) << bits;
    }
    Random random(11);
    for (int i = 0; i < 1'000'000; ++i) {
        const auto value = std::bit_cast<float>(
            static_cast<std::uint32_t>(random.integer(0x33000000, 0x47900000)));
        const auto half = static_cast<CompilerHalf>(value);
        ASSERT_EQ(float16_from_float(value), std::bit_cast<std::uint16_t>(half)) << value;
        const double wide = value * (1 + std::ldexp(double(random.integer(0, 1023)), -40));
        const auto from_wide = static_cast<CompilerHalf>(wide);
        ASSERT_EQ(float16_from_double(wide), std::bit_cast<std::uint16_t>(from_wide)) << wide;
    }
}
#endif

}  // namespace
}  // namespace quern
