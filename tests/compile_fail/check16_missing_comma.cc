// expect: error_in_kernel_text<.*expected_comma_or_closing_parenthesis, 4, 27>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = max(x[i] 2)
}
)");
