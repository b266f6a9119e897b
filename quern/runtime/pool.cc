#include "quern/runtime/pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "quern/support/check.h"

#ifdef __linux__
#include <sys/mman.h>
#else
#include <cstdlib>
#endif

namespace quern {
namespace {

/// Of what slabs are multiples: the large pages of x86-64 and AArch64.
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kSlab = std::size_t{32} << 20;

/// What the process keeps of slabs that nothing uses.
constexpr std::size_t kIdle = std::size_t{1} << 30;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

class HostHeap final : public Heap {
public:
#ifdef __linux__
    std::byte* take(std::size_t bytes) noexcept override {
        bytes = round_up(bytes, kLargePage);
        const std::size_t room = bytes + kLargePage;
        void* begin =
            ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (begin == MAP_FAILED) return nullptr;
        void* aligned = begin;
        std::size_t space = room;
        std::align(kLargePage, bytes, aligned, space);
        std::byte* const from = static_cast<std::byte*>(begin);
        std::byte* const memory = static_cast<std::byte*>(aligned);
        if (memory != from) ::munmap(from, std::size_t(memory - from));
        if (space != bytes) ::munmap(memory + bytes, space - bytes);
        // Fewer page faults; where the system does not have large pages it stays as it is.
        ::madvise(memory, bytes, MADV_HUGEPAGE);
        return memory;
    }

    void give_back(std::byte* memory, std::size_t bytes) noexcept override {
        ::munmap(memory, round_up(bytes, kLargePage));
    }
#else
    std::byte* take(std::size_t bytes) noexcept override {
        void* memory = std::aligned_alloc(Pool::kAlignment, bytes);
        if (memory) std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
        return static_cast<std::byte*>(memory);
    }

    void give_back(std::byte* memory, std::size_t) noexcept override { std::free(memory); }
#endif
};

}  // namespace

Heap& host_heap() {
    // Never destroyed, as its pool is not.
    static HostHeap& heap = *new HostHeap;
    return heap;
}

Pool& host_pool() {
    static Pool& pool = *new Pool(host_heap(), std::numeric_limits<std::size_t>::max(), kIdle);
    return pool;
}

Pool::Pool(Heap& heap, std::size_t cap, std::size_t idle) : heap_(heap), most_idle_(idle) {
    counters_.cap = cap;
}

Pool::~Pool() { trim_locked(); }

/// Row 0 has the sizes below kColumns units; each row after it those up to the next power of two,
/// in equal columns.
Pool::Place Pool::place_of(std::size_t size) {
    const std::size_t units = size / kAlignment;
    if (units < kColumns) return {0, int(units)};
    constexpr int kBits = std::bit_width(unsigned(kColumns)) - 1;
    const int log = std::bit_width(units) - 1;
    return {log - kBits + 1, int(units >> (log - kBits)) - kColumns};
}

Pool::Block* Pool::find(std::size_t size) const {
    // Of its own column a block may be smaller than `size`, of those after it none is.
    const Place place = place_of(size);
    for (Block* b = free_[place.row][place.column]; b; b = b->next_) {
        if (b->size_ >= size) return b;
    }
    std::uint32_t columns = columns_[place.row] & ~((std::uint32_t{2} << place.column) - 1);
    int row = place.row;
    if (columns == 0) {
        const std::uint64_t rows = rows_ & ~((std::uint64_t{2} << row) - 1);
        if (rows == 0) return nullptr;
        row = std::countr_zero(rows);
        columns = columns_[row];
    }
    return free_[row][std::countr_zero(columns)];
}

void Pool::put(Block* block) noexcept {
    const Place place = place_of(block->size_);
    Block*& first = free_[place.row][place.column];
    block->is_free_ = true;
    block->previous_ = nullptr;
    block->next_ = first;
    if (first) first->previous_ = block;
    first = block;
    columns_[place.row] |= std::uint32_t{1} << place.column;
    rows_ |= std::uint64_t{1} << place.row;
    if (block->is_slab()) idle_ += block->size_;
}

void Pool::take_out(Block* block) noexcept {
    const Place place = place_of(block->size_);
    Block*& first = free_[place.row][place.column];
    if (block->previous_) block->previous_->next_ = block->next_;
    if (block->next_) block->next_->previous_ = block->previous_;
    if (first == block) first = block->next_;
    if (!first) {
        columns_[place.row] &= ~(std::uint32_t{1} << place.column);
        if (columns_[place.row] == 0) rows_ &= ~(std::uint64_t{1} << place.row);
    }
    block->is_free_ = false;
    if (block->is_slab()) idle_ -= block->size_;
}

Pool::Block* Pool::slab_for(std::size_t size) {
    auto block = std::make_unique<Block>();
    for (const std::size_t wanted : {std::max(kSlab, round_up(size, kLargePage)), size}) {
        if (counters_.held > counters_.cap || wanted > counters_.cap - counters_.held) continue;
        block->data_ = heap_.take(wanted);
        if (!block->data_) continue;
        block->size_ = wanted;
        counters_.held += wanted;
        put(block.get());
        return block.release();
    }
    return nullptr;
}

Pool::Block* Pool::allocate(std::size_t bytes) {
    // So that no sum below overflows; nothing addresses more.
    if (bytes > std::numeric_limits<std::size_t>::max() / 4) return nullptr;
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
    const Lock lock(mutex_);
    // Also of what is held already.
    if (counters_.live > counters_.cap || size > counters_.cap - counters_.live) return nullptr;
    // Made before anything changes.
    auto rest = std::make_unique<Block>();
    Block* block = find(size);
    if (!block) block = slab_for(size);
    if (!block && idle_ > 0) {
        trim_locked();
        block = slab_for(size);
    }
    if (!block) return nullptr;
    take_out(block);
    if (block->size_ > size) {
        rest->data_ = block->data_ + size;
        rest->size_ = block->size_ - size;
        rest->is_zero_ = block->is_zero_;
        rest->before_ = block;
        rest->after_ = block->after_;
        if (rest->after_) rest->after_->before_ = rest.get();
        block->after_ = rest.get();
        block->size_ = size;
        put(rest.release());
    }
    counters_.live += block->size_;
    counters_.peak = std::max(counters_.peak, counters_.live);
    ++counters_.allocations;
    return block;
}

void Pool::free(Block* block) noexcept {
    const Lock lock(mutex_);
    counters_.live -= block->size_;
    block->is_zero_ = false;
    if (Block* const after = block->after_; after && after->is_free_) {
        take_out(after);
        block->size_ += after->size_;
        block->after_ = after->after_;
        if (block->after_) block->after_->before_ = block;
        delete after;
    }
    if (Block* const before = block->before_; before && before->is_free_) {
        take_out(before);
        before->size_ += block->size_;
        before->is_zero_ = false;
        before->after_ = block->after_;
        if (before->after_) before->after_->before_ = before;
        delete std::exchange(block, before);
    }
    put(block);
    const bool is_too_much = idle_ > most_idle_ || counters_.held > counters_.cap;
    if (block->is_slab() && is_too_much) give_back(block);
}

void Pool::give_back(Block* block) noexcept {
    take_out(block);
    counters_.held -= block->size_;
    heap_.give_back(block->data_, block->size_);
    delete block;
}

void Pool::trim_locked() noexcept {
    for (auto& row : free_) {
        for (Block* first : row) {
            for (Block* block = first; block;) {
                Block* const next = block->next_;
                if (block->is_slab()) give_back(block);
                block = next;
            }
        }
    }
}

void Pool::trim() noexcept {
    const Lock lock(mutex_);
    trim_locked();
}

void Pool::reset_peak() noexcept {
    const Lock lock(mutex_);
    counters_.peak = counters_.live;
}

void Pool::set_cap(std::size_t cap) noexcept {
    const Lock lock(mutex_);
    counters_.cap = cap;
    if (counters_.held > cap) trim_locked();
}

Pool::Counters Pool::counters() const {
    const Lock lock(mutex_);
    return counters_locked();
}

Pool::Counters Pool::counters_locked() const {
    Counters result = counters_;
    if (rows_ != 0) {
        const int row = std::bit_width(rows_) - 1;
        const int column = std::bit_width(columns_[row]) - 1;
        for (const Block* b = free_[row][column]; b; b = b->next_) {
            result.largest = std::max(result.largest, b->size_);
        }
    }
    return result;
}

Room Pool::room(std::size_t refused) const {
    const Lock lock(mutex_);
    const Counters now = counters_locked();
    const auto below_cap = [&](std::size_t bytes) {
        return now.cap > bytes ? (now.cap - bytes) / kAlignment * kAlignment : 0;
    };
    const std::size_t allowed = below_cap(now.live);
    const std::size_t slab = below_cap(now.held - idle_);
    const std::size_t largest = std::min(allowed, std::max(now.largest, slab));
    if (refused > largest) return {allowed, largest, now.cap, true};
    return {std::min(allowed, now.held - now.live), std::min(allowed, now.largest), now.cap};
}

Room host_room() {
    const Room pool = host_pool().room();
    return {pool.free, pool.largest};
}

}  // namespace quern
