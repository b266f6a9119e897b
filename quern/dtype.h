#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

/// The type of a tensor's elements.
///
/// Float8E4M3 and Float8E5M2 are storage only: tensors hold them, files carry them, conversions
/// reach them; kernels refuse them.
enum class DType : std::uint8_t {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Float8E4M3,
    Float8E5M2,
};

inline constexpr int kDTypeCount = 15;

namespace detail {
inline constexpr std::uint8_t kSizes[kDTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
}

/// Returns the size of one element in bytes.
constexpr std::size_t size_of(DType dtype) { return detail::kSizes[static_cast<int>(dtype)]; }

/// Says whether the dtype is a float, the 8-bit ones among them.
constexpr bool is_floating(DType dtype) { return dtype >= DType::Float16; }

/// Says whether the dtype is int8, int16, int32 or int64.
constexpr bool is_signed_integer(DType dtype) {
    return dtype >= DType::Int8 && dtype <= DType::Int64;
}

/// Says whether the dtype is uint8, uint16, uint32 or uint64.
constexpr bool is_unsigned_integer(DType dtype) {
    return dtype >= DType::UInt8 && dtype <= DType::UInt64;
}

/// Says whether the dtype is an integer; bool is none.
constexpr bool is_integer(DType dtype) {
    return is_signed_integer(dtype) || is_unsigned_integer(dtype);
}

/// Returns the name used in messages and in kernels: "float32", "int64", "bool", "float8_e4m3".
std::string_view to_string(DType dtype);

/// Reads a name in its long or short form: "float32" or "f32", "bfloat16" or "bf16", "bool".
std::optional<DType> dtype_from_string(std::string_view name);

/// Conversions between float32 and the narrow formats, given as their bits.
///
/// To a narrow format: rounds to nearest, ties to even; a NaN stays a NaN of the same sign and
/// becomes quiet. float16, bfloat16 and float8_e5m2 overflow to infinity, float8_e4m3 (which has no
/// infinity) to NaN, as in OCP 8-bit Floating Point Specification 1.0 without saturation. From a
/// narrow format: exact.
std::uint16_t float16_from_float(float value) noexcept;
float float_from_float16(std::uint16_t bits) noexcept;
std::uint16_t bfloat16_from_float(float value) noexcept;
float float_from_bfloat16(std::uint16_t bits) noexcept;
std::uint8_t float8_e4m3_from_float(float value) noexcept;
float float_from_float8_e4m3(std::uint8_t bits) noexcept;
std::uint8_t float8_e5m2_from_float(float value) noexcept;
float float_from_float8_e5m2(std::uint8_t bits) noexcept;

/// Round a double once (no second rounding through float32), else as above.
std::uint16_t float16_from_double(double value) noexcept;
std::uint16_t bfloat16_from_double(double value) noexcept;
std::uint8_t float8_e4m3_from_double(double value) noexcept;
std::uint8_t float8_e5m2_from_double(double value) noexcept;

}  // namespace quern
