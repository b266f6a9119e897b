// Softmax and layer norm of rows as one writes them by hand for AVX-512: what the same kernels of
// the language are measured against.
#pragma once

#if defined(__x86_64__)
// GCC 12 warns of its own _mm512_undefined_ps() (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cmath>
#include <cstdint>

namespace quern::bench {

#define QUERN_AVX512 __attribute__((target("avx512f,avx512dq")))

/// e^x, below 2 ulp, for x in [-87, 88].
QUERN_AVX512 inline __m512 exp16(__m512 x) {
    const __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.442695041f)), 0);
    __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(0.693145752f), x);
    r = _mm512_fnmadd_ps(k, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.3816976e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.369095e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.166825e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666517e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.9999994e-1f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
    return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), k);
}

QUERN_AVX512 inline __m512 added(const __m512* sums) {
    return _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
}

/// out = e^(x - max x) / sum of it, for each of `rows` rows; `width` is a multiple of 64.
QUERN_AVX512 inline void softmax_rows(const float* x, float* out, std::int64_t rows,
                                      std::int64_t width) {
    for (std::int64_t row = 0; row < rows; ++row, x += width, out += width) {
        __m512 most[4], sums[4];
        for (int k = 0; k < 4; ++k) {
            most[k] = _mm512_loadu_ps(x + 16 * k);
            sums[k] = _mm512_setzero_ps();
        }
        for (std::int64_t i = 64; i < width; i += 64) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                most[k] = _mm512_max_ps(most[k], _mm512_loadu_ps(x + i + 16 * k));
            }
        }
        const __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(
            _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]))));
        for (std::int64_t i = 0; i < width; i += 64) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                const __m512 e = exp16(_mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * k), largest));
                sums[k] = _mm512_add_ps(sums[k], e);
                _mm512_storeu_ps(out + i + 16 * k, e);
            }
        }
        const __m512 sum = _mm512_set1_ps(_mm512_reduce_add_ps(added(sums)));
        for (std::int64_t i = 0; i < width; i += 16) {
            _mm512_storeu_ps(out + i, _mm512_div_ps(_mm512_loadu_ps(out + i), sum));
        }
    }
}

/// out = (x - mean) / sqrt(variance + eps) * gamma + beta, for each of `rows` rows; `width` is a
/// multiple of 64.
QUERN_AVX512 inline void layer_norm_rows(const float* x, const float* gamma, const float* beta,
                                         float* out, std::int64_t rows, std::int64_t width,
                                         float eps) {
    for (std::int64_t row = 0; row < rows; ++row, x += width, out += width) {
        __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                          _mm512_setzero_ps()};
        for (std::int64_t i = 0; i < width; i += 64) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                sums[k] = _mm512_add_ps(sums[k], _mm512_loadu_ps(x + i + 16 * k));
            }
        }
        const __m512 mean =
            _mm512_set1_ps(_mm512_reduce_add_ps(added(sums)) / static_cast<float>(width));
        for (__m512& sum : sums) sum = _mm512_setzero_ps();
        for (std::int64_t i = 0; i < width; i += 64) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * k), mean);
                sums[k] = _mm512_fmadd_ps(d, d, sums[k]);
            }
        }
        const float variance = _mm512_reduce_add_ps(added(sums)) / static_cast<float>(width);
        const __m512 scale = _mm512_set1_ps(1.0f / std::sqrt(variance + eps));
        for (std::int64_t i = 0; i < width; i += 16) {
            const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
            _mm512_storeu_ps(out + i,
                             _mm512_fmadd_ps(_mm512_mul_ps(d, scale), _mm512_loadu_ps(gamma + i),
                                             _mm512_loadu_ps(beta + i)));
        }
    }
}

#undef QUERN_AVX512

}  // namespace quern::bench
#endif
