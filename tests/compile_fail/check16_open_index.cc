// expect: error_in_kernel_text<.*bracket_is_never_closed, 4, 19>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i
}
)");
