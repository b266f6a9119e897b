// Any bytes as a PNG: an error, or an image that survives writing and reading.
#include "tests/fuzz/round_trip.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

std::uint32_t crc32(const std::uint8_t* data, std::size_t size) {
    std::uint32_t crc = ~0u;
    for (std::size_t i = 0; i < size; ++i) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    }
    return ~crc;
}

}  // namespace

// Gives every chunk its right checksum, since nearly all changes would else stop at the first one.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned) {
    size = LLVMFuzzerMutate(data, size, most);
    const auto big_endian = [&](std::size_t at) {
        return std::uint32_t{data[at]} << 24 | data[at + 1] << 16 | data[at + 2] << 8 |
               data[at + 3];
    };
    // After the signature: length, name, content and checksum of each chunk.
    for (std::size_t at = 8; at + 12 <= size && big_endian(at) <= size - at - 12;) {
        const std::size_t length = big_endian(at);
        const std::uint32_t crc = crc32(data + at + 4, length + 4);
        for (std::size_t i = 0; i < 4; ++i)
            data[at + 8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
        at += length + 12;
    }
    return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return quern::round_trip(
        quern::input(data, size), [](auto bytes) { return quern::parse_png(bytes, "fuzz.png"); },
        [](const quern::Tensor& image) { return quern::to_png(image); });
}
