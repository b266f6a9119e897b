#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quern::io {

/// Returns the unsigned integer that `bytes`, at most 8, hold with the lowest byte first.
inline std::uint64_t from_little_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    return value;
}

/// Appends the lowest `width` bytes of `value`, the lowest first.
inline void append_little_endian(std::string& text, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace quern::io
