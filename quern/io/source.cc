#include "quern/io/source.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

namespace quern::io {

bool MemorySource::read(std::uint64_t offset, std::span<std::byte> dst) {
    if (offset > bytes_.size() || dst.size() > bytes_.size() - offset) return false;
    if (!dst.empty()) std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
    return true;
}

FileSource::FileSource(const Place& place) {
    if (place.file.find('\0') != std::string::npos)
        place.fail("file", "expected a name without zero bytes");
    const std::filesystem::path path(place.file);
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status))
        place.fail("file", fmt::format("expected a file that can be read, got: {}",
                                       error ? error.message() : "no such file"));
    if (!std::filesystem::is_regular_file(status))
        place.fail("file", "expected a regular file, got a folder, pipe or device");
    size_ = std::filesystem::file_size(path, error);
    // Streams of the C library, because those of C++ report a failing disk by an exception.
    errno = 0;
    file_.reset(error ? nullptr : std::fopen(path.string().c_str(), "rb"));
    if (file_ == nullptr)
        place.fail("file", fmt::format("expected a file that can be read, got: {}",
                                       error ? error.message() : std::strerror(errno)));
}

bool FileSource::read(std::uint64_t offset, std::span<std::byte> dst) {
    if (offset > size_ || dst.size() > size_ - offset || offset > LONG_MAX) return false;
    if (offset != position_ && std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0)
        return false;
    const std::size_t got = std::fread(dst.data(), 1, dst.size(), file_.get());
    position_ = offset + got;
    return got == dst.size();
}

void SourceStream::read(std::span<std::byte> dst) {
    if (dst.size() > remaining() || !source_.read(position_, dst))
        place_.fail("file", fmt::format("expected {} bytes at offset {}, got the end of the file",
                                        dst.size(), position_));
    position_ += dst.size();
}

}  // namespace quern::io
