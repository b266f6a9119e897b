#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace quern {

/// Lets kernels on "cpu" and on the interpreter use `threads` threads each, and as much
/// asynchronous work run at a time; 0 is one for each core. Results have the same bits for any
/// number. Throws ValueError if negative. Thread-safe, as all here.
void set_num_threads(int threads);

/// What was set, else the number of cores, at least 1.
int num_threads() noexcept;

/// Threads that the program has already: what Quern has to do runs on them and not on its own.
class ThreadPool {
public:
    virtual ~ThreadPool() = default;

    /// Calls `task(context, i)` once for each i in [0, count), in any order, on any threads, the
    /// caller's too, and returns when all have returned. Tasks throw nothing and never wait for
    /// each other, so that one after the other is right, only slow. Is called by several threads at
    /// a time, and from within what the pool runs for others.
    virtual void run(int count, void (*task)(void* context, int i), void* context) noexcept = 0;
};

/// Shares the program's threads with Quern: kernels on "cpu" and on the interpreter, and
/// parallel_for(), take up to num_threads() of them. The pool must live until another is set, or
/// nullptr for Quern's own threads, and what began on it has ended. Asynchronous work waits on
/// threads of Quern, and computes on the pool's.
void set_thread_pool(ThreadPool* pool) noexcept;

namespace detail {

/// A reference to a callable that outlives it.
struct ChunkBody {
    void* callable;
    bool (*call)(void* callable, std::int64_t begin, std::int64_t end);
};

bool run_chunks(std::int64_t count, int threads, ChunkBody body);

}  // namespace detail

/// Calls `body(begin, end)` on ranges that cover [0, count) once, on up to `threads` threads (0:
/// num_threads()), the caller among them. Returns when all calls have returned. For programs that
/// share Quern's threads.
///
/// A body that returns false, or throws, keeps ranges that have not begun from being called; the
/// result is then false, or the exception (one of them, if there are several) is thrown here. A
/// body that returns void counts as true.
///
/// With one thread, or from within a body that several threads work on, it is one call
/// `body(0, count)` on the caller. May be called from several threads at a time.
template <class Body>
bool parallel_for(std::int64_t count, int threads, Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    if constexpr (std::is_function_v<Callable>) {
        Callable* const function = body;
        return parallel_for(count, threads, function);
    } else {
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
            count, threads,
            {const_cast<void*>(static_cast<const void*>(std::addressof(body))), +call});
    }
}

}  // namespace quern
