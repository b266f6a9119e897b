// GCC 12 warns of its own _mm512_undefined_ps() (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "bench/hand_written/rows.h"

namespace quern::bench {
namespace {

struct Avx512 {
    using Vector = __m512;
    static constexpr std::int64_t kLanes = 16;

    static Vector load(const float* from) { return _mm512_loadu_ps(from); }
    static void store(float* to, Vector v) { _mm512_store_ps(to, v); }
    static void stream(float* to, Vector v) { _mm512_stream_ps(to, v); }
    static Vector all(float x) { return _mm512_set1_ps(x); }
    static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
    static Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
    static Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
    static Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
    static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
    static Vector fmadd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
    static Vector fnmadd(Vector a, Vector b, Vector c) { return _mm512_fnmadd_ps(a, b, c); }
    static Vector rounded(Vector a) { return _mm512_roundscale_ps(a, 0); }
    static Vector scaled(Vector a, Vector k) { return _mm512_scalef_ps(a, k); }
    static float sum_of(Vector a) { return _mm512_reduce_add_ps(a); }
    static float largest_of(Vector a) { return _mm512_reduce_max_ps(a); }
};

}  // namespace

const HandWritten kByHandWithAvx512 = {"AVX-512", softmax<Avx512>, layer_norm<Avx512>};

}  // namespace quern::bench
