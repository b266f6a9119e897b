// expect: error_in_kernel_text<.*tabs_and_spaces_mixed_in_indentation, 3, 1>
#include "quern/lang/compile_time.h"

const auto text = QUERN_CHECKED_TEXT(R"(compute(x) {
    @kernel custom
	out = x
}
)");
