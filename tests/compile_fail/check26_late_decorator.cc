// expect: error_in_kernel_text<.*decorator_after_the_first_statement, 4, 5>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    out = x
    @workgroup(16)
}
)");
