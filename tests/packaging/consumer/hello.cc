// Uses tensors and a kernel as the README shows, through installed headers alone.

#include <cstdio>
#include <string>

#include "quern/kernel.h"
#include "quern/tensor.h"

/// The argument: the device that kernels run on.
int main(int count, char** words) {
    const auto x = quern::Tensor::from<float>({2, 3}, {1, -2, 3, -4, 5, -6});
    const quern::Kernel relu(R"(compute(x) {
        @kernel elementwise
        for i in 0..len:
            out[i] = relu(x[i])
    })");
    const quern::Tensor y = relu(x);
    std::puts(quern::to_string(y).c_str());
    const bool right = y.values() == std::vector<double>{1, 0, 3, 0, 5, 0} &&
                       x.permute({1, 0}).shape() == quern::Shape{3, 2};
    const bool is_expected = count == 2 && y.device().id() == words[1];
    if (!is_expected) std::printf("error: it ran on %s\n", std::string(y.device().id()).c_str());
    return right && is_expected ? 0 : 1;
}
