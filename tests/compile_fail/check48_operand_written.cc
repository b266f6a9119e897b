// expect: error_in_kernel_text<.*operand_is_written, 4, 5>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    out = x
    x[0] = 0
}
)");
