#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

namespace quern {

/// A std::vector that takes memory of the heap only above Few entries.
template <class T, std::size_t Few>
class ShortList {
public:
    ShortList() : list_(&memory_) { list_.reserve(Few); }
    ShortList(const ShortList&) = delete;
    ShortList& operator=(const ShortList&) = delete;

    std::pmr::vector<T>* operator->() { return &list_; }
    const std::pmr::vector<T>* operator->() const { return &list_; }
    std::pmr::vector<T>& operator*() { return list_; }
    operator std::span<const T>() const { return list_; }

private:
    alignas(T) std::array<std::byte, Few * sizeof(T)> room_;
    std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
    std::pmr::vector<T> list_;
};

}  // namespace quern
