// expect: error_in_kernel_text<.*loop_variable_is_assigned, 4, 9>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        i = 3
        out[i] = x[i]
}
)");
