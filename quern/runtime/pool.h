#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern {

/// Where the memory of a pool comes from.
class Heap {
public:
    virtual ~Heap() = default;

    /// `bytes` bytes of zeros at an address that is a multiple of Pool::kAlignment, or null.
    virtual std::byte* take(std::size_t bytes) noexcept = 0;

    /// `memory` and `bytes` are those of one call of take.
    virtual void give_back(std::byte* memory, std::size_t bytes) noexcept = 0;
};

/// The memory of this process.
Heap& host_heap();

/// Blocks of memory, cut from slabs and joined again with the free blocks beside them. Free blocks
/// of nearly one size are a list, so that finding one looks at few: two-level segregated fit
/// (Masmano, Ripoll, Crespo, Real, "TLSF: a new dynamic memory allocator for real-time systems",
/// ECRTS 2004), except that a list is searched for a block that fits before those of larger ones.
/// What the pool knows of a block lies elsewhere, so the memory may be a device's.
///
/// May be used from several threads at a time.
class Pool {
public:
    static constexpr std::size_t kAlignment = 256;

    class Block;

    /// In bytes, but for `allocations`.
    struct Counters {
        /// Of blocks that are in use, rounded up to kAlignment; the most there has been.
        std::size_t live = 0;
        std::size_t peak = 0;

        /// Of slabs.
        std::size_t held = 0;

        /// Of the largest free block.
        std::size_t largest = 0;

        std::uint64_t allocations = 0;

        /// What slabs may be together.
        std::size_t cap = 0;
    };

    /// Slabs are at most `cap` bytes together. Those that nothing uses are kept up to `idle` bytes.
    explicit Pool(Heap& heap, std::size_t cap = std::numeric_limits<std::size_t>::max(),
                  std::size_t idle = std::numeric_limits<std::size_t>::max());

    /// No block may be in use.
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    /// Null if neither the slabs there are nor `cap` and the heap allow it, also after slabs that
    /// nothing uses were given back. Throws std::bad_alloc if there is no memory for what the pool
    /// knows of the block.
    Block* allocate(std::size_t bytes);

    void free(Block* block) noexcept;

    /// Gives slabs that nothing uses back.
    void trim() noexcept;

    /// Lets the most there has been begin at what is in use now.
    void reset_peak() noexcept;

    /// From now on slabs are at most `cap` bytes together. Where they are more, those that nothing
    /// uses are given back, now and once it is so, and none is made.
    void set_cap(std::size_t cap) noexcept;

    Counters counters() const;

    /// What it has free, and its cap, where it gave no block of `refused` bytes. Of what `cap`
    /// refused: what it would have given, as far as the heap has it.
    Room room(std::size_t refused = 0) const;

private:
    static constexpr int kColumns = 16;
    static constexpr int kRows = 56;

    struct Place {
        int row, column;
    };

    static Place place_of(std::size_t size);
    Block* find(std::size_t size) const;
    void put(Block* block) noexcept;
    void take_out(Block* block) noexcept;
    Block* slab_for(std::size_t size);
    void give_back(Block* block) noexcept;
    void trim_locked() noexcept;
    Counters counters_locked() const;

    Heap& heap_;
    const std::size_t most_idle_;
    std::size_t idle_ = 0;
    Counters counters_;

    /// A bit for each row that has a free block, and in each row for each column.
    std::uint64_t rows_ = 0;
    std::array<std::uint32_t, kRows> columns_{};
    std::array<std::array<Block*, kColumns>, kRows> free_{};
    mutable Mutex mutex_;
};

class Pool::Block {
public:
    std::byte* data() const noexcept { return data_; }

    /// At least what was asked for.
    std::size_t size() const noexcept { return size_; }

    /// Whether nobody has written it since the heap gave it.
    bool is_zero() const noexcept { return is_zero_; }

private:
    friend class Pool;

    bool is_slab() const { return !before_ && !after_; }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    bool is_free_ = true;
    bool is_zero_ = true;

    /// In the order of addresses, within the slab.
    Block* before_ = nullptr;
    Block* after_ = nullptr;

    /// Among the free blocks of nearly this size.
    Block* previous_ = nullptr;
    Block* next_ = nullptr;
};

/// The pool of the process, of host_heap(). Lives until the process ends.
Pool& host_pool();

/// What `take` gives; where that is nothing, what it gives once host_pool() has given back what it
/// keeps for later.
template <class Take>
auto take_or_trim(Take&& take) {
    auto taken = take();
    if (taken) return taken;
    host_pool().trim();
    return take();
}

/// What host_pool() has free, for what is not taken from it and its cap does not refuse.
Room host_room();

}  // namespace quern
