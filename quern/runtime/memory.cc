#include "quern/memory.h"

#include <atomic>

#include "quern/runtime/pinned.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/storage.h"

namespace quern {
namespace {

std::atomic<std::uint64_t> copied{0};

}  // namespace

MemoryCounters memory_counters() {
    const Pool::Counters counters = host_pool().counters();
    return {.live = counters.live,
            .peak = counters.peak,
            .held = counters.held,
            .allocations = counters.allocations,
            .pinned = pinned_bytes(),
            .copied = copied.load()};
}

void count_copied(std::size_t bytes) noexcept { copied.fetch_add(bytes); }

void reset_peak_memory() noexcept { host_pool().reset_peak(); }

void trim_memory() noexcept { host_pool().trim(); }

}  // namespace quern
