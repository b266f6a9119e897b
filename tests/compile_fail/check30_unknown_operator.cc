// expect: error_in_kernel_text<.*unknown_reduction_operator, 2, 20>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel reduce(%)
    for i in 0..n:
        yield x[i]
}
)");
