#pragma once

#include <cstdint>

namespace quern {

/// What this machine reaches with plain loops of vector instructions.
struct Bounds {
    /// Bytes read and written a second by a copy that passes the caches by, and read by a sum, of
    /// 64 MiB.
    double copy = 0;
    double read = 0;

    /// Multiply-adds of float32 that wait for nothing: operations a second, two for each; 0 where
    /// no loop was written for the processor.
    double operations = 0;

    /// How long so many bytes take: reading takes its part of a copy, and writing the rest.
    double seconds_of(double bytes_read, double bytes_written) const;
};

/// Measures for half a second or so, on `threads` threads.
Bounds measure_bounds(int threads);

/// One loop over `count` numbers each, of the widest vectors that this processor has: what
/// benchmarks take for the bounds of memory. For callers who time them beside what they compare, as
/// the memory of a shared machine is faster at some times than at others.
void plain_copy(const float* src, float* dst, std::int64_t count, int threads);
void plain_read(const float* src, std::int64_t count, int threads);

}  // namespace quern
