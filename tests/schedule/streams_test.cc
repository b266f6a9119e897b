// Which stores pass the caches by.

#include <gtest/gtest.h>

#include "quern/ir/facts.h"
#include "quern/schedule/plan.h"
#include "quern/support/processor.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::schedule {
namespace {

/// How many stores of a kernel are streamed, if its output is more than the caches hold.
int streamed(const std::string& text, std::vector<Tensor> operands) {
    const cpu_test::Case c(text, std::move(operands));
    ir::Facts facts = c.facts();
    facts.operands.back().is_streamed = true;
    int count = 0;
    for (const Stage& stage : plan(c.kernel(), facts, Numerics::Strict, {}).stages) {
        for (const lir::Inst& inst : stage.function.insts) count += inst.is_streamed ? 1 : 0;
    }
    return count;
}

std::string custom(const std::string& body) {
    return "compute(x) {\n@kernel custom\n" + body + "\n}";
}

TEST(Streams, WholeVectorsAtMultiplesOfThem) {
    const std::vector<Tensor> row = {Tensor({99})}, rows = {Tensor({3, 64})};
    EXPECT_EQ(streamed(example_text("01"), row), 1);
    EXPECT_EQ(streamed(custom("for b in 0..n, i in 0..m: out[b, i] = x[b, i] * 2.0"), rows), 1);
    EXPECT_EQ(streamed(custom("for i in 0..n: out[i + 16] = x[i]"), row), 1);
    EXPECT_EQ(streamed(custom("for i in 0..n: out[i + 1] = x[i]"), row), 0);
    EXPECT_EQ(streamed(custom("for i in 1..n: out[i] = x[i]"), row), 0);
    EXPECT_EQ(streamed(custom("for i in 16..n: out[i] = x[i]"), row), 1);
}

TEST(Streams, BothVectorsOfPairs) {
    EXPECT_EQ(
        streamed(example_text("18"), {Tensor({1, 2, 5, 64}), Tensor({5, 32}), Tensor({5, 32})}), 2);
}

TEST(Streams, NothingThatIsReadAgain) {
    EXPECT_EQ(streamed(custom("for b in 0..n:\n  for i in 0..m: out[b, i] = x[b, i]\n  for i in "
                              "0..m: out[b, i] = out[b, i] * 2.0"),
                       {Tensor({3, 64})}),
              0);
}

TEST(Streams, NothingThatTheCachesHold) {
    const cpu_test::Case c(example_text("01"), {Tensor({99})});
    EXPECT_FALSE(c.facts().operands.back().is_streamed);
}

TEST(Streams, FactsOfAnOutputSayIt) {
    const cpu_test::Case c(custom("for b in 0..n, i in 0..m: out[b, i] = x[b, i]"),
                           {Tensor({3, 64})});
    const auto rows = std::int64_t(largest_cache() / (64 * sizeof(float)) + 1);
    const auto is_streamed = [&](std::int64_t n, std::int64_t m, std::int64_t stride,
                                 std::uintptr_t address) {
        const std::vector<std::int64_t> shape{n, m}, strides{stride, 1}, dims{n, m};
        const void* const at = reinterpret_cast<const void*>(address);
        const ir::OperandView view{at, DType::Float32, shape, strides};
        const std::vector<ir::OperandView> views{view, view};
        return ir::facts_of(c.kernel(), dims, views).operands.back().is_streamed;
    };
    EXPECT_TRUE(is_streamed(rows, 64, 64, 64));
    EXPECT_FALSE(is_streamed(rows, 64, 64, 32)) << "not at a multiple of 64 bytes";
    EXPECT_FALSE(is_streamed(rows, 65, 65, 64)) << "rows that are no multiples of a vector";
    EXPECT_FALSE(is_streamed(rows, 64, 80, 64)) << "gaps";
    EXPECT_FALSE(is_streamed(rows / 2, 64, 64, 64)) << "what the caches hold";
}

}  // namespace
}  // namespace quern::schedule
