#include <fmt/format.h>

#include <algorithm>

#include "quern/io/zip.h"
#include "quern/support/check.h"

namespace quern::io {

std::uint32_t update_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
    // zlib takes a null pointer, which an empty span may hold, for "begin anew".
    if (bytes.empty()) return crc;
    return static_cast<std::uint32_t>(
        crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

ZipStream::ZipStream(Source& source, const ZipEntry& entry, const Place& place)
    : stored_(source, entry.data_offset, entry.data_offset + entry.stored_size, place),
      place_(place),
      method_(entry.method),
      expected_crc_(entry.crc),
      remaining_(entry.size) {
    if (method_ != ZipMethod::Deflated) return;
    constexpr std::size_t kBuffer = 64 << 10;
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, entry.stored_size)));
    // Negative: raw deflate, without zlib's own header.
    if (inflateInit2(&inflater_, -MAX_WBITS) != Z_OK)
        raise(OutOfMemory(fmt::format("[{}] {}: zlib: no room to inflate", place.op, place.file)));
}

ZipStream::~ZipStream() {
    if (method_ == ZipMethod::Deflated) inflateEnd(&inflater_);
}

void ZipStream::read(std::span<std::byte> dst) {
    if (dst.size() > remaining_)
        place_.fail("data", fmt::format("expected {} bytes more, got {}", dst.size(), remaining_));
    if (method_ == ZipMethod::Stored)
        stored_.read(dst);
    else
        inflate_into(dst);
    remaining_ -= dst.size();
    crc_ = update_crc(crc_, dst);
}

void ZipStream::refill() {
    if (inflater_.avail_in != 0 || stored_.remaining() == 0) return;
    const auto count = std::min<std::uint64_t>(buffer_.size(), stored_.remaining());
    stored_.read(std::span(buffer_).first(static_cast<std::size_t>(count)));
    inflater_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    inflater_.avail_in = static_cast<uInt>(count);
}

void ZipStream::inflate_into(std::span<std::byte> dst) {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
    while (!dst.empty()) {
        refill();
        const std::size_t room = std::min(dst.size(), kMostAtOnce);
        inflater_.next_out = reinterpret_cast<Bytef*>(dst.data());
        inflater_.avail_out = static_cast<uInt>(room);
        const int status = inflate(&inflater_, Z_NO_FLUSH);
        const std::size_t got = room - inflater_.avail_out;
        dst = dst.subspan(got);
        ended_ = status == Z_STREAM_END;
        if (status != Z_OK && !(ended_ && dst.empty()))
            place_.fail("data",
                        fmt::format("expected deflated data of {} bytes more, got: {}", dst.size(),
                                    inflater_.msg != nullptr ? inflater_.msg : "its end"));
    }
}

bool ZipStream::ends_here() {
    // The mark of the last block may still be unread; it must give no further byte.
    while (!ended_) {
        refill();
        Bytef extra = 0;
        inflater_.next_out = &extra;
        inflater_.avail_out = 1;
        const int status = inflate(&inflater_, Z_NO_FLUSH);
        ended_ = status == Z_STREAM_END;
        if (inflater_.avail_out == 0 || (status != Z_OK && !ended_)) return false;
    }
    return inflater_.avail_in == 0 && stored_.remaining() == 0;
}

void ZipStream::finish() {
    if (remaining_ != 0)
        place_.fail("data", fmt::format("expected its end, got {} bytes more", remaining_));
    if (method_ == ZipMethod::Deflated && !ends_here())
        place_.fail("data", "expected deflated data of the stated size, got another size");
    if (crc_ != expected_crc_)
        place_.fail("checksum", fmt::format("expected {:08x}, got {:08x}", expected_crc_, crc_));
}

}  // namespace quern::io
