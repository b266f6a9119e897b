// Lets allocations fail: those of operator new in the whole program, and where the library is
// linked into it, those that it asks the C library and the system for.
#pragma once

#include <functional>

namespace quern::failing {

/// Lets the first allocation of `action` fail, then the second, and so on until none is left, and
/// then the same with all that follow the one: the action ends with OutOfMemory or well, nothing is
/// lost, and it works right after. Returns how many allocations there were. `prepare` allocates in
/// the test itself, before the library is called. `keeps` says that what is made may be kept for
/// the next call.
long fail_each_allocation(
    const std::function<void()>& action, const std::function<void()>& prepare = [] {},
    bool keeps = false);

/// The allocation after the next n fails.
void fail_one(long n);

/// All allocations fail, until it is called with false.
void fail_all(bool fails);

/// The system gives no thread, until it is called with false.
void refuse_threads(bool refuses);

/// Throws what no test expects.
void require(bool condition);

}  // namespace quern::failing
