// Any bytes as a npy file: an error, or a tensor that survives writing and reading.
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return quern::round_trip(
        quern::input(data, size), [](auto bytes) { return quern::parse_npy(bytes, "fuzz.npy"); },
        [](const quern::Tensor& tensor) { return quern::to_npy(tensor); });
}
