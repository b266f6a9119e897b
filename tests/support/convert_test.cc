#include "quern/support/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/tensor_test.h"

namespace quern {
namespace {

template <class Dst, class Src>
Dst converted(Src value, DType src, DType dst) {
    Dst result{};
    convert(&value, src, 1, &result, dst, 1);
    return result;
}

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

TEST(Conversion, TruncatesAndSaturatesFloats) {
    const auto to_i8 = [](double v) {
        return int(converted<std::int8_t>(v, DType::Float64, DType::Int8));
    };
    const auto to_u8 = [](double v) {
        return int(converted<std::uint8_t>(v, DType::Float64, DType::UInt8));
    };
    EXPECT_EQ(to_i8(1.9), 1);
    EXPECT_EQ(to_i8(-1.9), -1);
    EXPECT_EQ(to_i8(127.9), 127);
    EXPECT_EQ(to_i8(128), 127);
    EXPECT_EQ(to_i8(-128.9), -128);
    EXPECT_EQ(to_i8(-1e30), -128);
    EXPECT_EQ(to_i8(kNaN), 0);
    EXPECT_EQ(to_u8(-0.9), 0);
    EXPECT_EQ(to_u8(-5), 0);
    EXPECT_EQ(to_u8(255.9), 255);
    EXPECT_EQ(to_u8(256), 255);
    EXPECT_EQ(to_u8(kInfinity), 255);
    EXPECT_EQ(to_u8(kNaN), 0);
}

TEST(Conversion, SaturatesAtTheEndsOf64Bits) {
    const auto to_i64 = [](double v) {
        return converted<std::int64_t>(v, DType::Float64, DType::Int64);
    };
    const auto to_u64 = [](double v) {
        return converted<std::uint64_t>(v, DType::Float64, DType::UInt64);
    };
    EXPECT_EQ(to_i64(0x1p63), kMax64);
    EXPECT_EQ(to_i64(std::nextafter(0x1p63, 0)), 0x7FFFFFFFFFFFFC00);
    EXPECT_EQ(to_i64(-0x1p63), kMin64);
    EXPECT_EQ(to_i64(-kInfinity), kMin64);
    EXPECT_EQ(to_u64(0x1p64), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(to_u64(std::nextafter(0x1p64, 0)), 0xFFFFFFFFFFFFF800u);
    EXPECT_EQ(to_u64(0x1p63), 0x8000000000000000u);
    EXPECT_EQ(to_u64(-1), 0u);
}

TEST(Conversion, WrapsIntegers) {
    EXPECT_EQ(converted<std::int8_t>(std::int32_t{200}, DType::Int32, DType::Int8), -56);
    EXPECT_EQ(converted<std::uint8_t>(std::int32_t{-1}, DType::Int32, DType::UInt8), 255);
    EXPECT_EQ(converted<std::uint64_t>(std::int8_t{-1}, DType::Int8, DType::UInt64), ~0ull);
    EXPECT_EQ(converted<std::int64_t>(~std::uint64_t{0}, DType::UInt64, DType::Int64), -1);
    EXPECT_EQ(converted<std::int32_t>(kMin64 + 7, DType::Int64, DType::Int32), 7);
}

TEST(Conversion, ToBoolAsksWhetherTheValueIsNotZero) {
    const auto to_bool = [](double v) {
        return int(converted<std::uint8_t>(v, DType::Float64, DType::Bool));
    };
    EXPECT_EQ(to_bool(0.0), 0);
    EXPECT_EQ(to_bool(-0.0), 0);
    EXPECT_EQ(to_bool(5e-324), 1);
    EXPECT_EQ(to_bool(kNaN), 1);
    EXPECT_EQ(converted<std::uint8_t>(std::int32_t{256}, DType::Int32, DType::Bool), 1);
}

TEST(Conversion, ReadsEveryByteThatIsNotZeroAsTrue) {
    EXPECT_EQ(converted<std::int32_t>(std::uint8_t{2}, DType::Bool, DType::Int32), 1);
    EXPECT_EQ(converted<double>(std::uint8_t{255}, DType::Bool, DType::Float64), 1.0);
}

TEST(Conversion, RoundsIntegersOnce) {
    // 2^62 + 2^54 lies between two bfloat16; rounded to double first, the 1 would be lost.
    const std::int64_t above_tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
    const std::uint16_t down = bfloat16_from_float(0x1p62f);
    const auto to_bf16 = [](std::int64_t v) {
        return converted<std::uint16_t>(v, DType::Int64, DType::BFloat16);
    };
    EXPECT_EQ(to_bf16(above_tie), down + 1);
    EXPECT_EQ(to_bf16(above_tie - 1), down);
    EXPECT_EQ(to_bf16(above_tie - 2), down);
    EXPECT_EQ(to_bf16(-above_tie), (down + 1) | 0x8000);
    EXPECT_EQ(to_bf16(kMin64), bfloat16_from_float(-0x1p63f));
    EXPECT_EQ(converted<std::uint16_t>(~std::uint64_t{0}, DType::UInt64, DType::BFloat16),
              bfloat16_from_float(0x1p64f));
    EXPECT_EQ(converted<float>((std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1, DType::Int64,
                               DType::Float32),
              0x1p54f + 0x1p31f);
}

TEST(Conversion, RoundsDoublesOnce) {
    // Just above the middle of 1 and the next float16; a float would round it down to the middle.
    const double above_tie = 1 + 0x1p-11 + 0x1p-40;
    EXPECT_EQ(converted<std::uint16_t>(above_tie, DType::Float64, DType::Float16), 0x3C01);
    const double above_e4m3_tie = 1 + 0x1p-4 + 0x1p-40;
    EXPECT_EQ(converted<std::uint8_t>(above_e4m3_tie, DType::Float64, DType::Float8E4M3), 0x39);
}

TEST(Conversion, FollowsStridesThroughManyBlocks) {
    std::vector<std::int32_t> src(3 * 1300);
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::int32_t>(i);
    for (const std::int64_t stride : {1, 3, -3, 0}) {
        const std::int32_t* first = stride < 0 ? &src[3 * 1299] : &src[0];
        std::vector<float> floats(1300);
        std::vector<std::int32_t> same(1300);
        convert(first, DType::Int32, stride, floats.data(), DType::Float32, 1300);
        convert(first, DType::Int32, stride, same.data(), DType::Int32, 1300);
        for (std::int64_t i = 0; i < 1300; ++i) {
            ASSERT_EQ(floats[i], static_cast<float>(first[i * stride])) << stride << " " << i;
            ASSERT_EQ(same[i], first[i * stride]) << stride << " " << i;
        }
    }
}

TEST(Conversion, CopiesElementsOfEverySizeWithStrides) {
    for (const DType dtype : kAllDTypes) {
        const std::size_t size = size_of(dtype);
        std::vector<unsigned char> src(size * 10), dst(size * 5);
        for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<unsigned char>(i);
        convert(src.data(), dtype, 2, dst.data(), dtype, 5);
        for (std::size_t i = 0; i < dst.size(); ++i) {
            ASSERT_EQ(dst[i], src[i / size * 2 * size + i % size]) << to_string(dtype);
        }
    }
}

TEST(Conversion, NeedsNoAlignment) {
    std::vector<unsigned char> memory(64);
    const double values[] = {1.5, -2, 1e9};
    std::memcpy(&memory[1], values, sizeof values);
    convert(&memory[1], DType::Float64, 1, &memory[33], DType::Int32, 3);
    std::int32_t result[3];
    std::memcpy(result, &memory[33], sizeof result);
    EXPECT_EQ(result[0], 1);
    EXPECT_EQ(result[1], -2);
    EXPECT_EQ(result[2], 1'000'000'000);
}

}  // namespace
}  // namespace quern
