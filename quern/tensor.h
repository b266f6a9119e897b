#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/device.h"
#include "quern/dtype.h"

namespace quern {

/// The extent of each axis; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Returns "[2, 3]".
std::string to_string(const Shape& shape);

/// Returns the product of the extents, 1 for a scalar. Throws ShapeError on a negative extent, or
/// when the product of those that are not zero, at 8 bytes an element, passes 2^62 bytes.
std::int64_t element_count(const Shape& shape);

/// Memory that one or more tensors share.
class Storage;

/// A rectangular array of elements of one dtype on one device.
///
/// A tensor is a view: shape and strides over storage that copies of the tensor share. Copying a
/// tensor copies no elements. Functions that change the view (`permute`, `slice`) share storage;
/// `contiguous` copies when the elements are not in row-major order. A tensor that was moved from
/// may only be assigned to or destroyed.
///
/// Thread safety: one tensor may be read from any thread; writing elements through `data` while
/// another thread reads them is a race, as for an array.
class Tensor {
public:
    /// A float32 scalar, zero.
    Tensor();

    /// Allocates a zero-filled tensor in row-major order, aligned to 64 bytes.
    /// Throws ShapeError if the shape is not valid, OutOfMemory if there is no room.
    explicit Tensor(Shape shape, DType dtype = DType::Float32, const Device& device = Device());

    /// As the constructor, with elements that are not set: each must be written before it is read.
    /// With QUERN_FILL=nan in the environment, and in debug builds, every bit is 1, NaN in a float.
    static Tensor empty(Shape shape, DType dtype = DType::Float32, const Device& device = Device());

    /// The same in pinned memory, which the system neither moves nor writes to a disk, so that a
    /// device may copy from it on its own: for what goes to devices again and again. Taking it is
    /// slow, and the system may allow little of it. Throws DeviceError with E0612 if `device` has
    /// memory of its own, OutOfMemory that names the process's limit and what it has left.
    static Tensor pinned(Shape shape, DType dtype = DType::Float32,
                         const Device& device = Device());
    bool is_pinned() const noexcept;

    /// Copies `values` in row-major order. T is bool, a standard integer, float or double.
    /// Throws ShapeError if their number is not that of the shape.
    template <class T>
    static Tensor from(Shape shape, std::span<const T> values);
    template <class T>
    static Tensor from(Shape shape, std::initializer_list<T> values) {
        return from<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
    }
    template <class T>
    static Tensor from(Shape shape, const std::vector<T>& values) {
        if constexpr (std::is_same_v<T, bool>) {
            return from_bits(std::move(shape), values);
        } else {
            return from<T>(std::move(shape), std::span<const T>(values));
        }
    }

    /// Adopts memory of the program without a copy. `strides` are in elements; empty means
    /// row-major. `release` runs once, when the last tensor over it is gone, and must not throw.
    /// Throws ShapeError if shape and strides disagree in length or a stride leaves the address
    /// space, ValueError if `data` is null though there are elements; then `release` does not run.
    static Tensor adopt(void* data, Shape shape, DType dtype,
                        std::vector<std::int64_t> strides = {}, std::function<void()> release = {});

    const Shape& shape() const noexcept { return shape_; }

    /// The extent of one axis; a negative axis counts from the last. Throws ShapeError.
    std::int64_t shape(int axis) const;
    int rank() const noexcept { return static_cast<int>(shape_.size()); }
    DType dtype() const noexcept { return dtype_; }
    const Device& device() const noexcept { return device_; }

    /// Distance between neighbours along each axis, in elements; zero on a broadcast axis.
    const std::vector<std::int64_t>& strides() const noexcept { return strides_; }
    std::int64_t element_count() const noexcept;
    std::size_t bytes() const noexcept { return std::size_t(element_count()) * size_of(dtype_); }
    bool is_contiguous() const noexcept;

    /// Address of the first element, to be asked for again after each launch that uses the tensor:
    /// waits for what a device "vulkan:N" does with the memory, and copies where the host does not
    /// see that. What a const tensor gives is read only, which saves copying it back. Throws
    /// DeviceError if the device was lost before it ended.
    void* data();
    const void* data() const;

    /// Typed address. Throws DTypeError if T is not the C++ type of the dtype (16-bit floats are
    /// std::uint16_t, 8-bit floats std::uint8_t, bool is bool).
    template <class T>
    T* data();
    template <class T>
    const T* data() const;

    // What reads elements or copies them waits for a device as data() does, and throws what that
    // throws; OutOfMemory if there is no room for a copy.

    /// The elements in row-major order, converted to double. 64-bit integers above 2^53 round.
    std::vector<double> values() const;

    /// The elements in row-major order as 64-bit integers, false as 0 and true as 1; uint64 from
    /// 2^63 on wraps. Throws DTypeError on a floating dtype.
    std::vector<std::int64_t> integers() const;

    /// The only element. Throws ShapeError if there is not exactly one.
    double item() const;

    /// Dimension d of the result is dimension axes[d] of this one. Shares storage.
    /// Throws ShapeError if `axes` is not a permutation; negative axes count from the last.
    Tensor permute(const std::vector<int>& axes) const;

    /// Elements [begin, end) of one axis, each step-th. Shares storage. Throws ShapeError if the
    /// range is outside the axis, or step < 1.
    Tensor slice(int axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;

    /// The same elements in row-major order with another shape; one extent may be -1. Shares
    /// storage when the tensor is contiguous. Throws ShapeError if the number of elements differs.
    Tensor reshape(Shape shape) const;

    /// `parts` equal pieces along one axis, as views. Throws ShapeError if they cannot be equal.
    std::vector<Tensor> split(int parts, int axis) const;

    /// This tensor, or a row-major copy if it is not contiguous.
    Tensor contiguous() const;

    /// A row-major copy with elements converted to `dtype`: floats round to nearest even, floats to
    /// integers truncate and saturate (NaN gives 0), integers wrap, anything to bool is `!= 0`.
    Tensor to(DType dtype) const;

    /// A row-major copy that shares nothing.
    Tensor clone() const;

    /// The same elements on another device. Shares storage where the two have one memory, as the
    /// interpreter and the device cpu do; is a row-major copy otherwise, as of and to a device
    /// "vulkan:N". Throws DeviceError if that cannot be used.
    Tensor to(const Device& device) const;

    /// False once a MemoryPool has taken the memory back: kernels refuse it, and reading it gives
    /// what another tensor may have written there.
    bool is_alive() const noexcept;

    bool shares_storage_with(const Tensor& other) const noexcept {
        return storage_ == other.storage_;
    }

private:
    friend class MemoryPool;
    friend class Held;
    friend class InFlight;

    /// In row-major order over all of `storage`.
    Tensor(Shape shape, DType dtype, const Device& device, std::shared_ptr<Storage> storage);

    static Tensor from_bits(Shape shape, const std::vector<bool>& values);

    Shape shape_;
    std::vector<std::int64_t> strides_;
    std::int64_t offset_ = 0;
    DType dtype_ = DType::Float32;
    Device device_;
    std::shared_ptr<Storage> storage_;
};

/// Prints dtype and shape in one line, then the elements as NumPy does: brackets for axes, columns
/// aligned, floats with as many digits as tell them from their neighbours but at most 8 after the
/// point. Above 1000 elements an axis shows its first and last 3.
std::string to_string(const Tensor& tensor);

}  // namespace quern
