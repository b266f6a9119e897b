#pragma once

#include <functional>
#include <utility>

#include "quern/threads.h"

namespace quern {

/// Does something once, in the middle of the next launch on "cpu" or the interpreter that several
/// threads share.
class DuringLaunch final : public ThreadPool {
public:
    explicit DuringLaunch(std::function<void()> what) : what_(std::move(what)) {
        set_num_threads(2);
        set_thread_pool(this);
    }
    ~DuringLaunch() override {
        set_thread_pool(nullptr);
        set_num_threads(0);
    }

    void run(int count, void (*task)(void*, int), void* context) noexcept override {
        if (auto what = std::exchange(what_, nullptr)) what();
        for (int i = 0; i < count; ++i) task(context, i);
    }
    bool has_happened() const { return !what_; }

private:
    std::function<void()> what_;
};

}  // namespace quern
