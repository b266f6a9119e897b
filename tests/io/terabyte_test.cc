// Files that claim a terabyte are refused at once, in a process that could not hold it.

#include <chrono>

#include "tests/io/archives.h"
#include "tests/io/png_claims.h"

namespace quern {
namespace terabyte_test {

std::string npy(const std::string& descr, const std::string& shape, int version = 1,
                std::uint64_t length_lie = 0) {
    const std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
           little(header.size() + length_lie, version == 1 ? 2 : 4) + header + "1234";
}

std::string safetensors(const std::string& json, std::uint64_t length_lie = 0) {
    return little(json.size() + length_lie, 8) + json + "1234";
}

std::string tensor_of(const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

constexpr std::uint64_t kTera = 1ull << 40;

struct Claim {
    const char* name;
    const char* ending;
    std::string file;
};

std::vector<Claim> claims() {
    const std::string array = npy("<f4", "(1,)");
    return {
        {"npy of one long axis", ".npy", npy("|u1", "(1099511627776,)")},
        {"npy of two axes", ".npy", npy("<f8", "(524288, 262144)")},
        {"npy in Fortran order", ".npy", npy(">f4", "(1048576, 262144)")},
        {"npy with a header of 4 GiB", ".npy", npy("<f4", "(1,)", 2, 0xffffff00)},
        {"npy 3.0 with a header of 2 GiB", ".npy", npy("<f4", "(1,)", 3, 0x7fffff00)},
        {"npz with a stored size", ".npz",
         zip({{.content = array, .stored_size = kTera, .size = kTera, .zip64 = true}})},
        {"npz with an inflated size", ".npz",
         zip({{.content = deflated(array), .method = 8, .size = kTera, .zip64 = true}})},
        {"npz with both sizes", ".npz",
         zip({{.content = deflated(array),
               .method = 8,
               .stored_size = kTera / 1000,
               .size = kTera,
               .zip64 = true}})},
        {"npz with entries", ".npz",
         zip({{.content = array}}, {.zip64 = true, .count64_lie = kTera})},
        {"npz with a directory", ".npz",
         zip({{.content = array}}, {.size_lie = std::int64_t{kTera}, .zip64 = true})},
        {"npz with an array inside", ".npz", zip({{.content = npy("|u1", "(1099511627776,)")}})},
        {"npz with a deflated array inside", ".npz",
         zip({{.content = deflated(npy("|u1", "(1099511627776,)")),
               .method = 8,
               .size = npy("|u1", "(1099511627776,)").size()}})},
        {"png of a million squared", ".png",
         png_claiming({.width = 1'000'000, .height = 1'000'000, .color = 2})},
        {"png of single bits", ".png",
         png_claiming({.width = 1'000'000, .height = 1'000'000, .bits = 1})},
        {"png of 2^31 - 1 squared", ".png",
         png_claiming({.width = 0x7fffffff, .height = 0x7fffffff, .bits = 16, .color = 6})},
        {"png with a chunk of 2 GiB", ".png",
         png_claiming({.chunks = png_number(0x7fffffff) + "iTXtabc"})},
        {"safetensors with a header", ".safetensors", safetensors("{}", kTera)},
        {"safetensors with a header of 100 MB", ".safetensors", safetensors("{}", 99'999'990)},
        {"safetensors with a tensor", ".safetensors",
         safetensors(tensor_of("[1099511627776]", "[0,1099511627776]"))},
        {"safetensors with a shape", ".safetensors",
         safetensors(tensor_of("[1048576,1048576]", "[0,4]"))},
    };
}

/// Loads in a child with 512 MiB of addresses; says "refused" if it costs under 100 ms and 64 MiB.
std::string load_in_child(const std::string& path) {
    return in_child(512 << 20, [&]() -> std::string {
        const auto memory = peak_memory();
        const auto start = std::chrono::steady_clock::now();
        const std::string message = file_error([&] { load(path); });
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
        if (message.empty()) return "loaded";
        // A sanitizer takes its own time.
        if (time.count() > (kSanitized ? 2 : 0.1)) return "slow: " + message;
        if (peak_memory() - memory > (64 << 20)) return "large: " + message;
        return "refused";
    });
}

TEST(Terabytes, AreRefusedAtOnceWithoutMemory) {
    const TemporaryFolder folder;
    const std::vector<Claim> all = claims();
    EXPECT_EQ(all.size(), 20u);
    for (const Claim& claim : all) {
        const std::string path = folder / (std::string("claim") + claim.ending);
        write_bytes(path, claim.file);
        EXPECT_EQ(load_in_child(path), "refused") << claim.name;
    }
}

TEST(Terabytes, ThatAreReallyThereAsAHoleGiveAnError) {
    const TemporaryFolder folder;
    const std::string path = folder / "sparse.safetensors";
    const std::string json = tensor_of("[1099511627776]", "[0,1099511627776]");
    write_bytes(path, little(json.size(), 8) + json);
    std::error_code error;
    std::filesystem::resize_file(path, 8 + json.size() + kTera, error);
    if (error) GTEST_SKIP() << "needs a file system with files of a terabyte: " << error.message();
    if (kSanitized) GTEST_SKIP() << "a sanitizer needs its addresses";
    const std::string result = in_child(512 << 20, [&]() -> std::string {
        try {
            load(path);
        } catch (const OutOfMemory& refusal) {
            return refusal.what();
        }
        return "loaded";
    });
    EXPECT_NE(result.find("1099511627776"), result.npos) << result;
}

}  // namespace terabyte_test
}  // namespace quern
