#include "quern/support/threads.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "quern/support/check.h"

#ifndef QUERN_NO_THREADS
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <thread>
#include <vector>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#endif

namespace quern {

namespace {

std::atomic<int> chosen_threads{0};

}  // namespace

void set_num_threads(int threads) {
    if (threads < 0) {
        raise(
            ValueError("[set_num_threads] expected threads >= 0, got " + std::to_string(threads)));
    }
    chosen_threads.store(threads);
}

int num_threads() noexcept {
    const int threads = chosen_threads.load();
    return threads > 0 ? threads : hardware_threads();
}

#ifdef QUERN_NO_THREADS

void set_thread_pool(ThreadPool*) noexcept {}

int hardware_threads() noexcept { return 1; }

bool is_inside_body() noexcept { return false; }

bool detail::run_chunks(std::int64_t count, int, ChunkBody body) {
    return count <= 0 || body.call(body.callable, 0, count);
}

#else

namespace {

constexpr int kMaxThreads = 1024;

/// Leaves the core's other thread, and the bus, alone for a moment.
void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// A range is what is left over this many times the threads.
constexpr std::int64_t kRangesPerThread = 4;

thread_local bool inside_body = false;

std::atomic<ThreadPool*> chosen_pool{nullptr};

/// One call of parallel_for. Lives on the caller's stack.
class Job {
public:
    Job(std::int64_t count, int threads, detail::ChunkBody body)
        : helpers_wanted(threads - 1), body_(body), count_(count), threads_(threads) {}

    /// Works on ranges until there are none left.
    void work() {
        // A program's pool may let a thread that waits within a body work on another job.
        const bool was_inside = std::exchange(inside_body, true);
        while (!stopped_.load(std::memory_order_relaxed)) {
            const auto [begin, end] = take();
            if (begin == end) break;
            if (!call(begin, end)) stopped_.store(true);
        }
        inside_body = was_inside;
    }

    /// The result, once nobody works on it.
    bool finish() {
#if QUERN_EXCEPTIONS
        if (thrown_) std::rethrow_exception(thrown_);
#endif
        return !stopped_.load();
    }

    /// Written under the pool's mutex.
    int helpers_wanted;
    std::atomic<int> helpers_at_work{0};

private:
    /// The next range, empty when there is none. Ranges get smaller, so that threads end at about
    /// the same time whatever each costs.
    std::pair<std::int64_t, std::int64_t> take() {
        std::int64_t begin = next_.load(std::memory_order_relaxed), end = begin;
        do {
            const std::int64_t part = (count_ - begin) / (threads_ * kRangesPerThread);
            end = std::min(count_, begin + std::max<std::int64_t>(1, part));
        } while (begin < count_ &&
                 !next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
        return {begin, std::max(begin, end)};
    }

    bool call(std::int64_t begin, std::int64_t end) {
#if QUERN_EXCEPTIONS
        try {
            return body_.call(body_.callable, begin, end);
        } catch (...) {
            if (!has_thrown_.exchange(true)) thrown_ = std::current_exception();
            return false;
        }
#else
        return body_.call(body_.callable, begin, end);
#endif
    }

    detail::ChunkBody body_;
    std::int64_t count_;
    std::int64_t threads_;
    std::atomic<std::int64_t> next_{0};
    std::atomic<bool> stopped_{false};
#if QUERN_EXCEPTIONS
    std::atomic<bool> has_thrown_{false};
    std::exception_ptr thrown_;
#endif
};

/// Looks for `happened` for as long as waking a thread that sleeps takes, about: kernels follow
/// each other at shorter times, and a system that wakes a thread for each would be most of them.
/// False if it did not happen.
template <class Condition>
bool spin_until(const Condition& happened) {
    constexpr auto kLongest = std::chrono::microseconds(100);
    // Between looks at the clock; the core is left to others there.
    constexpr int kLooks = 64;
    const auto end = std::chrono::steady_clock::now() + kLongest;
    do {
        for (int i = 0; i < kLooks; ++i) {
            if (happened()) return true;
            pause();
        }
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return happened();
}

/// Threads that wait for jobs. They are never joined: the pool outlives every static object, and
/// a process that exits from a helper has nothing to wait for.
class Pool {
public:
    static Pool& instance() {
        if (Pool* const found = current().load()) return *found;
#if defined(__unix__) || defined(__APPLE__)
        // A child of fork() has none of the threads.
        static const int handler =
            ::pthread_atfork(nullptr, nullptr, [] { current().store(nullptr); });
        static_cast<void>(handler);
#endif
        auto made = std::make_unique<Pool>();
        Pool* other = nullptr;
        return current().compare_exchange_strong(other, made.get()) ? *made.release() : *other;
    }

    void run(Job& job, int threads) {
        {
            std::unique_lock lock(mutex_);
            start_helpers(threads - 1);
            // A process that exits while a thread only begins trips what walks over threads then,
            // as leak checkers do.
            helper_begins_.wait(lock, [this] { return begun_ == helpers_; });
            jobs_.push_back(&job);
            ++posted_;
        }
        if (sleeping_.load() > 0) work_waits_.notify_all();
        job.work();
        {
            const std::lock_guard lock(mutex_);
            std::erase(jobs_, &job);
        }
        // From here on no helper takes the job up.
        const auto is_left = [&job] { return job.helpers_at_work.load() == 0; };
        if (spin_until(is_left)) return;
        std::unique_lock lock(mutex_);
        job_is_left_.wait(lock, is_left);
    }

private:
    static std::atomic<Pool*>& current() noexcept {
        static std::atomic<Pool*> pool{nullptr};
        return pool;
    }

    /// Needs the mutex. A system that refuses another thread leaves the work to those there are.
    void start_helpers(int wanted) {
        while (helpers_ < wanted) {
#if QUERN_EXCEPTIONS
            try {
                std::thread([this] { help(); }).detach();
            } catch (const std::exception&) {
                return;
            }
#else
            std::thread([this] { help(); }).detach();
#endif
            ++helpers_;
        }
    }

    [[noreturn]] void help() {
        std::unique_lock lock(mutex_);
        ++begun_;
        helper_begins_.notify_all();
        for (;;) {
            if (Job* const job = claim()) {
                ++job->helpers_at_work;
                lock.unlock();
                job->work();
                lock.lock();
                // The job is gone as soon as its caller sees zero.
                if (--job->helpers_at_work == 0) job_is_left_.notify_all();
                continue;
            }
            // One that came too late for a job looks out for the next all the same.
            const unsigned seen = posted_.load();
            const auto is_posted = [&] { return posted_.load() != seen; };
            // More threads than cores would take them from those at work.
            if (helpers_ < hardware_threads()) {
                lock.unlock();
                const bool has_happened = spin_until(is_posted);
                lock.lock();
                if (has_happened) continue;
            }
            ++sleeping_;
            work_waits_.wait(lock, is_posted);
            --sleeping_;
        }
    }

    Job* claim() {
        for (Job* job : jobs_) {
            if (job->helpers_wanted > 0) {
                --job->helpers_wanted;
                return job;
            }
        }
        return nullptr;
    }

    std::mutex mutex_;
    std::condition_variable work_waits_;
    std::condition_variable helper_begins_;
    std::condition_variable job_is_left_;
    std::vector<Job*> jobs_;

    /// Jobs posted so far: what a helper that does not sleep yet looks at.
    std::atomic<unsigned> posted_{0};
    std::atomic<int> sleeping_{0};
    int helpers_ = 0;
    int begun_ = 0;
};

}  // namespace

bool is_inside_body() noexcept { return inside_body; }

int hardware_threads() noexcept {
    // The system answers by reading files.
    static const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return count;
}

void set_thread_pool(ThreadPool* pool) noexcept { chosen_pool.store(pool); }

bool detail::run_chunks(std::int64_t count, int threads, ChunkBody body) {
    if (count <= 0) return true;
    if (threads <= 0) threads = num_threads();
    threads = static_cast<int>(std::min<std::int64_t>({threads, count, kMaxThreads}));
    if (threads == 1 || inside_body) return body.call(body.callable, 0, count);
    Job job(count, threads, body);
    if (ThreadPool* const pool = chosen_pool.load()) {
        pool->run(
            threads, [](void* context, int) { static_cast<Job*>(context)->work(); }, &job);
        // What a pool left undone.
        job.work();
    } else {
        Pool::instance().run(job, threads);
    }
    return job.finish();
}

#endif

}  // namespace quern
