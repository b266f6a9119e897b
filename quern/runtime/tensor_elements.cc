// The members of Tensor that copy elements, convert them or state their C++ type.

#include <cstring>

#include "quern/runtime/device_options.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/convert.h"
#include "quern/support/memory.h"
#include "quern/tensor.h"

namespace quern {
namespace {

template <class T>
constexpr DType dtype_of() {
    if constexpr (std::is_same_v<T, bool>) {
        return DType::Bool;
    } else if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 4 ? DType::Float32 : DType::Float64;
    } else {
        constexpr int log2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        constexpr DType first = std::is_signed_v<T> ? DType::Int8 : DType::UInt8;
        return static_cast<DType>(static_cast<int>(first) + log2);
    }
}

/// The dtype of the C++ type through which elements of `dtype` are reached.
DType accessed_as(DType dtype) {
    switch (dtype) {
        case DType::Float16:
        case DType::BFloat16:
            return DType::UInt16;
        case DType::Float8E4M3:
        case DType::Float8E5M2:
            return DType::UInt8;
        default:
            return dtype;
    }
}

struct Axis {
    std::int64_t extent;
    std::int64_t stride;
};

/// The axes that move through memory, outermost first, neighbours merged where one walk covers
/// both.
std::vector<Axis> merged_axes(const Tensor& tensor) {
    std::vector<Axis> axes;
    for (int i = 0; i < tensor.rank(); ++i) {
        const Axis axis{tensor.shape()[i], tensor.strides()[i]};
        if (axis.extent == 1) continue;
        if (!axes.empty() && axes.back().stride == axis.extent * axis.stride) {
            axes.back() = {axes.back().extent * axis.extent, axis.stride};
        } else {
            axes.push_back(axis);
        }
    }
    if (axes.empty()) axes.push_back({1, 1});
    return axes;
}

/// Writes all elements to `dst` in row-major order.
void gather(const Tensor& tensor, void* dst, DType dtype) {
    if (tensor.element_count() == 0) return;
    const std::vector<Axis> axes = merged_axes(tensor);
    const Axis row = axes.back();
    const auto src_size = static_cast<std::int64_t>(size_of(tensor.dtype()));
    const auto* src = static_cast<const std::byte*>(tensor.data());
    auto* out = static_cast<std::byte*>(dst);
    std::vector<std::int64_t> index(axes.size() - 1);
    std::int64_t offset = 0;
    for (;;) {
        convert(src + offset * src_size, tensor.dtype(), row.stride, out, dtype, row.extent);
        out += row.extent * static_cast<std::int64_t>(size_of(dtype));
        std::size_t axis = index.size();
        for (; axis > 0; --axis) {
            offset += axes[axis - 1].stride;
            if (++index[axis - 1] < axes[axis - 1].extent) break;
            offset -= axes[axis - 1].extent * axes[axis - 1].stride;
            index[axis - 1] = 0;
        }
        if (axis == 0) return;
    }
}

void require_count(const Shape& shape, std::size_t got) {
    const std::int64_t expected = element_count(shape);
    if (static_cast<std::uint64_t>(expected) != got) {
        raise(ShapeError("[from] expected " + std::to_string(expected) + " values for shape " +
                         to_string(shape) + ", got " + std::to_string(got)));
    }
}

}  // namespace

template <class T>
Tensor Tensor::from(Shape shape, std::span<const T> values) {
    return or_out_of_memory("from", [&] {
        require_count(shape, values.size());
        Tensor tensor = Tensor::empty(std::move(shape), dtype_of<T>());
        if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size_bytes());
        return tensor;
    });
}

Tensor Tensor::from_bits(Shape shape, const std::vector<bool>& values) {
    return or_out_of_memory("from", [&] {
        require_count(shape, values.size());
        Tensor tensor(std::move(shape), DType::Bool);
        bool* dst = tensor.data<bool>();
        for (const bool value : values) *dst++ = value;
        return tensor;
    });
}

namespace {

template <class T>
void require_pointer_to(DType dtype) {
    if (accessed_as(dtype) == dtype_of<T>()) return;
    raise(DTypeError("[data] expected a pointer to " + std::string(to_string(accessed_as(dtype))) +
                     " for elements of " + std::string(to_string(dtype)) + ", got one to " +
                     std::string(to_string(dtype_of<T>()))));
}

}  // namespace

template <class T>
const T* Tensor::data() const {
    require_pointer_to<T>(dtype_);
    return static_cast<const T*>(data());
}

template <class T>
T* Tensor::data() {
    require_pointer_to<T>(dtype_);
    return static_cast<T*>(data());
}

#define QUERN_INSTANTIATE(T)                                    \
    template Tensor Tensor::from<T>(Shape, std::span<const T>); \
    template T* Tensor::data<T>();                              \
    template const T* Tensor::data<T>() const;
QUERN_INSTANTIATE(bool)
QUERN_INSTANTIATE(signed char)
QUERN_INSTANTIATE(short)
QUERN_INSTANTIATE(int)
QUERN_INSTANTIATE(long)
QUERN_INSTANTIATE(long long)
QUERN_INSTANTIATE(unsigned char)
QUERN_INSTANTIATE(unsigned short)
QUERN_INSTANTIATE(unsigned int)
QUERN_INSTANTIATE(unsigned long)
QUERN_INSTANTIATE(unsigned long long)
QUERN_INSTANTIATE(float)
QUERN_INSTANTIATE(double)
#undef QUERN_INSTANTIATE

std::vector<double> Tensor::values() const {
    const auto count = static_cast<std::size_t>(element_count());
    return or_out_of_memory("values", count * sizeof(double), [&] {
        std::vector<double> values(count);
        gather(*this, values.data(), DType::Float64);
        return values;
    });
}

std::vector<std::int64_t> Tensor::integers() const {
    if (is_floating(dtype_)) {
        raise(DTypeError("[integers] expected an integer dtype or bool, got " +
                         std::string(to_string(dtype_))));
    }
    const auto count = static_cast<std::size_t>(element_count());
    return or_out_of_memory("integers", count * sizeof(std::int64_t), [&] {
        std::vector<std::int64_t> integers(count);
        gather(*this, integers.data(), DType::Int64);
        return integers;
    });
}

double Tensor::item() const {
    if (element_count() != 1) {
        raise(
            ShapeError("[item] expected a tensor of one element, got shape " + to_string(shape_)));
    }
    double value = 0;
    gather(*this, &value, DType::Float64);
    return value;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::to(const Device& device) const {
    return or_out_of_memory("to", [&] {
        // Adopted memory is the host's, whatever the default device was.
        const auto number = vulkan_number(device.id());
        if (number ? !InFlight::is_on(*this, *number) : !InFlight::is_on_host(*this)) {
            Tensor copy = Tensor::empty(shape_, dtype_, device);
            gather(*this, copy.data(), dtype_);
            count_copied(copy.bytes());
            return copy;
        }
        Tensor same = *this;
        same.device_ = device;
        return same;
    });
}

Tensor Tensor::clone() const { return to(dtype_); }

Tensor Tensor::to(DType dtype) const {
    return or_out_of_memory("to", [&] {
        Tensor copy = Tensor::empty(shape_, dtype, device_);
        gather(*this, copy.data(), dtype);
        return copy;
    });
}

}  // namespace quern
