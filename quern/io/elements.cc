#include "quern/io/elements.h"

#include <algorithm>
#include <bit>

namespace quern::io {
namespace {

constexpr bool kBigEndianHost = std::endian::native == std::endian::big;

std::span<std::byte> bytes_of(Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data()), tensor.bytes()};
}

void swap_bytes(std::span<std::byte> bytes, std::size_t width) {
    for (std::size_t i = 0; i + width <= bytes.size(); i += width)
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                     bytes.begin() + static_cast<std::ptrdiff_t>(i + width));
}

}  // namespace

std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype) {
    constexpr std::int64_t kMost = std::int64_t{1} << 59;
    std::int64_t product = 1;
    bool empty = false;
    for (const std::int64_t extent : shape) {
        if (extent < 0 || extent > kMost) return std::nullopt;
        if (extent == 0) {
            empty = true;
            continue;
        }
        if (product > kMost / extent) return std::nullopt;
        product *= extent;
    }
    return empty ? 0 : static_cast<std::uint64_t>(product) * size_of(dtype);
}

std::uint64_t expansion_limit(std::uint64_t file_size, std::uint32_t max_expansion) {
    constexpr std::uint64_t kAlways = std::uint64_t{256} << 20;
    if (max_expansion != 0 && file_size > UINT64_MAX / max_expansion) return UINT64_MAX;
    return std::max(kAlways, file_size * max_expansion);
}

void read_elements(Stream& stream, Tensor& tensor, bool big_endian) {
    const std::span<std::byte> bytes = bytes_of(tensor);
    if (bytes.empty()) return;
    stream.read(bytes);
    if (big_endian != kBigEndianHost) swap_bytes(bytes, size_of(tensor.dtype()));
    if (tensor.dtype() == DType::Bool)
        for (std::byte& byte : bytes) byte = std::byte(byte != std::byte{0});
}

FileElements::FileElements(const Tensor& tensor) : rows_(tensor.contiguous()) {
    if (!kBigEndianHost || size_of(rows_.dtype()) == 1) return;
    rows_ = rows_.clone();
    swap_bytes(bytes_of(rows_), size_of(rows_.dtype()));
}

std::span<const std::byte> FileElements::bytes() const {
    return {static_cast<const std::byte*>(rows_.data()), rows_.bytes()};
}

}  // namespace quern::io
