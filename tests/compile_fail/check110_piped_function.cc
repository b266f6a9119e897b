// expect: error_in_kernel_text<.*unknown_function, 5, 6>
#include "quern/lang/compile_time.h"

const auto text = QUERN_KERNEL_TEXT(R"(compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i]
} |> foo() |> sqrt())");
