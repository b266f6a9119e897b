// What the conformance tests share: the example kernels, operands, and other layouts of one tensor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "quern/kernel.h"
#include "tests/tensor_test.h"

namespace quern {

inline constexpr std::int64_t kSizes[] = {0,  1,  3,  4,  5,   7,   8,   15,
                                          16, 17, 31, 33, 255, 256, 257, 1023};

/// The text of examples/kernels/<number>_*.quern.
inline std::string example_text(std::string_view number) {
    const std::filesystem::path folder =
        std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().rfind(std::string(number) + "_", 0) != 0) continue;
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        return text.str();
    }
    ADD_FAILURE() << "no example " << number;
    return {};
}

inline Kernel example(std::string_view number) { return Kernel(example_text(number)); }

/// Values spread over [low, high], rounded to the dtype.
inline Tensor uniform(const Shape& shape, std::uint64_t seed, double low = -2, double high = 2,
                      DType dtype = DType::Float32) {
    Random random(seed);
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (double& value : values) {
        value = low + (high - low) * static_cast<double>(random.bits() >> 11) * 0x1p-53;
    }
    return Tensor::from(shape, values).to(dtype);
}

/// The same elements, the last axis outermost in memory.
inline Tensor transposed_in_memory(const Tensor& tensor) {
    std::vector<int> reversed(static_cast<std::size_t>(tensor.rank()));
    for (int p = 0; p < tensor.rank(); ++p) reversed[std::size_t(p)] = tensor.rank() - 1 - p;
    return tensor.permute(reversed).clone().permute(reversed);
}

/// The same elements, every second one of a larger tensor along each axis.
inline Tensor sliced_from_larger(const Tensor& tensor) {
    Shape larger = tensor.shape();
    for (std::int64_t& extent : larger) extent = 2 * extent + 1;
    std::vector<double> values(static_cast<std::size_t>(element_count(larger)), 77);
    const std::vector<double> own = tensor.values();
    for (std::size_t i = 0; i < own.size(); ++i) {
        const Shape index = index_at(tensor.shape(), std::int64_t(i));
        std::int64_t position = 0;
        for (std::size_t p = 0; p < index.size(); ++p)
            position = position * larger[p] + 2 * index[p] + 1;
        values[std::size_t(position)] = own[i];
    }
    Tensor result = Tensor::from(larger, values).to(tensor.dtype());
    for (int axis = 0; axis < tensor.rank(); ++axis) {
        result = result.slice(axis, 1, larger[std::size_t(axis)], 2);
    }
    return result;
}

/// The first row of the tensor along axis 0, as often as the axis is long, without a copy.
inline Tensor first_row_repeated(const Tensor& tensor) {
    Tensor row = tensor.slice(0, 0, 1).clone();
    std::vector<std::int64_t> strides = row.strides();
    strides[0] = 0;
    return Tensor::adopt(row.data(), tensor.shape(), tensor.dtype(), strides, [row] {});
}

inline ::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
        return ::testing::AssertionFailure()
               << to_string(a.dtype()) << to_string(a.shape()) << " and " << to_string(b.dtype())
               << to_string(b.shape());
    }
    const Tensor x = a.contiguous(), y = b.contiguous();
    if (x.bytes() == 0 || std::memcmp(x.data(), y.data(), x.bytes()) == 0) {
        return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << to_string(x) << "\nand " << to_string(y);
}

/// The codes of a refused or failed launch with their places: "E0501 5:25; ...".
template <class Action>
std::string refusal(Action action) {
    std::string codes;
    try {
        static_cast<void>(action());
    } catch (const KernelError& error) {
        for (const Diagnostic& d : error.diagnostics()) {
            if (!codes.empty()) codes += "; ";
            codes += d.code + " " + std::to_string(d.line) + ":" + std::to_string(d.column);
        }
    }
    return codes;
}

// float32 arithmetic against double: the specification's 1e-5, and as much beside terms that
// cancel.
inline constexpr double kRelative = 1e-5;
inline constexpr double kAbsolute = 1e-6;

/// How far one rounding to the dtype moves a value, at most.
inline double rounding_of(DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return 0x1p-11;
        case DType::BFloat16:
            return 0x1p-8;
        case DType::Float32:
            return 0x1p-24;
        case DType::Float64:
            return 0x1p-53;
        default:
            return 0;
    }
}

}  // namespace quern
