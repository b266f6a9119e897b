// Softmax and layer norm of rows as one writes them by hand with intrinsics, for the vectors V of
// avx2.cc and avx512.cc, which are compiled for those instructions.
//
// As our schedules do, they pass the caches by where they write, and ask for the next row early.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>

#include "bench/hand_written/hand_written.h"

namespace quern::bench {
namespace {

/// Vectors that are worked on in turn.
constexpr int kInTurn = 4;

constexpr std::int64_t kLineOfCache = 16;

/// e^x, below 2 ulp, for x in [-87, 88].
template <class V>
typename V::Vector exp_of(typename V::Vector x) {
    const auto k = V::rounded(V::mul(x, V::all(1.442695041f)));
    auto r = V::fnmadd(k, V::all(0.693145752f), x);
    r = V::fnmadd(k, V::all(1.42860677e-6f), r);
    auto p = V::all(1.3816976e-3f);
    p = V::fmadd(p, r, V::all(8.369095e-3f));
    p = V::fmadd(p, r, V::all(4.166825e-2f));
    p = V::fmadd(p, r, V::all(1.6666517e-1f));
    p = V::fmadd(p, r, V::all(4.9999994e-1f));
    p = V::fmadd(V::mul(r, r), p, r);
    return V::scaled(V::add(p, V::all(1.0f)), k);
}

template <class V>
typename V::Vector added(const typename V::Vector* sums) {
    return V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3]));
}

/// out = e^(x - max x) / sum of it.
template <class V>
void softmax(const float* x, float* out, std::int64_t rows) {
    constexpr std::int64_t step = kInTurn * V::kLanes;
    alignas(64) float row[kRowWidth];
    for (; rows > 0; --rows, x += kRowWidth, out += kRowWidth) {
        typename V::Vector most[kInTurn], sums[kInTurn];
        for (int k = 0; k < kInTurn; ++k) {
            most[k] = V::load(x + V::kLanes * k);
            sums[k] = V::all(0);
        }
        for (std::int64_t i = step; i < kRowWidth; i += step) {
#pragma GCC unroll 4
            for (int k = 0; k < kInTurn; ++k) {
                most[k] = V::max(most[k], V::load(x + i + V::kLanes * k));
            }
        }
        const auto largest =
            V::all(V::largest_of(V::max(V::max(most[0], most[1]), V::max(most[2], most[3]))));
        for (std::int64_t i = 0; i < kRowWidth; i += step) {
            for (std::int64_t line = 0; line < step; line += kLineOfCache) {
                _mm_prefetch(x + kRowWidth + i + line, _MM_HINT_T0);
            }
#pragma GCC unroll 4
            for (int k = 0; k < kInTurn; ++k) {
                const auto e = exp_of<V>(V::sub(V::load(x + i + V::kLanes * k), largest));
                sums[k] = V::add(sums[k], e);
                V::store(row + i + V::kLanes * k, e);
            }
        }
        const auto sum = V::all(V::sum_of(added<V>(sums)));
        for (std::int64_t i = 0; i < kRowWidth; i += V::kLanes) {
            V::stream(out + i, V::div(V::load(row + i), sum));
        }
    }
    _mm_sfence();
}

/// out = (x - mean) / sqrt(variance + eps) * gamma + beta.
template <class V>
void layer_norm(const float* x, const float* gamma, const float* beta, float* out,
                std::int64_t rows, float eps) {
    constexpr std::int64_t step = kInTurn * V::kLanes;
    constexpr auto width = static_cast<float>(kRowWidth);
    for (; rows > 0; --rows, x += kRowWidth, out += kRowWidth) {
        typename V::Vector sums[kInTurn];
        for (auto& sum : sums) sum = V::all(0);
        for (std::int64_t i = 0; i < kRowWidth; i += step) {
#pragma GCC unroll 4
            for (int k = 0; k < kInTurn; ++k) {
                sums[k] = V::add(sums[k], V::load(x + i + V::kLanes * k));
            }
        }
        const auto mean = V::all(V::sum_of(added<V>(sums)) / width);
        for (auto& sum : sums) sum = V::all(0);
        for (std::int64_t i = 0; i < kRowWidth; i += step) {
            for (std::int64_t line = 0; line < step; line += kLineOfCache) {
                _mm_prefetch(x + kRowWidth + i + line, _MM_HINT_T0);
            }
#pragma GCC unroll 4
            for (int k = 0; k < kInTurn; ++k) {
                const auto d = V::sub(V::load(x + i + V::kLanes * k), mean);
                sums[k] = V::fmadd(d, d, sums[k]);
            }
        }
        const float variance = V::sum_of(added<V>(sums)) / width;
        const auto scale = V::all(1.0f / std::sqrt(variance + eps));
        for (std::int64_t i = 0; i < kRowWidth; i += V::kLanes) {
            const auto d = V::sub(V::load(x + i), mean);
            V::stream(out + i, V::fmadd(V::mul(d, scale), V::load(gamma + i), V::load(beta + i)));
        }
    }
    _mm_sfence();
}

}  // namespace
}  // namespace quern::bench
