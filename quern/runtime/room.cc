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
    if (take_or_trim([&] { return is_there(all); })) return;
    asked.fetch_sub(bytes);
    raise_out_of_memory(op, bytes, host_room());
}

WorkRoom::~WorkRoom() { asked.fetch_sub(bytes_); }

}  // namespace quern
