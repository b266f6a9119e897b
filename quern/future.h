#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace quern {

class Stream;

namespace detail {

/// What follows when something has happened.
struct Continuation {
    /// Must not throw.
    std::function<void()> call;
    std::unique_ptr<Continuation> next;
};

/// Something that happens once. Copies are of one thing. Nothing is in it that came of the work:
/// who waits for its end does not hold its result.
class Completion {
public:
    Completion();

    bool is_done() const noexcept;

    /// It happens, with the error of the work or none. Called once.
    void finish(std::exception_ptr error = nullptr);
    void wait() const;
    bool wait_until(std::chrono::steady_clock::time_point end) const;

    /// Calls it at once if it has happened, else on the thread on which it happens.
    void then(std::unique_ptr<Continuation> next) noexcept;
    void then(std::function<void()> next) {
        auto made = std::make_unique<Continuation>();
        made->call = std::move(next);
        then(std::move(made));
    }

    /// Throws the error if there is one. Only once it has happened.
    void rethrow() const;

    bool operator==(const Completion& other) const noexcept = default;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// Work that is ready for a thread: made where the lack of memory can be thrown, so that it begins
/// where nothing may be.
struct Task {
    Task(std::function<void()> work, Completion finished)
        : call(std::move(work)), done(std::move(finished)) {}

    std::function<void()> call;
    Completion done;

    /// Where the system gives no thread, on the one that begins it.
    bool runs_anyway = false;

    /// Behind it in the queue.
    std::shared_ptr<Task> next;
};

/// Runs the task on a thread of the library, and then finishes what it does, with what it threw, or
/// with OutOfMemory if the system gives no thread and it does not run anyway. Called once for each
/// task.
void run_later(std::shared_ptr<Task> task) noexcept;

[[noreturn]] void refuse_empty_future();
[[noreturn]] void refuse_no_futures(const char* function);

/// Of the futures of some work, and of the work until it has ended.
template <class T>
struct FutureState {
    Completion done;
    std::optional<T> value;
};

/// The task of `work`, whose result is the state's value. The work is shared, since std::function
/// takes what can be copied only.
template <class T, class Work>
std::shared_ptr<Task> task_of(const std::shared_ptr<FutureState<T>>& state, Work work) {
    return std::make_shared<Task>(
        [state, shared = std::make_shared<Work>(std::move(work))] {
            state->value.emplace((*shared)());
        },
        state->done);
}

}  // namespace detail

/// The result of work that goes on, launches on devices included. Copies are of one result, which
/// any number of them may get, any number of times. Thread-safe. A program that ends waits for the
/// work that it began.
template <class T>
class Future {
public:
    /// Of no work; all but is_valid() and assignment throws ValueError.
    Future() = default;

    bool is_valid() const noexcept { return state_ != nullptr; }
    bool is_ready() const { return state().done.is_done(); }
    void wait() const { state().done.wait(); }

    /// False if the work goes on after `time`.
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) const {
        using Clock = std::chrono::steady_clock;
        const auto now = Clock::now();
        const std::chrono::duration<double> seconds = time;
        // As long as a clock can count to, or longer.
        if (!(seconds < std::chrono::hours(24 * 365))) return wait(), true;
        return state().done.wait_until(
            now + std::chrono::duration_cast<Clock::duration>(std::max(seconds, seconds.zero())));
    }

    /// Waits for the work. Throws what it threw, each time.
    const T& get() const& {
        state().done.wait();
        state().done.rethrow();
        return *state().value;
    }
    T get() && {
        const Future& self = *this;
        return self.get();
    }

    /// For `co_await future`: the coroutine goes on with the result, on a thread of the library
    /// unless it was there before. It may wait for other work there.
    auto operator co_await() const { return Awaiter{*this}; }

    /// Whether the two are of one result.
    bool operator==(const Future& other) const noexcept {
        return state_.get() == other.state_.get();
    }

private:
    struct Awaiter {
        Future future;
        bool await_ready() const { return future.is_ready(); }
        template <class Coroutine>
        void await_suspend(Coroutine coroutine) const {
            // As a task, since what else follows the work may be what the coroutine waits for.
            auto task = std::make_shared<detail::Task>(
                [coroutine]() mutable noexcept { coroutine.resume(); }, detail::Completion());
            task->runs_anyway = true;
            future.state().done.then([task] { detail::run_later(task); });
        }
        T await_resume() const { return future.get(); }
    };

    explicit Future(std::shared_ptr<detail::FutureState<T>> state) : state_(std::move(state)) {}

    detail::FutureState<T>& state() const {
        if (!state_) detail::refuse_empty_future();
        return *state_;
    }

    friend class Stream;
    template <class U, class V, class Work>
    friend Future<U> run_after(const std::vector<Future<V>>& before, Work work);
    template <class U, class Work>
    friend Future<U> run_async(Work work);
    template <class U>
    friend Future<U> ready_future(U value);
    template <class U>
    friend Future<std::pair<U, std::size_t>> when_any(std::vector<Future<U>> futures);

    std::shared_ptr<detail::FutureState<T>> state_;
};

/// Runs `work`, a callable that returns T, on a thread of the library. A program that ends waits
/// for it before exit handlers and the destructors of static objects run, which therefore cannot
/// stop it: work that goes on until it is told to end is told so before main() returns.
template <class T, class Work>
Future<T> run_async(Work work) {
    auto state = std::make_shared<detail::FutureState<T>>();
    detail::run_later(detail::task_of(state, std::move(work)));
    return Future<T>(std::move(state));
}

/// The same when the work of all of `before` is done, whether or not it failed. Throws ValueError
/// (E0631) if there are no futures.
template <class T, class U, class Work>
Future<T> run_after(const std::vector<Future<U>>& before, Work work) {
    if (before.empty()) detail::refuse_no_futures("run_after");
    for (const Future<U>& future : before) future.state();
    auto state = std::make_shared<detail::FutureState<T>>();
    auto task = detail::task_of(state, std::move(work));
    auto missing = std::make_shared<std::atomic<std::size_t>>(before.size());
    for (const Future<U>& each : before) {
        each.state().done.then([task, missing] {
            if (missing->fetch_sub(1) == 1) detail::run_later(task);
        });
    }
    return Future<T>(std::move(state));
}

/// A result that is there.
template <class T>
Future<T> ready_future(T value) {
    auto state = std::make_shared<detail::FutureState<T>>();
    state->value.emplace(std::move(value));
    state->done.finish();
    return Future<T>(std::move(state));
}

/// All results in the order of the futures, when each is done. Its error is the first in that
/// order. Throws ValueError (E0631) if there are no futures.
template <class T>
Future<std::vector<T>> when_all(std::vector<Future<T>> futures) {
    if (futures.empty()) detail::refuse_no_futures("when_all");
    return run_after<std::vector<T>>(futures, [futures] {
        std::vector<T> values;
        for (const Future<T>& done : futures) values.push_back(done.get());
        return values;
    });
}

/// The result of the first future that is done, and its number, the lowest where several are; its
/// error if it failed. The others go on. Throws ValueError (E0631) if there are no futures.
template <class T>
Future<std::pair<T, std::size_t>> when_any(std::vector<Future<T>> futures) {
    if (futures.empty()) detail::refuse_no_futures("when_any");
    for (const Future<T>& future : futures) future.state();
    using Result = std::pair<T, std::size_t>;
    struct Race {
        std::vector<Future<T>> futures;
        std::atomic<bool> is_won{false};
        std::size_t taken = 0;
    };
    auto state = std::make_shared<detail::FutureState<Result>>();
    auto race = std::make_shared<Race>();
    race->futures = futures;
    auto task = std::make_shared<detail::Task>(
        [state, race] {
            // Those that are not done yet do not keep what the others gave.
            const std::vector<Future<T>> all = std::move(race->futures);
            state->value.emplace(all[race->taken].get(), race->taken);
        },
        state->done);
    for (std::size_t i = 0; i < futures.size(); ++i) {
        futures[i].state().done.then([task, race, i] {
            if (race->is_won.exchange(true)) return;
            race->taken = i;
            detail::run_later(task);
        });
    }
    return Future<Result>(std::move(state));
}

}  // namespace quern
