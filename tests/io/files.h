// What the tests of file formats share: bytes, folders that go away, data of others, and children
// with little memory.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"
#include "quern/io.h"
#include "tests/sanitized.h"
#include "tests/tensor_test.h"

namespace quern {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `value` as `width` bytes, the lowest first.
inline std::string little(std::uint64_t value, int width) {
    std::string text;
    for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
}

/// A folder for one test.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "quern_io_XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::vector<std::string> names() const {
        std::vector<std::string> result;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            result.push_back(entry.path().filename().string());
        return result;
    }

private:
    std::filesystem::path path_;
};

inline void write_bytes(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary).write(text.data(), std::ssize(text));
}

inline std::string read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The message of the FileError that `action` throws; "" if it throws none.
template <class Action>
std::string file_error(Action action) {
    try {
        action();
    } catch (const FileError& error) {
        return error.what();
    }
    return "";
}

/// Where data lies that is not part of the project.
inline std::string test_data(const std::string& name) {
    const char* folder = std::getenv("QUERN_TEST_DATA");
    const std::string root = folder != nullptr ? folder : QUERN_SOURCE_DIR "/../shared/data";
    return root + "/" + name;
}

/// Same dtype, shape and bits.
inline ::testing::AssertionResult same(const Tensor& actual, const Tensor& expected) {
    if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
        return ::testing::AssertionFailure()
               << "expected " << to_string(expected.dtype()) << " " << to_string(expected.shape())
               << ", got " << to_string(actual.dtype()) << " " << to_string(actual.shape());
    const Tensor a = actual.contiguous();
    const Tensor b = expected.contiguous();
    if (a.bytes() != 0 && std::memcmp(a.data(), b.data(), a.bytes()) != 0)
        return ::testing::AssertionFailure() << "the elements differ";
    return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same(const TensorSet& actual, const TensorSet& expected) {
    if (actual.size() != expected.size())
        return ::testing::AssertionFailure()
               << "expected " << expected.size() << " tensors, got " << actual.size();
    for (const auto& [name, tensor] : expected) {
        const auto found = actual.find(name);
        if (found == actual.end()) return ::testing::AssertionFailure() << "no tensor " << name;
        if (const auto result = same(found->second, tensor); !result)
            return ::testing::AssertionFailure() << name << ": " << result.message();
    }
    return ::testing::AssertionSuccess();
}

/// Bytes of this process that are in memory: the most so far.
inline std::int64_t peak_memory() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::int64_t{usage.ru_maxrss} * 1024;
}

/// Runs `action` in a child that may map `address_space` bytes (sanitizers map more, so under them
/// there is no limit). Returns what `action` returns, or how the child ended.
inline std::string in_child(rlim_t address_space, const std::function<std::string()>& action) {
    int ends[2];
    if (::pipe(ends) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit limit = {address_space, address_space};
        if (!kSanitized) ::setrlimit(RLIMIT_AS, &limit);
        std::string result;
        try {
            result = action();
        } catch (const std::exception& error) {
            result = std::string("threw: ") + error.what();
        }
        const auto written = ::write(ends[1], result.data(), result.size());
        ::_exit(written == std::ssize(result) ? 0 : 1);
    }
    ::close(ends[1]);
    std::string result;
    char buffer[4096];
    for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        result.append(buffer, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return "the child got signal " + std::to_string(WTERMSIG(status));
    return result;
}

}  // namespace quern

/// Skips the test, saying which file is missing.
#define QUERN_NEEDS_FILE(path) \
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << (path)
