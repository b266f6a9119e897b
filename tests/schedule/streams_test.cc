// Which stores pass the caches by, and which loads are asked for before.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quern/ir/facts.h"
#include "quern/schedule/plan.h"
#include "quern/support/processor.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::schedule {
namespace {

/// The instructions of a kernel whose output is more than the caches hold, or not.
std::vector<lir::Inst> instructions(const std::string& text, std::vector<Tensor> operands,
                                    bool is_large) {
    const cpu_test::Case c(text, std::move(operands));
    ir::Facts facts = c.facts();
    facts.operands.back().is_streamed = is_large;
    std::vector<lir::Inst> all;
    for (const Stage& stage : plan(c.kernel(), facts, Numerics::Strict, {}).stages) {
        all.insert(all.end(), stage.function.insts.begin(), stage.function.insts.end());
    }
    return all;
}

int streamed(const std::string& text, std::vector<Tensor> operands) {
    return int(std::ranges::count_if(instructions(text, std::move(operands), true),
                                     [](const lir::Inst& inst) { return inst.is_streamed; }));
}

int prefetched(const std::string& text, std::vector<Tensor> operands, bool is_large = true) {
    return int(std::ranges::count(instructions(text, std::move(operands), is_large),
                                  lir::Op::Prefetch, &lir::Inst::op));
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

TEST(Prefetch, TheNextRowWhereARowIsReadASecondTime) {
    const auto two_passes = [](const std::string& second) {
        return custom(
            "for b in 0..n:\n  var s = 0.0\n  for i in 0..m: s += x[b, i]\n  for i in 0..m: "
            "out[b, i] = " +
            second);
    };
    const std::vector<Tensor> rows = {Tensor({3, 64})};
    EXPECT_EQ(prefetched(two_passes("x[b, i] - s"), rows), 1);
    EXPECT_EQ(prefetched(two_passes("x[b, i] - s"), {Tensor({3, 64}, DType::Float64)}), 2)
        << "lanes of two lines";
    EXPECT_EQ(prefetched(two_passes("x[b, i] * x[b, i] - s"), rows), 1) << "once a line";
    EXPECT_EQ(prefetched(two_passes("s"), rows), 0) << "read once";
    EXPECT_EQ(prefetched(two_passes("x[b, i] - s"), rows, false), 0) << "the caches hold it";
    EXPECT_EQ(prefetched(two_passes("x[0, i] - s"), rows), 0) << "another row";
    EXPECT_EQ(prefetched(example_text("01"), {Tensor({99})}), 0);
}

TEST(Prefetch, ARowFurtherWithEachReading) {
    const std::string thrice = custom(
        "for b in 0..n:\n  var s = 0.0\n  for i in 0..m: s += x[b, i]\n  var t = 0.0\n  for i in "
        "0..m: t += x[b, i] - s\n  for i in 0..m: out[b, i] = x[b, i] - t");
    const std::vector<lir::Inst> all = instructions(thrice, {Tensor({3, 64})}, true);
    // What is added to a load's offset: products of the row's stride.
    std::vector<std::int64_t> rows;
    for (const lir::Inst& inst : all) {
        if (inst.op != lir::Op::Prefetch) continue;
        const lir::Inst& sum = all[std::size_t(inst.a)];
        ASSERT_EQ(sum.op, lir::Op::Add);
        const lir::Inst& further = all[std::size_t(sum.b)];
        rows.push_back(further.op == lir::Op::Mul ? std::int64_t(all[std::size_t(further.b)].bits)
                                                  : 1);
    }
    EXPECT_EQ(rows, (std::vector<std::int64_t>{1, 1, 1, 1, 2})) << "four copies of the sum";
}

TEST(Prefetch, FurtherInTheRowWhereLanesHaveCopies) {
    // Copies in the loop, one in the loop of what they leave.
    const std::vector<Tensor> row = {Tensor({4099})}, rows = {Tensor({3, 4099})};
    EXPECT_EQ(prefetched(custom("for i in 0..n: out[i] = tanh(x[i])"), row), 6);
    EXPECT_EQ(prefetched(custom("for i in 0..n: out[i] = asinh(x[i])"), row), 4) << "longer code";
    const auto all = instructions(custom("for i in 0..n: out[i] = tanh(x[i])"), row, true);
    for (const lir::Inst& inst : all) {
        if (inst.op != lir::Op::Prefetch) continue;
        const lir::Inst& further = all[std::size_t(all[std::size_t(inst.a)].b)];
        EXPECT_EQ(further.op, lir::Op::Constant);
        EXPECT_EQ(further.bits * sizeof(float), 1024u);
    }
    EXPECT_EQ(prefetched(custom("for i in 0..n: out[i] = tanh(x[i])"), row, false), 0)
        << "the caches hold it";
    EXPECT_EQ(prefetched(custom("for i in 0..n: out[i] = x[i]"), row), 0) << "nothing waits";
    EXPECT_EQ(prefetched(custom("for i in 0..n: out[i] = sin(x[i])"), row), 0) << "no copies";
    EXPECT_EQ(
        prefetched(custom("for i in 0..n: out[i] = tanh(x[i])"), {Tensor({4099}, DType::Float64)}),
        4)
        << "two copies of two lines";
    EXPECT_EQ(
        prefetched(custom("for b in 0..n, i in 0..m: out[b, i] = exp(x[b, i]) * x[b, i]"), rows), 6)
        << "once a line";
    EXPECT_EQ(prefetched("compute(x, y) {\n@kernel custom\nfor b in 0..n, i in 0..m: out[b, i] = "
                         "exp(y[i]) * x[b, i]\n}",
                         {rows[0], Tensor({4099})}),
              6)
        << "every point reads y";
    EXPECT_EQ(prefetched(custom("for b in 0..n:\n  for i in 0..m: out[b, i] = exp(x[b, i])"), rows),
              6);
    EXPECT_EQ(prefetched(custom("for b in 0..n:\n  for i in 0..m: out[b, i] = x[b, i]\n  for i in "
                                "0..m: out[b, i] = exp(x[b, i])"),
                         rows),
              6)
        << "the next row, which two loops read";
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
