#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

// QUERN_NO_THREADS is for platforms without threads: every call runs on its caller, and the mutexes
// are empty.
#ifndef QUERN_NO_THREADS
#include <mutex>
#endif

namespace quern {

#ifdef QUERN_NO_THREADS
struct Mutex {
    void lock() noexcept {}
    void unlock() noexcept {}
};
using RecursiveMutex = Mutex;
#else
using Mutex = std::mutex;
using RecursiveMutex = std::recursive_mutex;
#endif

/// Holds a mutex while it lives.
template <class AnyMutex>
class [[nodiscard]] Lock {
public:
    explicit Lock(AnyMutex& mutex) : mutex_(mutex) { mutex_.lock(); }
    ~Lock() { mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

private:
    AnyMutex& mutex_;
};

/// The number of hardware threads, at least 1.
int hardware_threads() noexcept;

namespace detail {

/// A reference to a callable that outlives it.
struct ChunkBody {
    void* callable;
    bool (*call)(void* callable, std::int64_t begin, std::int64_t end);
};

bool run_chunks(std::int64_t count, int threads, ChunkBody body);

}  // namespace detail

/// Calls `body(begin, end)` on ranges that cover [0, count) once, on up to `threads` threads (0:
/// one for each hardware thread), the caller among them. Returns when all calls have returned.
///
/// A body that returns false, or throws, keeps ranges that have not begun from being called; the
/// result is then false, or the exception (one of them, if there are several) is thrown here. A
/// body that returns void counts as true.
///
/// With one thread, or from within a body, it is one call `body(0, count)` on the caller. May be
/// called from several threads at a time.
template <class Body>
bool parallel_for(std::int64_t count, int threads, Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    const auto call = [](void* callable, std::int64_t begin, std::int64_t end) -> bool {
        Callable& body = *static_cast<Callable*>(callable);
        if constexpr (std::is_void_v<decltype(body(begin, end))>) {
            body(begin, end);
            return true;
        } else {
            return body(begin, end);
        }
    };
    return detail::run_chunks(
        count, threads, {const_cast<void*>(static_cast<const void*>(std::addressof(body))), +call});
}

}  // namespace quern
