// expect: error_in_kernel_text<.*comparisons_do_not_chain, 3, 17>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    if 0 < x[0] < 4:
        out = x
}
)");
