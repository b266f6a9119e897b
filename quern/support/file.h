#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// Returns all bytes of a file or pipe. Throws FileError, naming the path and the system's reason,
/// if it cannot be read, or if it has more than `max_bytes` bytes (no more than that is read).
std::vector<std::byte> read_file(const std::string& path, std::uint64_t max_bytes);

/// The same as text.
std::string read_text(const std::string& path, std::uint64_t max_bytes);

/// The file that a path leads to through symbolic links, the last one also to where nothing is yet.
std::string behind_links(const std::string& path);

/// A file seen as memory, for reading. The file must not shrink while it is mapped.
class MappedFile {
public:
    /// Throws FileError if `path` cannot be opened or is not a regular file.
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Whether a file that this process writes may have so many bytes. If not, errno is EFBIG: the
/// write would end a process that does not expect SIGXFSZ (setrlimit, `ulimit -f`).
bool may_have_bytes(std::uint64_t bytes) noexcept;

/// A file that appears under its name complete or not at all.
///
/// What is written goes to a temporary file in the same folder; `commit` gives it its name, in
/// place of a file that had it, whose permissions it keeps. Without `commit` the destructor removes
/// the temporary file. A symbolic link to a file stays: the file it points to is replaced.
class AtomicFile {
public:
    /// Throws FileError if the folder cannot be written to, or if `path` is there and is read-only
    /// or not a regular file.
    explicit AtomicFile(const std::string& path);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    /// Throws FileError. After it, or after `commit`, nothing more may be written.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);

    /// Returns when the file is on the disk under its name. Throws FileError.
    void commit();

private:
    [[noreturn]] void fail(const char* action);
    void discard() noexcept;

    std::string path_;

    /// Where the links of `path_` lead.
    std::string target_;
    std::string temporary_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

}  // namespace quern
