#pragma once

#include <string>
#include <string_view>

namespace quern::io {

/// Returns `text` in quotes as messages show it: control characters and bytes outside ASCII as
/// \xNN, the middle of a long text left out.
std::string in_quotes(std::string_view text);

/// True for text in UTF-8: shortest forms only, no surrogates.
bool is_utf8(std::string_view text);

/// Where a reader is. Raises the errors of that place.
struct Place {
    /// The public function: "load_npy".
    std::string_view op;
    std::string_view file;

    /// Empty where no tensor is concerned.
    std::string_view tensor = {};

    Place at(std::string_view name) const { return {op, file, name}; }

    /// Raises FileError "[op] file: tensor 'name': field: message".
    [[noreturn]] void fail(std::string_view field, std::string_view message) const;
};

/// Longest name of a tensor in bytes.
inline constexpr std::size_t kMaxNameLength = 4096;

/// Says what is wrong with a tensor's name, or "" if it may be read and written.
std::string name_fault(std::string_view name);

}  // namespace quern::io
