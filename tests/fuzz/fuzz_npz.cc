// Any bytes as a npz archive: an error, or a set that survives writing and reading, deflated or
// not.
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const bool compress = size % 2 != 0;
    return quern::round_trip(
        quern::input(data, size), [](auto bytes) { return quern::parse_npz(bytes, "fuzz.npz"); },
        [&](const quern::TensorSet& set) { return quern::to_npz(set, {.compress = compress}); });
}
