// What tests of every area share: comparing tensors with numbers, expecting a message, making
// operands.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"
#include "quern/tensor.h"

namespace quern {

inline constexpr DType kAllDTypes[] = {
    DType::Bool,     DType::Int8,    DType::Int16,   DType::Int32,      DType::Int64,
    DType::UInt8,    DType::UInt16,  DType::UInt32,  DType::UInt64,     DType::Float16,
    DType::BFloat16, DType::Float32, DType::Float64, DType::Float8E4M3, DType::Float8E5M2,
};

/// Those that kernels compute with.
inline constexpr DType kKernelDTypes[] = {
    DType::Bool,     DType::Int8,    DType::Int16,   DType::Int32,  DType::Int64,
    DType::UInt8,    DType::UInt16,  DType::UInt32,  DType::UInt64, DType::Float16,
    DType::BFloat16, DType::Float32, DType::Float64,
};

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Index of the element at `position` in row-major order.
inline Shape index_at(const Shape& shape, std::int64_t position) {
    Shape index(shape.size());
    for (std::size_t i = shape.size(); i-- > 0;) {
        index[i] = position % shape[i];
        position /= shape[i];
    }
    return index;
}

/// Equal infinities are close, and so are two NaNs; else |actual - expected| is at most
/// absolute + relative * |expected|.
inline bool is_close(double actual, double expected, double relative, double absolute) {
    if (std::isnan(actual) || std::isnan(expected))
        return std::isnan(actual) == std::isnan(expected);
    if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
    return std::abs(actual - expected) <= absolute + relative * std::abs(expected);
}

inline ::testing::AssertionResult is_close(const Tensor& actual,
                                           const std::vector<double>& expected, double relative,
                                           double absolute) {
    const std::vector<double> values = actual.values();
    if (values.size() != expected.size()) {
        return ::testing::AssertionFailure()
               << "expected " << expected.size() << " elements, got " << values.size() << ", shape "
               << to_string(actual.shape());
    }
    std::size_t first = 0, wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_close(values[i], expected[i], relative, absolute)) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return ::testing::AssertionSuccess();
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    failure << "at " << to_string(index_at(actual.shape(), std::int64_t(first)));
    failure << ": expected " << ::testing::PrintToString(expected[first]) << ", got "
            << ::testing::PrintToString(values[first]) << " (relative " << relative << ", absolute "
            << absolute << "); " << wrong << " of " << values.size() << " elements differ; "
            << to_string(actual.dtype()) << " " << to_string(actual.shape());
    return failure;
}

template <class Thrown, class Action>
::testing::AssertionResult throws(Action action, std::string_view part) {
    try {
        action();
    } catch (const Thrown& error) {
        if (std::string_view(error.what()).find(part) != std::string_view::npos) {
            return ::testing::AssertionSuccess();
        }
        return ::testing::AssertionFailure()
               << "expected a message with \"" << part << "\", got \"" << error.what() << "\"";
    } catch (const std::exception& error) {
        return ::testing::AssertionFailure()
               << "threw another type, with the message \"" << error.what() << "\"";
    }
    return ::testing::AssertionFailure() << "threw nothing";
}

/// The same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    /// splitmix64, Guy Steele et al., Fast Splittable Pseudorandom Number Generators, 2014.
    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    /// In [low, high].
    std::int64_t integer(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
    }

private:
    std::uint64_t state_;
};

/// A tensor of numbers that its dtype holds exactly: 0 or 1 for bool, 0 to 8 for unsigned and -8 to
/// 8 for signed integers, multiples of 1/8 in [-4, 4] for floats (in [-1, 1] for the 8-bit ones).
inline Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed) {
    Random random(seed);
    const bool is_8_bit_float = is_floating(dtype) && size_of(dtype) == 1;
    const std::int64_t eighths = is_8_bit_float ? 8 : 32;
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (double& value : values) {
        if (dtype == DType::Bool) {
            value = static_cast<double>(random.integer(0, 1));
        } else if (is_floating(dtype)) {
            value = static_cast<double>(random.integer(-eighths, eighths)) / 8;
        } else {
            value = static_cast<double>(random.integer(is_unsigned_integer(dtype) ? 0 : -8, 8));
        }
    }
    return Tensor::from(shape, values).to(dtype);
}

}  // namespace quern

/// EXPECT_CLOSE(tensor, std::vector<double>{...} or {...}, relative, absolute)
#define EXPECT_CLOSE(...) EXPECT_TRUE(::quern::is_close(__VA_ARGS__))

/// EXPECT_THROWS(ShapeError, "part of the message", expression)
#define EXPECT_THROWS(Thrown, part, ...) \
    EXPECT_TRUE(::quern::throws<Thrown>([&] { static_cast<void>(__VA_ARGS__); }, part))
