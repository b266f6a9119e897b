#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

using Functions = Compiled;

/// Numbers of every size and sign, and what is special.
Tensor arguments(DType dtype) {
    std::vector<double> x = {0.0,   -0.0,   1.0,    -1.0, 0.5,    INFINITY, -INFINITY,
                             NAN,   1e-40,  -1e-40, 88.7, -103.9, 127.99,   -149.5,
                             709.7, -745.1, 1e5,    1e10, 3e38,   2.5};
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
        const double size = std::exp2(double(random.bits() % 60) - 40);
        x.push_back((random.bits() % 2 ? 1 : -1) * size *
                    (1 + double(random.bits() >> 12) * 0x1p-52));
    }
    return Tensor::from({std::int64_t(x.size())}, x).to(dtype);
}

TEST_F(Functions, HaveTheInterpretersBitsOnEveryLevel) {
    for (const char* name :
         {"abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt",
          "sin", "sinh", "sqrt", "tan", "tanh", "sigmoid", "relu"}) {
        const std::string text =
            "compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n        out[i] = " +
            std::string(name) + "(x[i])\n}";
        for (const DType dtype :
             {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
            SCOPED_TRACE(std::string(name) + " of " + std::string(to_string(dtype)));
            expect_agreement(Case(text, {arguments(dtype)}), 0);
        }
    }
}

TEST_F(Functions, PowersHaveTheInterpretersBits) {
    const char* text = R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = pow(x[i], y[i])
})";
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        const Tensor x = arguments(dtype);
        const Tensor y = uniform(x.shape(), 4, -3, 3, dtype);
        expect_agreement(Case(text, {x, y}), 0);
    }
}

}  // namespace
}  // namespace quern::cpu_test
