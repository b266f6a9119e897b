// expect: success
#include "quern/lang/static_shapes.h"

constexpr auto matmul = QUERN_TEXT(R"(let C = compute(A, B) {
    @kernel matmul
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K: sum += A[i, k] * B[k, j]
        out[i, j] = sum
})");

void multiply() {
    using quern::AnyShape;
    using quern::StaticShape;
    quern::lang::require_operands<decltype(matmul), 2>();
    quern::lang::require_shapes<decltype(matmul), StaticShape<3, 5>, StaticShape<5, 7>>();
    quern::lang::require_shapes<decltype(matmul), StaticShape<3, 5>, AnyShape>();
}
