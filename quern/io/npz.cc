#include <fmt/format.h>

#include "quern/io.h"
#include "quern/io/npy.h"
#include "quern/io/sink.h"
#include "quern/io/zip.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace io {
namespace {

constexpr std::string_view kEnding = ".npy";

/// Names every entry's tensor and checks what all of them take together.
std::vector<std::string> name_tensors(const std::vector<ZipEntry>& entries, std::uint64_t limit,
                                      const Place& place) {
    std::vector<std::string> names;
    std::uint64_t total = 0;
    for (const ZipEntry& entry : entries) {
        const Place at = place.at(entry.name);
        if (!entry.name.ends_with(kEnding))
            at.fail("name", "expected an array whose name ends in .npy, got another file");
        names.push_back(entry.name.substr(0, entry.name.size() - kEnding.size()));
        if (const std::string fault = name_fault(names.back()); !fault.empty())
            at.fail("name", fault);
        if (entry.size > limit - total)
            at.fail("size",
                    fmt::format("expected at most {} bytes in all arrays together, got {} more; "
                                "LoadOptions::max_expansion raises the limit",
                                limit, entry.size));
        total += entry.size;
    }
    return names;
}

TensorSet read_npz(Source& source, const Place& place, const LoadOptions& options) {
    const std::vector<ZipEntry> entries = read_zip_directory(source, place);
    const std::vector<std::string> names =
        name_tensors(entries, expansion_limit(source.size(), options.max_expansion), place);
    TensorSet set;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Place at = place.at(names[i]);
        ZipStream stream(source, entries[i], at);
        const NpyHeader header = read_npy_header(stream, at);
        Tensor tensor = read_npy_elements(stream, header);
        stream.finish();
        set.emplace(names[i], std::move(tensor));
    }
    return set;
}

/// Returns the header of each array; what cannot be written is refused before any file is touched.
std::vector<std::string> draft_arrays(const TensorSet& set, std::string_view op) {
    std::vector<std::string> headers;
    for (const auto& [name, tensor] : set) {
        if (const std::string fault = name_fault(name); !fault.empty())
            raise(ValueError(fmt::format("[{}] name of a tensor: {}", op, fault)));
        headers.push_back(format_npy_header(tensor, op));
    }
    return headers;
}

void write_npz(Sink& sink, const std::vector<std::string>& headers, const TensorSet& set,
               const NpzOptions& options) {
    ZipWriter zip(sink);
    auto header = headers.begin();
    for (const auto& [name, tensor] : set)
        zip.add(name + std::string(kEnding), *header++, FileElements(tensor).bytes(),
                options.compress ? ZipMethod::Deflated : ZipMethod::Stored);
    zip.finish();
}

}  // namespace
}  // namespace io

TensorSet load_npz(const std::string& path, const LoadOptions& options) {
    return or_out_of_memory("load_npz", [&] {
        const io::Place place{"load_npz", path};
        io::FileSource source(place);
        return io::read_npz(source, place, options);
    });
}

TensorSet parse_npz(std::span<const std::byte> bytes, std::string_view name,
                    const LoadOptions& options) {
    return or_out_of_memory("parse_npz", [&] {
        io::MemorySource source(bytes);
        return io::read_npz(source, {"parse_npz", name}, options);
    });
}

void save_npz(const std::string& path, const TensorSet& set, const NpzOptions& options) {
    return or_out_of_memory("save_npz", [&] {
        const auto headers = io::draft_arrays(set, "save_npz");
        io::write_file(path, [&](io::Sink& sink) { io::write_npz(sink, headers, set, options); });
    });
}

std::vector<std::byte> to_npz(const TensorSet& set, const NpzOptions& options) {
    return or_out_of_memory("to_npz", [&] {
        const auto headers = io::draft_arrays(set, "to_npz");
        return io::write_memory(
            [&](io::Sink& sink) { io::write_npz(sink, headers, set, options); });
    });
}

}  // namespace quern
