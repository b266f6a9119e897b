#include "quern/stream.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "quern/support/check.h"
#include "quern/support/threads.h"

namespace quern {

using detail::Completion;
using Completions = std::vector<std::shared_ptr<Completion>>;

struct Stream::State {
    Mutex mutex;

    /// What the next piece of work begins after: the piece before it, and events.
    Completions before;
};

namespace {

/// What has ended holds nothing up.
void forget_done(Completions& list) {
    std::erase_if(list, [](const auto& each) { return each->is_done(); });
}

/// Calls `next` when `each` has happened; where there is no memory to keep it until then, waits.
template <class Next>
void when_happened(Completion& each, const Next& next) {
#if QUERN_EXCEPTIONS
    try {
        return each.then(next);
    } catch (const std::bad_alloc&) {
        each.wait();
    }
    next();
#else
    each.then(next);
#endif
}

}  // namespace

bool Event::has_happened() const noexcept {
    return std::ranges::all_of(before_, [](const auto& each) { return each->is_done(); });
}

void Event::wait() const {
    for (const auto& each : before_) each->wait();
}

Stream::Stream() : state_(std::make_shared<State>()) {}

void Stream::enqueue(std::shared_ptr<detail::Task> task) {
    Completions before = {task->done};
    const auto missing = std::make_shared<std::atomic<std::size_t>>();
    // From here on nothing fails: what comes behind waits for this.
    {
        const Lock lock(state_->mutex);
        std::swap(before, state_->before);
    }
    // One more than there are, so that it does not begin before all of them are asked.
    *missing = before.size() + 1;
    const auto one_less = [missing, task = std::move(task)] {
        if (missing->fetch_sub(1) == 1) detail::run_later(task);
    };
    for (const auto& each : before) when_happened(*each, one_less);
    one_less();
}

Event Stream::record() const {
    Event event;
    const Lock lock(state_->mutex);
    forget_done(state_->before);
    event.before_ = state_->before;
    return event;
}

void Stream::wait(const Event& event) {
    const Lock lock(state_->mutex);
    forget_done(state_->before);
    for (const auto& each : event.before_) {
        const bool is_new = std::ranges::find(state_->before, each) == state_->before.end();
        if (is_new && !each->is_done()) state_->before.push_back(each);
    }
}

}  // namespace quern
