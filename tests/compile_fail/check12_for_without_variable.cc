// expect: error_in_kernel_text<.*expected_a_loop_variable, 3, 9>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for in 0..n:
        out = x
}
)");
