#include "quern/runtime/ending.h"

#include <array>
#include <atomic>
#include <cstddef>

#if defined(__linux__)
#include <unistd.h>
#elif defined(__APPLE__)
#include <pthread.h>
#else
#include <thread>
#endif

namespace quern::detail {
namespace {

/// Of the program, which need not be the one that loaded the library.
bool is_first_thread() noexcept {
#if defined(__linux__)
    return ::gettid() == ::getpid();
#elif defined(__APPLE__)
    return ::pthread_main_np() != 0;
#else
    static const std::thread::id loader = std::this_thread::get_id();
    return std::this_thread::get_id() == loader;
#endif
}

/// Constant-initialised, so that they are there before and after everything else.
constinit std::array<std::atomic<void (*)()>, 2> waits{};

/// The objects of a thread are destroyed before those with static storage.
struct End {
    ~End() {
        if (!is_first_thread()) return;
        for (const auto& wait : waits) {
            if (void (*const call)() = wait.load()) call();
        }
    }
};

/// A first thread that begins nothing itself waits for what others began.
[[maybe_unused]] const bool is_loaded = [] {
    static thread_local const End end;
    static_cast<void>(end);
    return is_first_thread();
}();

}  // namespace

void wait_at_end(Begun work, void (*wait)()) noexcept {
    waits[static_cast<std::size_t>(work)].store(wait);
    // Objects of a thread are destroyed in reverse order: before those that were there until now.
    static thread_local const End end;
    static_cast<void>(end);
}

}  // namespace quern::detail
