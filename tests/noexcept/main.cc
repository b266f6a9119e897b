// Links the library as it is built with -fno-exceptions and runs a kernel.

#include <cstdio>

#include "quern/kernel.h"
#include "quern/tensor.h"

int main() {
    const auto x = quern::Tensor::from<float>({2, 2}, {1, 2, 3, 4});
    const quern::Kernel square(R"(compute(x) {
        @kernel elementwise
        for i in 0..len:
            out[i] = x[i] * x[i]
    })");
    const quern::Tensor y = square(x);
    std::puts(quern::to_string(y).c_str());
    return y.values() == std::vector<double>{1, 4, 9, 16} ? 0 : 1;
}
