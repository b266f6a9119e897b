#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>

#include "quern/io/place.h"

namespace quern::io {

/// Bytes that can be read at any position: a file or memory.
///
/// `read` returns false instead of raising, because libpng calls it through C frames.
class Source {
public:
    virtual ~Source() = default;
    virtual std::uint64_t size() const = 0;

    /// Fills `dst` with the bytes from `offset` on. False if they are not all there.
    [[nodiscard]] virtual bool read(std::uint64_t offset, std::span<std::byte> dst) = 0;
};

class MemorySource final : public Source {
public:
    explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint64_t size() const override { return bytes_.size(); }
    [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> dst) override;

private:
    std::span<const std::byte> bytes_;
};

/// A regular file. The constructor raises FileError if there is none or it cannot be read.
class FileSource final : public Source {
public:
    explicit FileSource(const Place& place);
    std::uint64_t size() const override { return size_; }
    [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> dst) override;

private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
    std::uint64_t size_ = 0;
    std::uint64_t position_ = 0;
};

/// Bytes that come in order, their number known.
class Stream {
public:
    virtual ~Stream() = default;
    virtual std::uint64_t remaining() const = 0;

    /// Fills `dst` with the next bytes. Raises FileError at the stream's place if they are not
    /// there.
    virtual void read(std::span<std::byte> dst) = 0;
};

/// A range of a source as a stream.
class SourceStream final : public Stream {
public:
    SourceStream(Source& source, std::uint64_t begin, std::uint64_t end, const Place& place)
        : source_(source), position_(begin), end_(end), place_(place) {}
    std::uint64_t remaining() const override { return end_ - position_; }
    void read(std::span<std::byte> dst) override;

private:
    Source& source_;
    std::uint64_t position_;
    std::uint64_t end_;
    Place place_;
};

}  // namespace quern::io
