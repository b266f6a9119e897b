// expect: error_in_kernel_text<.*workgroup_takes_one_to_three_sizes, 3, 6>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    @workgroup(16, 16, 4, 2)
    out = x
}
)");
