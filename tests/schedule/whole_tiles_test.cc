// Where the facts say that tiles are whole, their extents are numbers.

#include <gtest/gtest.h>

#include "quern/ir/print.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"

namespace quern::schedule {
namespace {

using cpu_test::Case;

/// The kernel after the pass alone.
std::string after(const std::string& text, std::vector<Tensor> operands) {
    const Case c(text, std::move(operands));
    ir::Kernel kernel = c.kernel();
    whole_tiles(kernel, c.facts());
    return ir::print(kernel);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string attention(std::int64_t length) {
    const Tensor x({1, 1, length, 8});
    return after(example_text("14"), {x, x, x});
}

TEST(WholeTiles, OfALengthThatTheyDivide) {
    EXPECT_FALSE(has(attention(128), "min(")) << attention(128);
    EXPECT_FALSE(has(attention(128), "extent0"));
    EXPECT_FALSE(has(attention(0), "min("));
}

TEST(WholeTiles, NotOfAnyOther) {
    for (const std::int64_t length : {1, 32, 100, 130}) {
        EXPECT_TRUE(has(attention(length), "min(64, seq_len - kv_block)")) << length;
        EXPECT_TRUE(has(attention(length), "m.extent0"));
    }
}

std::string sums(const char* loop) {
    return std::string(
               "compute(x: [rows, n]) {\n@kernel custom\nfor b in 0..rows:\n  var s = 0.0\n  for i "
               "in ") +
           loop + ":\n    s += reduce(+, x[b, i:i+32])\n  out[b] = s\n}";
}

TEST(WholeTiles, StepsDecide) {
    const std::vector<Tensor> x = {Tensor({3, 128})};
    EXPECT_FALSE(has(after(sums("0..n step 32"), x), "min("));
    EXPECT_FALSE(has(after(sums("32..n step 32"), x), "min("));
    EXPECT_FALSE(has(after(sums("0..n step 64"), x), "min("));
    EXPECT_TRUE(has(after(sums("0..n step 16"), x), "min("));
    EXPECT_TRUE(has(after(sums("8..n step 32"), x), "min("));
    EXPECT_TRUE(has(after(sums("0..n step 24"), x), "min("));
}

TEST(WholeTiles, NotWhereTheEndIsAVar) {
    const std::string text = R"(
compute(x) {
    @kernel custom
    for b in 0..rows:
        var m = 2
        var s = 0.0
        for k in 0..m * 16 step 16:
            m = 1
            s += min(16, m * 16 - k)
        out[b] = x[b, 0] + s
})";
    const Case c(text, {uniform({3, 128}, 1)});
    ir::Kernel kernel = c.kernel();
    whole_tiles(kernel, c.facts());
    EXPECT_TRUE(has(ir::print(kernel), "min(")) << ir::print(kernel);
    const auto before = c.interpreted(), after_it = c.interpreted(kernel);
    ASSERT_TRUE(before && after_it);
    EXPECT_TRUE(same_bits(*before, *after_it));
}

TEST(WholeTiles, DivisorsComeFromFactsAndNumbers) {
    const Case c("compute(x) {\n@kernel custom\nfor b in 0..n, i in 0..m: out[b, i] = x[b, i]\n}",
                 {Tensor({48, 7})});
    ir::Kernel k = c.kernel();
    const ir::Facts facts = c.facts();
    const ir::ExprId n = k.dim(0), m = k.dim(1);
    const auto times = [&](ir::ExprId a, ir::ExprId b) {
        return k.binary(ir::BinaryOp::Mul, a, b);
    };
    const auto plus = [&](ir::ExprId a, ir::ExprId b) { return k.binary(ir::BinaryOp::Add, a, b); };
    EXPECT_EQ(divisor_of(k, facts, n), 16);
    EXPECT_EQ(divisor_of(k, facts, m), 1);
    EXPECT_EQ(divisor_of(k, facts, times(n, k.integer(4))), 64);
    EXPECT_EQ(divisor_of(k, facts, plus(n, k.integer(8))), 8);
    EXPECT_EQ(divisor_of(k, facts, plus(n, m)), 1);
    EXPECT_EQ(divisor_of(k, facts, k.integer(0)), 128);
    EXPECT_EQ(divisor_of(k, facts, k.integer(-6)), 2);
}

}  // namespace
}  // namespace quern::schedule
