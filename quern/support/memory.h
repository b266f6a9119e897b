#pragma once

#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "quern/support/check.h"

namespace quern {

/// What a pool has where that is not enough, in bytes.
struct Room {
    std::uint64_t free = 0;
    std::uint64_t largest = 0;

    /// What it may have in all, and whether that is why there is not more.
    std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
    bool is_limited = false;
};

/// Raises OutOfMemory: "[op] expected room for 4096 bytes, got none from the system; 512 bytes are
/// free, 256 in one block", and the limit if one was set; not "from the system" where that is why.
/// Needs no memory itself.
[[noreturn]] void raise_out_of_memory(std::string_view op,
                                      std::optional<std::uint64_t> bytes = std::nullopt,
                                      std::optional<Room> room = std::nullopt);

/// Calls `body` at a boundary of the library: an allocation that fails inside, or a size that no
/// container can have, leaves as OutOfMemory. `bytes` is how much was asked for, where one
/// allocation is nearly all of it.
template <class Body>
decltype(auto) or_out_of_memory(std::string_view op, std::optional<std::uint64_t> bytes,
                                Body&& body) {
#if QUERN_EXCEPTIONS
    try {
        return body();
    } catch (const std::bad_alloc&) {
        raise_out_of_memory(op, bytes);
    } catch (const std::length_error&) {
        raise_out_of_memory(op, bytes);
    }
#else
    static_cast<void>(op);
    static_cast<void>(bytes);
    return body();
#endif
}

template <class Body>
decltype(auto) or_out_of_memory(std::string_view op, Body&& body) {
    return or_out_of_memory(op, std::nullopt, body);
}

}  // namespace quern
