#include "quern/stream.h"

#include <algorithm>
#include <atomic>

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

void begin(const std::function<void()>& work, const std::shared_ptr<Completion>& done) {
#if QUERN_EXCEPTIONS
    // On the thread on which the piece before has ended, which nothing may be thrown on.
    try {
        detail::run_later(work, done);
    } catch (...) {
        done->finish(std::current_exception());
    }
#else
    detail::run_later(work, done);
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

void Stream::enqueue(std::function<void()> work, std::shared_ptr<Completion> done) {
    Completions before = {done};
    {
        const Lock lock(state_->mutex);
        std::swap(before, state_->before);
    }
    // One more than there are, so that it does not begin before all of them are asked.
    auto missing = std::make_shared<std::atomic<std::size_t>>(before.size() + 1);
    const auto one_less = [missing, work = std::move(work), done = std::move(done)] {
        if (missing->fetch_sub(1) == 1) begin(work, done);
    };
    for (const auto& each : before) each->then(one_less);
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
