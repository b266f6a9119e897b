#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/io.h"
#include "quern/io/elements.h"

namespace quern::io {

/// One tensor as the header of a safetensors file describes it.
struct SafetensorsEntry {
    std::string name;
    DType dtype = DType::Float32;
    Shape shape;

    /// Range in the data after the header, in bytes.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Bytes of the length field before the header.
inline constexpr std::uint64_t kSafetensorsPrefix = 8;
inline constexpr std::uint64_t kSafetensorsMaxHeader = 100'000'000;

/// Most tensors, and most texts of metadata: a header of 100 MB could else take many times that.
inline constexpr std::size_t kSafetensorsMaxTensors = 262'144;

/// The name of a dtype in the header, "F32", and back.
std::string_view safetensors_name(DType dtype);
std::optional<DType> safetensors_dtype(std::string_view name);

/// Reads the JSON of the header. Names and fields are unique and each entry's range has the size of
/// its shape; nothing is known of how ranges lie to each other. Adds `__metadata__` to `metadata`.
/// Raises FileError.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json, const Place& place,
                                                       FileMetadata& metadata);

/// Returns length field, JSON and padding. `entries` in the order they are to be listed.
std::string format_safetensors_header(const std::vector<SafetensorsEntry>& entries,
                                      const FileMetadata& metadata);

}  // namespace quern::io
