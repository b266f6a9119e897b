// expect: wrong_number_of_operands<2, 1>
#include "quern/lang/compile_time.h"

const auto kernel = QUERN_TEXT(R"(compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] + y[i]
})");

template <class Text, class... Operands>
void call(Text, const Operands&...) {
    quern::lang::require_operands<Text, sizeof...(Operands)>();
}

void one_operand() { call(kernel, 1); }
