#include "quern/runtime/pinned.h"

#include <atomic>

#if defined(__linux__) || defined(__APPLE__)
#define QUERN_PINS
#include <sys/mman.h>
#include <sys/resource.h>
#endif

namespace quern {
namespace {

std::atomic<std::size_t> held{0};

}  // namespace

#ifdef QUERN_PINS

std::byte* take_pinned(std::size_t bytes) noexcept {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
    // Before it is filled; where the system does not have large pages it stays as it is.
    ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    if (::mlock(memory, bytes) != 0) {
        ::munmap(memory, bytes);
        return nullptr;
    }
    held.fetch_add(bytes);
    return static_cast<std::byte*>(memory);
}

void give_back_pinned(std::byte* memory, std::size_t bytes) noexcept {
    ::munmap(memory, bytes);
    held.fetch_sub(bytes);
}

std::optional<std::uint64_t> pinned_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
    return std::uint64_t(limit.rlim_cur);
}

#else

std::byte* take_pinned(std::size_t) noexcept { return nullptr; }
void give_back_pinned(std::byte*, std::size_t) noexcept {}
std::optional<std::uint64_t> pinned_limit() noexcept { return 0; }

#endif

std::size_t pinned_bytes() noexcept { return held.load(); }

}  // namespace quern
