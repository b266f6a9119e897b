#include "quern/io/zip.h"
#include "tests/io/archives.h"

namespace quern {
namespace {

TensorSet examples() {
    return {{"scalar", Tensor::from<double>({}, {2.5})},
            {"empty", Tensor(Shape{0, 3}, DType::Int16)},
            {"w", random_tensor({64, 65}, DType::Float32, 1)},
            {"columns", random_tensor({8, 5}, DType::Int64, 2).permute({1, 0})},
            {"zeros", Tensor({100'000}, DType::UInt8)}};
}

TEST(Npz, RoundTripsStoredAndDeflated) {
    for (const bool compress : {false, true}) {
        const Bytes bytes = to_npz(examples(), {.compress = compress});
        EXPECT_TRUE(same(parse_npz(bytes, "a.npz"), examples())) << compress;
        EXPECT_EQ(bytes.size() < 100'000, compress);
    }
}

TEST(Npz, SavesAndLoadsThroughAFile) {
    const TemporaryFolder folder;
    for (const bool compress : {false, true}) {
        save_npz(folder / "a.npz", examples(), {.compress = compress});
        EXPECT_TRUE(same(load_npz(folder / "a.npz"), examples()));
    }
}

TEST(Npz, RoundTripsTheEmptySet) {
    EXPECT_EQ(to_npz({}).size(), 22u);
    EXPECT_TRUE(parse_npz(to_npz({}), "a.npz").empty());
}

TEST(Npz, KeepsNamesThatLookLikePaths) {
    const TemporaryFolder folder;
    const TensorSet set = {{"../../up", Tensor()}, {"/etc/x", Tensor()}, {"\u00fc", Tensor()}};
    save_npz(folder / "a.npz", set);
    EXPECT_TRUE(same(load_npz(folder / "a.npz"), set));
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.npz"}));
}

TEST(Npz, WritesAndReadsZip64) {
    for (const auto method : {io::ZipMethod::Stored, io::ZipMethod::Deflated}) {
        io::MemorySink sink;
        io::ZipWriter zip(sink, /*zip64_from=*/1);
        const std::string array = text_of(to_npy(Tensor::from<float>({2}, {1, 2})));
        zip.add("a.npy", array.substr(0, 10), std::as_bytes(std::span(array).subspan(10)), method);
        zip.add("b.npy", array, {}, method);
        zip.finish();
        const Bytes bytes = sink.take();
        // The record of the second entry in the directory: both sizes and the offset.
        EXPECT_NE(text_of(bytes).find("b.npy" + little(1, 2) + little(24, 2)), std::string::npos);
        const TensorSet set = parse_npz(bytes, "a.npz");
        EXPECT_EQ(set.at("a").values(), (std::vector<double>{1, 2}));
        EXPECT_EQ(set.at("b").values(), (std::vector<double>{1, 2}));
    }
}

TEST(Npz, WritesMoreThan65535Arrays) {
    TensorSet set;
    for (int i = 0; i < 65'536; ++i) set.emplace_hint(set.end(), std::to_string(i), Tensor());
    EXPECT_EQ(parse_npz(to_npz(set), "a.npz").size(), set.size());
}

TEST(Npz, RefusesWhatExpandsTooFarUnlessAsked) {
    // Enough bytes that deflate could make 300 MB of them; they are no deflated data.
    const std::string file =
        zip({{.content = std::string(300'000, '\xff'), .method = 8, .size = 300'000'000}});
    EXPECT_THROWS(FileError, "tensor 'a.npy': size: expected at most 268435456 bytes",
                  parse_npz(bytes_of(file), "a.npz"));
    EXPECT_THROWS(FileError, "tensor 'a': data: expected deflated data",
                  parse_npz(bytes_of(file), "a.npz", {.max_expansion = 1032}));
}

TEST(Npz, RefusesArraysThatExpandTooFarTogether) {
    std::vector<ZipPart> parts;
    for (const char* name : {"a.npy", "b.npy"})
        parts.push_back({.name = name,
                         .content = std::string(200'000, '\xff'),
                         .method = 8,
                         .size = 200'000'000});
    EXPECT_THROWS(FileError, "tensor 'b.npy': size: expected at most 268435456 bytes in all arrays",
                  parse_npz(bytes_of(zip(parts)), "a.npz"));
}

TEST(Npz, NamesFileTensorAndFieldOfWhatItRefuses) {
    Bytes bytes = to_npz({{"w", Tensor::from<float>({1}, {1})}});
    bytes[30 + 5 + 128] = std::byte{1};
    const std::string message = file_error([&] { parse_npz(bytes, "a.npz"); });
    EXPECT_TRUE(message.starts_with("[parse_npz] a.npz: tensor 'w': checksum: expected "))
        << message;
}

TEST(Npz, RefusesToWriteWhatItWouldNotRead) {
    const TemporaryFolder folder;
    EXPECT_THROWS(ValueError, "expected a name", to_npz({{"", Tensor()}}));
    EXPECT_THROWS(
        DTypeError, "[save_npz] expected a dtype that NumPy has, got bfloat16",
        (save_npz(folder / "a.npz", {{"a", Tensor()}, {"b", Tensor({1}, DType::BFloat16)}}), 0));
    EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace quern
