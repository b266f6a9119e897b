// expect: error_in_kernel_text<.*name_declared_twice, 4, 9>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    let a = 1
    var a = 2
    out = x
}
)");
