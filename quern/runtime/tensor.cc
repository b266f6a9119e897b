#include "quern/tensor.h"

#include <algorithm>

#include "quern/runtime/device_options.h"
#include "quern/runtime/shape.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace {

constexpr std::int64_t kMaxReach = std::int64_t{1} << 59;

std::shared_ptr<Storage> storage_for(const Shape& shape, DType dtype, const Device& device,
                                     Storage::Fill fill) {
    const std::size_t bytes = std::size_t(element_count(shape)) * size_of(dtype);
    if (const auto number = vulkan_number(device.id())) {
        return Storage::allocate_on_vulkan(*number, bytes, fill);
    }
    return Storage::allocate(bytes, fill);
}

bool stays_in_reach(const Shape& shape, const std::vector<std::int64_t>& strides) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::int64_t reach = kMaxReach / std::max<std::int64_t>(shape[i], 1);
        if (strides[i] > reach || strides[i] < -reach) return false;
    }
    return true;
}

}  // namespace

Tensor::Tensor() : Tensor(Shape{}) {}

Tensor::Tensor(Shape shape, DType dtype, const Device& device)
    : Tensor(or_out_of_memory("tensor", [&] {
          auto storage = storage_for(shape, dtype, device, Storage::Fill::Zero);
          return Tensor(std::move(shape), dtype, device, std::move(storage));
      })) {}

Tensor Tensor::empty(Shape shape, DType dtype, const Device& device) {
    return or_out_of_memory("tensor", [&] {
        auto storage = storage_for(shape, dtype, device, Storage::Fill::None);
        return Tensor(std::move(shape), dtype, device, std::move(storage));
    });
}

Tensor Tensor::pinned(Shape shape, DType dtype, const Device& device) {
    if (!has_host_memory(device.id())) {
        raise(
            DeviceError("[pinned] E0612: expected a device with the memory of the process, got '" +
                        device.id() + "'"));
    }
    return or_out_of_memory("pinned", [&] {
        const std::size_t bytes = std::size_t(quern::element_count(shape)) * size_of(dtype);
        auto storage = Storage::allocate_pinned(bytes, Storage::Fill::None);
        return Tensor(std::move(shape), dtype, device, std::move(storage));
    });
}

bool Tensor::is_pinned() const noexcept { return storage_->is_pinned(); }

Tensor::Tensor(Shape shape, DType dtype, const Device& device, std::shared_ptr<Storage> storage)
    : shape_(std::move(shape)),
      strides_(row_major_strides(shape_)),
      dtype_(dtype),
      device_(device),
      storage_(std::move(storage)) {}

Tensor Tensor::adopt(void* data, Shape shape, DType dtype, std::vector<std::int64_t> strides,
                     std::function<void()> release) {
    return or_out_of_memory("adopt", [&] {
        const std::int64_t count = quern::element_count(shape);
        if (!strides.empty() && strides.size() != shape.size()) {
            raise(ShapeError("[adopt] expected a stride for each axis of " + to_string(shape) +
                             ", got strides " + to_string(strides)));
        }
        if (!strides.empty() && !stays_in_reach(shape, strides)) {
            raise(ShapeError("[adopt] expected strides that reach at most 2^59 elements far, got " +
                             to_string(strides) + " for shape " + to_string(shape)));
        }
        if (data == nullptr && count > 0) {
            raise(ValueError("[adopt] expected the address of " + std::to_string(count) +
                             " elements, got null"));
        }
        Tensor tensor(std::move(shape), dtype, Device(), Storage::adopt(data));
        if (!strides.empty()) tensor.strides_ = std::move(strides);
        // Last, so that it does not run if anything before has failed.
        tensor.storage_->on_release(std::move(release));
        return tensor;
    });
}

bool Tensor::is_alive() const noexcept { return !storage_->is_taken_back(); }

std::int64_t Tensor::shape(int axis) const {
    return shape_[axis_from_first("shape", axis, shape_)];
}

std::int64_t Tensor::element_count() const noexcept {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape_) count *= extent;
    return count;
}

bool Tensor::is_contiguous() const noexcept {
    std::int64_t expected = 1;
    bool rows_touch = true;
    for (std::size_t i = shape_.size(); i-- > 0;) {
        if (shape_[i] == 0) return true;
        if (shape_[i] != 1 && strides_[i] != expected) rows_touch = false;
        expected *= shape_[i];
    }
    return rows_touch;
}

void* Tensor::data() {
    if (storage_ == nullptr) return nullptr;
    return storage_->data() + offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

const void* Tensor::data() const {
    if (storage_ == nullptr) return nullptr;
    return storage_->read() + offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

Tensor Tensor::permute(const std::vector<int>& axes) const {
    return or_out_of_memory("permute", [&] {
        std::vector<bool> used(shape_.size());
        bool is_permutation = axes.size() == shape_.size();
        Tensor view = *this;
        for (std::size_t i = 0; is_permutation && i < axes.size(); ++i) {
            const int axis = axis_from_first("permute", axes[i], shape_);
            is_permutation = !used[axis];
            used[axis] = true;
            view.shape_[i] = shape_[axis];
            view.strides_[i] = strides_[axis];
        }
        if (!is_permutation) {
            raise(ShapeError("[permute] expected each of the " + std::to_string(rank()) +
                             " axes once, got " + to_string(Shape(axes.begin(), axes.end()))));
        }
        return view;
    });
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end, std::int64_t step) const {
    return or_out_of_memory("slice", [&] {
        const int at = axis_from_first("slice", axis, shape_);
        const std::int64_t extent = shape_[at];
        if (step < 1) raise(ShapeError("[slice] expected step >= 1, got " + std::to_string(step)));
        if (begin < 0 || begin > end || end > extent) {
            raise(ShapeError("[slice] expected 0 <= begin <= end <= " + std::to_string(extent) +
                             " on axis " + std::to_string(at) + " of shape " + to_string(shape_) +
                             ", got " + std::to_string(begin) + " and " + std::to_string(end)));
        }
        const std::int64_t length = end - begin;
        Tensor view = *this;
        view.shape_[at] = length / step + (length % step != 0 ? 1 : 0);
        // A stride nobody follows stays as it is, so that it cannot overflow; and an empty view
        // keeps an address inside the storage.
        if (view.shape_[at] > 1) view.strides_[at] *= step;
        if (view.shape_[at] > 0) view.offset_ += begin * strides_[at];
        return view;
    });
}

Tensor Tensor::reshape(Shape shape) const {
    return or_out_of_memory("reshape", [&] {
        const std::int64_t count = element_count();
        const Shape wanted = shape;
        const auto open = std::find(shape.begin(), shape.end(), -1);
        if (open != shape.end()) {
            *open = 1;
            if (std::find(open + 1, shape.end(), -1) != shape.end()) {
                raise(ShapeError("[reshape] expected at most one extent of -1, got " +
                                 to_string(wanted)));
            }
            const std::int64_t others = quern::element_count(shape);
            if (others == 0 || count % others != 0) {
                raise(ShapeError("[reshape] expected extents that leave -1 one value for " +
                                 std::to_string(count) + " elements, got " + to_string(wanted)));
            }
            *open = count / others;
        }
        if (quern::element_count(shape) != count) {
            raise(ShapeError("[reshape] expected a shape of " + std::to_string(count) +
                             " elements as in " + to_string(shape_) + ", got " +
                             to_string(wanted)));
        }
        Tensor view = contiguous();
        view.strides_ = row_major_strides(shape);
        view.shape_ = std::move(shape);
        return view;
    });
}

std::vector<Tensor> Tensor::split(int parts, int axis) const {
    return or_out_of_memory("split", [&] {
        const int at = axis_from_first("split", axis, shape_);
        if (parts < 1 || shape_[at] % parts != 0) {
            raise(ShapeError("[split] expected a number of equal parts of " +
                             std::to_string(shape_[at]) + " on axis " + std::to_string(at) +
                             " of shape " + to_string(shape_) + ", got " + std::to_string(parts)));
        }
        const std::int64_t extent = shape_[at] / parts;
        std::vector<Tensor> pieces;
        for (int i = 0; i < parts; ++i) pieces.push_back(slice(at, i * extent, (i + 1) * extent));
        return pieces;
    });
}

}  // namespace quern
