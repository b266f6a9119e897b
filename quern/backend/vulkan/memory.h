#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "quern/backend/vulkan/code.h"

namespace quern::vulkan {

/// Words of 64 bits, which are numbers and addresses of the host, and memory of the device. A word
/// is two of 32 bits where the device has no others.
class MemoryCode {
public:
    MemoryCode(Code& code, const Integers& integers, BuffersAre buffers, std::uint32_t window_bits)
        : code_(code),
          m_(code.module()),
          integers_(integers),
          is_bound_(buffers == BuffersAre::Bound),
          window_bits_(window_bits) {}

    /// Says which capabilities and memory model the module has.
    void begin();

    Id word_type();
    Id low_of(Id word);

    /// Requires: a word is two.
    Id high_of(Id word);

    /// A word and 32 bits more.
    Id sum(Id word, Id by);
    Id is_at_least(Id a, Id b);

    /// Where something lies: an address, which is a word; or the bytes before it in a binding, or
    /// in several from that one on, a number of 32 bits.
    struct Place {
        Id at = 0;
        std::uint32_t binding = 0;
        std::uint32_t windows = 1;
    };

    /// Of Place::at.
    Id place_type();

    /// What a word says that the host wrote.
    Place place(Id word, std::uint32_t binding) {
        return is_bound_ ? Place{low_of(word), binding} : Place{word};
    }

    /// What such a word says that lies in memory, of a buffer.
    Place load_place_of_buffer(Place word, std::uint32_t binding, std::uint32_t windows);

    Place moved(Place place, Id by);

    /// By `number`, of 32 bits, times a word, of which no more than that counts where words are
    /// two.
    Place moved(Place place, Id number, Id word);

    /// Of an element, by an offset that has a sign.
    Place element(Place place, Id offset, DType index, std::size_t size);

    /// `is_written`: what other lanes write is to be seen.
    Id load(DType dtype, Place place, bool is_written = false);
    void store(DType dtype, Place place, Id stored);

    /// Stores 1 in a word in which others do so at the same time.
    void mark(Place place);

    /// Elements side by side that are 4, 8 or 16 bytes at a multiple of as many.
    std::vector<Id> load_packet(DType dtype, Place place, std::size_t count, bool is_written);
    void store_packet(DType dtype, Place place, const std::vector<Id>& stored);

    /// Of arrays of the group.
    Id load_shared(Id type, Id pointer);
    void store_shared(Id pointer, Id stored);

    /// All lanes of its scope arrive, and see what each other wrote in the memory that it orders.
    void meet(const lir::Inst& barrier);

    /// The variables of the module that are bound.
    const std::vector<Id>& bound() const { return bound_; }

private:
    /// An element that is a part of a word of 32 bits, and by how many bits it is above its end.
    struct Part {
        Place word;
        Id shift = 0;
    };

    Id sum(Id word, Id low, Id high);
    Id pointer(Id type, std::uint32_t size, Place place, bool is_written);
    Id view(Id type, std::uint32_t size, std::uint32_t binding, bool is_written);
    Id load(Id type, std::uint32_t size, Place place, bool is_written);
    void store(Id type, std::uint32_t size, Place place, Id stored);
    Part part_of(Place place);

    /// Of so many words of 32 bits.
    Id type_of_words(std::size_t words);

    /// Has `access` written for each window, of which the one runs that has the place: a pointer is
    /// into one variable. What it gives of that type, if one is named.
    template <class Access>
    Id in_window(Id type, Place place, const Access& access);

    /// Of atomic operations.
    Id scope();
    Id u32(spv::Op op, Id a, Id b) { return code_.binary(op, DType::UInt32, a, b); }

    Code& code_;
    Module& m_;
    Integers integers_;
    bool is_bound_;
    std::uint32_t window_bits_;

    /// A binding as elements of one type: by type, binding, and whether it is written.
    std::map<std::tuple<Id, std::uint32_t, bool>, Id> views_;

    /// By the type of their elements, what such a variable is.
    std::map<Id, Id> blocks_;
    std::vector<Id> bound_;
};

}  // namespace quern::vulkan
