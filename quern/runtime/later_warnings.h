#pragma once

#include <vector>

#include "quern/error.h"

namespace quern {

/// While it lives, this thread's warnings wait for its end: for who holds a lock that a handler,
/// who may launch kernels, would wait for. Made before the lock.
class LaterWarnings {
public:
    LaterWarnings();

    /// Throws what the handler throws, but where another error is on its way.
    ~LaterWarnings() noexcept(false);
    LaterWarnings(const LaterWarnings&) = delete;
    LaterWarnings& operator=(const LaterWarnings&) = delete;

private:
    friend void warn(const Diagnostic& diagnostic);

    /// The innermost of this thread, or null.
    static LaterWarnings*& current() noexcept;

    LaterWarnings* outer_;
    int errors_;
    std::vector<Diagnostic> all_;
};

}  // namespace quern
