#include <png.h>

#include <algorithm>
#include <numeric>

#include "tests/io/files.h"
#include "tests/io/png_claims.h"

namespace quern {
namespace png_test {

/// Writes an image through libpng's full interface, for kinds that `to_png` does not write.
struct PngImage {
    png_uint_32 width = 1;
    png_uint_32 height = 1;
    int bits = 8;
    int color = PNG_COLOR_TYPE_GRAY;
    bool interlaced = false;
    std::vector<png_color> palette = {};
    std::vector<png_byte> alpha = {};

    /// Rows as the file packs them.
    std::string samples = {};
};

std::string encode(PngImage image) {
    std::string text;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(
        png, &text,
        [](png_structp p, png_bytep data, std::size_t size) {
            static_cast<std::string*>(png_get_io_ptr(p))
                ->append(reinterpret_cast<const char*>(data), size);
        },
        nullptr);
    png_set_IHDR(png, info, image.width, image.height, image.bits, image.color,
                 image.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!image.palette.empty())
        png_set_PLTE(png, info, image.palette.data(), static_cast<int>(image.palette.size()));
    png_color_16 transparent{};
    transparent.gray = image.alpha.empty() ? 0 : image.alpha[0];
    if (!image.alpha.empty())
        png_set_tRNS(png, info, image.alpha.data(), static_cast<int>(image.alpha.size()),
                     &transparent);
    png_write_info(png, info);
    std::vector<png_bytep> rows;
    const std::size_t row_bytes = image.samples.size() / image.height;
    for (std::size_t y = 0; y < image.height; ++y)
        rows.push_back(reinterpret_cast<png_bytep>(image.samples.data()) + y * row_bytes);
    png_write_image(png, rows.data());
    png_write_end(png, nullptr);
    png_destroy_write_struct(&png, &info);
    return text;
}

Tensor parse(const std::string& text) { return parse_png(bytes_of(text), "a.png"); }

TEST(Png, RoundTripsOneToFourChannels) {
    for (std::int64_t channels = 1; channels <= 4; ++channels)
        for (const auto& [height, width] : {std::pair{1, 1}, {7, 3}, {32, 65}}) {
            Tensor image({height, width, channels}, DType::UInt8);
            std::iota(image.data<std::uint8_t>(), image.data<std::uint8_t>() + image.bytes(), 0);
            EXPECT_TRUE(same(parse_png(to_png(image), "a.png"), image));
        }
}

TEST(Png, RoundTripsNoiseThatDoesNotCompress) {
    Tensor image({300, 200, 3}, DType::UInt8);
    Random random(1);
    std::generate_n(image.data<std::uint8_t>(), image.bytes(),
                    [&] { return static_cast<std::uint8_t>(random.bits()); });
    EXPECT_TRUE(same(parse_png(to_png(image), "a.png"), image));
}

TEST(Png, WritesANonContiguousImage) {
    const Tensor image = random_tensor({4, 6, 3}, DType::UInt8, 1);
    const Tensor view = image.permute({1, 0, 2}).slice(0, 1, 6, 2);
    EXPECT_TRUE(same(parse_png(to_png(view), "a.png"), view));
}

TEST(Png, ReadsAPaletteAsRgb) {
    const Tensor image = parse(encode({.width = 2,
                                       .color = PNG_COLOR_TYPE_PALETTE,
                                       .palette = {{10, 20, 30}, {40, 50, 60}},
                                       .samples = std::string("\1\0", 2)}));
    EXPECT_EQ(image.shape(), (Shape{1, 2, 3}));
    EXPECT_EQ(image.integers(), (std::vector<std::int64_t>{40, 50, 60, 10, 20, 30}));
}

TEST(Png, ReadsTransparencyAsAlpha) {
    const Tensor palette = parse(encode({.color = PNG_COLOR_TYPE_PALETTE,
                                         .palette = {{1, 2, 3}},
                                         .alpha = {99},
                                         .samples = std::string(1, '\0')}));
    EXPECT_EQ(palette.integers(), (std::vector<std::int64_t>{1, 2, 3, 99}));
    const Tensor gray = parse(encode({.width = 2, .alpha = {7}, .samples = "\7\x08"}));
    EXPECT_EQ(gray.integers(), (std::vector<std::int64_t>{7, 0, 8, 255}));
}

TEST(Png, ScalesNarrowSamplesAndRoundsWideOnes) {
    // Two bits a sample: 0, 1, 2, 3.
    EXPECT_EQ(parse(encode({.width = 4, .bits = 2, .samples = "\x1b"})).integers(),
              (std::vector<std::int64_t>{0, 85, 170, 255}));
    // 0x1280 is 18.57 of 255; 0xffff is 255.
    const Tensor wide = parse(encode({.width = 2, .bits = 16, .samples = "\x12\x80\xff\xff"}));
    EXPECT_EQ(wide.dtype(), DType::UInt8);
    EXPECT_EQ(wide.integers(), (std::vector<std::int64_t>{18, 255}));
    EXPECT_EQ(parse(encode({.bits = 16, .samples = std::string("\x12\xa0", 2)})).item(), 19);
}

TEST(Png, ReadsAnInterlacedImage) {
    std::string samples(13 * 11, '\0');
    std::iota(samples.begin(), samples.end(), 1);
    const Tensor image =
        parse(encode({.width = 13, .height = 11, .interlaced = true, .samples = samples}));
    EXPECT_EQ(image.shape(), (Shape{11, 13, 1}));
    EXPECT_EQ(text_of({static_cast<const std::byte*>(image.data()), image.bytes()}), samples);
}

TEST(Png, RefusesASizeThatTheFileCannotHold) {
    const std::string text = png_claiming({.width = 1'000'000, .height = 1'000'000});
    EXPECT_THROWS(FileError, "a.png: size: expected at most 1032 times the", parse(text));
}

TEST(Png, RefusesWhatExpandsTooFarUnlessAsked) {
    // Enough bytes that deflate could make the samples of them; they are no deflated data.
    const std::string file =
        png_claiming({.width = 17'000,
                      .height = 17'000,
                      .chunks = png_chunk("IDAT", std::string(300'000, '\xff'))});
    EXPECT_THROWS(FileError, "expected at most 268435456 bytes, got 17000 by 17000 pixels",
                  parse(file));
    EXPECT_THROWS(FileError, "samples: expected 17000 rows",
                  parse_png(bytes_of(file), "a.png", {.max_expansion = 1032}));
}

TEST(Png, LeavesTextsThatInflateUnread) {
    // 20 texts of 7 MB each, behind the header of an image.
    const std::string text(7'000'000, 'x');
    std::string packed(compressBound(text.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size,
             reinterpret_cast<const Bytef*>(text.data()), text.size());
    packed.resize(size);
    std::string file = text_of(to_png(Tensor({1, 1, 1}, DType::UInt8)));
    for (int i = 0; i < 20; ++i)
        file.insert(33, png_chunk("zTXt", std::string("key\0\0", 5) + packed));
    const std::string result = in_child(RLIM_INFINITY, [&] {
        const auto before = peak_memory();
        parse(file);
        return std::string(peak_memory() - before < (16 << 20) ? "well" : "large");
    });
    EXPECT_EQ(result, "well");
}

TEST(Png, NamesWhatIsWrongWithAFile) {
    EXPECT_THROWS(FileError, "[parse_png] a.png: signature: expected 8 bytes, got 3", parse("abc"));
    EXPECT_THROWS(FileError, "a.png: signature: expected that of a PNG", parse("no image"));
    std::string text = text_of(to_png(random_tensor({4, 4, 3}, DType::UInt8, 1)));
    EXPECT_THROWS(FileError, "a.png: header: expected a PNG, got: the end of the file",
                  parse(text.substr(0, 20)));
    EXPECT_THROWS(FileError, "a.png: samples: expected 4 rows, got: the end of the file",
                  parse(text.substr(0, text.size() - 13)));
    text[16] ^= 1;
    EXPECT_THROWS(FileError, "a.png: header: expected a PNG, got: IHDR: CRC error", parse(text));
}

TEST(Png, RefusesToWriteWhatIsNoImage) {
    EXPECT_THROWS(DTypeError, "[to_png] expected uint8, got float32", to_png(Tensor({1, 1, 1})));
    for (const Shape& shape : {Shape{2, 2}, Shape{0, 1, 1}, Shape{1, 1, 5}, Shape{1'000'001, 1, 1}})
        EXPECT_THROWS(ShapeError, "expected shape [H, W, C]", to_png(Tensor(shape, DType::UInt8)));
}

TEST(Png, SavesAndLoadsThroughAFile) {
    const TemporaryFolder folder;
    const Tensor image = random_tensor({5, 4, 3}, DType::UInt8, 1);
    save_png(folder / "a.png", image);
    EXPECT_TRUE(same(load_png(folder / "a.png"), image));
}

}  // namespace png_test
}  // namespace quern
