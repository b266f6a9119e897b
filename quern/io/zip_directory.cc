#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "quern/io/elements.h"
#include "quern/io/little_endian.h"
#include "quern/io/zip.h"
#include "quern/io/zip_format.h"

namespace quern::io {
namespace {

/// Takes integers from the front of bytes.
class Fields {
public:
    explicit Fields(std::span<const std::byte> bytes) : rest_(bytes) {}
    std::size_t size() const { return rest_.size(); }
    std::span<const std::byte> take_bytes(std::size_t count) {
        const auto result = rest_.first(count);
        rest_ = rest_.subspan(count);
        return result;
    }
    std::uint64_t take64() { return from_little_endian(take_bytes(8)); }
    std::uint32_t take32() { return static_cast<std::uint32_t>(from_little_endian(take_bytes(4))); }
    std::uint16_t take16() { return static_cast<std::uint16_t>(from_little_endian(take_bytes(2))); }
    void skip(std::size_t count) { rest_ = rest_.subspan(count); }

private:
    std::span<const std::byte> rest_;
};

std::vector<std::byte> read_bytes(Source& source, std::uint64_t offset, std::size_t count,
                                  std::string_view field, const Place& place) {
    std::vector<std::byte> bytes(count);
    if (!source.read(offset, bytes))
        place.fail(field, fmt::format("expected {} bytes at offset {}, got the end of the file",
                                      count, offset));
    return bytes;
}

/// Where the central directory lies.
struct Directory {
    std::uint64_t count = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;

    /// Of the record that must follow it.
    std::uint64_t end = 0;
};

std::uint64_t find_end_record(Source& source, const Place& place) {
    const std::uint64_t size = source.size();
    if (size < kEndSize)
        place.fail("end record", fmt::format("expected at least {} bytes, got {}", kEndSize, size));
    const auto tail_size =
        static_cast<std::size_t>(std::min<std::uint64_t>(size, kEndSize + 65535));
    const auto tail = read_bytes(source, size - tail_size, tail_size, "end record", place);
    // A comment follows the record, so its length must be what is left of the file.
    for (std::size_t comment = 0; comment + kEndSize <= tail_size; ++comment) {
        const std::size_t begin = tail_size - kEndSize - comment;
        const std::span record = std::span(tail).subspan(begin, kEndSize);
        if (from_little_endian(record.first(4)) == kEndSignature &&
            from_little_endian(record.last(2)) == comment)
            return size - tail_size + begin;
    }
    place.fail("end record", "expected a zip archive, got no end of one");
}

/// Takes the zip64 values where a locator stands before the end record at `end`.
void read_zip64(Source& source, std::uint64_t end, Directory& directory, const Place& place) {
    if (end < kLocator64Size) return;
    const std::uint64_t locator_at = end - kLocator64Size;
    const auto bytes = read_bytes(source, locator_at, kLocator64Size, "zip64 locator", place);
    Fields locator(bytes);
    if (locator.take32() != kLocator64Signature) return;
    locator.skip(4);
    const std::uint64_t record_at = locator.take64();
    if (locator_at < kEnd64Size || record_at != locator_at - kEnd64Size)
        place.fail("zip64 locator",
                   fmt::format("expected the record right before it, got offset {}", record_at));
    const auto record_bytes = read_bytes(source, record_at, kEnd64Size, "zip64 record", place);
    Fields record(record_bytes);
    const bool is_record = record.take32() == kEnd64Signature && record.take64() == kEnd64Size - 12;
    record.skip(12);
    const std::uint64_t count_here = record.take64();
    const Directory wide = {record.take64(), 0, record.take64(), record_at};
    const std::uint64_t offset = record.take64();
    const auto agrees = [](std::uint64_t narrow, std::uint64_t value, std::uint64_t mark) {
        return narrow == value || narrow == mark;
    };
    if (!is_record || count_here != wide.count ||
        !agrees(directory.count, wide.count, kCountIn64) ||
        !agrees(directory.size, wide.size, kIn64) || !agrees(directory.offset, offset, kIn64))
        place.fail("zip64 record", "expected what the end record says, got something else");
    directory = {wide.count, offset, wide.size, record_at};
}

Directory find_directory(Source& source, const Place& place) {
    const std::uint64_t end = find_end_record(source, place);
    const auto bytes = read_bytes(source, end, kEndSize, "end record", place);
    Fields record(bytes);
    record.skip(4);
    const std::uint32_t disks = record.take32();
    const std::uint16_t count_here = record.take16();
    Directory directory;
    directory.count = record.take16();
    directory.size = record.take32();
    directory.offset = record.take32();
    directory.end = end;
    if (disks != 0 || count_here != directory.count)
        place.fail("end record", "expected an archive on one disk, got more");
    read_zip64(source, end, directory, place);
    if (directory.offset > directory.end || directory.size != directory.end - directory.offset)
        place.fail("directory", fmt::format("expected to fill the file from its offset to {}, got "
                                            "offset {} and {} bytes",
                                            directory.end, directory.offset, directory.size));
    if (directory.count > directory.size / kCentralSize)
        place.fail("directory",
                   fmt::format("expected at most {} entries in {} bytes, got {}",
                               directory.size / kCentralSize, directory.size, directory.count));
    return directory;
}

/// Replaces each value that stands for "in the zip64 record" by that of the record.
/// False if the record is not there.
bool resolve_zip64(Fields extra, std::initializer_list<std::uint64_t*> values) {
    while (extra.size() >= 4) {
        const std::uint16_t id = extra.take16();
        const std::uint16_t size = extra.take16();
        if (size > extra.size()) return false;
        Fields record(extra.take_bytes(size));
        if (id != kExtra64) continue;
        for (std::uint64_t* value : values) {
            if (*value != kIn64) continue;
            if (record.size() < 8) return false;
            *value = record.take64();
        }
        return true;
    }
    return std::all_of(values.begin(), values.end(), [](auto* value) { return *value != kIn64; });
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An entry with what only the comparison of its two headers needs.
struct Listed {
    ZipEntry entry;
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
};

Listed take_central(Fields& directory, const Place& place) {
    if (directory.size() < kCentralSize || directory.take32() != kCentralSignature)
        place.fail("directory", "expected an entry, got other bytes");
    Listed listed;
    ZipEntry& entry = listed.entry;
    directory.skip(4);
    listed.flags = directory.take16();
    listed.method = directory.take16();
    directory.skip(4);
    entry.crc = directory.take32();
    entry.stored_size = directory.take32();
    entry.size = directory.take32();
    const std::size_t name_size = directory.take16();
    const std::size_t extra_size = directory.take16();
    const std::size_t comment_size = directory.take16();
    directory.skip(8);
    entry.header_offset = directory.take32();
    if (directory.size() < name_size + extra_size + comment_size)
        place.fail("directory", "expected name and comment of an entry, got its end");
    entry.name = text_of(directory.take_bytes(name_size));
    const Fields extra(directory.take_bytes(extra_size));
    directory.skip(comment_size);
    if (!resolve_zip64(extra, {&entry.size, &entry.stored_size, &entry.header_offset}))
        place.at(entry.name).fail("zip64 sizes", "expected a zip64 record, got none");
    return listed;
}

void check_method(const Listed& listed, const Place& place) {
    const ZipEntry& entry = listed.entry;
    if (listed.flags & kFlagEncrypted) place.fail("flags", "expected plain data, got encrypted");
    if (listed.method != static_cast<int>(ZipMethod::Stored) &&
        listed.method != static_cast<int>(ZipMethod::Deflated))
        place.fail("method",
                   fmt::format("expected 0 (stored) or 8 (deflated), got {}", listed.method));
    if (entry.method == ZipMethod::Stored && entry.stored_size != entry.size)
        place.fail("size", fmt::format("expected {} bytes, as many as are stored, got {}",
                                       entry.stored_size, entry.size));
    // Rounded up, so that nothing overflows.
    const std::uint64_t least =
        entry.size / kMaxDeflateRatio + (entry.size % kMaxDeflateRatio != 0);
    if (entry.method == ZipMethod::Deflated && least > entry.stored_size)
        place.fail("size", fmt::format("expected at most {} times the {} bytes stored, got {}",
                                       kMaxDeflateRatio, entry.stored_size, entry.size));
}

/// Finds the data behind the local header, which must say what the directory says.
void check_local(Source& source, Listed& listed, std::uint64_t limit, const Place& place) {
    ZipEntry& entry = listed.entry;
    if (entry.header_offset > limit || limit - entry.header_offset < kLocalSize)
        place.fail("offset", fmt::format("expected a header before offset {}, got {}", limit,
                                         entry.header_offset));
    const auto bytes = read_bytes(source, entry.header_offset, kLocalSize, "local header", place);
    Fields local(bytes);
    if (local.take32() != kLocalSignature)
        place.fail("local header", "expected its signature, got other bytes");
    local.skip(2);
    const std::uint16_t flags = local.take16();
    const std::uint16_t method = local.take16();
    local.skip(4);
    const std::uint32_t crc = local.take32();
    std::uint64_t stored_size = local.take32();
    std::uint64_t size = local.take32();
    const std::size_t name_size = local.take16();
    const std::size_t extra_size = local.take16();
    const std::uint64_t room = limit - entry.header_offset - kLocalSize;
    if (name_size + extra_size > room || entry.stored_size > room - name_size - extra_size)
        place.fail("size", fmt::format("expected data that ends before the directory, got {} bytes",
                                       entry.stored_size));
    entry.data_offset = entry.header_offset + kLocalSize + name_size + extra_size;

    const auto rest = read_bytes(source, entry.header_offset + kLocalSize, name_size + extra_size,
                                 "local header", place);
    Fields variable(rest);
    const std::string_view name = text_of(variable.take_bytes(name_size));
    bool agrees = name == entry.name && flags == listed.flags && method == listed.method;
    // With a descriptor the numbers stand behind the data, and zeros here.
    if (!(flags & kFlagDescriptor))
        agrees = agrees && resolve_zip64(variable, {&size, &stored_size}) && crc == entry.crc &&
                 size == entry.size && stored_size == entry.stored_size;
    if (!agrees) place.fail("local header", "expected what the directory says, got something else");
}

void check_overlap(const std::vector<ZipEntry>& entries, const Place& place) {
    std::vector<const ZipEntry*> order;
    for (const ZipEntry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(),
              [](auto* a, auto* b) { return a->header_offset < b->header_offset; });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i]->header_offset < order[i - 1]->data_offset + order[i - 1]->stored_size)
            place.at(order[i]->name)
                .fail("offset", "expected data of its own, got an overlap with " +
                                    in_quotes(order[i - 1]->name));
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(Source& source, const Place& place) {
    const Directory directory = find_directory(source, place);
    const auto bytes = read_bytes(source, directory.offset,
                                  static_cast<std::size_t>(directory.size), "directory", place);
    Fields fields(bytes);
    std::vector<ZipEntry> entries;
    std::unordered_set<std::string> names;
    std::uint64_t occupied = 0;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
        Listed listed = take_central(fields, place);
        const Place at = place.at(listed.entry.name);
        listed.entry.method = static_cast<ZipMethod>(listed.method);
        check_method(listed, at);
        check_local(source, listed, directory.offset, at);
        if (!names.insert(listed.entry.name).second)
            at.fail("name", "expected it once, got it twice");
        // Entries in one another could make this loop read far more than the file has.
        const ZipEntry& entry = listed.entry;
        occupied += entry.data_offset - entry.header_offset + entry.stored_size;
        if (occupied > directory.offset)
            at.fail("offset", "expected data of its own, got an overlap");
        entries.push_back(std::move(listed.entry));
    }
    if (fields.size() != 0)
        place.fail("directory", fmt::format("expected {} entries, got {} bytes more",
                                            directory.count, fields.size()));
    check_overlap(entries, place);
    return entries;
}

}  // namespace quern::io
