#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/tensor_test.h"

namespace quern {
namespace {

__extension__ typedef __int128 Wide;

/// Range of an integer dtype.
Wide lowest(DType dtype) {
    if (!is_signed_integer(dtype)) return 0;
    return -(Wide{1} << (size_of(dtype) * 8 - 1));
}
Wide highest(DType dtype) {
    return (Wide{1} << (size_of(dtype) * 8 - (is_signed_integer(dtype) ? 1 : 0))) - 1;
}

/// Rounds to the dtype in one step, by the functions that dtype_test.cc compares with a search.
double rounded(double value, DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return float_from_float16(float16_from_double(value));
        case DType::BFloat16:
            return float_from_bfloat16(bfloat16_from_double(value));
        case DType::Float8E4M3:
            return float_from_float8_e4m3(float8_e4m3_from_double(value));
        case DType::Float8E5M2:
            return float_from_float8_e5m2(float8_e5m2_from_double(value));
        case DType::Float32:
            return static_cast<float>(value);
        default:
            return value;
    }
}

Wide wrapped(Wide value, DType dtype) {
    const Wide span = highest(dtype) - lowest(dtype) + 1;
    value = (value - lowest(dtype)) % span;
    return (value < 0 ? value + span : value) + lowest(dtype);
}

/// What an integer or bool element becomes.
double expected_from(Wide value, DType dst) {
    if (dst == DType::Bool) return value != 0 ? 1 : 0;
    if (is_integer(dst)) return static_cast<double>(wrapped(value, dst));
    return rounded(static_cast<double>(value), dst);
}

/// What a float element becomes.
double expected_from(double value, DType dst) {
    if (dst == DType::Bool) return value != 0 ? 1 : 0;
    if (is_floating(dst)) return rounded(value, dst);
    if (std::isnan(value)) return 0;
    if (value >= static_cast<double>(highest(dst))) return static_cast<double>(highest(dst));
    if (value <= static_cast<double>(lowest(dst))) return static_cast<double>(lowest(dst));
    return std::trunc(value);
}

/// Values at and around the ends of every dtype.
std::vector<double> special_values() {
    std::vector<double> values = {0.0, -0.0, kNaN, kInfinity, -kInfinity, 0.1, 1e-8, 1e-40, 1e300};
    for (const double edge :
         {1.0,     2.5,    127.0,   128.0,   255.0,   256.0,   448.0,   464.0,
          480.0,   2049.0, 32767.0, 32768.0, 57344.0, 61440.0, 65504.0, 65520.0,
          65535.0, 0x1p24, 0x1p31,  0x1p32,  0x1p53,  0x1p63,  0x1p64,  0x1p127}) {
        for (const double value : {edge - 1, edge - 0.5, edge, edge + 0.5, edge + 1}) {
            values.push_back(value);
            values.push_back(-value);
        }
    }
    return values;
}

TEST(To, ConvertsFloatsToEveryDType) {
    for (const DType src : kAllDTypes) {
        if (!is_floating(src)) continue;
        std::vector<double> sources = special_values();
        for (double& value : sources) value = rounded(value, src);
        const Shape shape = {static_cast<std::int64_t>(sources.size())};
        const Tensor tensor = Tensor::from(shape, sources).to(src);
        ASSERT_EQ(tensor.dtype(), src);
        EXPECT_CLOSE(tensor, sources, 0, 0);
        for (const DType dst : kAllDTypes) {
            std::vector<double> expected;
            for (const double value : sources) expected.push_back(expected_from(value, dst));
            const Tensor result = tensor.to(dst);
            ASSERT_EQ(result.dtype(), dst);
            EXPECT_CLOSE(result, expected, 0, 0) << "from " << to_string(src);
        }
    }
}

TEST(To, ConvertsIntegersAndBoolToEveryDType) {
    for (const DType src : kAllDTypes) {
        if (is_floating(src)) continue;
        std::vector<Wide> sources = {0, 1};
        if (src != DType::Bool) {
            for (const Wide v : {Wide{-1}, Wide{2}, Wide{100}, Wide{-100}, Wide{127}, Wide{128},
                                 Wide{255}, Wide{256}, Wide{2049}, Wide{65535}, Wide{65536}}) {
                sources.push_back(wrapped(v, src));
            }
            for (const Wide edge : {lowest(src), highest(src)}) {
                sources.insert(sources.end(),
                               {edge, wrapped(edge - 1, src), wrapped(edge + 1, src)});
            }
        }
        std::vector<std::int64_t> bits;
        for (const Wide value : sources) bits.push_back(static_cast<std::int64_t>(value));
        const Shape shape = {static_cast<std::int64_t>(bits.size())};
        const Tensor tensor = Tensor::from(shape, bits).to(src);
        EXPECT_EQ(tensor.integers(), bits) << to_string(src);
        for (const DType dst : kAllDTypes) {
            std::vector<double> expected;
            for (const Wide value : sources) expected.push_back(expected_from(value, dst));
            EXPECT_CLOSE(tensor.to(dst), expected, 0, 0) << "from " << to_string(src);
        }
    }
}

TEST(To, KeepsTheSignOfZero) {
    const Tensor zero = Tensor::from<double>({1}, {-0.0});
    for (const DType dtype : kAllDTypes) {
        if (is_floating(dtype)) {
            EXPECT_TRUE(std::signbit(zero.to(dtype).item())) << to_string(dtype);
        }
    }
}

TEST(To, CopiesEvenToTheSameDType) {
    const Tensor tensor = Tensor::from<float>({2}, {1, 2});
    EXPECT_FALSE(tensor.to(DType::Float32).shares_storage_with(tensor));
}

TEST(To, ConvertsViews) {
    const Tensor tensor = Tensor::from<float>({2, 3}, {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f});
    const Tensor result = tensor.permute({1, 0}).to(DType::Int8);
    EXPECT_EQ(result.shape(), (Shape{3, 2}));
    EXPECT_EQ(result.integers(), (std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(RandomTensors, AreSmallAndTheSameForASeed) {
    for (const DType dtype : kAllDTypes) {
        const Tensor tensor = random_tensor({20, 10}, dtype, 3);
        for (const double value : tensor.values()) EXPECT_LE(std::abs(value), 8);
        EXPECT_EQ(tensor.values(), random_tensor({20, 10}, dtype, 3).values());
        EXPECT_NE(tensor.values(), random_tensor({20, 10}, dtype, 4).values());
    }
}

}  // namespace
}  // namespace quern
