// expect: error_in_kernel_text<.*kernel_body_is_not_written, 3, 5>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    ...
}
)");
