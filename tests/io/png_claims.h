// Builds PNG files whose header says what the rest does not hold.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace quern {

inline std::string png_number(std::uint64_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
    return text;
}

inline std::string png_chunk(std::string_view name, std::string_view data) {
    const std::string body = std::string(name) + std::string(data);
    return png_number(data.size()) + body +
           png_number(crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
}

struct PngClaim {
    std::uint32_t width = 1;
    std::uint32_t height = 1;
    char bits = 8;
    char color = 0;
    std::string chunks = png_chunk("IDAT", "x\x9c") + png_chunk("IEND", "");
};

inline std::string png_claiming(const PngClaim& claim) {
    const std::string header = png_number(claim.width) + png_number(claim.height) + claim.bits +
                               claim.color + std::string(3, '\0');
    return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + claim.chunks;
}

}  // namespace quern
