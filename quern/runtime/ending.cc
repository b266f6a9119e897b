#include "quern/runtime/ending.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

namespace quern::detail {
namespace {

const std::thread::id first_thread = std::this_thread::get_id();

/// Constant-initialised, so that they are there before and after everything else.
constinit std::array<std::atomic<void (*)()>, 2> waits{};

/// The objects of a thread are destroyed before those with static storage.
struct End {
    ~End() {
        if (std::this_thread::get_id() != first_thread) return;
        for (const auto& wait : waits) {
            if (void (*const call)() = wait.load()) call();
        }
    }
};

}  // namespace

void wait_at_end(Begun work, void (*wait)()) noexcept {
    waits[static_cast<std::size_t>(work)].store(wait);
    static thread_local const End end;
    static_cast<void>(end);
}

}  // namespace quern::detail
