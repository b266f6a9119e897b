#pragma once

#include <cstdint>

// How a program ends that has begun work and not waited for it.

namespace quern::detail {

/// In the order in which the end waits for them: tasks begin launches.
enum class Begun : std::uint8_t { Tasks, Launches };

/// Called by the thread that begins work. The end of the program's first thread calls `wait` before
/// exit handlers run and objects with static storage are destroyed, so that those of compilers and
/// drivers, some of which are made while they work, are there until the work is done. Where another
/// thread has loaded the library, only if the first begins work too.
void wait_at_end(Begun work, void (*wait)()) noexcept;

}  // namespace quern::detail
