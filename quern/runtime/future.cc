#include "quern/future.h"

#include <algorithm>
#include <new>
#include <utility>

#include "quern/error.h"
#include "quern/runtime/ending.h"
#include "quern/runtime/launched.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

#ifndef QUERN_NO_THREADS
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#endif

namespace quern::detail {

void refuse_empty_future() {
    raise(ValueError("[future] expected the future of some work, got an empty one"));
}

void refuse_no_futures(const char* function) {
    raise(ValueError(std::string("[") + function +
                     "] E0631: expected at least one future, got none"));
}

namespace {

/// Calls `work` and gives what it threw.
std::exception_ptr error_of(const std::function<void()>& work) {
#if QUERN_EXCEPTIONS
    try {
        work();
    } catch (...) {
        return std::current_exception();
    }
#else
    work();
#endif
    return nullptr;
}

/// The same, and waits for what the work has launched, by `wait`, which calls what it gets.
template <class Wait>
std::exception_ptr error_of_all(Task& task, const Wait& wait) {
    const Launched launched;
    std::exception_ptr error = error_of(task.call);
    // What the work held is released before anybody sees its end.
    task.call = nullptr;
    if (launched.is_empty()) return error;
    std::exception_ptr lost;
    wait([&] { lost = error_of([&] { launched.wait(); }); });
    return error ? error : lost;
}

}  // namespace

/// In the order in which they were added.
class Continuations {
public:
    Continuations() = default;
    Continuations(Continuations&&) = default;
    Continuations& operator=(Continuations&&) = default;
    ~Continuations() { clear(); }

    void add(std::unique_ptr<Continuation> added) noexcept {
        Continuation* const last = added.get();
        (first_ ? last_->next : first_) = std::move(added);
        last_ = last;
    }

    void call_all() {
        Continuations all;
        std::swap(all.first_, first_);
        for (Continuation* each = all.first_.get(); each; each = each->next.get()) each->call();
    }

private:
    /// One by one: a long list would be as deep a recursion.
    void clear() noexcept {
        while (first_) first_ = std::move(first_->next);
    }

    std::unique_ptr<Continuation> first_;
    Continuation* last_ = nullptr;
};

#ifdef QUERN_NO_THREADS

struct Completion::State {
    bool is_done = false;
    std::exception_ptr error;
    Continuations next;
};

bool Completion::is_done() const noexcept { return state_->is_done; }

void Completion::finish(std::exception_ptr error) {
    state_->error = std::move(error);
    state_->is_done = true;
    state_->next.call_all();
}

void Completion::wait() const {
    if (!state_->is_done)
        raise(ValueError("[future] expected work that is done, got some that waits for itself"));
}

bool Completion::wait_until(std::chrono::steady_clock::time_point) const { return state_->is_done; }

void Completion::then(std::unique_ptr<Continuation> next) noexcept {
    if (state_->is_done) return next->call();
    state_->next.add(std::move(next));
}

void run_later(std::shared_ptr<Task> task) noexcept {
    task->done.finish(error_of_all(*task, [](const auto& wait) { wait(); }));
}

#else

namespace {

/// Threads that take work in the order in which it comes. As many work at a time as num_threads()
/// says, those that wait for a future not counted, so that work may wait for work. Never destroyed:
/// a program that ends waits for what it began, and the threads sleep on.
class Executor {
public:
    static Executor& instance() noexcept {
        // Where there is no memory it is there too.
        alignas(Executor) static std::byte memory[sizeof(Executor)];
        static Executor& executor = *new (memory) Executor;
        return executor;
    }

    /// False if there is no thread.
    bool post(std::shared_ptr<Task> task) noexcept {
        wait_at_end(Begun::Tasks, finish);
        {
            const std::lock_guard lock(mutex_);
            if (!has_thread_for(queued_ + 1)) return false;
            Task* const added = task.get();
            (last_ ? last_->next : first_) = std::move(task);
            last_ = added;
            ++queued_;
            ++unfinished_;
        }
        work_waits_.notify_one();
        return true;
    }

    /// Around a wait of the calling thread. False if nobody would be left to do what is queued, and
    /// the system gives no thread for it: then the caller does it itself.
    bool begin_wait() {
        if (!is_counted()) return true;
        const std::lock_guard lock(mutex_);
        ++waiting_;
        if (queued_ == 0 || has_thread_for(queued_)) return true;
        --waiting_;
        return false;
    }
    void end_wait() {
        if (!is_counted()) return;
        const std::lock_guard lock(mutex_);
        --waiting_;
    }

    /// Does the first of what is queued, if there is any.
    void work_once() {
        std::unique_lock lock(mutex_);
        if (first_) work_on_first(lock);
    }

private:
    Executor() {
        // For programs whose first thread neither loaded the library nor began anything.
        std::atexit(finish);
#if defined(__unix__) || defined(__APPLE__)
        ::pthread_atfork(nullptr, nullptr, begin_anew);
#endif
    }

    struct InChild {};
    explicit Executor(InChild) {}

    /// A child of fork() has none of the threads, and of what they did nobody knows how far it is.
    static void begin_anew() {
        is_worker() = false;
        new (&instance()) Executor(InChild{});
    }

    static void finish() { instance().finish_all(); }

    static bool& is_worker() {
        static thread_local bool is = false;
        return is;
    }

    /// Also where another thread waits for a body on this one: that may be one of ours.
    static bool is_counted() { return is_worker() || is_inside_body(); }

    /// Needs the mutex. Starts a thread if so much work needs one more. A system that refuses it
    /// leaves the work to those there are: false if there is none that could do it.
    bool has_thread_for(std::size_t queued) {
        if (queued <= std::size_t(idle_) || threads_ - waiting_ >= most_at_work()) return true;
#if QUERN_EXCEPTIONS
        try {
            std::thread([this] { work(); }).detach();
        } catch (const std::exception&) {
            return threads_ > waiting_;
        }
#else
        std::thread([this] { work(); }).detach();
#endif
        ++threads_;
        return true;
    }

    /// Ends where others have come back from waiting.
    void work() {
        is_worker() = true;
        std::unique_lock lock(mutex_);
        while (threads_ - waiting_ <= most_at_work()) {
            ++idle_;
            work_waits_.wait(lock, [this] { return first_ != nullptr; });
            --idle_;
            // The program may want fewer than there are.
            if (threads_ - waiting_ > most_at_work()) {
                work_waits_.notify_one();
                break;
            }
            work_on_first(lock);
        }
        --threads_;
    }

    void work_on_first(std::unique_lock<std::mutex>& lock) {
        std::shared_ptr<Task> task = std::move(first_);
        first_ = std::move(task->next);
        if (!first_) last_ = nullptr;
        --queued_;
        lock.unlock();
        task->done.finish(error_of_all(*task, [this](const auto& wait) {
            const bool is_counted = begin_wait();
            wait();
            if (is_counted) end_wait();
        }));
        task = nullptr;
        lock.lock();
        if (--unfinished_ <= 1) all_done_.notify_all();
    }

    /// Work that ends the program itself is not waited for.
    void finish_all() {
        const std::size_t own = is_worker() ? 1 : 0;
        std::unique_lock lock(mutex_);
        all_done_.wait(lock, [&] { return unfinished_ <= own; });
    }

    /// Two at least: a launch is prepared while another computes.
    static int most_at_work() noexcept { return std::max(2, num_threads()); }

    std::mutex mutex_;
    std::condition_variable work_waits_;
    std::condition_variable all_done_;

    /// The queue: a task holds the one behind it.
    std::shared_ptr<Task> first_;
    Task* last_ = nullptr;
    std::size_t queued_ = 0;
    std::size_t unfinished_ = 0;
    int threads_ = 0;
    int idle_ = 0;
    int waiting_ = 0;
};

}  // namespace

struct Completion::State {
    mutable std::mutex mutex;
    std::condition_variable happened;
    std::atomic<bool> is_done{false};
    std::exception_ptr error;
    Continuations next;
};

bool Completion::is_done() const noexcept {
    return state_->is_done.load(std::memory_order_acquire);
}

void Completion::finish(std::exception_ptr error) {
    Continuations next;
    {
        const std::lock_guard lock(state_->mutex);
        state_->error = std::move(error);
        std::swap(next, state_->next);
        state_->is_done.store(true, std::memory_order_release);
        state_->happened.notify_all();
    }
    next.call_all();
}

void Completion::wait() const {
    Executor& executor = Executor::instance();
    while (!is_done()) {
        if (!executor.begin_wait()) {
            executor.work_once();
            continue;
        }
        {
            std::unique_lock lock(state_->mutex);
            state_->happened.wait(lock, [this] { return is_done(); });
        }
        executor.end_wait();
    }
}

bool Completion::wait_until(std::chrono::steady_clock::time_point end) const {
    Executor& executor = Executor::instance();
    while (!is_done()) {
        if (!executor.begin_wait()) {
            executor.work_once();
            continue;
        }
        bool is = false;
        {
            std::unique_lock lock(state_->mutex);
            is = state_->happened.wait_until(lock, end, [this] { return is_done(); });
        }
        executor.end_wait();
        return is;
    }
    return true;
}

void Completion::then(std::unique_ptr<Continuation> next) noexcept {
    {
        const std::lock_guard lock(state_->mutex);
        if (!is_done()) return state_->next.add(std::move(next));
    }
    next->call();
}

void run_later(std::shared_ptr<Task> task) noexcept {
    if (Executor::instance().post(task)) return;
    if (!task->runs_anyway) task->call = [] { raise_out_of_memory("async"); };
    task->done.finish(error_of_all(*task, [](const auto& wait) { wait(); }));
}

#endif

Completion::Completion() : state_(std::make_shared<State>()) {}

void Completion::rethrow() const {
#if QUERN_EXCEPTIONS
    if (state_->error) std::rethrow_exception(state_->error);
#endif
}

}  // namespace quern::detail
