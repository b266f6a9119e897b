// expect: error_in_kernel_text<.*nested_too_deeply, 1, 49>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(
    R"(let a = (((((((((((((((((((((((((((((((((((((((((b))))))))))))))))))))))))))))))))))))))))))");
