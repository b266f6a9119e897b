#include "quern/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "quern/io/little_endian.h"
#include "quern/io/sink.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace io {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, kDTypeCount> kNames = {
    {{"BOOL", DType::Bool},
     {"I8", DType::Int8},
     {"I16", DType::Int16},
     {"I32", DType::Int32},
     {"I64", DType::Int64},
     {"U8", DType::UInt8},
     {"U16", DType::UInt16},
     {"U32", DType::UInt32},
     {"U64", DType::UInt64},
     {"F16", DType::Float16},
     {"BF16", DType::BFloat16},
     {"F32", DType::Float32},
     {"F64", DType::Float64},
     {"F8_E4M3", DType::Float8E4M3},
     {"F8_E5M2", DType::Float8E5M2}}};

std::string read_header_text(Source& source, const Place& place) {
    std::array<std::byte, kSafetensorsPrefix> field;
    if (source.size() < field.size() || !source.read(0, field))
        place.fail("header length", fmt::format("expected 8 bytes, got {}", source.size()));
    const std::uint64_t length = from_little_endian(field);
    if (length > kSafetensorsMaxHeader)
        place.fail("header length",
                   fmt::format("expected at most {}, got {}", kSafetensorsMaxHeader, length));
    const std::uint64_t rest = source.size() - field.size();
    if (length > rest)
        place.fail("header length",
                   fmt::format("expected at most the rest of the file, {}, got {}", rest, length));
    std::string text(length, '\0');
    if (!source.read(field.size(), std::as_writable_bytes(std::span(text))))
        place.fail("header", fmt::format("expected {} bytes, got fewer", length));
    return text;
}

/// Sorts entries by their place in the data and refuses holes, overlaps and bytes of no tensor.
void check_ranges(std::vector<SafetensorsEntry>& entries, std::uint64_t data_size,
                  const Place& place) {
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t end = 0;
    for (const SafetensorsEntry& entry : entries) {
        if (entry.begin != end)
            place.at(entry.name)
                .fail("data_offsets",
                      fmt::format("expected to begin at {}, where the tensor before ends, got {}",
                                  end, entry.begin));
        end = entry.end;
        if (end > data_size)
            place.at(entry.name)
                .fail("data_offsets", fmt::format("expected to end within {} bytes of data, got {}",
                                                  data_size, end));
    }
    if (end != data_size)
        place.fail("data", fmt::format("expected {} bytes, as many as the tensors have, got {}",
                                       end, data_size));
}

TensorSet read_safetensors(Source& source, const Place& place, FileMetadata* metadata) {
    const std::string text = read_header_text(source, place);
    FileMetadata texts;
    std::vector<SafetensorsEntry> entries = parse_safetensors_header(text, place, texts);
    const std::uint64_t data = kSafetensorsPrefix + text.size();
    check_ranges(entries, source.size() - data, place);
    // From here on every range lies in the file, so tensors take no more memory than the file.
    TensorSet set;
    for (const SafetensorsEntry& entry : entries) {
        Tensor tensor(entry.shape, entry.dtype);
        SourceStream stream(source, data + entry.begin, data + entry.end, place.at(entry.name));
        read_elements(stream, tensor, /*big_endian=*/false);
        set.emplace(entry.name, std::move(tensor));
    }
    if (metadata != nullptr) *metadata = std::move(texts);
    return set;
}

void check_metadata(const FileMetadata& metadata, std::string_view op) {
    if (metadata.size() > kSafetensorsMaxTensors)
        raise(ValueError(fmt::format("[{}] expected at most {} texts of metadata, got {}", op,
                                     kSafetensorsMaxTensors, metadata.size())));
    for (const auto& [key, text] : metadata)
        if (!is_utf8(key) || !is_utf8(text))
            raise(ValueError(
                fmt::format("[{}] expected metadata in UTF-8, got {}", op, in_quotes(key))));
}

/// Lays the tensors out in the order they are written.
std::vector<SafetensorsEntry> plan(const TensorSet& set, std::string_view op) {
    if (set.size() > kSafetensorsMaxTensors)
        raise(ValueError(fmt::format("[{}] expected at most {} tensors, got {}", op,
                                     kSafetensorsMaxTensors, set.size())));
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, tensor] : set) {
        std::string fault = name_fault(name);
        if (name == "__metadata__")
            fault = "expected a name that is not reserved, got '__metadata__'";
        if (!fault.empty()) raise(ValueError(fmt::format("[{}] name of a tensor: {}", op, fault)));
        if (tensor.shape().size() > kMaxRank)
            raise(ShapeError(fmt::format("[{}] tensor {}: expected at most {} axes, got {}", op,
                                         in_quotes(name), kMaxRank, tensor.rank())));
        entries.push_back({name, tensor.dtype(), tensor.shape(), 0, tensor.bytes()});
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        const std::size_t a_size = size_of(a.dtype);
        const std::size_t b_size = size_of(b.dtype);
        return a_size != b_size ? a_size > b_size : a.name < b.name;
    });
    std::uint64_t end = 0;
    for (SafetensorsEntry& entry : entries) {
        entry.begin = end;
        entry.end = end += entry.end;
    }
    return entries;
}

/// A file that is ready to be written.
struct Draft {
    std::string header;
    std::vector<SafetensorsEntry> entries;
};

Draft draft(const TensorSet& set, const FileMetadata& metadata, std::string_view op) {
    check_metadata(metadata, op);
    Draft result;
    result.entries = plan(set, op);
    result.header = format_safetensors_header(result.entries, metadata);
    if (result.header.size() - kSafetensorsPrefix > kSafetensorsMaxHeader)
        raise(ValueError(fmt::format("[{}] expected a header of at most {} bytes, got {}", op,
                                     kSafetensorsMaxHeader, result.header.size())));
    return result;
}

void write_draft(Sink& sink, const Draft& draft, const TensorSet& set) {
    sink.write(draft.header);
    for (const SafetensorsEntry& entry : draft.entries)
        sink.write(FileElements(set.at(entry.name)).bytes());
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
    for (const auto& [name, candidate] : kNames)
        if (candidate == dtype) return name;
    return "";
}

std::optional<DType> safetensors_dtype(std::string_view name) {
    for (const auto& [candidate, dtype] : kNames)
        if (candidate == name) return dtype;
    return std::nullopt;
}

}  // namespace io

TensorSet load_safetensors(const std::string& path, FileMetadata* metadata) {
    return or_out_of_memory("load_safetensors", [&] {
        const io::Place place{"load_safetensors", path};
        io::FileSource source(place);
        return io::read_safetensors(source, place, metadata);
    });
}

TensorSet parse_safetensors(std::span<const std::byte> bytes, std::string_view name,
                            FileMetadata* metadata) {
    return or_out_of_memory("parse_safetensors", [&] {
        io::MemorySource source(bytes);
        return io::read_safetensors(source, {"parse_safetensors", name}, metadata);
    });
}

void save_safetensors(const std::string& path, const TensorSet& set, const FileMetadata& metadata) {
    return or_out_of_memory("save_safetensors", [&] {
        const io::Draft draft = io::draft(set, metadata, "save_safetensors");
        io::write_file(path, [&](io::Sink& sink) { io::write_draft(sink, draft, set); });
    });
}

std::vector<std::byte> to_safetensors(const TensorSet& set, const FileMetadata& metadata) {
    return or_out_of_memory("to_safetensors", [&] {
        const io::Draft draft = io::draft(set, metadata, "to_safetensors");
        return io::write_memory([&](io::Sink& sink) { io::write_draft(sink, draft, set); });
    });
}

}  // namespace quern
