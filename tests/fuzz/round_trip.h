// What the fuzzers of file formats share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "quern/error.h"
#include "quern/io.h"

namespace quern {

inline std::span<const std::byte> input(const std::uint8_t* data, std::size_t size) {
    return std::as_bytes(std::span(data, size));
}

/// Ends the program, which the fuzzer reports with its input.
inline void require(bool condition) {
    if (!condition) std::abort();
}

/// Reads bytes by `parse` and, if they are no error, demands that what `write` makes of the result
/// can be read, and written again to the same bytes.
template <class Parse, class Write>
int round_trip(std::span<const std::byte> bytes, const Parse& parse, const Write& write) {
    try {
        const auto first = write(parse(bytes));
        try {
            require(write(parse(std::span<const std::byte>(first))) == first);
        } catch (const Error&) {
            require(false);
        }
    } catch (const FileError&) {
    }
    return 0;
}

}  // namespace quern
