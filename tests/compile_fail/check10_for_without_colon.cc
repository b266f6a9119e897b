// expect: error_in_kernel_text<.*expected_colon_or_brace_to_open_a_block, 3, 20>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len
        out[i] = x[i]
}
)");
