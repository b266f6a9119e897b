// expect: error_in_kernel_text<.*expected_an_indented_block_after_colon, 4, 1>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(let C = compute(A, B) {
@kernel matmul
for i in 0..M, j in 0..N:
var sum = 0.0
for k in 0..K:
sum += A[i, k] * B[k, j]
out[i, j] = sum
}
)");
