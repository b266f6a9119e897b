#include "quern/support/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "quern/support/check.h"

namespace quern {
namespace {

constexpr std::size_t kFirstRead = 1 << 16;

/// One call asks for no more, which every system grants.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

[[noreturn]] void fail_with(const char* action, const std::string& path, int error) {
    raise(FileError("[file] cannot " + std::string(action) + " '" + path +
                    "': " + std::generic_category().message(error)));
}

/// Refuses what the system would read only in part, and no name at all, for which some calls stand
/// in the working folder.
void require_name(const char* action, const std::string& path) {
    if (path.empty()) fail_with(action, path, ENOENT);
    if (path.find('\0') != std::string::npos) {
        raise(FileError("[file] expected a path without zero bytes, got '" +
                        std::string(path.c_str()) + "' and a zero byte"));
    }
}

/// Closes the descriptor at the end of the scope.
struct Descriptor {
    explicit Descriptor(int descriptor) : value(descriptor) {}
    ~Descriptor() {
        if (value >= 0) ::close(value);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int value;
};

int open_retrying(const char* path, int flags, mode_t mode = 0) {
    int descriptor;
    do {
        descriptor = ::open(path, flags | O_CLOEXEC, mode);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

struct stat opened_status(int descriptor, const std::string& path) {
    struct stat status;
    if (::fstat(descriptor, &status) != 0) fail_with("read", path, errno);
    if (S_ISDIR(status.st_mode)) fail_with("read", path, EISDIR);
    return status;
}

[[noreturn]] void fail_too_large(const std::string& path, std::uint64_t max_bytes,
                                 const std::string& got) {
    raise(FileError("[file] expected at most " + std::to_string(max_bytes) + " bytes in '" + path +
                    "', got " + got));
}

/// `Bytes` is a container of single bytes.
template <class Bytes>
Bytes read_all(const std::string& path, std::uint64_t max_bytes) {
    require_name("open", path);
    const Descriptor file(open_retrying(path.c_str(), O_RDONLY));
    if (file.value < 0) fail_with("open", path, errno);
    const auto size = static_cast<std::uint64_t>(opened_status(file.value, path).st_size);
    if (size > max_bytes) fail_too_large(path, max_bytes, std::to_string(size));

    // A pipe, or a file of /proc, has more bytes than its size says; hence one byte of room beyond.
    Bytes bytes;
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) + 1 : kFirstRead);
    std::size_t filled = 0;
    for (;;) {
        const std::size_t room = std::min(bytes.size() - filled, kMaxTransfer);
        const ssize_t got = ::read(file.value, bytes.data() + filled, room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_with("read", path, errno);
        if (got == 0) break;
        filled += static_cast<std::size_t>(got);
        if (filled > max_bytes) fail_too_large(path, max_bytes, "more");
        if (filled == bytes.size()) bytes.resize(filled * 2);
    }
    bytes.resize(filled);
    return bytes;
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path, std::uint64_t max_bytes) {
    return read_all<std::vector<std::byte>>(path, max_bytes);
}

std::string read_text(const std::string& path, std::uint64_t max_bytes) {
    return read_all<std::string>(path, max_bytes);
}

std::string behind_links(const std::string& path) {
    std::string place = path;
    // As many as the system follows.
    constexpr int kMostLinks = 40;
    for (int i = 0; i < kMostLinks; ++i) {
        const std::unique_ptr<char, void (*)(void*)> real(::realpath(place.c_str(), nullptr),
                                                          std::free);
        if (real) return real.get();
        char link[PATH_MAX];
        const ssize_t size = ::readlink(place.c_str(), link, sizeof link);
        if (size <= 0 || size == ssize_t(sizeof link)) return place;
        const std::string next(link, std::size_t(size));
        place = next.front() == '/' ? next : folder_of(place) + "/" + next;
    }
    return path;
}

MappedFile::MappedFile(const std::string& path) {
    require_name("open", path);
    // Without O_NONBLOCK, opening a pipe that nobody writes to would wait.
    const Descriptor file(open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK));
    if (file.value < 0) fail_with("open", path, errno);
    const struct stat status = opened_status(file.value, path);
    if (!S_ISREG(status.st_mode)) {
        raise(FileError("[file] expected '" + path + "' to be a regular file, got something else"));
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0) return;
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
    if (address == MAP_FAILED) fail_with("map", path, errno);
    data_ = static_cast<const std::byte*>(address);
    size_ = size;
}

MappedFile::~MappedFile() {
    if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(behind_links(path)) {
    require_name("write", path_);
    struct stat status;
    const bool replaces = ::stat(target_.c_str(), &status) == 0;
    if (replaces && S_ISDIR(status.st_mode)) fail_with("write", path_, EISDIR);
    if (replaces && !S_ISREG(status.st_mode)) {
        raise(FileError("[file] expected '" + path_ +
                        "' to be a regular file or absent, got something else"));
    }
    // Replacing it would need no permission to write to it.
    if (replaces && ::access(target_.c_str(), W_OK) != 0) fail_with("write", path_, errno);
    static std::atomic<unsigned> counter{0};
    do {
        temporary_ = folder_of(target_) + "/.quern-" + std::to_string(::getpid()) + "-" +
                     std::to_string(counter.fetch_add(1)) + ".tmp";
        descriptor_ = open_retrying(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) fail("create a temporary file beside");
    if (replaces && ::fchmod(descriptor_, status.st_mode & 07777) != 0) {
        fail("keep the permissions of");
    }
}

AtomicFile::~AtomicFile() { discard(); }

bool may_have_bytes(std::uint64_t bytes) noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
    if (bytes <= limit.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    QUERN_CHECK(descriptor_ >= 0, "a file is written to before it is committed");
    if (!may_have_bytes(size_ += bytes.size())) fail("write");
    while (!bytes.empty()) {
        const ssize_t done =
            ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) fail("write");
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
    QUERN_CHECK(descriptor_ >= 0, "a file is committed once");
    if (::fsync(descriptor_) != 0) fail("write");
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0 && errno != EINTR) fail("write");
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("replace");
    temporary_.clear();
    // The name is on the disk when its folder is. Some file systems cannot sync a folder; there is
    // nothing to mend then, the file itself is whole.
    const Descriptor folder(open_retrying(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY));
    if (folder.value >= 0) static_cast<void>(::fsync(folder.value));
}

void AtomicFile::fail(const char* action) {
    const int error = errno;
    discard();
    fail_with(action, path_, error);
}

void AtomicFile::discard() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
}

}  // namespace quern
