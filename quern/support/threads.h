#pragma once

#include "quern/threads.h"

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

/// Whether the calling thread works on a range of a parallel_for, for which another may wait.
bool is_inside_body() noexcept;

/// The number of hardware threads, at least 1.
int hardware_threads() noexcept;

}  // namespace quern
