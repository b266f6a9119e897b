// Any bytes as a safetensors file: an error, or tensors and metadata that survive writing and
// reading.
#include "tests/fuzz/round_trip.h"

namespace {

struct Content {
    quern::TensorSet set;
    quern::FileMetadata metadata;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return quern::round_trip(
        quern::input(data, size),
        [](auto bytes) {
            Content content;
            content.set = quern::parse_safetensors(bytes, "fuzz.safetensors", &content.metadata);
            return content;
        },
        [](const Content& content) {
            return quern::to_safetensors(content.set, content.metadata);
        });
}
