#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "quern/io/sink.h"
#include "quern/io/source.h"

namespace quern::io {

enum class ZipMethod : std::uint16_t { Stored = 0, Deflated = 8 };

/// One file of a zip archive.
struct ZipEntry {
    std::string name;
    ZipMethod method = ZipMethod::Stored;
    std::uint32_t crc = 0;

    /// Bytes in the archive and after inflating.
    std::uint64_t stored_size = 0;
    std::uint64_t size = 0;

    /// Where the local header and where the data begin in the archive.
    std::uint64_t header_offset = 0;
    std::uint64_t data_offset = 0;
};

/// Reads the directory of an archive, with zip64 records, and checks it against the local headers.
///
/// Ensures: names are unique; the ranges of entries lie in the archive and do not overlap; no entry
/// inflates to more than deflate can give. Raises FileError otherwise, and for entries that are
/// encrypted or use another method. Names are as they stand in the archive: never use one as a
/// path. Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
std::vector<ZipEntry> read_zip_directory(Source& source, const Place& place);

/// Continues the checksum of a zip entry over `bytes`; begin with 0.
std::uint32_t update_crc(std::uint32_t crc, std::span<const std::byte> bytes);

/// The content of an entry. `finish` checks what only the end can show.
class ZipStream final : public Stream {
public:
    ZipStream(Source& source, const ZipEntry& entry, const Place& place);
    ~ZipStream() override;
    ZipStream(const ZipStream&) = delete;
    ZipStream& operator=(const ZipStream&) = delete;

    std::uint64_t remaining() const override { return remaining_; }
    void read(std::span<std::byte> dst) override;

    /// Raises FileError unless the data ends here and has the checksum of the directory.
    void finish();

private:
    void inflate_into(std::span<std::byte> dst);
    void refill();
    bool ends_here();

    SourceStream stored_;
    Place place_;
    ZipMethod method_;
    std::uint32_t expected_crc_;
    std::uint64_t remaining_;
    std::uint32_t crc_ = 0;
    z_stream inflater_ = {};
    bool ended_ = false;
    std::vector<std::byte> buffer_;
};

/// Writes an archive to a sink, entry by entry.
class ZipWriter {
public:
    /// Sizes and offsets from `zip64_from` on are written as zip64; tests lower it.
    explicit ZipWriter(Sink& sink, std::uint64_t zip64_from = 0xffffffff)
        : sink_(sink), zip64_from_(zip64_from) {}

    /// Writes an entry whose content is `head` followed by `body`.
    void add(const std::string& name, std::string_view head, std::span<const std::byte> body,
             ZipMethod method);

    /// Writes the directory.
    void finish();

private:
    void write(std::string_view bytes);
    std::string local_header(const ZipEntry& entry) const;
    std::string central_header(const ZipEntry& entry) const;

    Sink& sink_;
    std::uint64_t zip64_from_;
    std::uint64_t position_ = 0;
    std::vector<ZipEntry> entries_;
};

}  // namespace quern::io
