// expect: error_in_kernel_text<.*string_is_never_closed, 1, 9>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(let a = "abc
)");
