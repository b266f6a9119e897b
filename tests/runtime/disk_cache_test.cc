#include "quern/runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "quern/error.h"
#include "tests/folder.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRoom = 1 << 20;

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// Collects warnings while it lives.
class Warnings {
public:
    Warnings()
        : before_(set_warning_handler([this](const Diagnostic& d) { list_.push_back(d); })) {}
    ~Warnings() { set_warning_handler(before_); }
    Warnings(const Warnings&) = delete;
    Warnings& operator=(const Warnings&) = delete;

    const std::vector<Diagnostic>& list() const { return list_; }

private:
    std::vector<Diagnostic> list_;
    WarningHandler before_;
};

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
}

bool is_root() { return geteuid() == 0; }

TEST(DiskCacheTest, GivesBackWhatWasWrittenUnderAKey) {
    const TestFolder folder;
    const Warnings warnings;
    const DiskCache cache(folder / "a/b/cache", kRoom);
    EXPECT_FALSE(cache.read("key"));
    cache.write("key", bytes_of("value"));
    cache.write("other key", bytes_of(""));
    EXPECT_EQ(cache.read("key"), bytes_of("value"));
    EXPECT_EQ(cache.read("other key"), bytes_of(""));
    EXPECT_FALSE(cache.read("a third"));
    cache.write("key", bytes_of("new"));
    EXPECT_EQ(cache.read("key"), bytes_of("new"));
    EXPECT_TRUE(warnings.list().empty());
}

TEST(DiskCacheTest, KeepsItsFolderAndFilesToItsUser) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", kRoom);
    cache.write("key", bytes_of("value"));
    struct stat status;
    ASSERT_EQ(stat((folder / "cache").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    ASSERT_EQ(stat(cache.path_of("key").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

/// Changes the file of an entry; it must then be left out with one warning that says `what`, and
/// come back when it is written again.
void expect_refused(const std::function<void(const std::string& path)>& spoil,
                    const std::string& what) {
    SCOPED_TRACE(what);
    const TestFolder folder;
    const Warnings warnings;
    const DiskCache cache(folder / "cache", kRoom);
    cache.write("key", bytes_of("value"));
    spoil(cache.path_of("key"));
    EXPECT_FALSE(cache.read("key"));
    ASSERT_EQ(warnings.list().size(), 1u);
    EXPECT_EQ(warnings.list()[0].severity, Severity::Warning);
    EXPECT_EQ(warnings.list()[0].file, cache.path_of("key"));
    EXPECT_NE(warnings.list()[0].message.find(what), std::string::npos)
        << warnings.list()[0].message;
}

TEST(DiskCacheTest, LeavesOutWhatIsDamaged) {
    expect_refused([](const std::string& path) { replace(path, ""); }, "cut off");
    expect_refused([](const std::string& path) { fs::resize_file(path, 10); }, "cut off");
    expect_refused([](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); },
                   "sizes are not its size");
    expect_refused([](const std::string& path) { replace(path, content_of(path) + "more"); },
                   "sizes are not its size");
    expect_refused(
        [](const std::string& path) { replace(path, std::string(content_of(path).size(), '\0')); },
        "something else");
    for (std::size_t bit = 0; bit < 40 * 8; bit += 5) {
        expect_refused(
            [&](const std::string& path) {
                std::string content = content_of(path);
                ASSERT_GT(content.size() * 8, bit);
                content[bit / 8] = char(content[bit / 8] ^ (1 << bit % 8));
                replace(path, content);
            },
            "expected a compiled kernel");
    }
}

TEST(DiskCacheTest, LeavesOutTheEntryOfAnotherKey) {
    const TestFolder folder;
    const Warnings warnings;
    const DiskCache cache(folder / "cache", kRoom);
    cache.write("one", bytes_of("value"));
    fs::copy_file(cache.path_of("one"), cache.path_of("two"));
    EXPECT_FALSE(cache.read("two"));
    ASSERT_EQ(warnings.list().size(), 1u);
    EXPECT_NE(warnings.list()[0].message.find("one of another kernel"), std::string::npos);
}

TEST(DiskCacheTest, LeavesOutWhatIsNoFile) {
    expect_refused(
        [](const std::string& path) {
            fs::remove(path);
            fs::create_directory(path);
        },
        "something that is no file");
    expect_refused(
        [](const std::string& path) {
            fs::remove(path);
            ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
        },
        "something that is no file");
    expect_refused(
        [](const std::string& path) {
            fs::rename(path, path + ".real");
            fs::create_symlink(path + ".real", path);
        },
        "");
}

TEST(DiskCacheTest, ReplacesAnEmptyFolderAndLeavesOneWithFiles) {
    for (const bool has_file : {false, true}) {
        const TestFolder folder;
        const Warnings warnings;
        const DiskCache cache(folder / "cache", kRoom);
        cache.write("other", bytes_of("value"));
        const fs::path place = cache.path_of("key");
        fs::create_directory(place);
        if (has_file) std::ofstream(place / "file") << "theirs";
        EXPECT_FALSE(cache.read("key"));
        cache.write("key", bytes_of("value"));
        EXPECT_EQ(warnings.list().size(), 1u);
        EXPECT_EQ(fs::exists(place / "file"), has_file);
        EXPECT_EQ(fs::is_regular_file(place), !has_file);
        EXPECT_EQ(cache.read("key").has_value(), !has_file);
        EXPECT_EQ(std::distance(fs::directory_iterator(folder / "cache"), {}), 2)
            << "no temporary file is left";
    }
}

TEST(DiskCacheTest, LeavesOutWhatOthersMayWrite) {
    expect_refused([](const std::string& path) { chmod(path.c_str(), 0666); },
                   "something that others may write to");
    expect_refused([](const std::string& path) { chmod(path.c_str(), 0620); },
                   "something that others may write to");
    if (!is_root()) GTEST_SKIP() << "only root can give a file to another user";
    expect_refused([](const std::string& path) { ASSERT_EQ(chown(path.c_str(), 12345, 0), 0); },
                   "something of another user");
}

TEST(DiskCacheTest, UsesNoFolderThatIsNotItsUsersAlone) {
    const TestFolder folder;
    const DiskCache real(folder / "real", kRoom);
    real.write("key", bytes_of("value"));
    const auto expect_unused = [&](const std::string& path, const std::string& got) {
        const Warnings warnings;
        const DiskCache cache(path, kRoom);
        EXPECT_FALSE(cache.read("key"));
        ASSERT_EQ(warnings.list().size(), 1u);
        EXPECT_TRUE(warnings.list()[0].message.ends_with(", got " + got))
            << warnings.list()[0].message;
        cache.write("new", bytes_of("value"));
        EXPECT_FALSE(fs::exists(cache.path_of("new")));
    };
    fs::create_directory_symlink(folder / "real", folder / "link");
    expect_unused(folder / "link", "a symbolic link");
    replace(folder / "file", "text");
    expect_unused(folder / "file", "Not a directory");
    chmod((folder / "real").c_str(), 0777);
    expect_unused(folder / "real", "something that others may write to");
    chmod((folder / "real").c_str(), 0700);
    EXPECT_TRUE(real.read("key"));
    if (!is_root()) GTEST_SKIP() << "only root can give a folder to another user";
    ASSERT_EQ(chown((folder / "real").c_str(), 12345, 0), 0);
    expect_unused(folder / "real", "something of another user");
}

TEST(DiskCacheTest, WarnsOfAFolderThatCannotBeMade) {
    const TestFolder folder;
    replace(folder / "file", "text");
    const Warnings warnings;
    const DiskCache cache(folder / "file/cache", kRoom);
    cache.write("key", bytes_of("value"));
    EXPECT_EQ(warnings.list().size(), 1u);
}

TEST(DiskCacheTest, LeavesNothingHalfWrittenOnAFullDisk) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", kRoom);
    cache.write("first", bytes_of("value"));
    // A limit on the size of files stands in for a full disk.
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{100, 100};
        setrlimit(RLIMIT_FSIZE, &limit);
        int warned = 0;
        set_warning_handler([&](const Diagnostic&) { ++warned; });
        cache.write("second", std::vector<std::byte>(1000));
        _exit(warned == 1 && !cache.read("second") ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder / "cache")) {
        files += entry.path().extension() == ".qk" ? 1 : 100;
    }
    EXPECT_EQ(files, 1);
}

TEST(DiskCacheTest, IsNotHinderedByWhatAKilledProcessOfTheSameNumberLeft) {
    const TestFolder folder;
    const Warnings warnings;
    const DiskCache cache(folder / "cache", kRoom);
    cache.write("key", bytes_of("value"));
    const std::string left = cache.path_of("key") + '-' + std::to_string(getpid()) + "-0.tmp";
    replace(left, "half");
    cache.write("key", bytes_of("another"));
    EXPECT_EQ(cache.read("key"), bytes_of("another"));
    EXPECT_EQ(warnings.list().size(), 0u);
    EXPECT_TRUE(fs::exists(left));
}

TEST(DiskCacheTest, RemovesWhatWasNotUsedForLongest) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", 10000);
    const auto now = fs::file_time_type::clock::now();
    for (int i = 0; i < 9; ++i) {
        const std::string key = "key" + std::to_string(i);
        cache.write(key, std::vector<std::byte>(1000));
        fs::last_write_time(cache.path_of(key), now - std::chrono::hours(100 - i));
    }
    // It was used long ago, and counts as used from now on.
    EXPECT_TRUE(cache.read("key0"));
    cache.write("one more", std::vector<std::byte>(1000));
    EXPECT_TRUE(cache.read("key0"));
    EXPECT_FALSE(cache.read("key1"));
    EXPECT_FALSE(cache.read("key2"));
    EXPECT_TRUE(cache.read("key8"));
    EXPECT_TRUE(cache.read("one more"));
}

TEST(DiskCacheTest, IsSharedByManyProcessesThatFindEntriesWholeOrNotAtAll) {
    const TestFolder folder;
    constexpr int kProcesses = 16, kKeys = 50;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
        const pid_t child = fork();
        if (child != 0) {
            children.push_back(child);
            continue;
        }
        int failures = 0;
        set_warning_handler([&](const Diagnostic&) { ++failures; });
        const DiskCache cache(folder / "cache", kRoom);
        for (int round = 0; round < 4; ++round) {
            for (int k = 0; k < kKeys; ++k) {
                const std::string key = "key" + std::to_string((k * 7 + p) % kKeys);
                const auto value = bytes_of(key + std::string(5000, 'x'));
                const auto found = cache.read(key);
                if (found && *found != value) ++failures;
                if (!found || round == 2) cache.write(key, value);
            }
        }
        _exit(failures == 0 ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
}

TEST(DiskCacheTest, IsSharedByThreads) {
    const TestFolder folder;
    const Warnings warnings;
    const DiskCache cache(folder / "cache", kRoom);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i) {
                const std::string key = std::to_string(i % 10);
                if (const auto found = cache.read(key)) {
                    EXPECT_EQ(*found, bytes_of(key));
                } else {
                    cache.write(key, bytes_of(key));
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(warnings.list().empty());
}

}  // namespace
}  // namespace quern
