#include "quern/stream.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern {

using detail::Completion;
using Completions = std::vector<Completion>;

struct Stream::State {
    Mutex mutex;

    /// What the next piece of work begins after: the piece before it, and events.
    Completions before;
};

namespace {

/// What has ended holds nothing up.
void forget_done(Completions& list) {
    std::erase_if(list, [](const Completion& each) { return each.is_done(); });
}

}  // namespace

bool Event::has_happened() const noexcept {
    return std::ranges::all_of(before_, [](const Completion& each) { return each.is_done(); });
}

void Event::wait() const {
    for (const Completion& each : before_) each.wait();
}

Stream::Stream() : state_(or_out_of_memory("stream", [] { return std::make_shared<State>(); })) {}

void Stream::enqueue(std::shared_ptr<detail::Task> task, Completions others) {
    or_out_of_memory("stream", [&] {
        Completions before = {task->done};
        const auto missing = std::make_shared<std::atomic<std::size_t>>();
        const auto one_less = [missing, task] {
            if (missing->fetch_sub(1) == 1) detail::run_later(task);
        };
        std::vector<std::unique_ptr<detail::Continuation>> next;
        const auto add_next = [&] {
            next.push_back(std::make_unique<detail::Continuation>());
            next.back()->call = one_less;
        };
        for (std::size_t i = 0; i < others.size(); ++i) add_next();
        {
            const Lock lock(state_->mutex);
            for (std::size_t i = 0; i < state_->before.size(); ++i) add_next();
            others.reserve(others.size() + state_->before.size());
            // From here on nothing fails: what comes behind waits for this.
            std::swap(before, state_->before);
        }
        others.insert(others.end(), before.begin(), before.end());
        // One more than there are, so that it does not begin before all of them are asked.
        *missing = others.size() + 1;
        for (std::size_t i = 0; i < others.size(); ++i) others[i].then(std::move(next[i]));
        one_less();
    });
}

Event Stream::record() const {
    return or_out_of_memory("stream", [&] {
        Event event;
        const Lock lock(state_->mutex);
        forget_done(state_->before);
        event.before_ = state_->before;
        return event;
    });
}

void Stream::wait(const Event& event) {
    const Lock lock(state_->mutex);
    forget_done(state_->before);
    for (const Completion& each : event.before_) {
        const bool is_new = std::ranges::find(state_->before, each) == state_->before.end();
        if (!is_new || each.is_done()) continue;
        or_out_of_memory("stream", [&] { state_->before.push_back(each); });
    }
}

}  // namespace quern
