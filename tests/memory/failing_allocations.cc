#include "tests/memory/failing_allocations.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "quern/error.h"
#include "quern/memory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

constexpr long kNever = -1;

/// While an action runs, whose allocations are to fail.
std::atomic<bool> is_on{false};

/// Allocations until one fails; below 0 none does.
std::atomic<long> until_failure{kNever};

/// As long as it is set, every allocation after the first that failed fails too.
std::atomic<bool> fails_for_good{false};
std::atomic<bool> has_failed{false};

/// In use.
std::atomic<long> blocks{0};

/// Layers of Vulkan would be counted too, and keep what they see.
const bool has_no_layers = unsetenv("VK_INSTANCE_LAYERS") == 0;

std::atomic<bool> refuses_threads{false};

bool fails_now() {
    // Other threads may be here when the action has ended.
    if (!is_on.load()) return false;
    if (until_failure.load() >= 0 && until_failure.fetch_sub(1) == 0) {
        has_failed = true;
        return true;
    }
    return fails_for_good.load() && has_failed.load();
}

}  // namespace

#define QUERN_START \
    _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
#define QUERN_JOIN_(a, b) a##b
#define QUERN_JOIN(a, b) QUERN_JOIN_(a, b)
#define QUERN_REAL_START QUERN_JOIN(__real_, QUERN_START)
#define QUERN_WRAP_START QUERN_JOIN(__wrap_, QUERN_START)

// The linker puts these in place of what the library calls (see tests/CMakeLists.txt).
extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset);

#if defined(__APPLE__)
// Its linker puts nothing in place.
void* __real_malloc(std::size_t size) { return std::malloc(size); }
#else
void* __wrap_malloc(std::size_t size) { return fails_now() ? nullptr : __real_malloc(size); }
void* __wrap_calloc(std::size_t count, std::size_t size) {
    return fails_now() ? nullptr : __real_calloc(count, size);
}
void* __wrap_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) {
    return fails_now() ? MAP_FAILED : __real_mmap(at, size, protection, flags, file, offset);
}

// Of GNU's library: what the constructor of std::thread calls.
void QUERN_REAL_START(void* self, void* state, void (*depend)());
void QUERN_WRAP_START(void* self, void* state, void (*depend)()) {
    if (refuses_threads) {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    QUERN_REAL_START(self, state, depend);
}
#endif
}

namespace {

void* allocate(std::size_t size) {
    // More than any process addresses; sanitizers end the program when asked for it.
    const bool is_absurd = size >= std::size_t{1} << 47;
    void* block = fails_now() || is_absurd ? nullptr : __real_malloc(size == 0 ? 1 : size);
    if (block != nullptr) blocks.fetch_add(1);
    return block;
}

void release(void* block) noexcept {
    if (block != nullptr) blocks.fetch_sub(1);
    std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
    if (void* block = allocate(size)) return block;
    throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }

namespace quern::failing {
namespace {

struct InUse {
    long blocks = 0;
    std::size_t pooled = 0;
    std::size_t pinned = 0;
};

InUse in_use() {
    const MemoryCounters counters = memory_counters();
    return {blocks, counters.live, counters.pinned};
}

/// What threads of the library hold is released soon after the caller goes on.
bool is_back_to(const InUse& before) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    for (InUse now = in_use();
         now.blocks > before.blocks || now.pooled > before.pooled || now.pinned > before.pinned;
         now = in_use()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// Lets allocation `n` fail; false if there are not so many.
bool acts_well_without(long n, const std::function<void()>& action,
                       const std::function<void()>& prepare) {
    std::string outcome = "well";
    prepare();
    has_failed = false;
    until_failure = n;
    is_on = true;
    bool failed = false;
    const auto stop = [&] {
        is_on = false;
        until_failure = kNever;
        failed = has_failed.exchange(false);
    };
    try {
        action();
        stop();
    } catch (const OutOfMemory&) {
        stop();
        outcome = "out of memory";
    } catch (const std::exception& error) {
        stop();
        outcome = error.what();
    }
    EXPECT_TRUE(outcome == "out of memory" || outcome == "well") << outcome;
    prepare();
    action();
    return failed;
}

long fail_each(const std::function<void()>& action, const std::function<void()>& prepare,
               bool keeps) {
    for (long n = 0;; ++n) {
        SCOPED_TRACE("allocation " + std::to_string(n) + (fails_for_good ? " and all after" : ""));
        // A thread keeps what it needs from its first work on; what is lost is lost every time.
        constexpr int kFirstTimes = 6;
        bool is_lost = !keeps;
        for (int time = 0; time == 0 || (is_lost && time < kFirstTimes); ++time) {
            const InUse before = in_use();
            if (!acts_well_without(n, action, prepare)) return n;
            is_lost = is_lost && !is_back_to(before);
            if (::testing::Test::HasFailure()) return n;
        }
        EXPECT_FALSE(is_lost) << "memory";
        if (::testing::Test::HasFailure()) return n;
    }
}

}  // namespace

long fail_each_allocation(const std::function<void()>& action, const std::function<void()>& prepare,
                          bool keeps) {
    prepare();
    action();
    const long count = fail_each(action, prepare, keeps);
    if (::testing::Test::HasFailure()) return count;
    fails_for_good = true;
    fail_each(action, prepare, keeps);
    fails_for_good = false;
    return count;
}

void fail_one(long n) {
    until_failure = n;
    is_on = true;
}

void fail_all(bool fails) {
    has_failed = false;
    fails_for_good = fails;
    until_failure = fails ? 0 : kNever;
    is_on = fails;
}

void refuse_threads(bool refuses) { refuses_threads = refuses; }

void require(bool condition) {
    if (!condition) throw std::runtime_error("a wrong result");
}

}  // namespace quern::failing
