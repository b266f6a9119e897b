#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/future.h"

namespace quern {

/// What a stream had been given at some moment. Thread-safe.
class Event {
public:
    /// Of nothing: it has happened.
    Event() = default;

    /// Whether all of it has ended, launches on devices included, with a result or an error.
    bool has_happened() const noexcept;
    void wait() const;

private:
    friend class Stream;
    std::vector<detail::Completion> before_;
};

/// A queue of work, each piece of which begins when the one before has ended. Copies are of one
/// queue. Work goes on when the last of them is gone. Thread-safe.
class Stream {
public:
    Stream();

    // What was moved from is a copy, too.
    Stream(const Stream&) = default;
    Stream& operator=(const Stream&) = default;

    /// Runs `work`, a callable that returns a value, on a thread of the library, as run_async does.
    /// An error is the future's; what comes behind runs all the same.
    template <class Work>
    auto run(Work work) {
        return run_behind(std::vector<Future<int>>(), std::move(work));
    }

    /// What has been given to this stream so far.
    Event record() const;

    /// Lets what is given to this stream from now on begin after the event has happened.
    void wait(const Event& event);

    /// Waits for what has been given to this stream so far.
    void synchronize() const { record().wait(); }

private:
    friend class AsyncKernel;
    struct State;

    /// The same, when the work of `others` is done too, whether or not it failed.
    template <class U, class Work>
    auto run_behind(const std::vector<Future<U>>& others, Work work) {
        using T = std::invoke_result_t<Work&>;
        static_assert(!std::is_void_v<T>, "work of a stream returns a value");
        std::vector<detail::Completion> before;
        for (const Future<U>& other : others) before.push_back(other.state().done);
        auto state = std::make_shared<detail::FutureState<T>>();
        enqueue(detail::task_of(state, std::move(work)), std::move(before));
        return Future<T>(std::move(state));
    }

    void enqueue(std::shared_ptr<detail::Task> task, std::vector<detail::Completion> others);
    std::shared_ptr<State> state_;
};

}  // namespace quern
