// expect: error_in_kernel_text<.*wrong_number_of_arguments, 4, 18>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = exp(x[i], 2)
}
)");
