#include <algorithm>

#include "quern/io/little_endian.h"
#include "quern/io/zip.h"
#include "quern/io/zip_format.h"
#include "quern/support/check.h"

namespace quern::io {
namespace {

/// 1980-01-01, the first day of the format: the same content gives the same archive.
constexpr std::uint32_t kTimeAndDate = 0x0021u << 16;

/// Versions a reader needs: 2.0 for deflate, 4.5 for zip64.
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kVersion64 = 45;

/// Deflates pieces of bytes into memory.
class Deflater {
public:
    Deflater() : buffer_(64 << 10) {
        if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                         Z_DEFAULT_STRATEGY) != Z_OK)
            raise(OutOfMemory("[zip] zlib: no room to deflate"));
    }
    ~Deflater() { deflateEnd(&stream_); }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    void add(std::span<const std::byte> bytes, bool last) {
        constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
        do {
            const auto piece = bytes.first(std::min(bytes.size(), kMostAtOnce));
            bytes = bytes.subspan(piece.size());
            // zlib does not write through it.
            stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
            stream_.avail_in = static_cast<uInt>(piece.size());
            drain(last && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        } while (!bytes.empty());
    }

    std::span<const std::byte> result() const { return std::as_bytes(std::span(result_)); }

private:
    void drain(int flush) {
        do {
            stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
            stream_.avail_out = static_cast<uInt>(buffer_.size());
            deflate(&stream_, flush);
            result_.append(buffer_.data(), buffer_.size() - stream_.avail_out);
        } while (stream_.avail_out == 0);
    }

    z_stream stream_ = {};
    std::vector<char> buffer_;
    std::string result_;
};

std::uint16_t flags_of(const std::string& name) {
    const bool ascii = std::all_of(name.begin(), name.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    return ascii ? 0 : kFlagUtf8;
}

/// Version, flags, method, time and checksum, as both headers hold them.
void append_common(std::string& header, const ZipEntry& entry, bool is64) {
    append_little_endian(header, is64 ? kVersion64 : kVersion, 2);
    append_little_endian(header, flags_of(entry.name), 2);
    append_little_endian(header, static_cast<std::uint16_t>(entry.method), 2);
    append_little_endian(header, kTimeAndDate, 4);
    append_little_endian(header, entry.crc, 4);
}

/// The record of zip64 with the values that do not fit; empty without any.
std::string extra_of(const std::string& values) {
    std::string extra;
    if (values.empty()) return extra;
    append_little_endian(extra, kExtra64, 2);
    append_little_endian(extra, values.size(), 2);
    return extra + values;
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
    sink_.write(bytes);
    position_ += bytes.size();
}

std::string ZipWriter::local_header(const ZipEntry& entry) const {
    const bool is64 = std::max(entry.size, entry.stored_size) >= zip64_from_;
    std::string values;
    if (is64) {
        append_little_endian(values, entry.size, 8);
        append_little_endian(values, entry.stored_size, 8);
    }
    const std::string extra = extra_of(values);
    std::string header;
    append_little_endian(header, kLocalSignature, 4);
    append_common(header, entry, is64);
    append_little_endian(header, is64 ? kIn64 : entry.stored_size, 4);
    append_little_endian(header, is64 ? kIn64 : entry.size, 4);
    append_little_endian(header, entry.name.size(), 2);
    append_little_endian(header, extra.size(), 2);
    return header + entry.name + extra;
}

std::string ZipWriter::central_header(const ZipEntry& entry) const {
    std::string values;
    const auto narrow = [&](std::uint64_t value) {
        if (value < zip64_from_) return value;
        append_little_endian(values, value, 8);
        return std::uint64_t{kIn64};
    };
    // In the order of the zip64 record, which is not that of the header.
    const std::uint64_t size = narrow(entry.size);
    const std::uint64_t stored_size = narrow(entry.stored_size);
    const std::uint64_t offset = narrow(entry.header_offset);
    const std::string extra = extra_of(values);
    std::string header;
    append_little_endian(header, kCentralSignature, 4);
    append_little_endian(header, kVersion64, 2);
    append_common(header, entry, !extra.empty());
    append_little_endian(header, stored_size, 4);
    append_little_endian(header, size, 4);
    append_little_endian(header, entry.name.size(), 2);
    append_little_endian(header, extra.size(), 2);
    append_little_endian(header, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    append_little_endian(header, 0, 4);          // external attributes
    append_little_endian(header, offset, 4);
    return header + entry.name + extra;
}

void ZipWriter::add(const std::string& name, std::string_view head, std::span<const std::byte> body,
                    ZipMethod method) {
    const auto head_bytes = std::as_bytes(std::span(head));
    ZipEntry entry;
    entry.name = name;
    entry.method = method;
    entry.crc = update_crc(update_crc(0, head_bytes), body);
    entry.size = entry.stored_size = head.size() + body.size();
    entry.header_offset = position_;
    if (method == ZipMethod::Stored) {
        write(local_header(entry));
        sink_.write(head);
        sink_.write(body);
    } else {
        Deflater deflater;
        deflater.add(head_bytes, /*last=*/false);
        deflater.add(body, /*last=*/true);
        entry.stored_size = deflater.result().size();
        write(local_header(entry));
        sink_.write(deflater.result());
    }
    position_ += entry.stored_size;
    entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
    const std::uint64_t begin = position_;
    for (const ZipEntry& entry : entries_) write(central_header(entry));
    const std::uint64_t size = position_ - begin;
    const std::uint64_t count = entries_.size();
    const bool is64 = count >= kCountIn64 || std::max(begin, size) >= zip64_from_;
    std::string end;
    if (is64) {
        append_little_endian(end, kEnd64Signature, 4);
        append_little_endian(end, kEnd64Size - 12, 8);
        append_little_endian(end, kVersion64, 2);
        append_little_endian(end, kVersion64, 2);
        append_little_endian(end, 0, 4 + 4);  // disks
        append_little_endian(end, count, 8);
        append_little_endian(end, count, 8);
        append_little_endian(end, size, 8);
        append_little_endian(end, begin, 8);
        append_little_endian(end, kLocator64Signature, 4);
        append_little_endian(end, 0, 4);
        append_little_endian(end, position_, 8);
        append_little_endian(end, 1, 4);
    }
    append_little_endian(end, kEndSignature, 4);
    append_little_endian(end, 0, 2 + 2);  // disks
    append_little_endian(end, is64 ? kCountIn64 : count, 2);
    append_little_endian(end, is64 ? kCountIn64 : count, 2);
    append_little_endian(end, is64 ? kIn64 : size, 4);
    append_little_endian(end, is64 ? kIn64 : begin, 4);
    append_little_endian(end, 0, 2);  // comment
    write(end);
}

}  // namespace quern::io
