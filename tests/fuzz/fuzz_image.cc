// Any bytes as a compiled kernel that was kept in a file: an error, or an image that writes the
// same bytes, whose code is laid out without being run.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "quern/error.h"
#include "quern/runtime/image.h"
#include "quern/runtime/machine_code.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    try {
        const quern::KernelImage image = quern::image_from(bytes);
        if (!std::ranges::equal(quern::to_bytes(image), bytes)) std::abort();
        const auto code = quern::MachineCode::load(image.object);
        for (const auto& stage : image.stages) static_cast<void>(code->find(stage.function));
    } catch (const quern::Error&) {
    }
    return 0;
}
