#pragma once

namespace quern {

/// What this machine reaches with plain loops of vector instructions. Zeros where there are none
/// for it.
struct Bounds {
    /// Bytes read and written a second by a copy, and read by a sum, of 64 MiB.
    double copy = 0;
    double read = 0;

    /// Multiply-adds of float32 that wait for nothing: operations a second, two for each.
    double operations = 0;
};

/// Measures for half a second or so, on `threads` threads.
Bounds measure_bounds(int threads);

}  // namespace quern
