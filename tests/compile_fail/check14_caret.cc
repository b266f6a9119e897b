// expect: error_in_kernel_text<.*character_is_not_part_of_the_language, 4, 23>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i] ^ 2
}
)");
