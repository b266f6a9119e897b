// What fast mode may relax is what the kernel writes, and not the insides of functions.

#include <gtest/gtest.h>

#include <algorithm>

#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::schedule {
namespace {

struct Count {
    long relaxed = 0;
    long arithmetic = 0;
};

/// Of floats.
Count arithmetic_of(const std::string& value, Numerics numerics) {
    const cpu_test::Case c(
        "compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = " + value + "\n}",
        {Tensor({64})});
    Count count;
    for (const Stage& stage :
         plan(c.kernel(), c.facts(), numerics, {.lanes = 1, .native = {.fma = false}}).stages) {
        for (const lir::Inst& inst : stage.function.insts) {
            const bool is_arithmetic = inst.op == lir::Op::Add || inst.op == lir::Op::Sub ||
                                       inst.op == lir::Op::Mul || inst.op == lir::Op::Div;
            count.arithmetic += is_arithmetic && is_floating(inst.type.dtype) ? 1 : 0;
            count.relaxed += inst.is_relaxed ? 1 : 0;
        }
    }
    return count;
}

TEST(Relaxed, AreTheOperationsOfTheKernelInFastMode) {
    const Count fast = arithmetic_of("(x[i] * 2.0 + 1.0) / (x[i] - 3.0)", Numerics::Fast);
    EXPECT_EQ(fast.arithmetic, 4);
    EXPECT_EQ(fast.relaxed, 4);
}

TEST(Relaxed, AreNoneInsideOfFunctions) {
    for (const char* value : {"exp(x[i]) * 2.0", "pow(x[i], 2.5) * 2.0", "tanh(x[i]) * 2.0"}) {
        const Count fast = arithmetic_of(value, Numerics::Fast);
        EXPECT_GT(fast.arithmetic, 5) << value;
        EXPECT_EQ(fast.relaxed, 1) << value;
    }
}

/// Of a target that may round the product or not, which is no matter to strict mode.
TEST(Relaxed, AreSumsOfProductsWhereBothAreOneOperation) {
    const auto fused = [](DType dtype, Numerics numerics, const lir::Native& native) {
        const Tensor x = Tensor({64}).to(dtype);
        const cpu_test::Case c(
            "compute(x, y) {\n    @kernel reduce(+)\n    for i in 0..n: yield x[i] * y[i]\n}",
            {x, x});
        Count count;
        for (const Stage& stage :
             plan(c.kernel(), c.facts(), numerics, {.lanes = 1, .native = native}).stages) {
            for (const lir::Inst& inst : stage.function.insts) {
                if (inst.op != lir::Op::Fma) continue;
                ++count.arithmetic;
                count.relaxed += inst.is_relaxed ? 1 : 0;
            }
        }
        return count;
    };
    const lir::Native loose{.fma = false, .loose_fma = true};
    const Count strict = fused(DType::Float32, Numerics::Strict, loose);
    EXPECT_GT(strict.arithmetic, 0);
    EXPECT_EQ(strict.relaxed, strict.arithmetic);
    EXPECT_EQ(fused(DType::Float32, Numerics::Reproducible, loose).arithmetic, 0);
    EXPECT_EQ(fused(DType::Float64, Numerics::Strict, loose).arithmetic, 0);
    EXPECT_EQ(fused(DType::Float32, Numerics::Strict, {.fma = false}).arithmetic, 0);
    for (const Numerics numerics : {Numerics::Strict, Numerics::Fast}) {
        EXPECT_GT(fused(DType::Float32, numerics, {}).arithmetic, 0);
        EXPECT_EQ(fused(DType::Float32, numerics, {}).relaxed, 0);
    }
}

TEST(Relaxed, TakeOneAndTanhForAQuotientOfAPower) {
    for (const char* value : {"1.0 + tanh(x[i])", "tanh(x[i]) + 1.0"}) {
        const Count fast = arithmetic_of(value, Numerics::Fast);
        EXPECT_EQ(fast.relaxed, 3) << value;
        EXPECT_EQ(arithmetic_of(value, Numerics::Strict).arithmetic,
                  arithmetic_of("tanh(x[i])", Numerics::Strict).arithmetic + 1);
    }
    EXPECT_EQ(arithmetic_of("2.0 + tanh(x[i])", Numerics::Fast).relaxed, 1);
    EXPECT_EQ(arithmetic_of("1.0 - tanh(x[i])", Numerics::Fast).relaxed, 1);
}

TEST(Relaxed, AreNoneInTheOtherModes) {
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        EXPECT_EQ(arithmetic_of("(x[i] * 2.0 + 1.0) / (x[i] - 3.0)", numerics).relaxed, 0);
    }
}

}  // namespace
}  // namespace quern::schedule
