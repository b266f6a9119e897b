// expect: error_in_kernel_text<.*decorator_given_twice, 1, 20>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) @async @async { @kernel custom; out = x })");
