#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/support/check.h"

// Numbers, texts and lists as bytes, little-endian, lengths as 32 bits before what they count.

namespace quern {

class ByteWriter {
public:
    template <class T>
    void number(T value) {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        auto bits = static_cast<std::uint64_t>(value);
        for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) {
            bytes_.push_back(std::byte(bits & 0xFF));
        }
    }

    template <class List>
    void bytes(const List& list) {
        number(std::uint32_t(list.size()));
        for (const auto& each : list) number(static_cast<std::uint8_t>(each));
    }

    template <class List, class F>
    void list(const List& list, F write) {
        number(std::uint32_t(list.size()));
        for (const auto& each : list) write(each);
    }

    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/// Reads numbers of which each may be wrong. Raises Error with `subject` and what came instead.
template <class Error>
class ByteReader {
public:
    ByteReader(std::span<const std::byte> bytes, std::string subject)
        : rest_(bytes), subject_(std::move(subject)) {}

    [[noreturn]] void refuse(const char* what) const { raise(Error(subject_ + what)); }

    template <class T>
    T number() {
        if (rest_.size() < sizeof(T)) refuse("one that is cut off");
        std::uint64_t bits = 0;
        for (std::size_t i = sizeof(T); i-- > 0;) {
            bits = bits << 8 | std::to_integer<std::uint64_t>(rest_[i]);
        }
        rest_ = rest_.subspan(sizeof(T));
        return static_cast<T>(bits);
    }

    /// A number of an enumeration or a table with `count` entries.
    template <class T>
    T below(std::uint64_t count) {
        const auto value = number<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>();
        if (static_cast<std::uint64_t>(value) >= count) refuse("a number that is too large");
        return static_cast<T>(value);
    }

    std::span<const std::byte> bytes() {
        const auto size = number<std::uint32_t>();
        if (size > rest_.size()) refuse("one that is cut off");
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    std::string text() {
        const auto taken = bytes();
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }

    /// Calls `read` for each entry of a list whose entries take at least `least` bytes.
    template <class F>
    void list(std::size_t least, F read) {
        const auto count = number<std::uint32_t>();
        if (count > rest_.size() / least) refuse("a list that leaves it");
        for (std::uint32_t i = 0; i < count; ++i) read();
    }

    std::span<const std::byte> rest() const { return rest_; }

    bool is_at_end() const { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
    std::string subject_;
};

}  // namespace quern
