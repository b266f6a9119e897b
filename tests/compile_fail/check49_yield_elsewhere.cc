// expect: error_in_kernel_text<.*yield_outside_a_reduce_kernel, 4, 5>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    out = x
    yield x[0]
}
)");
