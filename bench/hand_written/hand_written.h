// What the same kernels of the language are measured against.
#pragma once

#include <cstdint>

namespace quern::bench {

/// Of rows of so many elements that lie behind each other and begin at a line of the cache.
inline constexpr std::int64_t kRowWidth = 2048;

struct HandWritten {
    const char* instructions;
    void (*softmax)(const float* x, float* out, std::int64_t rows);
    void (*layer_norm)(const float* x, const float* gamma, const float* beta, float* out,
                       std::int64_t rows, float eps);
};

extern const HandWritten kByHandWithAvx2, kByHandWithAvx512;

}  // namespace quern::bench
