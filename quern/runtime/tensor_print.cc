#include <algorithm>
#include <cstddef>

#include "quern/runtime/float_text.h"
#include "quern/support/convert.h"
#include "quern/tensor.h"

namespace quern {
namespace {

constexpr std::int64_t kAllShownUpTo = 1000;
constexpr std::int64_t kEdge = 3;
constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kGap = -1;

/// The indices of one axis that are printed, kGap where some are left out.
std::vector<std::int64_t> shown_indices(std::int64_t extent, bool summarise) {
    std::vector<std::int64_t> indices;
    const bool gap = summarise && extent > 2 * kEdge;
    for (std::int64_t i = 0; i < (gap ? kEdge : extent); ++i) indices.push_back(i);
    if (!gap) return indices;
    indices.push_back(kGap);
    for (std::int64_t i = extent - kEdge; i < extent; ++i) indices.push_back(i);
    return indices;
}

/// Copies the elements that are printed, one after the other, converted to `dtype`.
void collect(const Tensor& tensor, const std::vector<std::vector<std::int64_t>>& shown,
             std::size_t axis, std::int64_t offset, DType dtype, std::vector<std::byte>& out) {
    if (axis < shown.size()) {
        for (const std::int64_t i : shown[axis]) {
            if (i == kGap) continue;
            collect(tensor, shown, axis + 1, offset + i * tensor.strides()[axis], dtype, out);
        }
        return;
    }
    const auto* data = static_cast<const std::byte*>(tensor.data());
    out.resize(out.size() + size_of(dtype));
    convert(data + offset * static_cast<std::int64_t>(size_of(tensor.dtype())), tensor.dtype(), 1,
            out.data() + out.size() - size_of(dtype), dtype, 1);
}

template <class T>
std::span<const T> as(const std::vector<std::byte>& elements) {
    return {reinterpret_cast<const T*>(elements.data()), elements.size() / sizeof(T)};
}

std::vector<std::string> texts_of(const Tensor& tensor,
                                  const std::vector<std::vector<std::int64_t>>& shown) {
    const DType dtype = tensor.dtype();
    std::vector<std::byte> elements;
    std::vector<std::string> texts;
    if (is_floating(dtype)) {
        collect(tensor, shown, 0, 0, DType::Float64, elements);
        return float_texts(as<double>(elements), dtype);
    }
    if (is_unsigned_integer(dtype)) {
        collect(tensor, shown, 0, 0, DType::UInt64, elements);
        for (const auto value : as<std::uint64_t>(elements)) texts.push_back(std::to_string(value));
    } else {
        collect(tensor, shown, 0, 0, DType::Int64, elements);
        for (const auto value : as<std::int64_t>(elements)) {
            texts.push_back(dtype != DType::Bool ? std::to_string(value)
                                                 : (value != 0 ? "true" : "false"));
        }
    }
    std::size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
    return texts;
}

/// Lays out texts in brackets.
class Brackets {
public:
    Brackets(const std::vector<std::vector<std::int64_t>>& shown, std::vector<std::string> texts)
        : shown_(shown), texts_(std::move(texts)) {}

    std::string render() { return shown_.empty() ? texts_.front() : render(0); }

private:
    std::string render(std::size_t axis) {
        return axis + 1 == shown_.size() ? row(axis) : block(axis);
    }

    /// The innermost axis: words in lines.
    std::string row(std::size_t axis) {
        const std::string indent(axis + 1, ' ');
        const std::size_t width = kLineWidth - std::min(kLineWidth, axis + 1);
        std::string done;
        std::string line = "[";
        line.insert(0, axis, ' ');
        for (const std::int64_t i : shown_[axis]) {
            const std::string word = i == kGap ? "..." : texts_[next_++];
            if (line.size() > indent.size() && line.size() + 1 + word.size() > width) {
                done += line + '\n';
                line = indent;
            }
            if (line.size() > indent.size()) line += ' ';
            line += word;
        }
        return (done + line + "]").substr(axis);
    }

    /// An outer axis: its parts below each other, the further apart the more axes are inside.
    std::string block(std::size_t axis) {
        const std::string indent(axis + 1, ' ');
        const std::string separator(shown_.size() - axis - 1, '\n');
        std::string text = "[";
        for (const std::int64_t i : shown_[axis]) {
            if (text.size() > 1) text += separator + indent;
            text += i == kGap ? "..." : render(axis + 1);
        }
        return text + "]";
    }

    const std::vector<std::vector<std::int64_t>>& shown_;
    std::vector<std::string> texts_;
    std::size_t next_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
    std::string text(to_string(tensor.dtype()));
    text += ' ' + to_string(tensor.shape()) + '\n';
    const std::int64_t count = tensor.element_count();
    if (count == 0) return text + "[]";
    std::vector<std::vector<std::int64_t>> shown;
    for (const std::int64_t extent : tensor.shape()) {
        shown.push_back(shown_indices(extent, count > kAllShownUpTo));
    }
    return text + Brackets(shown, texts_of(tensor, shown)).render();
}

}  // namespace quern
