#include "quern/runtime/kernel_bundle.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "quern/error.h"
#include "quern/kernel_bundle.h"
#include "tests/folder.h"

// A bundle is read from files: nothing in its bytes may be believed.

namespace quern {
namespace kernel_bundle_test {

ir::Facts facts(std::uint8_t log2, ir::Bucket bucket, std::uint8_t contiguous,
                bool is_streamed = false) {
    ir::Facts facts;
    facts.dims.push_back({false, log2, bucket});
    facts.operands.push_back({DType::Float32, 2, contiguous, 0, false});
    facts.operands.push_back({DType::Float32, 2, contiguous, 6, is_streamed});
    return facts;
}

KernelBundle example() {
    KernelBundle bundle;
    bundle.version = bundle_version();
    bundle.kernels.push_back({"kernel a", {}});
    bundle.kernels.push_back({"kernel b", {}});
    const std::vector<std::byte> image(5, std::byte{7});
    bundle.kernels[0].codes.push_back(
        {cpu::kSimdLevels[0], Numerics::Fast, facts(4, ir::Bucket::Small, 2, true), image});
    bundle.kernels[1].codes.push_back(
        {cpu::kSimdLevels[0], Numerics::Strict, facts(0, ir::Bucket::Large, 0), {}});
    return bundle;
}

TEST(KernelBundle, ComesBackFromItsBytes) {
    const KernelBundle bundle = example();
    const auto bytes = to_bytes(bundle);
    const KernelBundle read = bundle_from(bytes, "file");
    EXPECT_EQ(read.version, bundle.version);
    ASSERT_EQ(read.kernels.size(), 2u);
    EXPECT_EQ(read.kernels[0].text, "kernel a");
    const KernelBundle::Code& code = read.kernels[0].codes.at(0);
    EXPECT_EQ(code.simd, cpu::kSimdLevels[0]);
    EXPECT_EQ(code.numerics, Numerics::Fast);
    EXPECT_EQ(code.facts, bundle.kernels[0].codes[0].facts);
    EXPECT_EQ(code.image, bundle.kernels[0].codes[0].image);
    EXPECT_EQ(to_bytes(read), bytes);
}

TEST(KernelBundle, IsRefusedWhereItIsCutOff) {
    const auto bytes = to_bytes(example());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_THROW(bundle_from(std::span(bytes).first(size), "file"), FileError) << size;
    }
}

TEST(KernelBundle, IsRefusedWithAnyByteChanged) {
    const auto bytes = to_bytes(example());
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        auto changed = bytes;
        changed[at] ^= std::byte{1};
        EXPECT_THROW(bundle_from(changed, "file"), FileError) << at;
    }
}

/// With the checksum that the rest should have.
std::vector<std::byte> with_checksum(std::vector<std::byte> bytes) {
    constexpr std::size_t kAt = 8, kHead = 12;
    const auto* rest = reinterpret_cast<const Bytef*>(bytes.data() + kHead);
    const auto checksum = std::uint32_t(::crc32_z(0, rest, bytes.size() - kHead));
    for (std::size_t i = 0; i < 4; ++i) bytes[kAt + i] = std::byte(checksum >> 8 * i & 0xFF);
    return bytes;
}

TEST(KernelBundle, IsRefusedWhereItIsCutOffUnderARightChecksum) {
    auto bytes = to_bytes(example());
    EXPECT_EQ(with_checksum(bytes), bytes);
    while (bytes.size() > 12) {
        bytes.pop_back();
        EXPECT_THROW(bundle_from(with_checksum(bytes), "file"), FileError) << bytes.size();
    }
    bytes = to_bytes(example());
    bytes.push_back(std::byte{0});
    EXPECT_THROW(bundle_from(with_checksum(bytes), "file"), FileError);
}

TEST(KernelBundle, WithNumbersThatNothingHasIsRefusedUnderARightChecksum) {
    const auto refuses = [](auto change) {
        KernelBundle bundle = example();
        change(bundle.kernels[0].codes[0]);
        EXPECT_THROW(bundle_from(to_bytes(bundle), "file"), FileError);
    };
    refuses([](auto& code) { code.simd = cpu::Simd(9); });
    refuses([](auto& code) { code.numerics = Numerics(3); });
    refuses([](auto& code) { code.facts.dims[0].divisible_log2 = 8; });
    refuses([](auto& code) { code.facts.dims[0].bucket = ir::Bucket(3); });
    refuses([](auto& code) { code.facts.operands[0].dtype = DType(99); });
    refuses([](auto& code) { code.facts.operands[1].contiguous_axes = 3; });
    refuses([](auto& code) { code.facts.operands[1].aligned_log2 = 8; });
    refuses([](auto& code) { code.facts.operands.clear(); });
}

TEST(KernelBundle, NamesTheFileThatIsDamaged) {
    const TestFolder folder;
    const std::string path = folder / "program.kernels";
    std::ofstream(path) << std::string(100, 'x');
    try {
        load_kernels(path);
        FAIL();
    } catch (const FileError& error) {
        EXPECT_EQ(std::string(error.what()),
                  "[load_kernels] " + path + ": expected baked kernels, got something else");
    }
    EXPECT_THROW(load_kernels(folder / "absent"), FileError);
}

TEST(KernelBundle, OfAnotherVersionIsRefused) {
    KernelBundle bundle = example();
    bundle.version = "0123456789abcdef";
    try {
        load_kernels(to_bytes(bundle));
        FAIL();
    } catch (const FileError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("expected kernels of version " + bundle_version() +
                               ", got 0123456789abcdef"),
                  std::string::npos)
            << message;
    }
    EXPECT_FALSE(has_loaded_kernels());
}

TEST(KernelBundle, OfAnotherProcessorIsRefused) {
    KernelBundle bundle = example();
    const bool is_arm = cpu::has(cpu::Simd::Neon);
    for (auto& kernel : bundle.kernels) {
        kernel.codes[0].simd = is_arm ? cpu::Simd::Avx2 : cpu::Simd::Neon;
    }
    EXPECT_THROW(load_kernels(to_bytes(bundle)), FileError);
    EXPECT_FALSE(has_loaded_kernels());
}

TEST(KernelBundle, VersionDoesNotDependOnTheCompiler) {
    EXPECT_EQ(bundle_version().size(), 16u);
    EXPECT_EQ(std::string(cpu::code_version()).find(bundle_version() + "-llvm-"), 0u);
}

TEST(KernelBundle, PutsCodeFirstThatAssumesMostOfALaunch) {
    using ir::Bucket;
    const ir::Facts any = facts(0, Bucket::Large, 0), rows = facts(0, Bucket::Large, 2),
                    even = facts(1, Bucket::Small, 2), whole = facts(6, Bucket::Small, 2),
                    streamed = facts(6, Bucket::Small, 2, true);
    std::vector<KernelBundle::Code> codes;
    for (const ir::Facts& each : {any, even, streamed, rows, whole}) {
        codes.push_back({cpu::Simd::Sse41, Numerics::Strict, each, {}});
    }
    codes.push_back({cpu::Simd::Avx2, Numerics::Strict, any, {}});
    put_best_first(codes);
    EXPECT_EQ(codes[0].simd, cpu::Simd::Avx2);
    std::size_t at = 1;
    for (const ir::Facts& each : {streamed, whole, even, rows, any}) {
        EXPECT_EQ(codes[at++].facts, each) << at;
    }
}

}  // namespace kernel_bundle_test
}  // namespace quern
