#include "quern/support/threads.h"

#include <algorithm>

#include "quern/support/check.h"

#ifndef QUERN_NO_THREADS
#include <atomic>
#include <condition_variable>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>
#endif

namespace quern {

#ifdef QUERN_NO_THREADS

int hardware_threads() noexcept { return 1; }

bool detail::run_chunks(std::int64_t count, int, ChunkBody body) {
    return count <= 0 || body.call(body.callable, 0, count);
}

#else

namespace {

constexpr int kMaxThreads = 1024;

/// Ranges per thread: enough that threads whose ranges are cheap take over from the others.
constexpr std::int64_t kChunksPerThread = 8;

thread_local bool inside_body = false;

/// One call of parallel_for. Lives on the caller's stack.
class Job {
public:
    Job(std::int64_t count, int threads, detail::ChunkBody body)
        : helpers_wanted(threads - 1),
          body_(body),
          count_(count),
          chunk_(std::max<std::int64_t>(1, count / (threads * kChunksPerThread))) {}

    /// Works on ranges until there are none left.
    void work() {
        inside_body = true;
        while (!stopped_.load(std::memory_order_relaxed)) {
            const std::int64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
            if (begin >= count_) break;
            if (!call(begin, std::min(count_, begin + chunk_))) stopped_.store(true);
        }
        inside_body = false;
    }

    /// The result, once nobody works on it.
    bool finish() {
#if QUERN_EXCEPTIONS
        if (thrown_) std::rethrow_exception(thrown_);
#endif
        return !stopped_.load();
    }

    /// Guarded by the pool's mutex.
    int helpers_wanted;
    int helpers_at_work = 0;
    std::condition_variable done;

private:
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
    std::int64_t chunk_;
    std::atomic<std::int64_t> next_{0};
    std::atomic<bool> stopped_{false};
#if QUERN_EXCEPTIONS
    std::atomic<bool> has_thrown_{false};
    std::exception_ptr thrown_;
#endif
};

/// Threads that wait for jobs. They are never joined: the pool outlives every static object, and
/// a process that forked or exits from a helper has nothing to wait for.
class Pool {
public:
    static Pool& instance() {
        static Pool& pool = *new Pool;
        return pool;
    }

    void run(Job& job, int threads) {
        {
            std::unique_lock lock(mutex_);
            start_helpers(threads - 1);
            // A process that exits while a thread only begins trips what walks over threads then,
            // as leak checkers do.
            helper_begins_.wait(lock, [this] { return begun_ == helpers_; });
            jobs_.push_back(&job);
        }
        work_waits_.notify_all();
        job.work();
        std::unique_lock lock(mutex_);
        std::erase(jobs_, &job);
        job.done.wait(lock, [&job] { return job.helpers_at_work == 0; });
    }

private:
    /// Needs the mutex. A system that refuses another thread leaves the work to those there are.
    void start_helpers(int wanted) {
        while (helpers_ < wanted) {
#if QUERN_EXCEPTIONS
            try {
                std::thread([this] { help(); }).detach();
            } catch (const std::system_error&) {
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
            Job* job = nullptr;
            work_waits_.wait(lock, [&] { return (job = claim()) != nullptr; });
            ++job->helpers_at_work;
            lock.unlock();
            job->work();
            lock.lock();
            // Under the mutex: the job is gone as soon as its caller sees zero.
            if (--job->helpers_at_work == 0) job->done.notify_one();
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
    std::vector<Job*> jobs_;
    int helpers_ = 0;
    int begun_ = 0;
};

}  // namespace

int hardware_threads() noexcept {
    // The system answers by reading files.
    static const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return count;
}

bool detail::run_chunks(std::int64_t count, int threads, ChunkBody body) {
    if (count <= 0) return true;
    if (threads <= 0) threads = hardware_threads();
    threads = static_cast<int>(std::min<std::int64_t>({threads, count, kMaxThreads}));
    if (threads == 1 || inside_body) return body.call(body.callable, 0, count);
    Job job(count, threads, body);
    Pool::instance().run(job, threads);
    return job.finish();
}

#endif

}  // namespace quern
