#include "quern/support/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/tensor_test.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCap = 1 << 20;

/// A folder of its own for each test.
class Files : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "quern_files_XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        // Tests that give up root's rights still need to get in.
        fs::permissions(folder_, fs::perms::all);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string at(const std::string& name) const { return (folder_ / name).string(); }

    std::string make(const std::string& name, const std::string& text) const {
        std::ofstream(at(name), std::ios::binary) << text;
        return at(name);
    }

    std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
    }

    fs::path folder_;
};
using ReadFile = Files;
using MapFile = Files;
using WriteFile = Files;

/// Exits with 0 if `action` throws FileError with `part` in its message.
template <class Action>
[[noreturn]] void exit_by_message(Action action, const std::string& part) {
    std::_Exit(throws<FileError>(action, part) ? 0 : 1);
}

/// The root user may do everything; tests of permissions give that up, in a process of their own.
void become_nobody() {
    if (::geteuid() == 0 && ::setuid(65534) != 0) std::_Exit(2);
}

TEST_F(ReadFile, ReturnsAllBytes) {
    const std::string text("a\0b\n\xff", 5);
    EXPECT_EQ(read_text(make("bytes", text), kCap), text);
    EXPECT_EQ(read_file(at("bytes"), kCap).size(), 5u);
    EXPECT_EQ(read_file(at("bytes"), kCap)[4], std::byte{0xff});
    EXPECT_EQ(read_text(make("empty", ""), kCap), "");
    const std::string large(300'000, 'x');
    EXPECT_EQ(read_text(make("large", large), kCap), large);
}

TEST_F(ReadFile, ReadsFilesThatDoNotKnowTheirSize) {
    EXPECT_NE(read_text("/proc/self/status", kCap).find("Name:"), std::string::npos);
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    std::thread writer([this] { std::ofstream(at("pipe")) << std::string(200'000, 'p'); });
    EXPECT_EQ(read_text(at("pipe"), kCap), std::string(200'000, 'p'));
    writer.join();
}

TEST_F(ReadFile, NamesThePathAndTheReason) {
    EXPECT_THROWS(FileError, "[file] cannot open '" + at("none") + "': No such file or directory",
                  read_file(at("none"), kCap));
    EXPECT_THROWS(FileError, "[file] cannot read '" + folder_.string() + "': Is a directory",
                  read_file(folder_.string(), kCap));
    EXPECT_THROWS(FileError, "[file] cannot open '': No such file", read_file("", kCap));
    const std::string hidden = make("short", "text") + std::string("\0.txt", 5);
    EXPECT_THROWS(FileError,
                  "[file] expected a path without zero bytes, got '" + at("short") + "' and a zero",
                  read_file(hidden, kCap));
}

TEST_F(ReadFile, RefusesMoreThanItsCap) {
    make("ten", "0123456789");
    EXPECT_EQ(read_text(at("ten"), 10), "0123456789");
    EXPECT_THROWS(FileError, "[file] expected at most 9 bytes in '" + at("ten") + "', got 10",
                  read_file(at("ten"), 9));
    EXPECT_THROWS(FileError, "[file] expected at most 1000 bytes in '/dev/zero', got more",
                  read_file("/dev/zero", 1000));
}

TEST_F(ReadFile, RefusesAFileOfAnotherUser) {
    const std::string path = make("secret", "text");
    fs::permissions(path, fs::perms::none);
    EXPECT_EXIT(
        {
            become_nobody();
            const std::string message = "cannot open '" + path + "': Permission denied";
            exit_by_message([&] { read_file(path, kCap); }, message);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST_F(MapFile, ShowsAllBytes) {
    const MappedFile file(make("file", "some text"));
    EXPECT_EQ(std::memcmp(file.bytes().data(), "some text", 9), 0);
    EXPECT_EQ(file.bytes().size(), 9u);
    EXPECT_TRUE(MappedFile(make("empty", "")).bytes().empty());
}

TEST_F(MapFile, MovesAndStaysMapped) {
    MappedFile first(make("first", "1111"));
    MappedFile second(make("second", "22"));
    first = std::move(second);
    const MappedFile third(std::move(first));
    EXPECT_EQ(third.bytes().size(), 2u);
    EXPECT_EQ(third.bytes()[1], std::byte{'2'});
    EXPECT_TRUE(first.bytes().empty());
}

TEST_F(MapFile, IsUnmappedAtTheEnd) {
    const auto is_mapped = [](const std::string& path) {
        return read_text("/proc/self/maps", 1 << 24).find(path) != std::string::npos;
    };
    {
        const MappedFile file(make("file", "text"));
        EXPECT_TRUE(is_mapped(at("file")));
    }
    EXPECT_FALSE(is_mapped(at("file")));
}

TEST_F(MapFile, RefusesWhatIsNoRegularFile) {
    EXPECT_THROWS(FileError, "cannot open '" + at("none") + "': No such file",
                  MappedFile(at("none")));
    EXPECT_THROWS(FileError, "Is a directory", MappedFile(folder_.string()));
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    EXPECT_THROWS(FileError, "[file] expected '" + at("pipe") + "' to be a regular file",
                  MappedFile(at("pipe")));
}

TEST_F(WriteFile, AppearsWhenItIsCommitted) {
    {
        AtomicFile file(at("new"));
        file.write("one ");
        file.write(std::as_bytes(std::span("two", 3)));
        EXPECT_FALSE(fs::exists(at("new")));
        file.commit();
        EXPECT_EQ(read_text(at("new"), kCap), "one two");
    }
    EXPECT_EQ(read_text(at("new"), kCap), "one two");
    EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, LeavesNothingWithoutCommit) {
    make("old", "old text");
    {
        AtomicFile fresh(at("new")), replacing(at("old"));
        fresh.write("text");
        replacing.write("text");
        EXPECT_EQ(files(), 3u);
    }
    EXPECT_EQ(files(), 1u);
    EXPECT_EQ(read_text(at("old"), kCap), "old text");
}

TEST_F(WriteFile, ReplacesAFileAtOnceAndKeepsItsPermissions) {
    make("file", "old text, which is longer");
    fs::permissions(at("file"), fs::perms::owner_read | fs::perms::owner_write);
    const MappedFile old(at("file"));
    AtomicFile file(at("file"));
    file.write("new");
    EXPECT_EQ(read_text(at("file"), kCap), "old text, which is longer");
    file.commit();
    EXPECT_EQ(read_text(at("file"), kCap), "new");
    EXPECT_EQ(old.bytes().size(), 25u) << "who has the old file open keeps it whole";
    EXPECT_EQ(fs::status(at("file")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, GivesANewFileThePermissionsOfTheProcess) {
    const mode_t before = ::umask(027);
    AtomicFile file(at("new"));
    file.commit();
    ::umask(before);
    EXPECT_EQ(static_cast<int>(fs::status(at("new")).permissions()), 0640);
}

TEST_F(WriteFile, KeepsASymbolicLink) {
    make("target", "old");
    fs::create_symlink(at("target"), at("link"));
    AtomicFile file(at("link"));
    file.write("new");
    file.commit();
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_EQ(read_text(at("target"), kCap), "new");
}

TEST_F(WriteFile, ServesTwoWritersOfOneName) {
    AtomicFile first(at("file")), second(at("file"));
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
    EXPECT_EQ(read_text(at("file"), kCap), "first");
    EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, LeavesTemporaryFilesOfOthersAlone) {
    const std::string prefix = ".quern-" + std::to_string(::getpid()) + "-";
    for (int i = 0; i < 200; ++i) make(prefix + std::to_string(i) + ".tmp", "of others");
    AtomicFile file(at("file"));
    file.write("text");
    file.commit();
    EXPECT_EQ(files(), 201u);
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(read_text(at(prefix + std::to_string(i) + ".tmp"), kCap), "of others");
    }
}

TEST_F(WriteFile, WritesBesideTheWorkingFolder) {
    const fs::path before = fs::current_path();
    fs::current_path(folder_);
    AtomicFile file("relative");
    file.write("text");
    EXPECT_EQ(files(), 1u) << "the temporary file is in the same folder";
    file.commit();
    fs::current_path(before);
    EXPECT_EQ(read_text(at("relative"), kCap), "text");
}

TEST_F(WriteFile, RefusesWhatItCannotReplace) {
    EXPECT_THROWS(FileError, "cannot write '" + folder_.string() + "': Is a directory",
                  AtomicFile(folder_.string()));
    EXPECT_THROWS(FileError, "expected '/dev/null' to be a regular file or absent",
                  AtomicFile("/dev/null"));
    EXPECT_THROWS(FileError,
                  "cannot create a temporary file beside '" + at("none/file") +
                      "': No such file or directory",
                  AtomicFile(at("none/file")));
    EXPECT_THROWS(FileError, "cannot write '': No such file", AtomicFile(""));
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriteFile, LeavesNothingWhenItCannotBeRenamed) {
    AtomicFile file(at("name"));
    file.write("text");
    fs::create_directory(at("name"));
    EXPECT_THROWS(FileError, "cannot replace '" + at("name") + "': Is a directory", file.commit());
    EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, RefusesAReadOnlyFileOrFolder) {
    const std::string path = make("file", "text");
    fs::permissions(path, fs::perms::owner_read | fs::perms::others_read);
    EXPECT_EXIT(
        {
            become_nobody();
            const std::string message = "cannot write '" + path + "': Permission denied";
            exit_by_message([&] { AtomicFile file(path); }, message);
        },
        ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(
        {
            fs::permissions(folder_, fs::perms::others_read | fs::perms::others_exec);
            become_nobody();
            exit_by_message([&] { AtomicFile file(at("new")); }, "Permission denied");
        },
        ::testing::ExitedWithCode(0), "");
    fs::permissions(folder_, fs::perms::all);
}

TEST_F(WriteFile, LeavesNothingWhenTheDiskIsFull) {
    EXPECT_EXIT(
        {
            // A limit on the size of files stands for the disk. SIGXFSZ is not ignored: what would
            // be beyond the limit is not written.
            rlimit limit;
            limit.rlim_cur = limit.rlim_max = 1000;
            ::setrlimit(RLIMIT_FSIZE, &limit);
            std::optional<AtomicFile> file(std::in_place, at("large"));
            const std::string text(5000, 'x');
            const std::string message = "cannot write '" + at("large") + "': File too large";
            const bool refused = bool(throws<FileError>([&] { file->write(text); }, message));
            const bool nothing_left = files() == 0;
            file.reset();
            std::_Exit(refused && nothing_left ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST_F(WriteFile, IsCommittedOnce) {
    AtomicFile file(at("file"));
    file.commit();
    EXPECT_THROWS(InternalError, "a file is committed once; please report", file.commit());
    EXPECT_THROWS(InternalError, "written to before it is committed", file.write("more"));
    EXPECT_EQ(read_text(at("file"), kCap), "");
}

}  // namespace
}  // namespace quern
