// What all formats share: the ending of the name, and that a file is written whole or not at all.

#include "tests/io/files.h"

#include <csignal>

#include "quern/io/place.h"

namespace quern {
namespace {

TEST(LoadAndSave, ChooseTheFormatByTheEnding) {
    const TemporaryFolder folder;
    const Tensor image = random_tensor({3, 4, 3}, DType::UInt8, 1);
    for (const char* name : {"a.npy", "a.png", "B.PNG"}) {
        save(folder / name, image);
        EXPECT_TRUE(same(std::get<Tensor>(load(folder / name)), image)) << name;
    }
    for (const char* name : {"a.npz", "a.safetensors"}) {
        save(folder / name, TensorSet{{"image", image}});
        EXPECT_TRUE(same(std::get<TensorSet>(load(folder / name)), {{"image", image}})) << name;
    }
    EXPECT_TRUE(read_bytes(folder / "B.PNG").starts_with("\x89PNG"));
    EXPECT_TRUE(read_bytes(folder / "a.npz").starts_with("PK"));
}

TEST(LoadAndSave, RefuseAnUnknownEnding) {
    for (const char* name : {"a.pt", "npy", "", "a.npy/"}) {
        EXPECT_THROWS(ValueError, "[load] path: expected a name that ends in .npy", load(name));
        EXPECT_THROWS(ValueError, "[save] path: expected a name that ends in .npy",
                      (save(name, Tensor()), 0));
    }
}

TEST(LoadAndSave, RefuseTheOtherKind) {
    EXPECT_THROWS(ValueError, "expected .npy or .png for one tensor, got 'a.npz'",
                  (save("a.npz", Tensor()), 0));
    EXPECT_THROWS(ValueError, "expected .npz or .safetensors for a set of tensors, got 'a.png'",
                  (save("a.png", TensorSet()), 0));
}

TEST(LoadAndSave, RefuseAFolderThatIsNotThere) {
    const TemporaryFolder folder;
    for (const char* name : {"no/a.npy", "no/a.png"})
        EXPECT_THROWS(FileError, name, (save(folder / name, Tensor({1, 1, 1}, DType::UInt8)), 0));
    for (const char* name : {"no/a.npz", "no/a.safetensors"})
        EXPECT_THROWS(FileError, name, (save(folder / name, TensorSet()), 0));
}

TEST(LoadAndSave, LeaveTheOldFileWhenTheDiskIsFull) {
    const TemporaryFolder folder;
    Tensor noise({400, 400, 1}, DType::UInt8);
    Random random(1);
    for (std::size_t i = 0; i < noise.bytes(); ++i)
        noise.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(random.bits());
    for (const char* name : {"a.npy", "a.png", "a.npz", "a.safetensors"}) {
        write_bytes(folder / name, "old");
        const std::string result = in_child(RLIM_INFINITY, [&] {
            const rlimit limit = {64 << 10, 64 << 10};
            std::signal(SIGXFSZ, SIG_IGN);
            ::setrlimit(RLIMIT_FSIZE, &limit);
            const std::string path = folder / name;
            return file_error([&] {
                if (path.ends_with("z") || path.ends_with("s"))
                    save(path, TensorSet{{"noise", noise}});
                else
                    save(path, noise);
            });
        });
        EXPECT_NE(result.find(name), result.npos) << result;
        EXPECT_EQ(read_bytes(folder / name), "old") << name;
    }
    EXPECT_EQ(folder.names().size(), 4u);
}

TEST(IsUtf8, AgreesWithTheStandard) {
    for (const char* text : {"", "a", "\u00e9", "\u20ac", "\U0001f600", "\xf4\x8f\xbf\xbf"})
        EXPECT_TRUE(io::is_utf8(text)) << text;
    for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xc3",
                             "\xe2\x82", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xc3("})
        EXPECT_FALSE(io::is_utf8(text)) << ::testing::PrintToString(text);
}

TEST(InQuotes, ShowsAnyBytesAsShortPrintableText) {
    EXPECT_EQ(io::in_quotes("a b"), "'a b'");
    EXPECT_EQ(io::in_quotes(std::string("\0'\\\n\xff", 5)), R"('\x00\x27\x5c\x0a\xff')");
    EXPECT_EQ(io::in_quotes(std::string(500, 'x')),
              "'" + std::string(60, 'x') + "..." + std::string(60, 'x') + "'");
}

}  // namespace
}  // namespace quern
