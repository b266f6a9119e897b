// expect: error_in_kernel_text<.*size_must_be_positive, 3, 16>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    @workgroup(0)
    out = x
}
)");
