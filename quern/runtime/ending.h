#pragma once

#include <cstdint>

// How a program ends that has begun work and not waited for it.

namespace quern::detail {

/// In the order in which the end waits for them: tasks begin launches.
enum class Begun : std::uint8_t { Tasks, Launches };

/// Called by the thread that begins work. If that is the one that the program began with, its end
/// calls `wait` before any object with static storage is destroyed, so that those of compilers and
/// drivers, some of which are made while they work, are there until the work is done.
void wait_at_end(Begun work, void (*wait)()) noexcept;

}  // namespace quern::detail
