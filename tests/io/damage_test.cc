// Small files, cut at every length and with every bit of their headers flipped.

#include "tests/io/archives.h"
#include "tests/io/files.h"

namespace quern {
namespace {

struct Sample {
    std::string name;
    std::string file;

    /// Bytes of the file that are header; the rest is elements or samples.
    std::size_t header;
    void (*parse)(const Bytes&);
};

void parse_as_npy(const Bytes& bytes) { parse_npy(bytes, "damaged"); }
void parse_as_npz(const Bytes& bytes) { parse_npz(bytes, "damaged"); }
void parse_as_png(const Bytes& bytes) { parse_png(bytes, "damaged"); }
void parse_as_safetensors(const Bytes& bytes) { parse_safetensors(bytes, "damaged"); }

std::vector<Sample> samples() {
    const Tensor floats = random_tensor({3, 5}, DType::Float32, 1);
    const Tensor image = random_tensor({16, 9, 3}, DType::UInt8, 2);
    const TensorSet set = {{"weight", floats}, {"bias", random_tensor({7}, DType::Float16, 3)}};
    TensorSet layers;
    for (int i = 0; i < 75; ++i)
        layers.emplace("model.layers." + std::to_string(i) + ".weight",
                       random_tensor({2, 3}, kAllDTypes[i % 15], 4));
    std::vector<Sample> result;
    const auto add = [&](const char* name, const Bytes& bytes, std::size_t header,
                         void (*parse)(const Bytes&)) {
        const std::string file = text_of(bytes);
        result.push_back({name, file, header == 0 ? file.size() : header, parse});
    };
    const auto header_of = [](const Bytes& bytes) {
        std::size_t length = 0;
        for (std::size_t i = 8; i-- > 0;)
            length = length << 8 | std::to_integer<std::size_t>(bytes[i]);
        return length + 8;
    };
    add("npy", to_npy(floats), 128, parse_as_npy);
    add("scalar npy", to_npy(Tensor::from<double>({}, {1})), 64, parse_as_npy);
    add("large npy", to_npy(random_tensor({80, 80}, DType::Int64, 5)), 128, parse_as_npy);
    for (int dtype = int(DType::Bool); dtype <= int(DType::Float64); ++dtype) {
        if (DType(dtype) == DType::BFloat16) continue;
        for (const Shape& shape : {Shape{1}, Shape{7}, Shape{0, 3}, Shape{2, 3}, Shape{1, 1, 1, 1},
                                   Shape{2, 1, 5}, Shape{4, 4}, Shape{3, 0}, Shape{1, 12}}) {
            const Bytes bytes = to_npy(random_tensor(shape, DType(dtype), 8));
            const std::size_t length = std::to_integer<std::size_t>(bytes[8]);
            add("npy of each dtype", bytes, 10 + length, parse_as_npy);
        }
    }
    // Headers stand at both ends of an archive and between the arrays.
    add("npz", to_npz(set), 0, parse_as_npz);
    add("deflated npz", to_npz(set, {.compress = true}), 0, parse_as_npz);
    add("zip64 npz",
        bytes_of(zip({{.content = text_of(to_npy(floats)), .zip64 = true}}, {.zip64 = true})), 0,
        parse_as_npz);
    add("png", to_png(image), 0, parse_as_png);
    add("grey png", to_png(Tensor({20, 20, 1}, DType::UInt8)), 0, parse_as_png);
    TensorSet arrays;
    for (int i = 0; i < 20; ++i)
        arrays.emplace("array" + std::to_string(i), random_tensor({4}, DType::Int32, 6));
    add("npz of many arrays", to_npz(arrays), 0, parse_as_npz);
    const Bytes small = to_safetensors(set, {{"format", "pt"}});
    add("safetensors", small, header_of(small), parse_as_safetensors);
    const Bytes large = to_safetensors(layers);
    add("large safetensors", large, header_of(large), parse_as_safetensors);
    return result;
}

/// A sanitizer takes ten times as long for each exception, so it sees each thirteenth case
/// only; 13 shares no factor with 8, so every bit of a byte is met.
constexpr std::size_t kStep = kSanitized ? 13 : 1;

TEST(DamagedFiles, AreRefusedWhenCutAtAnyLength) {
    std::size_t cuts = 0;
    for (const Sample& sample : samples()) {
        ASSERT_EQ(file_error([&] { sample.parse(bytes_of(sample.file)); }), "") << sample.name;
        for (std::size_t length = 0; length < sample.file.size(); length += kStep, ++cuts) {
            // Memory of just this size, so that a sanitizer sees a read past the end.
            const Bytes bytes = bytes_of(std::string_view(sample.file).substr(0, length));
            ASSERT_NE(file_error([&] { sample.parse(bytes); }), "")
                << sample.name << " cut to " << length;
        }
    }
    EXPECT_GE(cuts, 60'000u / kStep);
}

TEST(DamagedFiles, LoadOrAreRefusedWithAnyBitOfAHeaderFlipped) {
    const std::string result = in_child(512 << 20, [] {
        const auto before = peak_memory();
        std::size_t flips = 0;
        std::size_t refused = 0;
        for (const Sample& sample : samples()) {
            Bytes bytes = bytes_of(sample.file);
            for (std::size_t bit = 0; bit < sample.header * 8; bit += kStep, ++flips) {
                const auto mask = std::byte(1 << bit % 8);
                bytes[bit / 8] ^= mask;
                if (!file_error([&] { sample.parse(bytes); }).empty()) ++refused;
                bytes[bit / 8] ^= mask;
            }
        }
        if (flips < 200'000 / kStep || refused < flips / 2)
            return "of " + std::to_string(flips) + " refused " + std::to_string(refused);
        // A sanitizer keeps what is freed.
        const bool is_small = kSanitized || peak_memory() - before < (64 << 20);
        return std::string(is_small ? "well" : "used much memory");
    });
    EXPECT_EQ(result, "well");
}

TEST(DamagedFiles, LoadOrAreRefusedWithRandomBytesInTheirHeaders) {
    const std::string result = in_child(512 << 20, [] {
        Random random(7);
        for (const Sample& sample : samples()) {
            // There are many of these, and their headers are alike.
            const int rounds = sample.name == "npy of each dtype" ? 500 : 5'000;
            for (int round = 0; round < rounds / int{kStep}; ++round) {
                Bytes bytes = bytes_of(sample.file);
                for (auto changes = random.integer(1, 4); changes > 0; --changes) {
                    const auto at = static_cast<std::size_t>(
                        random.integer(0, static_cast<std::int64_t>(sample.header) - 1));
                    bytes[at] = static_cast<std::byte>(random.bits());
                }
                file_error([&] { sample.parse(bytes); });
            }
        }
        return std::string("well");
    });
    EXPECT_EQ(result, "well");
}

}  // namespace
}  // namespace quern
