#include "quern/io/npy.h"

#include <algorithm>
#include <numeric>

#include "quern/io.h"
#include "quern/io/sink.h"
#include "quern/support/memory.h"

namespace quern {
namespace io {

Tensor read_npy_elements(Stream& stream, const NpyHeader& header) {
    if (!header.fortran_order) {
        Tensor tensor(header.shape, header.dtype);
        read_elements(stream, tensor, header.big_endian);
        return tensor;
    }
    // Fortran order of a shape is row-major order of the shape reversed.
    Tensor reversed(Shape(header.shape.rbegin(), header.shape.rend()), header.dtype);
    read_elements(stream, reversed, header.big_endian);
    std::vector<int> axes(header.shape.size());
    std::iota(axes.rbegin(), axes.rend(), 0);
    return reversed.permute(axes).contiguous();
}

namespace {

Tensor read_npy(Source& source, const Place& place) {
    SourceStream stream(source, 0, source.size(), place);
    return read_npy_elements(stream, read_npy_header(stream, place));
}

}  // namespace
}  // namespace io

Tensor load_npy(const std::string& path) {
    return or_out_of_memory("load_npy", [&] {
        const io::Place place{"load_npy", path};
        io::FileSource source(place);
        return io::read_npy(source, place);
    });
}

Tensor parse_npy(std::span<const std::byte> bytes, std::string_view name) {
    return or_out_of_memory("parse_npy", [&] {
        io::MemorySource source(bytes);
        return io::read_npy(source, {"parse_npy", name});
    });
}

void save_npy(const std::string& path, const Tensor& tensor) {
    return or_out_of_memory("save_npy", [&] {
        const std::string header = io::format_npy_header(tensor, "save_npy");
        io::write_file(path, [&](io::Sink& sink) {
            sink.write(header);
            sink.write(io::FileElements(tensor).bytes());
        });
    });
}

std::vector<std::byte> to_npy(const Tensor& tensor) {
    return or_out_of_memory("to_npy", [&] {
        return io::write_memory([&](io::Sink& sink) {
            sink.write(io::format_npy_header(tensor, "to_npy"));
            sink.write(io::FileElements(tensor).bytes());
        });
    });
}

}  // namespace quern
