// expect: error_in_kernel_text<.*closing_bracket_does_not_match, 4, 21>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i)
}
)");
