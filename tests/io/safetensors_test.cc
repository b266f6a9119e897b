#include "tests/io/files.h"

namespace quern {
namespace safetensors_test {

std::string safetensors(const std::string& json, std::string_view data = {}) {
    return little(json.size(), 8) + json + std::string(data);
}

TensorSet parse(const std::string& text, FileMetadata* metadata = nullptr) {
    return parse_safetensors(bytes_of(text), "m.safetensors", metadata);
}

TEST(Safetensors, RoundTripsEveryDTypeAndShape) {
    TensorSet set;
    for (const DType dtype : kAllDTypes)
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 4}})
            set.emplace(std::string(to_string(dtype)) + to_string(shape),
                        random_tensor(shape, dtype, set.size()));
    const FileMetadata metadata = {{"format", "pt"}, {"note", "\"\\\n\x01 \u00e9"}};
    FileMetadata read;
    EXPECT_TRUE(same(parse(text_of(to_safetensors(set, metadata)), &read), set));
    EXPECT_EQ(read, metadata);
}

TEST(Safetensors, SortsByElementSizeThenNameAndPadsTheHeader) {
    const TensorSet set = {{"a", Tensor::from<std::uint8_t>({1}, {1})},
                           {"b", Tensor::from<float>({1}, {0})},
                           {"c", Tensor::from<double>({1}, {0})},
                           {"d", Tensor::from<float>({}, {0})}};
    const std::string text = text_of(to_safetensors(set));
    const std::string json = R"({"c":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
                             R"("d":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
                             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[16,17]}})";
    const std::size_t padded = (json.size() + 7) / 8 * 8;
    EXPECT_EQ(text.substr(0, 8), little(padded, 8));
    EXPECT_EQ(text.substr(8, padded), json + std::string(padded - json.size(), ' '));
    EXPECT_EQ(text.size(), 8 + padded + 17);
}

TEST(Safetensors, WritesTheEmptySet) {
    EXPECT_EQ(text_of(to_safetensors({})), little(8, 8) + "{}      ");
    EXPECT_TRUE(parse(text_of(to_safetensors({}))).empty());
}

TEST(Safetensors, ReadsTensorsInAnyOrderOfTheHeader) {
    const TensorSet set = parse(
        safetensors(R"({"b":{"data_offsets":[1,2],"shape":[1],"dtype":"U8"},"__metadata__":{},)"
                    R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                    "\x05\x06"));
    EXPECT_EQ(set.at("a").item(), 5);
    EXPECT_EQ(set.at("b").item(), 6);
}

TEST(Safetensors, ReadsAnyByteOfABoolThatIsNotZeroAsTrue) {
    const TensorSet set = parse(safetensors(
        R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", std::string("\x00\x02", 2)));
    EXPECT_EQ(text_of({static_cast<const std::byte*>(set.at("a").data()), 2}),
              std::string("\x00\x01", 2));
}

TEST(Safetensors, WritesANonContiguousTensorInRowMajorOrder) {
    const Tensor tensor = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}).permute({1, 0});
    EXPECT_EQ(parse(text_of(to_safetensors({{"a", tensor}}))).at("a").values(),
              (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Safetensors, SavesAndLoadsThroughAFile) {
    const TemporaryFolder folder;
    const TensorSet set = {{"w", random_tensor({4, 4}, DType::BFloat16, 1)}};
    FileMetadata metadata;
    save_safetensors(folder / "m.safetensors", set, {{"k", "v"}});
    EXPECT_TRUE(same(load_safetensors(folder / "m.safetensors", &metadata), set));
    EXPECT_EQ(metadata, (FileMetadata{{"k", "v"}}));
    EXPECT_EQ(read_bytes(folder / "m.safetensors"), text_of(to_safetensors(set, metadata)));
}

TEST(Safetensors, NamesFileTensorAndField) {
    EXPECT_EQ(file_error([] {
                  parse(safetensors(R"({"a.b":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                                    "1234"));
              }),
              "[parse_safetensors] m.safetensors: tensor 'a.b': data_offsets: expected 8 bytes for "
              "shape [2] of float32, got [0, 4]");
}

TEST(Safetensors, LeavesMetadataAloneOnAnError) {
    FileMetadata metadata = {{"kept", "yes"}};
    file_error([&] { parse(safetensors(R"({"__metadata__":{"a":"b"},"x":1})"), &metadata); });
    EXPECT_EQ(metadata, (FileMetadata{{"kept", "yes"}}));
}

TEST(Safetensors, RefusesToWriteNamesThatItWouldNotRead) {
    const auto write = [](const std::string& name) { to_safetensors({{name, Tensor()}}); };
    EXPECT_THROWS(ValueError, "expected a name, got an empty text", (write(""), 0));
    EXPECT_THROWS(ValueError, "reserved", (write("__metadata__"), 0));
    EXPECT_THROWS(ValueError, "without NUL", (write(std::string("a\0b", 3)), 0));
    EXPECT_THROWS(ValueError, "expected UTF-8", (write("\xff"), 0));
    EXPECT_THROWS(ValueError, "expected at most 4096 bytes, got 4097",
                  (write(std::string(4097, 'n')), 0));
    EXPECT_THROWS(ValueError, "metadata in UTF-8", to_safetensors({}, {{"a", "\xc0\x80"}}));
    EXPECT_THROWS(ShapeError, "at most 64 axes", to_safetensors({{"a", Tensor(Shape(65, 1))}}));
    EXPECT_NO_THROW(write(std::string(4096, 'n')));
}

TEST(Safetensors, RefusesToWriteMoreTensorsThanItReads) {
    TensorSet set;
    const Tensor scalar;
    for (int i = 0; i <= 262'144; ++i) set.emplace_hint(set.end(), std::to_string(i), scalar);
    EXPECT_THROWS(ValueError, "expected at most 262144 tensors, got 262145", to_safetensors(set));
    FileMetadata texts;
    for (int i = 0; i <= 262'144; ++i) texts.emplace_hint(texts.end(), std::to_string(i), "");
    EXPECT_THROWS(ValueError, "at most 262144 texts of metadata, got 262145",
                  to_safetensors({}, texts));
}

}  // namespace safetensors_test
}  // namespace quern
