// expect: error_in_kernel_text<.*decorator_given_twice, 3, 13>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) @device("cpu") {
    @kernel custom
    @device("auto")
    out = x
}
)");
