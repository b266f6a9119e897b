#include "quern/memory.h"

#include <atomic>
#include <optional>

#include "quern/runtime/device_options.h"
#include "quern/runtime/pinned.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/storage.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern {
namespace {

std::atomic<std::uint64_t> copied{0};

Pool& pool_of(const Device& device) {
    const std::optional<std::size_t> number = vulkan_number(device.id());
    return number ? vulkan::pool_of(*number) : host_pool();
}

MemoryCounters counters_of(const Pool& pool) {
    const Pool::Counters counters = pool.counters();
    return {.live = counters.live,
            .peak = counters.peak,
            .held = counters.held,
            .allocations = counters.allocations,
            .limit = counters.cap,
            .pinned = pinned_bytes(),
            .copied = copied.load()};
}

}  // namespace

MemoryCounters memory_counters() { return counters_of(host_pool()); }

MemoryCounters memory_counters(const Device& device) { return counters_of(pool_of(device)); }

void set_memory_limit(const Device& device, std::size_t bytes) { pool_of(device).set_cap(bytes); }

void count_copied(std::size_t bytes) noexcept { copied.fetch_add(bytes); }

void reset_peak_memory() noexcept { host_pool().reset_peak(); }

void reset_peak_memory(const Device& device) { pool_of(device).reset_peak(); }

void trim_memory() noexcept { host_pool().trim(); }

void trim_memory(const Device& device) { pool_of(device).trim(); }

}  // namespace quern
