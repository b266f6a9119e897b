// expect: error_in_kernel_text<.*wrong_number_of_arguments, 5, 16>
#include "quern/lang/compile_time.h"

const auto text = QUERN_KERNEL_TEXT(R"(compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i]
} |> sqrt() |> abs(1))");
