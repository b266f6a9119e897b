#pragma once

#include <cstddef>
#include <cstdint>

#include "quern/backend/vulkan/code.h"

namespace quern::vulkan {

/// Words of 64 bits, which are numbers and addresses of the host, and what lies at addresses. A
/// word is two of 32 bits where the device has no others.
class MemoryCode {
public:
    MemoryCode(Code& code, const Integers& integers)
        : code_(code), m_(code.module()), integers_(integers) {}

    Id word_type();
    Id low_of(Id word);

    /// Requires: a word is two.
    Id high_of(Id word);

    /// A word and 32 bits more.
    Id moved(Id word, Id by);
    Id is_at_least(Id a, Id b);

    /// The product of a number of 32 bits and a word, of which no more than that counts where words
    /// are two.
    Id times(Id number, Id word);

    /// The address of an element, by an offset that has a sign.
    Id element(Id address, Id offset, DType index, std::size_t size);

    Id load_word(Id address) { return load(word_type(), 8, address, false); }

    /// `is_written`: what other lanes write is to be seen.
    Id load(DType dtype, Id address, bool is_written = false);
    void store(DType dtype, Id address, Id stored);

private:
    /// An element that is a part of a word of 32 bits, and by how many bits it is above its end.
    struct Part {
        Id word = 0;
        Id shift = 0;
    };

    Id moved(Id word, Id low, Id high);
    Id pointer(Id type, Id address);
    Id load(Id type, std::uint32_t size, Id address, bool is_written);
    Part part_of(Id address);

    /// Of atomic operations.
    Id scope();
    Id u32(spv::Op op, Id a, Id b) { return code_.binary(op, DType::UInt32, a, b); }

    Code& code_;
    Module& m_;
    Integers integers_;
};

}  // namespace quern::vulkan
