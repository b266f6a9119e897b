#include "quern/io/place.h"

#include <fmt/format.h>

#include <cstdint>

#include "quern/support/check.h"

namespace quern::io {

std::string in_quotes(std::string_view text) {
    constexpr std::size_t kShown = 120;
    std::string result = "'";
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.size() > kShown && i == kShown / 2) {
            result += "...";
            i = text.size() - kShown / 2;
        }
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte >= 0x7f || byte == '\'' || byte == '\\')
            result += fmt::format("\\x{:02x}", byte);
        else
            result += text[i];
    }
    return result + "'";
}

bool is_utf8(std::string_view text) {
    std::size_t i = 0;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    while (i < text.size()) {
        const unsigned lead = byte(i);
        if (lead < 0x80) {
            ++i;
            continue;
        }
        const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (lead < 0xc2 || lead > 0xf4 || text.size() - i < length) return false;
        std::uint32_t code = lead & (0xffu >> (length + 1));
        for (std::size_t k = 1; k < length; ++k) {
            if ((byte(i + k) & 0xc0) != 0x80) return false;
            code = code << 6 | (byte(i + k) & 0x3fu);
        }
        constexpr std::uint32_t kSmallest[5] = {0, 0, 0x80, 0x800, 0x10000};
        if (code < kSmallest[length] || code > 0x10ffff) return false;
        if (code >= 0xd800 && code <= 0xdfff) return false;
        i += length;
    }
    return true;
}

void Place::fail(std::string_view field, std::string_view message) const {
    const std::string subject = tensor.empty() ? "" : fmt::format("tensor {}: ", in_quotes(tensor));
    raise(FileError(fmt::format("[{}] {}: {}{}: {}", op, file, subject, field, message)));
}

std::string name_fault(std::string_view name) {
    if (name.empty()) return "expected a name, got an empty text";
    if (name.size() > kMaxNameLength)
        return fmt::format("expected at most {} bytes, got {}", kMaxNameLength, name.size());
    if (name.find('\0') != name.npos)
        return fmt::format("expected text without NUL, got {}", in_quotes(name));
    if (!is_utf8(name)) return fmt::format("expected UTF-8, got {}", in_quotes(name));
    return "";
}

}  // namespace quern::io
