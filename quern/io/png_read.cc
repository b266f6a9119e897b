// Reading PNG files through libpng.
//
// libpng leaves on an error by longjmp, which runs no destructors. So every call of libpng that may
// fail stands in a function of this file that holds only plain values, and is entered by `guarded`.

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>

#include "quern/io.h"
#include "quern/io/elements.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace io {
namespace {

constexpr std::size_t kSignatureSize = 8;

/// A PNG that is being read. libpng's callbacks get its address.
struct PngReader {
    explicit PngReader(Source& from) : source(from) {}
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;

    Source& source;
    std::uint64_t position = 0;
    png_structp png = nullptr;
    png_infop info = nullptr;
    char message[160] = "";

    /// Where the samples go, row after row.
    png_bytep samples = nullptr;

    png_uint_32 width = 0;
    png_uint_32 height = 0;
    int channels = 0;
    std::size_t row_bytes = 0;

    /// Bytes of the image as the file packs them, with the filter byte of each row.
    std::uint64_t packed_bytes = 0;
};

void on_error(png_structp png, png_const_charp message) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader->message, sizeof reader->message, "%s", message);
    png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep dst, std::size_t count) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (!reader->source.read(reader->position, {reinterpret_cast<std::byte*>(dst), count}))
        png_error(png, "the end of the file");
    reader->position += count;
}

/// Runs `body`; false if libpng left it by an error.
bool guarded(PngReader& reader, void (*body)(PngReader&)) {
    if (setjmp(png_jmpbuf(reader.png))) return false;
    body(reader);
    return true;
}

/// Reads up to the first chunk of samples and asks for 8-bit samples without a palette.
void read_info(PngReader& reader) {
    png_structp png = reader.png;
    png_infop info = reader.info;
    png_set_read_fn(png, &reader, on_read);
    // Texts and profiles are not used, and some are compressed; leave them unread.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    reader.width = png_get_image_width(png, info);
    reader.height = png_get_image_height(png, info);
    reader.packed_bytes = std::uint64_t{reader.height} * (png_get_rowbytes(png, info) + 1);
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    reader.channels = png_get_channels(png, info);
    reader.row_bytes = png_get_rowbytes(png, info);
}

void read_samples(PngReader& reader) {
    const bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
    const int passes = interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
    for (int pass = 0; pass < passes; ++pass)
        for (png_uint_32 row = 0; row < reader.height; ++row)
            png_read_row(reader.png, reader.samples + row * reader.row_bytes, nullptr);
    png_read_end(reader.png, nullptr);
}

void check_signature(PngReader& reader, const Place& place) {
    std::byte signature[kSignatureSize];
    if (!reader.source.read(0, signature))
        place.fail("signature", fmt::format("expected 8 bytes, got {}", reader.source.size()));
    if (png_sig_cmp(reinterpret_cast<png_const_bytep>(signature), 0, kSignatureSize) != 0)
        place.fail("signature", "expected that of a PNG, got other bytes");
}

void check_size(const PngReader& reader, const LoadOptions& options, const Place& place) {
    const auto got =
        fmt::format("{} by {} pixels of {} channels", reader.height, reader.width, reader.channels);
    const std::uint64_t size = reader.source.size();
    if (reader.packed_bytes / kMaxDeflateRatio > size)
        place.fail("size", fmt::format("expected at most {} times the {} bytes of the file, got {}",
                                       kMaxDeflateRatio, size, got));
    const std::uint64_t limit = expansion_limit(size, options.max_expansion);
    if (std::uint64_t{reader.row_bytes} * reader.height > limit)
        place.fail("size", fmt::format("expected at most {} bytes, got {}; "
                                       "LoadOptions::max_expansion raises the limit",
                                       limit, got));
}

Tensor read_png(Source& source, const Place& place, const LoadOptions& options) {
    PngReader reader(source);
    check_signature(reader, place);
    reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
    if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
    if (reader.info == nullptr)
        raise(OutOfMemory(fmt::format("[{}] {}: libpng: no room", place.op, place.file)));
    if (!guarded(reader, read_info))
        place.fail("header", fmt::format("expected a PNG, got: {}", reader.message));
    check_size(reader, options, place);

    Tensor tensor({reader.height, reader.width, reader.channels}, DType::UInt8);
    reader.samples = tensor.data<std::uint8_t>();
    if (!guarded(reader, read_samples))
        place.fail("samples",
                   fmt::format("expected {} rows, got: {}", reader.height, reader.message));
    return tensor;
}

}  // namespace
}  // namespace io

Tensor load_png(const std::string& path, const LoadOptions& options) {
    return or_out_of_memory("load_png", [&] {
        const io::Place place{"load_png", path};
        io::FileSource source(place);
        return io::read_png(source, place, options);
    });
}

Tensor parse_png(std::span<const std::byte> bytes, std::string_view name,
                 const LoadOptions& options) {
    return or_out_of_memory("parse_png", [&] {
        io::MemorySource source(bytes);
        return io::read_png(source, {"parse_png", name}, options);
    });
}

}  // namespace quern
