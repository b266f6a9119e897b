// The library as a plug-in of another program has it: loaded late, by any thread.

#include <atomic>
#include <thread>

#include "quern/future.h"

/// Begins work that lasts until `may_end`.
extern "C" __attribute__((visibility("default"))) void begin(std::atomic<bool>& may_end,
                                                             std::atomic<bool>& has_ended) {
    quern::run_async<bool>([&] {
        while (!may_end) std::this_thread::yield();
        has_ended = true;
        return true;
    });
}
