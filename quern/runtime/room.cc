#include "quern/runtime/room.h"

#include <sys/mman.h>

#include <atomic>

#include "quern/runtime/pool.h"
#include "quern/support/memory.h"

namespace quern {
namespace {

std::atomic<std::size_t> asked{0};

bool is_there(std::size_t bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    ::munmap(memory, bytes);
    return true;
}

}  // namespace

WorkRoom::WorkRoom(std::string_view op, std::size_t bytes) : bytes_(bytes) {
    const std::size_t all = asked.fetch_add(bytes) + bytes;
    if (is_there(all)) return;
    host_pool().trim();
    if (is_there(all)) return;
    asked.fetch_sub(bytes);
    const Pool::Counters pool = host_pool().counters();
    raise_out_of_memory(op, bytes, Room{pool.held - pool.live, pool.largest});
}

WorkRoom::~WorkRoom() { asked.fetch_sub(bytes_); }

}  // namespace quern
