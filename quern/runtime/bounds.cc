#include "quern/runtime/bounds.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>

#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/storage.h"
#include "quern/support/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern {
namespace {

/// The least time of some calls, in seconds.
double best_time(const std::function<void()>& call) {
    double best = 1e30, total = 0;
    for (int i = 0; i < 30 && (i < 5 || total < 0.15); ++i) {
        const auto start = std::chrono::steady_clock::now();
        call();
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best = std::min(best, seconds);
        total += seconds;
    }
    return best;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void copy_avx512(const float* src, float* dst,
                                                    std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) _mm512_storeu_ps(dst + i, _mm512_loadu_ps(src + i));
    for (; i < count; ++i) dst[i] = src[i];
}

__attribute__((target("avx2"))) void copy_avx2(const float* src, float* dst, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(dst + i, _mm256_loadu_ps(src + i));
    for (; i < count; ++i) dst[i] = src[i];
}

/// Of whole vectors, to multiples of their bytes.
__attribute__((target("avx512f"))) void stream_avx512(const float* src, float* dst,
                                                      std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        _mm512_stream_ps(dst + i, _mm512_loadu_ps(src + i));
    }
    _mm_sfence();
}

__attribute__((target("avx2"))) void stream_avx2(const float* src, float* dst, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 8) _mm256_stream_ps(dst + i, _mm256_loadu_ps(src + i));
    _mm_sfence();
}

__attribute__((target("avx512f"))) float read_avx512(const float* src, std::int64_t count) {
    __m512 sums[8] = {};
    std::int64_t i = 0;
    for (; i + 128 <= count; i += 128) {
        for (int k = 0; k < 8; ++k) {
            sums[k] = _mm512_add_ps(sums[k], _mm512_loadu_ps(src + i + k * 16));
        }
    }
    float all[16], total = std::accumulate(src + i, src + count, 0.0f);
    for (const __m512& sum : sums) {
        _mm512_storeu_ps(all, sum);
        for (const float x : all) total += x;
    }
    return total;
}

__attribute__((target("avx2"))) float read_avx2(const float* src, std::int64_t count) {
    __m256 sums[8] = {};
    std::int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        for (int k = 0; k < 8; ++k) {
            sums[k] = _mm256_add_ps(sums[k], _mm256_loadu_ps(src + i + k * 8));
        }
    }
    float all[8], total = std::accumulate(src + i, src + count, 0.0f);
    for (const __m256& sum : sums) {
        _mm256_storeu_ps(all, sum);
        for (const float x : all) total += x;
    }
    return total;
}

/// Multiply-adds that wait for nothing: 14 vectors, more than latency times units.
__attribute__((target("avx512f"))) float peak_avx512(std::int64_t rounds) {
    __m512 sums[14];
    for (int k = 0; k < 14; ++k) sums[k] = _mm512_set1_ps(float(k));
    const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 14
        for (int k = 0; k < 14; ++k) sums[k] = _mm512_fmadd_ps(sums[k], x, y);
    }
    float all[16], total = 0;
    for (const __m512& sum : sums) {
        _mm512_storeu_ps(all, sum);
        for (const float value : all) total += value;
    }
    return total;
}

__attribute__((target("avx2,fma"))) float peak_avx2(std::int64_t rounds) {
    __m256 sums[14];
    for (int k = 0; k < 14; ++k) sums[k] = _mm256_set1_ps(float(k));
    const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 14
        for (int k = 0; k < 14; ++k) sums[k] = _mm256_fmadd_ps(sums[k], x, y);
    }
    float all[8], total = 0;
    for (const __m256& sum : sums) {
        _mm256_storeu_ps(all, sum);
        for (const float value : all) total += value;
    }
    return total;
}

#endif

thread_local volatile float sink;

void copy_loop(const float* src, float* dst, std::int64_t count) {
#if defined(__x86_64__)
    if (cpu::has(cpu::Simd::Avx512)) return copy_avx512(src, dst, count);
    if (cpu::has(cpu::Simd::Avx2)) return copy_avx2(src, dst, count);
#endif
    std::copy_n(src, count, dst);
}

void stream_loop(const float* src, float* dst, std::int64_t count) {
#if defined(__x86_64__)
    if (cpu::has(cpu::Simd::Avx512)) return stream_avx512(src, dst, count);
    if (cpu::has(cpu::Simd::Avx2)) return stream_avx2(src, dst, count);
#endif
    copy_loop(src, dst, count);
}

float read_loop(const float* src, std::int64_t count) {
#if defined(__x86_64__)
    if (cpu::has(cpu::Simd::Avx512)) return read_avx512(src, count);
    if (cpu::has(cpu::Simd::Avx2)) return read_avx2(src, count);
#endif
    // Sums that do not wait for each other, which compilers make vectors of.
    float sums[32] = {};
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        for (int k = 0; k < 32; ++k) sums[k] += src[i + k];
    }
    return std::accumulate(src + i, src + count, std::accumulate(sums, sums + 32, 0.0f));
}

/// What a thread takes at a time, in numbers: a few pages.
constexpr std::int64_t kPiece = 1 << 14;

/// Calls `body(begin, count)` for every piece.
template <class Body>
void for_pieces(std::int64_t count, int threads, const Body& body) {
    parallel_for((count + kPiece - 1) / kPiece, threads, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * kPiece;
        body(first, std::min(count, end * kPiece) - first);
    });
}

}  // namespace

void plain_copy(const float* src, float* dst, std::int64_t count, int threads) {
    for_pieces(count, threads, [&](std::int64_t begin, std::int64_t length) {
        copy_loop(src + begin, dst + begin, length);
    });
}

void plain_read(const float* src, std::int64_t count, int threads) {
    for_pieces(count, threads, [&](std::int64_t begin, std::int64_t length) {
        sink = read_loop(src + begin, length);
    });
}

double Bounds::seconds_of(double bytes_read, double bytes_written) const {
    const double a_byte_written = std::max(2 / copy - 1 / read, 0.0);
    return bytes_read / read + bytes_written * a_byte_written;
}

Bounds measure_bounds(int threads) {
    Bounds bounds;
    constexpr std::int64_t kCount = 1 << 24;
    // As tensors lie: in large pages where there are any, which are faster to go through.
    const auto filled = [](float value) {
        auto storage = Storage::allocate(kCount * sizeof(float), Storage::Fill::None);
        std::fill_n(reinterpret_cast<float*>(storage->data()), kCount, value);
        return storage;
    };
    const auto from_storage = filled(1), to_storage = filled(2);
    const auto* const from = reinterpret_cast<const float*>(from_storage->data());
    auto* const to = reinterpret_cast<float*>(to_storage->data());
    const double copy = best_time([&] {
        for_pieces(kCount, threads, [&](std::int64_t begin, std::int64_t length) {
            stream_loop(from + begin, to + begin, length);
        });
    });
    bounds.copy = 2.0 * 4 * kCount / copy;
    bounds.read = 4.0 * kCount / best_time([&] { plain_read(from, kCount, threads); });
#if defined(__x86_64__)
    if (!cpu::has(cpu::Simd::Avx2)) return bounds;
    constexpr std::int64_t kRounds = 1 << 21;
    const bool is_wide = cpu::has(cpu::Simd::Avx512);
    const double seconds = best_time([&] {
        parallel_for(threads, threads, [&](std::int64_t begin, std::int64_t end) {
            for (; begin < end; ++begin) sink = is_wide ? peak_avx512(kRounds) : peak_avx2(kRounds);
        });
    });
    bounds.operations = double(threads) * kRounds * 14 * 2 * (is_wide ? 16 : 8) / seconds;
#endif
    return bounds;
}

}  // namespace quern
