#include "quern/memory.h"

#include "quern/runtime/pool.h"

namespace quern {

MemoryCounters memory_counters() {
    const Pool::Counters counters = host_pool().counters();
    return {counters.live, counters.peak, counters.held, counters.allocations};
}

void reset_peak_memory() noexcept { host_pool().reset_peak(); }

void trim_memory() noexcept { host_pool().trim(); }

}  // namespace quern
