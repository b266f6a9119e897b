// expect: error_in_kernel_text<.*unknown_decorator, 2, 6>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernal elementwise
    out = x
}
)");
