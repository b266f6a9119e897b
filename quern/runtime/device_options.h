#pragma once

namespace quern {

/// The number of threads that the interpreter may use, at least 1: what `set_interpreter_threads`
/// set, else one for each hardware thread. Thread-safe.
int interpreter_threads() noexcept;

}  // namespace quern
