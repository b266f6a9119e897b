// expect: dimension_has_two_values<.*dimension<'K'>, 5, 4, 5, 43>
#include "quern/lang/static_shapes.h"

constexpr auto matmul = QUERN_TEXT(R"(let C = compute(A, B) {
    @kernel matmul
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K: sum += A[i, k] * B[k, j]
        out[i, j] = sum
})");

void multiply() {
    using quern::StaticShape;
    quern::lang::require_shapes<decltype(matmul), StaticShape<3, 5>, StaticShape<4, 7>>();
}
