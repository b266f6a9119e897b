// expect: error_in_kernel_text<.*expected_an_expression, 1, 8>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(let a =
let b = 3 4
)");
