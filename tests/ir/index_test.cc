#include "quern/ir/index.h"

#include <gtest/gtest.h>

namespace quern::ir {
namespace {

using Int = std::int64_t;

struct Index : testing::Test {
    Index() {
        k.dims = {{"M", {}}, {"N", {}}};
        k.scalars = {{"s", DType::Int64, {}}, {"mode", DType::Int32, {}}};
        si = k.add_symbol(SymbolKind::Loop, DType::Int64, "i");
        sj = k.add_symbol(SymbolKind::Loop, DType::Int64, "j");
        i = k.symbol(si);
        j = k.symbol(sj);
        M = k.dim(0);
        N = k.dim(1);
    }

    ExprId c(Int v) { return k.integer(v); }
    ExprId add(ExprId a, ExprId b) { return k.binary(BinaryOp::Add, a, b); }
    ExprId sub(ExprId a, ExprId b) { return k.binary(BinaryOp::Sub, a, b); }
    ExprId mul(ExprId a, ExprId b) { return k.binary(BinaryOp::Mul, a, b); }
    ExprId div(ExprId a, ExprId b) { return k.binary(BinaryOp::Div, a, b); }
    ExprId rem(ExprId a, ExprId b) { return k.binary(BinaryOp::Rem, a, b); }
    ExprId floordiv(ExprId a, ExprId b) { return k.binary(BinaryOp::FloorDiv, a, b); }
    ExprId min(ExprId a, ExprId b) { return k.binary(BinaryOp::Min, a, b); }
    ExprId max(ExprId a, ExprId b) { return k.binary(BinaryOp::Max, a, b); }

    /// i in [0, 8), j in [0, 4).
    static std::optional<Range> small(const Expr& leaf) {
        if (leaf.kind != ExprKind::Symbol) return std::nullopt;
        return leaf.a == 0 ? Range{0, 7} : Range{0, 3};
    }

    Kernel k;
    SymbolId si = 0, sj = 0;
    ExprId i, j, M, N;
};

TEST_F(Index, AffineFormsCollectTermsInTheOrderOfTheirIds) {
    const Affine a = affine_of(k, add(mul(sub(j, i), c(3)), add(i, c(7))));
    EXPECT_EQ(a, (Affine{7, {{i, -2}, {j, 3}}}));
    EXPECT_EQ(affine_of(k, from_affine(k, a)), a);
}

TEST_F(Index, ACanonicalSumHasPositiveTermsFirstAndTheConstantLast) {
    EXPECT_EQ(simplify(k, add(c(-7), sub(j, mul(c(2), i)))), sub(sub(j, mul(i, c(2))), c(7)));
    EXPECT_EQ(simplify(k, sub(c(5), i)), sub(c(5), i));
    EXPECT_EQ(simplify(k, sub(c(0), i)), k.unary(UnaryOp::Neg, i));
    EXPECT_EQ(simplify(k, sub(i, i)), c(0));
}

TEST_F(Index, ProductsOfNamesAreExpandedAndOrdered) {
    EXPECT_EQ(simplify(k, mul(add(i, M), N)), simplify(k, add(mul(N, i), mul(M, N))));
    EXPECT_EQ(simplify(k, mul(mul(N, i), M)), simplify(k, mul(M, mul(i, N))));
}

TEST_F(Index, AnExactQuotientTakesAFactorOutOfEveryTerm) {
    EXPECT_EQ(exact_quotient(k, mul(N, M), M), N);
    EXPECT_EQ(exact_quotient(k, mul(mul(M, M), N), mul(N, M)), M);
    EXPECT_EQ(exact_quotient(k, mul(c(6), N), mul(c(2), N)), c(3));
    EXPECT_EQ(exact_quotient(k, add(mul(N, M), mul(c(2), M)), M), simplify(k, add(N, c(2))));
    EXPECT_EQ(exact_quotient(k, add(mul(c(4), i), c(6)), c(2)),
              simplify(k, add(mul(c(2), i), c(3))));
    EXPECT_EQ(exact_quotient(k, M, c(1)), M);
    EXPECT_EQ(exact_quotient(k, c(0), M), c(0));
}

TEST_F(Index, WhatIsLeftOverHasNoExactQuotient) {
    EXPECT_EQ(exact_quotient(k, add(mul(N, M), c(1)), M), kNoExpr);
    EXPECT_EQ(exact_quotient(k, mul(N, M), mul(M, M)), kNoExpr);
    EXPECT_EQ(exact_quotient(k, mul(c(3), M), mul(c(2), M)), kNoExpr);
    EXPECT_EQ(exact_quotient(k, N, M), kNoExpr);
    EXPECT_EQ(exact_quotient(k, mul(N, M), add(M, c(1))), kNoExpr);
    EXPECT_EQ(exact_quotient(k, M, c(0)), kNoExpr);
    EXPECT_EQ(exact_quotient(k, c(INT64_MIN), c(-1)), kNoExpr);
}

TEST_F(Index, LongProductsStayAsTheyAreAndCommute) {
    ExprId a = i, b = j;
    for (std::uint32_t n = 0; n < 7; ++n) {
        k.dims.push_back({"D", {}});
        a = add(a, k.dim(2 + n));
        b = add(b, mul(k.dim(2 + n), c(n + 2)));
    }
    const ExprId product = simplify(k, mul(a, b));
    EXPECT_EQ(affine_of(k, product).terms.size(), 1u);
    EXPECT_EQ(simplify(k, mul(b, a)), product);
    EXPECT_EQ(simplify(k, product), product);
}

TEST_F(Index, CoefficientsWrapAround) {
    const Int huge = Int{1} << 62;
    EXPECT_EQ(simplify(k, mul(mul(i, c(huge)), c(4))), c(0));
}

TEST_F(Index, QuotientAndRemainderOfAFlattenedIndexSplitIntoItsParts) {
    const ExprId flat = add(mul(i, c(4)), j);
    for (const ExprId q : {div(flat, c(4)), floordiv(flat, c(4))}) {
        EXPECT_EQ(simplify(k, q, small), i);
    }
    EXPECT_EQ(simplify(k, rem(flat, c(4)), small), j);
}

TEST_F(Index, AQuotientStaysWhereTheRestMayReachTheDivisor) {
    const ExprId flat = add(mul(i, c(3)), j);
    EXPECT_EQ(simplify(k, floordiv(flat, c(3)), small), add(i, floordiv(j, c(3))));
    EXPECT_EQ(simplify(k, rem(flat, c(3)), small), rem(j, c(3)));
}

TEST_F(Index, TruncationIsNotTakenForFloorBelowZero) {
    EXPECT_EQ(simplify(k, div(i, c(2))), div(i, c(2)));
    EXPECT_EQ(simplify(k, div(add(mul(i, c(2)), c(1)), c(2))), div(add(mul(i, c(2)), c(1)), c(2)));
    EXPECT_EQ(simplify(k, floordiv(add(mul(i, c(2)), c(1)), c(2))), i);
    EXPECT_EQ(simplify(k, rem(mul(i, c(6)), c(4))), mul(rem(mul(i, c(3)), c(2)), c(2)));
}

TEST_F(Index, QuotientsNest) {
    EXPECT_EQ(simplify(k, floordiv(floordiv(i, c(3)), c(4))), floordiv(i, c(12)));
    EXPECT_EQ(simplify(k, floordiv(add(floordiv(i, c(3)), c(1)), c(4))),
              floordiv(add(i, c(3)), c(12)));
    EXPECT_EQ(simplify(k, div(div(i, c(3)), c(-4))), simplify(k, div(i, c(-12))));
}

TEST_F(Index, DivisionByZeroStays) {
    EXPECT_EQ(simplify(k, div(i, c(0))), div(i, c(0)));
    EXPECT_EQ(simplify(k, rem(c(3), c(0))), rem(c(3), c(0)));
}

TEST_F(Index, MinimumAndMaximumDropBoundedOperands) {
    EXPECT_EQ(simplify(k, max(i, add(M, i))), add(i, M));
    EXPECT_EQ(simplify(k, min(i, c(7)), small), i);
    EXPECT_EQ(simplify(k, max(M, min(M, N))), M);
    EXPECT_EQ(simplify(k, min(min(i, j), min(j, i))), simplify(k, min(j, i)));
    EXPECT_EQ(simplify(k, max(max(i, j), sub(i, c(1)))), simplify(k, max(i, j)));
    EXPECT_EQ(k[simplify(k, min(M, N))].kind, ExprKind::Binary);
}

TEST_F(Index, ComparisonsFoldWhereProvable) {
    const auto truth = [&](BinaryOp op, ExprId a, ExprId b) {
        return simplify(k, k.binary(op, a, b), small);
    };
    EXPECT_EQ(truth(BinaryOp::Less, i, c(8)), k.boolean(true));
    EXPECT_EQ(truth(BinaryOp::Less, i, c(0)), k.boolean(false));
    EXPECT_EQ(truth(BinaryOp::Equal, add(i, j), add(j, i)), k.boolean(true));
    EXPECT_EQ(truth(BinaryOp::Less, i, c(7)), k.binary(BinaryOp::Less, i, c(7)));
    EXPECT_EQ(simplify(k, k.select(k.binary(BinaryOp::LessEqual, c(0), M), i, j)), i);
}

TEST_F(Index, ComparisonsOfTheLeastAndTheLargestNumberAreRight) {
    const Int least = INT64_MIN, most = INT64_MAX;
    const auto less = [&](ExprId a, ExprId b) {
        return simplify(k, k.binary(BinaryOp::Less, a, b));
    };
    for (const Int a : {least, least + 1, Int{-1}, Int{0}, Int{1}, most - 1, most}) {
        for (const Int b : {least, least + 1, Int{-1}, Int{0}, Int{1}, most - 1, most}) {
            EXPECT_TRUE(k.is_constant(less(c(a), c(b)), a < b)) << a << " < " << b;
        }
    }
    EXPECT_FALSE(k.is_constant(less(i, c(least)), 1));
}

/// A scalar of int64, and an element of int32, may be any number.
TEST_F(Index, NothingIsTakenForGrantedOfData) {
    const ExprId s = k.scalar(0), mode = k.cast(k.scalar(1), DType::Int64);
    const ExprId positive = max(s, c(0));
    EXPECT_TRUE(proves_at_least(k, positive, c(0)));
    EXPECT_FALSE(proves_at_least(k, add(positive, c(1)), c(0)));
    EXPECT_TRUE(proves_at_least(k, add(max(mode, c(0)), c(1)), c(1)));
    EXPECT_TRUE(proves_at_least(k, add(mul(max(mode, c(0)), c(3)), M), c(0)));
    EXPECT_FALSE(proves_at_least(k, mul(mul(max(mode, c(0)), c(1)), c(Int{1} << 33)), c(0)));
    EXPECT_FALSE(proves_at_least(k, k.unary(UnaryOp::Abs, s), c(0)));
    EXPECT_TRUE(proves_less(k, min(s, sub(M, c(1))), M));
    EXPECT_TRUE(proves_less(k, rem(s, c(8)), c(8)));
    const ExprId quotient = div(add(mul(positive, c(8)), c(3)), c(8));
    EXPECT_NE(simplify(k, quotient), simplify(k, positive));
    EXPECT_EQ(simplify(k, div(add(mul(max(mode, c(0)), c(8)), c(3)), c(8))),
              simplify(k, max(mode, c(0))));
}

TEST_F(Index, RangesFollowFromTheAffineForm) {
    EXPECT_EQ(range_of(k, sub(i, i), small), (Range{0, 0}));
    EXPECT_EQ(range_of(k, sub(mul(i, c(2)), j), small), (Range{-3, 14}));
    EXPECT_EQ(range_of(k, mul(M, N)), (Range{0, kInfinity}));
    EXPECT_EQ(range_of(k, rem(i, c(5))), (Range{-4, 4}));
    EXPECT_EQ(range_of(k, k.cast(k.scalar(1), DType::Int64)), (Range{INT32_MIN, INT32_MAX}));
    EXPECT_EQ(range_of(k, k.scalar(0)), Range{});
}

TEST_F(Index, ProofsHoldForAllExtents) {
    EXPECT_TRUE(proves_at_least(k, add(M, N), M));
    EXPECT_FALSE(proves_at_least(k, M, c(1)));
    EXPECT_TRUE(proves_less(k, sub(M, c(1)), M));
    EXPECT_FALSE(proves_less(k, M, N));
    EXPECT_TRUE(proves_at_least(k, M, min(N, M)));
    EXPECT_TRUE(proves_at_least(k, max(N, M), min(N, M)));
    EXPECT_TRUE(proves_at_least(k, M, mul(floordiv(M, c(16)), c(16))));
    EXPECT_TRUE(proves_at_least(k, mul(floordiv(add(M, c(15)), c(16)), c(16)), M));
    EXPECT_FALSE(proves_at_least(k, mul(floordiv(add(M, c(14)), c(16)), c(16)), M));
    EXPECT_FALSE(proves_at_least(k, k.scalar(0), c(0)));
}

TEST_F(Index, BoundsOfAFlattenedIndexAreThoseOfTheArray) {
    const std::vector<LoopRange> loops{{si, c(0), M, kNoExpr}, {sj, c(0), N, kNoExpr}};
    const ExprId flat = add(mul(i, N), j);
    EXPECT_EQ(upper_bound(k, flat, loops), sub(mul(M, N), c(1)));
    EXPECT_EQ(lower_bound(k, flat, loops), c(0));
}

TEST_F(Index, BoundsFollowTriangularLoops) {
    const std::vector<LoopRange> loops{{si, c(0), M, kNoExpr}, {sj, c(0), add(i, c(1)), kNoExpr}};
    EXPECT_EQ(upper_bound(k, j, loops), sub(M, c(1)));
    EXPECT_EQ(upper_bound(k, sub(j, i), loops), c(0));
    EXPECT_EQ(lower_bound(k, sub(j, i), loops), sub(c(1), M));
}

TEST_F(Index, TheLastValueOfASteppedLoopIsAWholeNumberOfStepsIn) {
    const std::vector<LoopRange> loops{{si, c(1), c(12), c(4)}};
    EXPECT_EQ(upper_bound(k, i, loops), c(9));
}

TEST_F(Index, BoundsGoThroughQuotientsAndMinima) {
    const std::vector<LoopRange> loops{{si, c(0), M, kNoExpr}};
    EXPECT_EQ(upper_bound(k, floordiv(i, c(3)), loops), simplify(k, floordiv(sub(M, c(1)), c(3))));
    EXPECT_EQ(upper_bound(k, min(mul(i, N), c(9)), loops),
              simplify(k, min(mul(sub(M, c(1)), N), c(9))));
    EXPECT_EQ(lower_bound(k, sub(c(9), max(i, N)), loops),
              simplify(k, sub(c(9), max(sub(M, c(1)), N))));
}

TEST_F(Index, BoundsAreUnknownWhereNothingIsMonotonic) {
    const std::vector<LoopRange> loops{{si, c(0), M, kNoExpr}};
    EXPECT_EQ(upper_bound(k, rem(i, c(3)), loops), kNoExpr);
    EXPECT_EQ(upper_bound(k, sub(mul(i, N), mul(i, M)), loops), kNoExpr);
    EXPECT_EQ(upper_bound(k, mul(i, k.scalar(0)), loops), kNoExpr);
    const std::vector<LoopRange> twenty{{si, c(0), c(20), kNoExpr}};
    EXPECT_EQ(upper_bound(k, sub(mul(i, c(20)), mul(i, i)), twenty), kNoExpr);
    EXPECT_EQ(upper_bound(k, mul(i, floordiv(sub(c(99), i), c(7))), twenty), kNoExpr);
}

TEST_F(Index, EvaluateSaysWhyThereIsNoValue) {
    Environment environment;
    const std::vector<Int> dims{5, kUnknown};
    environment.dims = dims;
    environment.symbols[si] = Int{1} << 62;
    Fault why{};
    EXPECT_EQ(evaluate(k, mul(M, c(3)), environment), 15);
    EXPECT_EQ(evaluate(k, add(M, N), environment, &why), std::nullopt);
    EXPECT_EQ(why, Fault::Unknown);
    EXPECT_EQ(evaluate(k, mul(i, c(2)), environment, &why), std::nullopt);
    EXPECT_EQ(why, Fault::Overflow);
    EXPECT_EQ(evaluate(k, rem(M, c(0)), environment, &why), std::nullopt);
    EXPECT_EQ(why, Fault::DivisionByZero);
    EXPECT_EQ(evaluate(k, floordiv(c(-7), M), environment), -2);
    EXPECT_EQ(evaluate(k, div(sub(c(0), c(7)), M), environment), -1);
}

TEST_F(Index, EvaluateLooksOnlyAtTheChosenSide) {
    const ExprId zero = k.binary(BinaryOp::Equal, M, c(0));
    const ExprId guarded = k.select(zero, c(1), div(c(10), M));
    const std::vector<Int> dims{0, 0};
    Environment environment;
    environment.dims = dims;
    EXPECT_EQ(evaluate(k, guarded, environment), 1);
    const ExprId either =
        k.binary(BinaryOp::Or, zero, k.binary(BinaryOp::Less, div(c(1), M), c(3)));
    EXPECT_EQ(evaluate(k, either, environment), 1);
}

TEST_F(Index, SubstituteReachesIndicesOfLoads) {
    k.operand_count = 1;
    k.buffers.push_back({BufferKind::Operand, DType::Int64, "idx", {k.extent(0, 0)}, false, {}});
    const ExprId load = k.load(0, {add(i, c(1))});
    const ExprId result = substitute(k, mul(load, c(2)), si, c(4));
    EXPECT_TRUE(depends_on(k, load, si));
    EXPECT_FALSE(depends_on(k, result, si));
    EXPECT_EQ(k.index_of(k[ExprId{k[result].a}], 0), c(5));
    EXPECT_EQ(substitute(k, load, sj, c(4)), load);
}

TEST_F(Index, ADeepExpressionCostsNoStackAndLittleTime) {
    ExprId chain = i, nest = i;
    for (int n = 0; n < 100'000; ++n) {
        chain = add(chain, n % 2 ? M : j);
        if (n < 20'000) nest = floordiv(add(nest, M), n % 2 ? N : c(3));
    }
    EXPECT_EQ(simplify(k, chain), simplify(k, add(add(mul(M, c(50'000)), mul(j, c(50'000))), i)));
    EXPECT_TRUE(exists(simplify(k, nest)));
    EXPECT_TRUE(depends_on(k, nest, si));
    range_of(k, nest);
}

}  // namespace
}  // namespace quern::ir
