#pragma once

#include <string>

#include "quern/io/elements.h"

namespace quern::io {

/// What the header of a npy file says.
struct NpyHeader {
    DType dtype = DType::Float32;
    bool big_endian = false;
    bool fortran_order = false;
    Shape shape;

    /// Of the elements.
    std::uint64_t bytes = 0;
};

/// Reads magic, version and header. From here on the stream is at the first element.
NpyHeader read_npy_header(Stream& stream, const Place& place);

/// Reads the elements that `header` announces; the stream must hold just those.
Tensor read_npy_elements(Stream& stream, const NpyHeader& header);

/// Returns magic, version and header for a tensor. `op` is the public function, for messages.
std::string format_npy_header(const Tensor& tensor, std::string_view op);

}  // namespace quern::io
