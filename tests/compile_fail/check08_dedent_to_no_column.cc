// expect: error_in_kernel_text<.*dedent_to_a_column_never_opened, 5, 7>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i]
      out[0] = 1
}
)");
