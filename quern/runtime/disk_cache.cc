#include "quern/runtime/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "quern/error.h"
#include "quern/support/file.h"

namespace quern {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;

/// No kernel is as large.
constexpr std::uint64_t kMostOfEntry = std::uint64_t{64} << 20;

/// An entry that was read this long ago counts as read again.
constexpr std::time_t kFresh = 3600;

/// Temporary files of processes that ended while they wrote are removed after it.
constexpr std::time_t kAbandoned = 3600;

constexpr std::string_view kSuffix = ".qk";
constexpr std::string_view kTemporary = ".tmp";

struct Header {
    std::array<char, 8> magic = {'Q', 'U', 'E', 'R', 'N', 'K', '0', '1'};
    std::uint64_t key_size = 0;
    std::uint64_t value_size = 0;

    /// Of sizes, key and value.
    std::uint64_t checksum = 0;
};

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return value_; }
    bool is_open() const { return value_ >= 0; }
    bool close() { return ::close(std::exchange(value_, -1)) == 0; }

private:
    int value_;
};

void warn_of(const std::string& path, std::string what) {
    Diagnostic diagnostic;
    diagnostic.severity = Severity::Warning;
    diagnostic.file = path;
    diagnostic.message = std::move(what);
    warn(diagnostic);
}

std::string system_reason(int error) { return std::generic_category().message(error); }

std::uint64_t checksum_of(const Header& header, std::span<const std::byte> rest) {
    const std::uint64_t sizes[] = {header.key_size, header.value_size};
    uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(sizes), sizeof(sizes));
    return ::crc32_z(crc, reinterpret_cast<const Bytef*>(rest.data()), rest.size());
}

std::uint64_t fnv(std::string_view text, std::uint64_t h) {
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return h;
}

/// Why nobody but this user can have written what `status` describes, or empty.
std::string why_not_ours(const struct stat& status) {
    if (status.st_uid != ::geteuid()) return "something of another user";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "something that others may write to";
    return {};
}

/// Opens the folder if it is this user's alone; else `why` says what it is, or is empty if there is
/// none.
int open_folder(const std::string& folder, std::string& why) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) {
        const int error = errno;
        if (error == ENOENT) return -1;
        struct stat link;
        const bool is_link = ::lstat(folder.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
        why = "expected a folder for compiled kernels, got " +
              (is_link ? "a symbolic link" : system_reason(error));
        return -1;
    }
    struct stat status;
    const std::string foreign =
        ::fstat(descriptor, &status) == 0 ? why_not_ours(status) : system_reason(errno);
    if (foreign.empty()) return descriptor;
    why = "expected a folder that only this user may write to, got " + foreign;
    ::close(descriptor);
    return -1;
}

/// All of a file, or none with the reason.
std::optional<std::vector<std::byte>> read_entry(int folder, const char* name, std::string& why) {
    // Without O_NONBLOCK, opening a pipe that nobody writes to would wait.
    const Descriptor file(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file.is_open()) {
        if (errno != ENOENT) why = system_reason(errno);
        return std::nullopt;
    }
    struct stat status;
    if (::fstat(file.get(), &status) != 0) {
        why = system_reason(errno);
    } else if (!S_ISREG(status.st_mode)) {
        why = "something that is no file";
    } else {
        why = why_not_ours(status);
    }
    if (why.empty() && std::uint64_t(status.st_size) > kMostOfEntry) why = "one that is too large";
    if (!why.empty()) return std::nullopt;
    std::vector<std::byte> bytes(std::size_t(status.st_size));
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        filled += std::size_t(got);
    }
    bytes.resize(filled);
    if (status.st_mtime + kFresh < std::time(nullptr)) {
        static_cast<void>(::futimens(file.get(), nullptr));
    }
    return bytes;
}

/// The value in an entry's bytes, or none with the reason.
std::optional<std::vector<std::byte>> value_in(std::span<const std::byte> bytes,
                                               std::string_view key, std::string& why) {
    Header header;
    const Header expected;
    if (bytes.size() < sizeof(header)) {
        why = "one that is cut off";
        return std::nullopt;
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    const auto rest = bytes.subspan(sizeof(header));
    if (header.magic != expected.magic) {
        why = "something else";
    } else if (header.key_size > rest.size() ||
               header.value_size != rest.size() - header.key_size) {
        why = "one whose sizes are not its size";
    } else if (checksum_of(header, rest) != header.checksum) {
        why = "one with a wrong checksum";
    } else if (header.key_size != key.size() ||
               std::memcmp(rest.data(), key.data(), key.size()) != 0) {
        why = "one of another kernel";
    }
    if (!why.empty()) return std::nullopt;
    const auto value = rest.subspan(key.size());
    return std::vector<std::byte>(value.begin(), value.end());
}

bool write_all(int file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(file, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes = bytes.subspan(std::size_t(done));
    }
    return true;
}

/// Makes a folder and those above it that are missing.
bool make_folders(const std::string& folder) {
    for (std::size_t end = folder.find('/', 1); end != std::string::npos;
         end = folder.find('/', end + 1)) {
        static_cast<void>(::mkdir(folder.substr(0, end).c_str(), 0700));
    }
    return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

struct Entry {
    std::string name;
    std::uint64_t bytes;
    std::time_t used;
};

/// Removes what was not used for longest until a quarter of `most` is free again, and what writers
/// left behind.
void shrink(int folder, std::uint64_t most) {
    const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const auto close = [](DIR* open) { ::closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> list(copy >= 0 ? ::fdopendir(copy) : nullptr,
                                                     close);
    if (!list) {
        if (copy >= 0) ::close(copy);
        return;
    }
    std::vector<Entry> entries;
    std::uint64_t total = 0;
    while (const dirent* found = ::readdir(list.get())) {
        const std::string_view name = found->d_name;
        struct stat status;
        if (!name.ends_with(kSuffix) && !name.ends_with(kTemporary)) continue;
        if (::fstatat(folder, found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (name.ends_with(kTemporary)) {
            if (status.st_mtime + kAbandoned < std::time(nullptr)) {
                ::unlinkat(folder, found->d_name, 0);
            }
            continue;
        }
        entries.push_back({std::string(name), std::uint64_t(status.st_size), status.st_mtime});
        total += entries.back().bytes;
    }
    if (total <= most) return;
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.used < b.used; });
    for (const Entry& entry : entries) {
        if (total <= most - most / 4) break;
        if (::unlinkat(folder, entry.name.c_str(), 0) == 0) total -= entry.bytes;
    }
}

const char* environment(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

/// Empty if the process has none.
std::string folder_of_process() {
    if (const char* folder = environment("QUERN_CACHE")) {
        return std::string_view(folder) == "off" ? std::string() : folder;
    }
    // A path that is not absolute is to be ignored, says the XDG specification.
    if (const char* folder = environment("XDG_CACHE_HOME"); folder && *folder == '/') {
        return std::string(folder) + "/quern";
    }
    if (const char* home = environment("HOME"); home && *home == '/') {
        return std::string(home) + "/.cache/quern";
    }
    return {};
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::uint64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

const DiskCache* DiskCache::of_process() {
    static std::string& fault = *new std::string;
    static const DiskCache* const cache = []() -> const DiskCache* {
        std::string folder = folder_of_process();
        if (folder.empty()) return nullptr;
        std::uint64_t most = kMostBytes;
        if (const char* text = environment("QUERN_CACHE_BYTES")) {
            const char* const end = text + std::strlen(text);
            const auto [rest, error] = std::from_chars(text, end, most);
            if (error != std::errc() || rest != end) {
                fault =
                    "expected a number of bytes, got '" + std::string(text) + "'; 512 MiB are kept";
                most = kMostBytes;
            }
        }
        return new DiskCache(std::move(folder), most);
    }();
    // Not within: who is warned may run a kernel, which comes here again.
    static std::atomic<bool> is_said{false};
    if (!fault.empty() && !is_said.exchange(true)) warn_of("QUERN_CACHE_BYTES", fault);
    return cache;
}

std::string DiskCache::path_of(std::string_view key) const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string path = folder_ + '/';
    for (std::uint64_t half : {fnv(key, 0xcbf29ce484222325ull), fnv(key, 0x9ae16a3b2f90404full)}) {
        for (int i = 0; i < 16; ++i, half <<= 4) path += kDigits[half >> 60];
    }
    return path += kSuffix;
}

std::optional<std::vector<std::byte>> DiskCache::read(std::string_view key) const {
    std::string why;
    const Descriptor folder(open_folder(folder_, why));
    if (!folder.is_open()) {
        if (!why.empty() && !has_warned_.exchange(true)) warn_of(folder_, why);
        return std::nullopt;
    }
    const std::string path = path_of(key);
    const auto bytes = read_entry(folder.get(), path.c_str() + folder_.size() + 1, why);
    auto value = bytes ? value_in(*bytes, key, why) : std::nullopt;
    if (!why.empty()) refuse(key, why);
    return value;
}

void DiskCache::write(std::string_view key, std::span<const std::byte> value) const {
    std::string why;
    if (!make_folders(folder_)) {
        return say_not_kept(errno);
    }
    const Descriptor folder(open_folder(folder_, why));
    if (!folder.is_open()) {
        // What is foreign was said when it was read.
        return;
    }
    static std::atomic<unsigned> counter{0};
    const unsigned number = counter.fetch_add(1);
    const std::string path = path_of(key);
    const std::string name = path.substr(folder_.size() + 1);
    // Nothing is allocated while there is a file that nobody else would remove.
    std::vector<std::byte> rest(key.size() + value.size());
    std::memcpy(rest.data(), key.data(), key.size());
    std::copy(value.begin(), value.end(), rest.begin() + std::ptrdiff_t(key.size()));
    Header header;
    header.key_size = key.size();
    header.value_size = value.size();
    header.checksum = checksum_of(header, rest);
    std::string temporary;
    const auto open_new = [&](unsigned suffix) {
        temporary = name + '-' + std::to_string(::getpid()) + '-' + std::to_string(suffix) +
                    std::string(kTemporary);
        return ::openat(folder.get(), temporary.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    };
    // Others are of another thread, or of a process of the same number that was killed: in
    // containers many are number 1.
    constexpr unsigned kMostOthers = 1000;
    int opened = open_new(0);
    for (unsigned i = 1; opened < 0 && errno == EEXIST && i < kMostOthers; ++i) {
        opened = open_new(i);
    }
    Descriptor file(opened);
    if (!file.is_open()) {
        const int error = errno;
        shrink(folder.get(), most_bytes_);
        return say_not_kept(error);
    }
    const auto rename = [&] {
        return ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0;
    };
    // In the place of a folder, if nothing is in it.
    const auto replace_folder = [&] {
        return errno == EISDIR && ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0 &&
               rename();
    };
    const bool is_written = may_have_bytes(sizeof header + rest.size()) &&
                            write_all(file.get(), std::as_bytes(std::span(&header, 1))) &&
                            write_all(file.get(), rest) && file.close() &&
                            (rename() || replace_folder());
    if (!is_written) {
        const int error = errno;
        ::unlinkat(folder.get(), temporary.c_str(), 0);
        // A folder with files of others was said when it was read.
        if (error == ENOTEMPTY || error == EEXIST) return;
        return say_not_kept(error);
    }
    constexpr unsigned kEvery = 64;
    if (number % kEvery == 0 || most_bytes_ < kMostOfEntry) shrink(folder.get(), most_bytes_);
}

void DiskCache::remove(std::string_view key) const {
    std::string why;
    const Descriptor folder(open_folder(folder_, why));
    if (!folder.is_open()) return;
    ::unlinkat(folder.get(), path_of(key).c_str() + folder_.size() + 1, 0);
}

void DiskCache::say_not_kept(int error) const {
    if (has_warned_.exchange(true)) return;
    warn_of(folder_, "compiled kernels are not kept: " + system_reason(error));
}

void DiskCache::refuse(std::string_view key, std::string_view why) const {
    warn_of(path_of(key),
            "expected a compiled kernel, got " + std::string(why) + "; it is compiled again");
}

}  // namespace quern
