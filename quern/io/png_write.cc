#include <fmt/format.h>
#include <png.h>

#include <array>

#include "quern/io.h"
#include "quern/io/elements.h"
#include "quern/io/sink.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace io {
namespace {

void check_image(const Tensor& tensor, std::string_view op) {
    constexpr std::int64_t kMost = 1'000'000;
    if (tensor.dtype() != DType::UInt8)
        raise(
            DTypeError(fmt::format("[{}] expected uint8, got {}", op, to_string(tensor.dtype()))));
    const Shape& shape = tensor.shape();
    const auto fits = [](std::int64_t extent, std::int64_t most) {
        return extent >= 1 && extent <= most;
    };
    const bool is_image = shape.size() == 3 && fits(shape[0], kMost) && fits(shape[1], kMost) &&
                          fits(shape[2], 4) && tensor.bytes() < std::size_t{1} << 32;
    if (!is_image)
        raise(
            ShapeError(fmt::format("[{}] expected shape [H, W, C] with H and W from 1 to {}, C "
                                   "from 1 to 4 and fewer than 2^32 bytes, got {}",
                                   op, kMost, to_string(shape))));
}

/// Encodes by libpng's simplified interface, which catches its own errors.
std::vector<std::byte> encode_png(const Tensor& tensor, std::string_view op) {
    check_image(tensor, op);
    constexpr std::array<png_uint_32, 4> kFormats = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                                     PNG_FORMAT_RGBA};
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.height = static_cast<png_uint_32>(tensor.shape(0));
    image.width = static_cast<png_uint_32>(tensor.shape(1));
    image.format = kFormats[static_cast<std::size_t>(tensor.shape(2) - 1)];

    const FileElements elements(tensor);
    // One pass is enough with room for data that does not compress, a filter byte in each row and
    // the frames of the chunks.
    png_alloc_size_t size = elements.bytes().size() + image.height;
    size += size / 64 + 4096;
    std::vector<std::byte> bytes(size);
    const int done = png_image_write_to_memory(&image, bytes.data(), &size, /*convert_to_8_bit=*/0,
                                               elements.bytes().data(), /*row_stride=*/0, nullptr);
    if (!done) raise(FileError(fmt::format("[{}] libpng: {}", op, image.message)));
    bytes.resize(size);
    return bytes;
}

}  // namespace
}  // namespace io

void save_png(const std::string& path, const Tensor& tensor) {
    return or_out_of_memory("save_png", [&] {
        const std::vector<std::byte> bytes = io::encode_png(tensor, "save_png");
        io::write_file(path, [&](io::Sink& sink) { sink.write(bytes); });
    });
}

std::vector<std::byte> to_png(const Tensor& tensor) {
    return or_out_of_memory("to_png", [&] { return io::encode_png(tensor, "to_png"); });
}

}  // namespace quern
