// Any bytes as a file of baked kernels, with the checksum that they should have: an error, or a
// bundle that writes the same bytes.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quern/runtime/kernel_bundle.h"
#include "round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kChecksumAt = 8, kHead = 12;
    std::vector<std::byte> bytes(quern::input(data, size).begin(), quern::input(data, size).end());
    if (size >= kHead) {
        const auto* rest = reinterpret_cast<const Bytef*>(bytes.data() + kHead);
        const auto checksum = std::uint32_t(::crc32_z(0, rest, size - kHead));
        for (std::size_t i = 0; i < 4; ++i) {
            bytes[kChecksumAt + i] = std::byte(checksum >> 8 * i & 0xFF);
        }
    }
    try {
        const quern::KernelBundle bundle = quern::bundle_from(bytes, "input");
        quern::require(std::ranges::equal(quern::to_bytes(bundle), bytes));
    } catch (const quern::FileError&) {
    }
    return 0;
}
