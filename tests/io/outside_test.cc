// Files that others made: the vectors of safetensors' own tests, NumPy's object arrays, weights and
// images in use.

#include <nlohmann/json.hpp>

#include "tests/io/files.h"

namespace quern {
namespace {

/// What our message says for each class of error of the Rust implementation.
std::string part_of_message(const std::string& expectation) {
    const std::map<std::string, std::string> parts = {
        {"reject:MetadataIncompleteBuffer", "data"},
        {"reject:HeaderTooLarge", "header length: expected at most 100000000, got"},
        {"reject:HeaderTooSmall", "header length: expected 8 bytes, got 0"},
        {"reject:InvalidHeaderLength", "header length: expected at most the rest of the file, 0"},
        {"reject:InvalidHeader", "header: expected UTF-8"},
        {"reject:InvalidHeaderDeserialization", "header: expected JSON, got an error at byte"},
        {"reject:TensorInvalidInfo", "tensor 'test': data_offsets: expected 16 bytes"},
        {"reject:ValidationOverflow", "tensor 'test': shape: expected"}};
    return parts.at(expectation);
}

TEST(OutsideVectors, AreAcceptedOrRefusedAsTheirManifestSays) {
    const std::string folder = test_data("safetensors/vectors");
    QUERN_NEEDS_FILE(folder + "/manifest.json");
    const auto manifest = nlohmann::json::parse(read_bytes(folder + "/manifest.json"));
    ASSERT_EQ(manifest.size(), 16u);
    for (const auto& row : manifest) {
        const std::string name = row.at("file");
        const std::string expect = row.at("expect");
        const std::string message = file_error([&] { load_safetensors(folder + "/" + name); });
        if (expect == "accept") {
            EXPECT_EQ(message, "") << name;
        } else {
            EXPECT_NE(message.find(name), message.npos) << name << ": " << message;
            EXPECT_NE(message.find(part_of_message(expect)), message.npos)
                << name << ": " << message;
        }
    }
}

TEST(OutsideVectors, HaveTheValuesThatTheyShow) {
    const std::string path = test_data("safetensors/vectors/test_deserialization_0.safetensors");
    QUERN_NEEDS_FILE(path);
    EXPECT_TRUE(same(load_safetensors(path), {{"test", Tensor({2, 2}, DType::Int32)}}));
}

TEST(OutsideData, WeightsOfAnMnistModelLoad) {
    const std::string path = test_data("safetensors/burn_mnist.safetensors");
    QUERN_NEEDS_FILE(path);
    const TensorSet set = load_safetensors(path);
    EXPECT_EQ(set.at("conv1.weight").shape(), (Shape{8, 1, 3, 3}));
    EXPECT_EQ(set.at("norm1.num_batches_tracked").dtype(), DType::Int64);
    EXPECT_TRUE(same(parse_safetensors(to_safetensors(set), "again"), set));
}

TEST(OutsideData, ANumPyArrayLoads) {
    const std::string path = test_data("safetensors/burn_mnist_logprobs_first256.npy");
    QUERN_NEEDS_FILE(path);
    const Tensor tensor = load_npy(path);
    EXPECT_EQ(tensor.shape(), (Shape{256, 10}));
    double sum = 0;
    for (const double value : tensor.slice(0, 0, 1).values()) sum += std::exp(value);
    EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(OutsideData, ArraysOfObjectsAreRefused) {
    const std::string npy = test_data("numpy/py3-objarr.npy");
    const std::string npz = test_data("numpy/py3-objarr.npz");
    QUERN_NEEDS_FILE(npy);
    EXPECT_THROWS(FileError, "descr: expected '<' or '>' and one of", load_npy(npy));
    EXPECT_THROWS(FileError, "got '|O' (objects, which need pickle and can run code)",
                  load_npy(npy));
    EXPECT_THROWS(FileError, "(objects, which need pickle and can run code)", load_npz(npz));
}

TEST(OutsideData, SheetsOfCifarImagesLoad) {
    const std::string path = test_data("cifar10/cifar10_batch_50.png");
    QUERN_NEEDS_FILE(path);
    const Tensor image = load_png(path);
    EXPECT_EQ(image.shape(), (Shape{1000, 1024, 3}));
    EXPECT_EQ(image.dtype(), DType::UInt8);
    EXPECT_TRUE(same(parse_png(to_png(image), "again"), image));
}

}  // namespace
}  // namespace quern
