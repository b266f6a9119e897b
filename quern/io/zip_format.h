#pragma once

#include <cstdint>

namespace quern::io {

// Signatures, sizes and marks of the records of a zip archive.
// Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.

inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064b50;

/// Sizes without the fields of variable length.
inline constexpr std::size_t kLocalSize = 30;
inline constexpr std::size_t kCentralSize = 46;
inline constexpr std::size_t kEndSize = 22;
inline constexpr std::size_t kEnd64Size = 56;
inline constexpr std::size_t kLocator64Size = 20;

/// A field with this value stands in the zip64 record instead.
inline constexpr std::uint32_t kIn64 = 0xffffffff;
inline constexpr std::uint16_t kCountIn64 = 0xffff;
inline constexpr std::uint16_t kExtra64 = 0x0001;

inline constexpr std::uint16_t kFlagEncrypted = 1 << 0;
inline constexpr std::uint16_t kFlagDescriptor = 1 << 3;
inline constexpr std::uint16_t kFlagUtf8 = 1 << 11;

}  // namespace quern::io
