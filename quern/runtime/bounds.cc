#include "quern/runtime/bounds.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/storage.h"
#include "quern/support/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern {
namespace {

#if defined(__x86_64__)
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

__attribute__((target("avx2"))) void copy_loop(const float* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    }
}

__attribute__((target("avx2"))) float read_loop(const float* from, std::int64_t count) {
    __m256 sums[8] = {};
    for (std::int64_t i = 0; i + 64 <= count; i += 64) {
        for (int k = 0; k < 8; ++k) {
            sums[k] = _mm256_add_ps(sums[k], _mm256_loadu_ps(from + i + k * 8));
        }
    }
    float all[8], total = 0;
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

volatile float sink;
#endif

}  // namespace

Bounds measure_bounds(int threads) {
    Bounds bounds;
    static_cast<void>(threads);
#if defined(__x86_64__)
    if (!cpu::has(cpu::Simd::Avx2)) return bounds;
    constexpr std::int64_t kCount = 1 << 24, kPiece = 1024;
    // As tensors lie: in large pages where there are any, which are faster to go through.
    const auto filled = [](float value) {
        auto storage = Storage::allocate(kCount * sizeof(float), Storage::Fill::None);
        std::fill_n(reinterpret_cast<float*>(storage->data()), kCount, value);
        return storage;
    };
    const auto from_storage = filled(1), to_storage = filled(2);
    const auto* const from = reinterpret_cast<const float*>(from_storage->data());
    auto* const to = reinterpret_cast<float*>(to_storage->data());
    const auto shared = [&](auto body) {
        return best_time([&] { parallel_for(kCount / kPiece, threads, body); });
    };
    bounds.copy = 2.0 * 4 * kCount / shared([&](std::int64_t begin, std::int64_t end) {
                      copy_loop(from + begin * kPiece, to + begin * kPiece, (end - begin) * kPiece);
                  });
    bounds.read = 4.0 * kCount / shared([&](std::int64_t begin, std::int64_t end) {
                      sink = read_loop(from + begin * kPiece, (end - begin) * kPiece);
                  });
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
