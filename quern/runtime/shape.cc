#include "quern/runtime/shape.h"

#include <algorithm>

#include "quern/support/check.h"

namespace quern {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;

}  // namespace

std::string to_string(const Shape& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i > 0) text += ", ";
        text += std::to_string(shape[i]);
    }
    return text + "]";
}

std::int64_t element_count(const Shape& shape) {
    std::int64_t product = 1;
    bool is_empty = false;
    for (const std::int64_t extent : shape) {
        if (extent < 0)
            raise(ShapeError("[shape] E0617: expected extents >= 0, got " + to_string(shape)));
        if (extent == 0) {
            is_empty = true;
        } else if (product > kMaxElements / extent) {
            raise(ShapeError("[shape] E0618: expected at most 2^59 elements, got " +
                             to_string(shape)));
        } else {
            product *= extent;
        }
    }
    return is_empty ? 0 : product;
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= std::max<std::int64_t>(shape[i], 1);
    }
    return strides;
}

int axis_from_first(std::string_view op, int axis, const Shape& shape) {
    const int rank = static_cast<int>(shape.size());
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    std::string message = "[" + std::string(op) + "] expected ";
    message += rank == 0 ? "a tensor with an axis"
                         : "axis in [-" + std::to_string(rank) + ", " + std::to_string(rank) + ")";
    message += ", got axis " + std::to_string(axis) + " of shape " + to_string(shape);
    raise(ShapeError(std::move(message)));
}

}  // namespace quern
