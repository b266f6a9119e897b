// expect: error_in_kernel_text<.*two_kernel_decorators, 3, 6>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel matmul
    @kernel fused
    out = x
}
)");
