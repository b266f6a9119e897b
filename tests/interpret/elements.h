#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/interpret/kernels.h"

// Kernels of one operation, element by element, on samples of every dtype.

namespace quern::interpret::testing {

/// The bits of an element, and what they mean.
inline std::uint64_t wrapped(DType dtype, std::uint64_t x) {
    const int bits = int(size_of(dtype)) * 8;
    return bits == 64 ? x : x & ((std::uint64_t(1) << bits) - 1);
}

inline std::int64_t signed_value(DType dtype, std::uint64_t bits) {
    const int shift = 64 - int(size_of(dtype)) * 8;
    return is_signed_integer(dtype) ? std::int64_t(bits << shift) >> shift : std::int64_t(bits);
}

inline double floating_value(DType dtype, std::uint64_t bits) {
    switch (dtype) {
        case DType::Float16:
            return float_from_float16(std::uint16_t(bits));
        case DType::BFloat16:
            return float_from_bfloat16(std::uint16_t(bits));
        case DType::Float32:
            return std::bit_cast<float>(std::uint32_t(bits));
        case DType::Float8E4M3:
            return float_from_float8_e4m3(std::uint8_t(bits));
        case DType::Float8E5M2:
            return float_from_float8_e5m2(std::uint8_t(bits));
        default:
            return std::bit_cast<double>(bits);
    }
}

inline std::uint64_t rounded(DType dtype, double x) {
    switch (dtype) {
        case DType::Float16:
            return float16_from_double(x);
        case DType::BFloat16:
            return bfloat16_from_double(x);
        case DType::Float32:
            return std::bit_cast<std::uint32_t>(float(x));
        case DType::Float8E4M3:
            return float8_e4m3_from_float(float(x));
        case DType::Float8E5M2:
            return float8_e5m2_from_float(float(x));
        default:
            return std::bit_cast<std::uint64_t>(x);
    }
}

inline std::vector<std::uint8_t> packed(DType dtype, const std::vector<std::uint64_t>& elements) {
    const std::size_t size = size_of(dtype);
    std::vector<std::uint8_t> bytes;
    for (const std::uint64_t e : elements) {
        for (std::size_t b = 0; b < size; ++b) bytes.push_back(std::uint8_t(e >> (8 * b)));
    }
    return bytes;
}

inline std::vector<std::uint64_t> samples(DType dtype) {
    std::vector<std::uint64_t> list;
    if (dtype == DType::Bool) return {0, 1};
    if (!is_floating(dtype)) {
        for (const std::int64_t x :
             {0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 1000, -1, -2, -3, -7, -128}) {
            list.push_back(wrapped(dtype, std::uint64_t(x)));
        }
        const std::uint64_t top = std::uint64_t(1) << (size_of(dtype) * 8 - 1);
        for (const std::uint64_t x : {top, top - 1, top + 1, ~std::uint64_t(0), top / 2 + 3}) {
            list.push_back(wrapped(dtype, x));
        }
        return list;
    }
    for (const double x : {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           0.5,
                           1.5,
                           -2.5,
                           3.0,
                           7.25,
                           -9.0,
                           1e-3,
                           0.1,
                           300.7,
                           65504.0,
                           1e30,
                           -1e38,
                           1e-40,
                           2.5e9,
                           -3e9,
                           1e19,
                           -1e19,
                           255.9,
                           128.0,
                           double(INFINITY),
                           -double(INFINITY),
                           double(NAN)}) {
        list.push_back(rounded(dtype, x));
    }
    return list;
}

/// Every pair of samples, as two operands.
struct Pairs {
    std::vector<std::uint64_t> x, y;
    explicit Pairs(DType dtype) {
        for (const std::uint64_t a : samples(dtype)) {
            for (const std::uint64_t b : samples(dtype)) {
                x.push_back(a);
                y.push_back(b);
            }
        }
    }
};

using Make = std::function<ExprId(Build&, ExprId x, ExprId y)>;

/// out[i] = make(x[i], y[i]); the bits of out.
inline std::vector<std::uint64_t> apply(DType dtype, DType result, const Make& make,
                                        const std::vector<std::uint64_t>& x,
                                        const std::vector<std::uint64_t>& y) {
    Build b;
    const BufferId left = b.operand("x", dtype, 1), right = b.operand("y", dtype, 1);
    const BufferId out = b.output("out", result, {b.extent(left)});
    const ExprId i = b.points("i", b.extent(left));
    b.store(out, {i}, make(b, b.at(left, {i}), b.at(right, {i})));
    b.end_for();
    const auto count = std::int64_t(x.size());
    Data<std::uint8_t> a(dtype, {count}, packed(dtype, x)), c(dtype, {count}, packed(dtype, y));
    Data<std::uint8_t> got(result, {count}, std::vector<std::uint8_t>(x.size() * size_of(result)));
    const std::vector<View> operands{a.view, c.view};
    const auto failure = Program(b.take()).run({}, {}, operands, got.view);
    EXPECT_FALSE(failure) << failure->message;
    std::vector<std::uint64_t> bits(x.size());
    for (std::size_t k = 0; k < x.size(); ++k) {
        for (std::size_t byte = 0; byte < size_of(result); ++byte) {
            bits[k] |= std::uint64_t(got.values[k * size_of(result) + byte]) << (8 * byte);
        }
    }
    return bits;
}

/// Floats must have the same bits, but any NaN is as good as another.
inline void expect_same(DType dtype, std::uint64_t got, std::uint64_t expected,
                        const std::string& what) {
    if (is_floating(dtype) && std::isnan(floating_value(dtype, expected))) {
        EXPECT_TRUE(std::isnan(floating_value(dtype, got))) << what;
        return;
    }
    EXPECT_EQ(got, expected) << what;
}

inline constexpr DType kFloats[] = {DType::Float16, DType::BFloat16, DType::Float32,
                                    DType::Float64};

}  // namespace quern::interpret::testing
