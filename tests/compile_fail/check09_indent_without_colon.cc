// expect: error_in_kernel_text<.*unexpected_indentation, 4, 9>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    out = x
        out = x
}
)");
