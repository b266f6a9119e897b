#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

namespace quern {

/// A std::vector of plain values that takes memory of the heap only above Few entries.
template <class T, std::size_t Few>
requires std::is_trivially_copyable_v<T>
class ShortVector {
public:
    using value_type = T;

    ShortVector() noexcept {}
    ShortVector(std::initializer_list<T> values) { append(values.begin(), values.size()); }
    ShortVector(const ShortVector& other) { append(other.data_, other.size_); }
    ShortVector(ShortVector&& other) noexcept { take(other); }
    ShortVector& operator=(const ShortVector& other) {
        if (this == &other) return *this;
        size_ = 0;
        append(other.data_, other.size_);
        return *this;
    }
    ShortVector& operator=(ShortVector&& other) noexcept {
        if (this == &other) return *this;
        release();
        take(other);
        return *this;
    }
    ~ShortVector() { release(); }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    T& front() { return data_[0]; }
    T& back() { return data_[size_ - 1]; }

    void push_back(T value) {
        if (size_ == capacity_) grow(size_ + 1);
        data_[size_++] = value;
    }
    void pop_back() { --size_; }
    T* erase(T* position) {
        std::move(position + 1, end(), position);
        --size_;
        return position;
    }
    void clear() { size_ = 0; }

    /// Drops what is behind the first `count`, of which there are at least as many.
    void truncate(std::size_t count) { size_ = count; }

    bool operator==(const ShortVector& other) const {
        return std::equal(begin(), end(), other.begin(), other.end());
    }

private:
    bool is_short() const { return data_ == room(); }
    T* room() { return reinterpret_cast<T*>(room_); }
    const T* room() const { return reinterpret_cast<const T*>(room_); }

    void release() {
        if (!is_short()) std::allocator<T>().deallocate(data_, capacity_);
    }

    void grow(std::size_t least) {
        const std::size_t capacity = std::max(least, 2 * capacity_);
        T* const larger = std::allocator<T>().allocate(capacity);
        if (size_ > 0) std::memcpy(larger, data_, size_ * sizeof(T));
        release();
        data_ = larger;
        capacity_ = capacity;
    }

    void append(const T* values, std::size_t count) {
        if (size_ + count > capacity_) grow(size_ + count);
        if (count > 0) std::memcpy(data_ + size_, values, count * sizeof(T));
        size_ += count;
    }

    /// The other's entries, whose own are released or not there yet; it is empty afterwards.
    void take(ShortVector& other) noexcept {
        size_ = other.size_;
        capacity_ = other.capacity_;
        data_ = other.data_;
        if (other.is_short()) {
            data_ = room();
            std::memcpy(room_, other.room_, size_ * sizeof(T));
        }
        other.data_ = other.room();
        other.size_ = 0;
        other.capacity_ = Few;
    }

    alignas(T) std::byte room_[Few * sizeof(T)];
    T* data_ = room();
    std::size_t size_ = 0;
    std::size_t capacity_ = Few;
};

}  // namespace quern
