// Each pass on CIR keeps every bit of what a kernel means.

#include "tests/cpu/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "quern/kernel.h"
#include "quern/runtime/kernel_cache.h"
#include "tests/schedule/examples.h"
#include "tests/tensor_test.h"

namespace quern::schedule {
namespace passes_test {

using cpu_test::Case;
using cpu_test::first_wrong_pass;

class Passes : public ::testing::TestWithParam<Row> {};

TEST_P(Passes, KeepEveryBit) {
    const Case c = case_of(GetParam());
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        EXPECT_EQ(first_wrong_pass(c, numerics), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Passes, ::testing::ValuesIn(kRows), [](const auto& info) {
    return fmt::format("K{}_{}", info.param.number, info.index);
});

TEST(Passes, KeepSharedVariablesAndReadsOfTheOutput) {
    const std::vector<Tensor> x = {uniform({4, 40}, 3)};
    EXPECT_EQ(first_wrong_pass(Case(R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[64]
        for i in 0..n:
            if x[b, i] > 0.0:
                kept[i] = x[b, i]
        barrier()
        for i in 0..n:
            out[b, i] = select(x[b, i] > 0.0, kept[i], -1.0)
})",
                                    x),
                               Numerics::Strict),
              "");
    EXPECT_EQ(first_wrong_pass(Case(R"(
compute(x) {
    @kernel custom
    for i in 0..rows:
        var scale = x[i, 0]
        for j in 0..cols:
            out[i, j] = x[i, j] * scale
            if j > 0:
                out[i, j] = x[i, j] + out[i, j - 1]
})",
                                    x),
                               Numerics::Strict),
              "");
}

/// The kernel with another operator in the place of each of one kind, as a wrong pass makes it.
ir::Kernel with_operator(ir::Kernel kernel, ir::BinaryOp from, ir::BinaryOp to) {
    for (ir::Expr& e : kernel.exprs) {
        if (e.kind == ir::ExprKind::Binary && ir::BinaryOp(e.op) == from) e.op = std::uint8_t(to);
    }
    return kernel;
}

/// What is found when passes make these of the kernel, one after the other.
std::string fault_of(const Case& c, const std::vector<ir::Kernel>& kernels,
                     double most_work = 1e6) {
    const frontend::BoundLaunch launch = c.launch();
    frontend::PassCheck check(launch, most_work);
    int number = 0;
    for (const ir::Kernel& kernel : kernels) check.see("p" + std::to_string(++number), kernel);
    return check.fault();
}

constexpr const char* kProduct =
    "compute(x, y) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i] * y[i]\n}";

TEST(PassCheck, NamesThePassThatChangesAResultAndTheElement) {
    const Case c(kProduct,
                 {Tensor::from({3}, {0.0f, 2.0f, 3.0f}), Tensor::from({3}, {0.0f, 2.0f, 5.0f})});
    const ir::Kernel sum = with_operator(c.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Add);
    const ir::Kernel difference = with_operator(c.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Sub);
    EXPECT_EQ(fault_of(c, {c.kernel(), c.kernel()}), "");
    EXPECT_EQ(fault_of(c, {c.kernel(), sum, difference}),
              "the pass 'p2' changes element 2 from 15 to 8");
    EXPECT_EQ(fault_of(c, {difference}), "the pass 'p1' changes element 1 from 4 to 0");
}

TEST(PassCheck, TakesAnyNanForAnyOtherAndTellsZerosApart) {
    const float inf = std::numeric_limits<float>::infinity();
    const Case nan(kProduct, {Tensor::from({1}, {inf}), Tensor::from({1}, {0.0f})});
    const ir::Kernel remainder = with_operator(nan.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Rem);
    EXPECT_EQ(fault_of(nan, {remainder}), "");
    const Case zero(kProduct, {Tensor::from({1}, {-0.0f}), Tensor::from({1}, {0.0f})});
    const ir::Kernel sum = with_operator(zero.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Add);
    EXPECT_EQ(fault_of(zero, {sum}), "the pass 'p1' changes element 0 from -0 to 0");
}

TEST(PassCheck, NamesThePassAfterWhichALaunchFailsOrNoLongerDoes) {
    const auto ints = [](std::int32_t value) { return Tensor::from({1}, {value}); };
    const std::string text =
        "compute(x, y) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i] / y[i]\n}";
    const Case failing(text, {ints(4), ints(0)});
    const auto product = [](const Case& c) {
        return with_operator(c.kernel(), ir::BinaryOp::Div, ir::BinaryOp::Mul);
    };
    EXPECT_EQ(fault_of(failing, {failing.kernel()}), "");
    EXPECT_EQ(fault_of(failing, {product(failing)}),
              "the pass 'p1' makes a launch end that failed");
    const Case ending(kProduct, {ints(4), ints(0)});
    EXPECT_EQ(
        fault_of(ending, {with_operator(ending.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Div)}),
        "the pass 'p1' makes a launch fail that ended");
}

TEST(PassCheck, NamesThePassThatMakesAKernelWhichIsNotValid) {
    const Case c(kProduct, {Tensor({2}), Tensor({2})});
    const std::string fault =
        fault_of(c, {with_operator(c.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::And)});
    EXPECT_EQ(fault.rfind("the pass 'p1' makes a kernel that is not valid: ", 0), 0u) << fault;
}

TEST(PassCheck, HoldsTheResultOfCompiledCodeAgainstTheInterpreters) {
    const auto fault = [](const std::string& text, Numerics numerics, bool has_passes) {
        const Case c(text, {Tensor::from({3}, {1.0f, 2.0f, 3.0f})});
        frontend::BoundLaunch launch = c.launch();
        launch.numerics = numerics;
        frontend::PassCheck check(launch, 1e6);
        if (has_passes) check.see("p", c.kernel());
        check.see_result(Tensor::from({3}, {2.0f, 4.5f, 6.0f}));
        return check.fault();
    };
    const auto of = [](const std::string& value) {
        return "compute(x) {\n    @kernel custom\n    for i in 0..n: out[i] = " + value + "\n}";
    };
    const std::string wrong = "what was compiled changes element 1 from 4 to 4.5";
    EXPECT_EQ(fault(of("x[i] * 2.0"), Numerics::Strict, true), wrong);
    EXPECT_EQ(fault(of("x[i] * 2.0"), Numerics::Reproducible, true), wrong);
    EXPECT_EQ(fault(of("exp(x[i])"), Numerics::Reproducible, true).substr(0, 35),
              "what was compiled changes element 0");
    // Its bits are the schedule's, or the device's, to choose.
    EXPECT_EQ(fault(of("x[i] * 2.0"), Numerics::Fast, true), "");
    EXPECT_EQ(fault(of("exp(x[i])"), Numerics::Strict, true), "");
    const std::string sum =
        "compute(x) {\n    @kernel custom\n    for i in 0..n:\n        var s = 0.0\n"
        "        for j in 0..n: s += x[j]\n        out[i] = s\n}";
    EXPECT_EQ(fault(sum, Numerics::Strict, true), "");
    // Code that was there before.
    EXPECT_EQ(fault(of("x[i] * 2.0"), Numerics::Strict, false), "");
}

TEST(PassCheck, LeavesLaunchesOfMoreWorkAlone) {
    const Case c(kProduct, {uniform({100}, 1), uniform({100}, 2)});
    const ir::Kernel sum = with_operator(c.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Add);
    EXPECT_NE(fault_of(c, {sum}, 2000), "");
    EXPECT_EQ(fault_of(c, {sum}, 100), "");
}

TEST(PassCheck, IsMadeOfTheFirstLaunchOfADebugBuildAndItsFaultIsThrown) {
#ifdef NDEBUG
    GTEST_SKIP() << "a build with NDEBUG";
#endif
    if (const char* word = std::getenv("QUERN_CHECK_PASSES"); word && std::string(word) == "none") {
        GTEST_SKIP() << "QUERN_CHECK_PASSES is none";
    }
    // More than a chunk of a reduction, so that a pass splits the loop.
    const Kernel sums(R"(
compute(x) {
    @kernel reduce(+)
    for i in 0..len:
        yield x[i]
})");
    const Tensor x = uniform({9000}, 1);
    const std::size_t before = frontend::PassCheck::count();
    const Kernel on_cpu = sums.on(Device("cpu"));
    on_cpu(x);
    const std::size_t first = frontend::PassCheck::count();
    EXPECT_GT(first, before);
    on_cpu(x);
    EXPECT_EQ(frontend::PassCheck::count(), first);

    // The same passes, and the result where its bits are those of the interpreter.
    const auto checked = [&](Numerics numerics) {
        const std::size_t so_far = frontend::PassCheck::count();
        Kernel("compute(x) {\n    @kernel custom\n    for i in 0..n: out[i] = exp(x[i])\n}")
            .on(Device("cpu"))
            .with(numerics)(uniform({3}, 1));
        return frontend::PassCheck::count() - so_far;
    };
    EXPECT_EQ(checked(Numerics::Reproducible), checked(Numerics::Strict) + 1);

    const Case c(kProduct, {Tensor::from({1}, {3.0f}), Tensor::from({1}, {4.0f})});
    const frontend::BoundLaunch launch = c.launch();
    frontend::PassCheck check(launch, 1e6);
    check.see("swap", with_operator(c.kernel(), ir::BinaryOp::Mul, ir::BinaryOp::Add));
    EXPECT_THROWS(InternalError,
                  "[passes] the pass 'swap' changes element 0 from 12 to 7; please report",
                  load_or_compile(c.kernel(), c.facts(), Numerics::Strict, cpu::chosen_simd(),
                                  nullptr, &check));
}

}  // namespace passes_test
}  // namespace quern::schedule
