// expect: success
#include "quern/lang/static_shapes.h"

constexpr auto matmul = QUERN_TEXT(R"(let C = compute(A, B) {
    @kernel matmul
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K: sum += A[i, k] * B[k, j]
        out[i, j] = sum
})");

constexpr auto declared = QUERN_TEXT(R"(compute(x: [m], y: [n]) {
    @kernel custom
    for i in 0..n:
        out[i] = x[i] + y[i]
})");

constexpr auto guarded = QUERN_TEXT(R"(compute(x, y) {
    @kernel custom
    for i in 0..n:
        let inside = i < m and x[i] > 0.0
        out[i] = y[i] + select(inside and i < m, x[i], 0.0)
})");

constexpr auto part = QUERN_TEXT(R"(compute(x: [m]) {
    @kernel custom
    for i in 0..3:
        out[i] = x[i]
})");

void read_parts() {
    using quern::StaticShape;
    quern::lang::require_shapes<decltype(declared), StaticShape<5>, StaticShape<3>>();
    quern::lang::require_shapes<decltype(guarded), StaticShape<3>, StaticShape<5>>();
    quern::lang::require_shapes<decltype(part), StaticShape<5>>();
}

void multiply() {
    using quern::AnyShape;
    using quern::StaticShape;
    quern::lang::require_operands<decltype(matmul), 2>();
    quern::lang::require_shapes<decltype(matmul), StaticShape<3, 5>, StaticShape<5, 7>>();
    quern::lang::require_shapes<decltype(matmul), StaticShape<3, 5>, AnyShape>();
}
