// Builds zip archives byte by byte, right or wrong.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/io/files.h"

namespace quern {

inline std::uint32_t crc_of(std::string_view text) {
    return static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

/// Raw deflate, as zip holds it.
inline std::string deflated(std::string_view text) {
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string result(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(result.data());
    stream.avail_out = static_cast<uInt>(result.size());
    deflate(&stream, Z_FINISH);
    result.resize(stream.total_out);
    deflateEnd(&stream);
    return result;
}

/// What the headers of an entry say; defaults are right for `stored` content.
struct ZipPart {
    std::string name = "a.npy";
    std::string content = {};
    std::uint16_t method = 0;
    std::uint16_t flags = 0;
    std::uint32_t crc = crc_of(content);
    std::uint64_t stored_size = content.size();
    std::uint64_t size = content.size();

    /// Added to the offset that the directory gives.
    std::int64_t offset_lie = 0;

    /// Writes all numbers of the directory in a zip64 record.
    bool zip64 = false;

    /// In place of `name`, `size` and so on in the local header.
    std::string local_name = name;
    std::uint32_t local_size = static_cast<std::uint32_t>(size);
};

/// What the end of the archive says, where it lies.
struct ZipEnd {
    std::int64_t count_lie = 0;
    std::int64_t size_lie = 0;
    std::int64_t offset_lie = 0;
    std::uint32_t disk = 0;
    std::string comment = {};
    std::string prefix = {};
    bool zip64 = false;
    std::uint64_t count64_lie = 0;

    /// Of the entries on this disk alone.
    std::uint64_t here64_lie = 0;
};

inline std::string zip(const std::vector<ZipPart>& parts, const ZipEnd& end = {}) {
    std::string text = end.prefix;
    std::string directory;
    for (const ZipPart& part : parts) {
        const std::uint64_t offset =
            text.size() - end.prefix.size() + static_cast<std::uint64_t>(part.offset_lie);
        text += little(0x04034b50, 4) + little(20, 2) + little(part.flags, 2) +
                little(part.method, 2) + little(0, 4) + little(part.crc, 4) +
                little(part.stored_size, 4) + little(part.local_size, 4) +
                little(part.local_name.size(), 2) + little(0, 2) + part.local_name + part.content;
        const auto narrow = [&](std::uint64_t value) {
            return little(part.zip64 ? 0xffffffff : value, 4);
        };
        std::string extra;
        if (part.zip64)
            extra = little(1, 2) + little(24, 2) + little(part.size, 8) +
                    little(part.stored_size, 8) + little(offset, 8);
        directory += little(0x02014b50, 4) + little(20, 2) + little(20, 2) + little(part.flags, 2) +
                     little(part.method, 2) + little(0, 4) + little(part.crc, 4) +
                     narrow(part.stored_size) + narrow(part.size) + little(part.name.size(), 2) +
                     little(extra.size(), 2) + little(0, 2) + little(0, 8) + narrow(offset) +
                     part.name + extra;
    }
    const std::uint64_t begin = text.size() - end.prefix.size();
    const auto count = static_cast<std::uint64_t>(std::ssize(parts) + end.count_lie);
    const auto size = static_cast<std::uint64_t>(std::ssize(directory) + end.size_lie);
    const auto offset = begin + static_cast<std::uint64_t>(end.offset_lie);
    text += directory;
    if (end.zip64) {
        const std::uint64_t record = text.size() - end.prefix.size();
        text += little(0x06064b50, 4) + little(44, 8) + little(45, 2) + little(45, 2) +
                little(0, 8) + little(count + end.count64_lie + end.here64_lie, 8) +
                little(count + end.count64_lie, 8) + little(size, 8) + little(offset, 8);
        text += little(0x07064b50, 4) + little(0, 4) + little(record, 8) + little(1, 4);
    }
    return text + little(0x06054b50, 4) + little(end.disk, 4) +
           little(end.zip64 ? 0xffff : count, 2) + little(end.zip64 ? 0xffff : count, 2) +
           little(end.zip64 ? 0xffffffff : size, 4) + little(end.zip64 ? 0xffffffff : offset, 4) +
           little(end.comment.size(), 2) + end.comment;
}

}  // namespace quern
