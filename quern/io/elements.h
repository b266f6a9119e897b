#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "quern/io/source.h"
#include "quern/tensor.h"

namespace quern::io {

/// Most axes of a tensor in a file; NumPy's own limit.
inline constexpr std::size_t kMaxRank = 64;

/// Returns the bytes of a tensor, or nothing where `Tensor` would refuse the shape: a negative
/// extent, or too large a product of the extents that are not zero.
std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype);

/// Deflate turns one byte into this many at most.
inline constexpr std::uint64_t kMaxDeflateRatio = 1032;

/// Returns what tensors of a compressed file of `file_size` bytes may take together;
/// `max_expansion` as in LoadOptions.
std::uint64_t expansion_limit(std::uint64_t file_size, std::uint32_t max_expansion);

/// Fills a row-major tensor with its elements as a file holds them, and makes every true of a bool
/// one. `big_endian` is the order of the file.
void read_elements(Stream& stream, Tensor& tensor, bool big_endian);

/// The elements of a tensor as files hold them: row-major, little-endian. Copies them if they are
/// not.
class FileElements {
public:
    explicit FileElements(const Tensor& tensor);
    std::span<const std::byte> bytes() const;

private:
    Tensor rows_;
};

}  // namespace quern::io
