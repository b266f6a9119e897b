// Outputs that are written past the caches have the same bits: whole vectors and the rest of a row,
// on every level.

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

class Streamed : public Compiled {};

/// As if the output were more than the caches hold.
void expect_same(const Case& c) {
    const auto expected = c.interpreted();
    ASSERT_TRUE(expected);
    ir::Facts facts = c.facts();
    facts.operands.back().is_streamed = true;
    for (const cpu::Simd simd : levels_here()) {
        const auto got =
            c.compiled(CompiledKernel(c.kernel(), facts, Numerics::Reproducible, simd));
        ASSERT_TRUE(got);
        EXPECT_TRUE(same_numbers(*got, *expected)) << cpu::to_string(simd);
    }
}

TEST_F(Streamed, OneAxisOfEverySize) {
    for (const std::int64_t n : kSizes) expect_same(Case(example_text("01"), {uniform({n}, 1)}));
}

TEST_F(Streamed, EveryDtype) {
    for (const DType dtype : {DType::Bool, DType::Int8, DType::UInt16, DType::Int32, DType::UInt64,
                              DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        expect_same(
            Case("compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = x[i]\n}",
                 {uniform({75}, 2, -9, 9).to(dtype)}));
    }
}

TEST_F(Streamed, RowsOfWholeVectors) {
    for (const std::int64_t width : {16, 48, 64, 256}) {
        const Tensor x = uniform({5, width}, 3);
        expect_same(Case(example_text("03"), {x, uniform({width}, 4)}));
        expect_same(Case(example_text("15"), {x}));
        expect_same(Case(example_text("16"), {x, uniform({width}, 5), uniform({width}, 6)},
                         {{"eps", 1e-5}}));
    }
    expect_same(Case(example_text("18"),
                     {uniform({2, 3, 5, 64}, 7), uniform({5, 32}, 8), uniform({5, 32}, 9)}));
    expect_same(Case(example_text("09"), {uniform({17, 33}, 1), uniform({33, 80}, 2)}));
}

TEST_F(Streamed, PlacesThatAreNoWholeVectors) {
    const Tensor x = uniform({99}, 10);
    for (const char* stores :
         {"out[i + 1] = x[i + 1]", "out[96 - i] = x[i + 1]", "out[i] = x[98 - i]"}) {
        SCOPED_TRACE(stores);
        expect_same(Case(
            std::string("compute(x) {\n    @kernel custom\n    for i in 0..97: ") + stores + "\n}",
            {x}));
    }
    expect_same(Case("compute(x) {\n    @kernel custom\n    for i in 3..n: out[i] = x[i]\n}", {x}));
}

}  // namespace
}  // namespace quern::cpu_test
