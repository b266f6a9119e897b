#include "bench/hand_written/rows.h"

namespace quern::bench {
namespace {

struct Avx2 {
    using Vector = __m256;
    static constexpr std::int64_t kLanes = 8;

    static Vector load(const float* from) { return _mm256_loadu_ps(from); }
    static void store(float* to, Vector v) { _mm256_store_ps(to, v); }
    static void stream(float* to, Vector v) { _mm256_stream_ps(to, v); }
    static Vector all(float x) { return _mm256_set1_ps(x); }
    static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
    static Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
    static Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
    static Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
    static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
    static Vector fmadd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
    static Vector fnmadd(Vector a, Vector b, Vector c) { return _mm256_fnmadd_ps(a, b, c); }
    static Vector rounded(Vector a) {
        return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }

    /// a 2^k, a normal number.
    static Vector scaled(Vector a, Vector k) {
        const __m256i bits = _mm256_slli_epi32(_mm256_cvtps_epi32(k), 23);
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), bits));
    }
    static float sum_of(Vector a) {
        __m128 sum = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
    }
    static float largest_of(Vector a) {
        __m128 most = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        most = _mm_max_ps(most, _mm_movehl_ps(most, most));
        return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    }
};

}  // namespace

const HandWritten kByHandWithAvx2 = {"AVX2", softmax<Avx2>, layer_norm<Avx2>};

}  // namespace quern::bench
