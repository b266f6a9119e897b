#include "quern/ir/fuse.h"

#include <gtest/gtest.h>

#include "kernels.h"
#include "quern/ir/builder.h"
#include "quern/ir/parse.h"
#include "quern/ir/print.h"
#include "quern/ir/verify.h"

// What fuse() makes and what it leaves alone. tests/script/waiting_test.cc holds its results
// against launches that are not fused.

namespace quern::ir {
namespace {

/// for i in 0..n, j in 0..m: t = -x[i, j]; out[i, j] = t * factor + b[j]
Kernel scaled() {
    constexpr DType dtype = DType::Float32;
    Builder b("scaled", "elementwise");
    Kernel& k = b.kernel();
    const ExprId n = b.dim("n"), m = b.dim("m"), factor = b.scalar("factor", dtype);
    const BufferId x = b.operand("x", dtype, 2), bias = b.operand("b", dtype, 1);
    const BufferId out = b.output("out", dtype, {n, m});
    b.require(k.extent(x, 0), n);
    b.require(k.extent(x, 1), m);
    b.require(k.extent(bias, 0), m);
    const ExprId i = b.begin_for("i", k.integer(0), n, {.parallel = true});
    const ExprId j = b.begin_for("j", k.integer(0), m, {.parallel = true});
    const ExprId t = b.let("t", k.unary(UnaryOp::Neg, k.load(x, {i, j})));
    b.store(out, {i, j},
            k.binary(BinaryOp::Add, k.binary(BinaryOp::Mul, t, factor), k.load(bias, {j})));
    b.end_for();
    b.end_for();
    return b.take();
}

std::string text_of(const std::optional<Kernel>& kernel) {
    if (!kernel) return "none";
    const std::vector<std::string> broken = verify(*kernel);
    return broken.empty() ? print(*kernel) : broken.front();
}

TEST(Fuse, ThePointOfOneComesBeforeThatOfTheOther) {
    const Kernel k = scaled();
    ASSERT_TRUE(is_elementwise(k));
    const auto fused = fuse(k, k, 0);
    EXPECT_EQ(text_of(fused),
              R"(kernel scaled : elementwise {
    dim n, m, n.1, m.1
    scalar `0.factor`: float32, factor: float32
    operand x: float32[x.0, x.1]
    operand b: float32[b.0]
    operand `b.1`: float32[`b.1`.0]
    output out: float32[n.1, m.1]
    require x.0 == n bare_index E0501
    require x.1 == m bare_index E0501
    require b.0 == m bare_index E0501
    require n == n.1 bare_index E0501
    require m == m.1 bare_index E0501
    require `b.1`.0 == m.1 bare_index E0501
    parallel for i in 0..n.1 {
        parallel for j in 0..m.1 {
            let t.1: float32 = -x[i, j]
            let `x.1`: float32 = t.1 * `0.factor` + b[j]
            let t: float32 = -`x.1`
            out[i, j] = t * factor + `b.1`[j]
        }
    }
}
)");
    std::string error;
    const auto parsed = parse_ir(text_of(fused), error);
    ASSERT_TRUE(parsed) << error;
    EXPECT_EQ(print(*parsed), text_of(fused));
}

TEST(Fuse, AnOperandIsTakenAlongAllAxes) {
    EXPECT_EQ(text_of(fuse(scaled(), scaled(), 1)), "none");
}

TEST(Fuse, WhatIsNoElementwiseKernelStays) {
    EXPECT_FALSE(is_elementwise(matmul()));
    EXPECT_EQ(text_of(fuse(matmul(), scaled(), 0)), "none");
    EXPECT_EQ(text_of(fuse(scaled(), matmul(), 0)), "none");
    Kernel in_order = scaled();
    in_order.body[0].parallel = false;
    EXPECT_FALSE(is_elementwise(in_order));
    Kernel from_one = scaled();
    from_one.body[0].value = from_one.integer(1);
    EXPECT_FALSE(is_elementwise(from_one));
    Kernel turned = scaled();
    std::vector<ExprId>& indices = turned.body[0].body[0].body.back().indices;
    std::swap(indices[0], indices[1]);
    EXPECT_FALSE(is_elementwise(turned));
    Kernel shorter = scaled();
    shorter.body[0].body[0].end = shorter.dim(0);
    EXPECT_FALSE(is_elementwise(shorter));
}

TEST(Fuse, AQuotientOfIntegersMayFail) {
    Builder b("quotient", "elementwise");
    Kernel& k = b.kernel();
    const ExprId n = b.dim("n");
    const BufferId x = b.operand("x", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Int64, {n});
    const ExprId i = b.begin_for("i", k.integer(0), n, {.parallel = true});
    b.store(out, {i}, k.binary(BinaryOp::Div, k.integer(6), k.load(x, {i})));
    b.end_for();
    const Kernel by_element = b.take();
    EXPECT_FALSE(is_elementwise(by_element));
    Kernel by_two = by_element;
    by_two.body[0].body[0].value =
        by_two.binary(BinaryOp::Rem, by_two.load(0, {by_two.symbol(0)}), by_two.integer(2));
    by_two.compact();
    EXPECT_TRUE(is_elementwise(by_two));
}

}  // namespace
}  // namespace quern::ir
