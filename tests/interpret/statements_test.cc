#include <cmath>

#include "tests/interpret/kernels.h"

// What statements and expressions mean, one kind at a time.

namespace quern::interpret::testing {
namespace {

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

TEST(Statements, MatrixProduct) {
    Build b;
    const BufferId x = b.operand("A", DType::Float32, 2), y = b.operand("B", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x, 0), b.extent(y, 1)});
    const ExprId i = b.points("i", b.extent(x, 0)), j = b.points("j", b.extent(y, 1));
    const SymbolId sum = b.var("sum", b.f(0));
    const ExprId k = b.loop("k", b.extent(x, 1), {sum});
    b.accumulate(sum, BinaryOp::Add, b.mul(b.at(x, {i, k}), b.at(y, {k, j})));
    b.end_for();
    b.store(out, {i, j}, b.read(sum));
    b.end_for();
    b.end_for();
    Data<float> left(DType::Float32, {2, 3}, {1, 2, 3, 4, 5, 6});
    Data<float> right(DType::Float32, {3, 2}, {1, 10, 2, 20, 3, 30});
    const auto result = run<float>(b.take(), {left.view, right.view}, {2, 2});
    EXPECT_EQ(values_of(result), (Floats{14, 140, 32, 320}));
    EXPECT_EQ(result.steps, 4u + 12u);
}

TEST(Statements, LetKeepsTheValueThatAVarHadThen) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(2)});
    const SymbolId v = b.var("v", b.i(1));
    const ExprId before = b.let("before", b.read(v));
    b.assign(v, b.add(b.read(v), b.i(5)));
    b.store(out, {b.i(0)}, before);
    b.store(out, {b.i(1)}, b.read(v));
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {2})), (Integers{1, 6}));
}

TEST(Statements, AnExpressionUsedTwiceReadsAVarTwice) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(2)});
    const SymbolId v = b.var("v", b.i(1));
    const ExprId next = b.add(b.read(v), b.i(1));
    b.store(out, {b.i(0)}, next);
    b.assign(v, b.i(10));
    b.store(out, {b.i(1)}, next);
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {2})), (Integers{2, 11}));
}

TEST(Statements, ConstantsOfNarrowIntegersWrap) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(2)});
    const ExprId narrow = b.kernel().cast(b.i(300), DType::UInt8);
    const ExprId sum = b.add(narrow, b.kernel().cast(b.i(250), DType::UInt8));
    b.store(out, {b.i(0)}, b.kernel().cast(narrow, DType::Int64));
    b.store(out, {b.i(1)}, b.kernel().cast(sum, DType::Int64));
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {2})), (Integers{44, 38}));
}

/// The first loop would compute exp(n) once, before it, but the branch is not taken.
TEST(Statements, WhatIsComputedBeforeALoopIsNotReusedAfterIt) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1), at = b.operand("at", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Float32, {b.i(3)});
    const ExprId n = b.let("n", b.at(x, {b.at(at, {b.i(0)})}));
    const ExprId value = b.kernel().unary(UnaryOp::Sqrt, n);
    b.begin_if(b.less(n, b.f(0)));
    const ExprId i = b.loop("i", b.i(3));
    b.store(out, {i}, value);
    b.end_for();
    b.end_if();
    const ExprId j = b.loop("j", b.i(3));
    b.store(out, {j}, value);
    b.end_for();
    Data<float> operand(DType::Float32, {2}, {4, 9});
    Data<std::int64_t> index(DType::Int64, {1}, {1});
    EXPECT_EQ(values_of(run<float>(b.take(), {operand.view, index.view}, {3})), (Floats{3, 3, 3}));
}

TEST(Statements, AVarThatALoopAssignsIsReadAnewInEachIteration) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(5)});
    const SymbolId a = b.var("a", b.i(0)), c = b.var("c", b.i(1));
    const ExprId i = b.loop("i", b.i(5));
    b.store(out, {i}, b.read(a));
    const ExprId next = b.let("next", b.add(b.read(a), b.read(c)));
    b.assign(a, b.read(c));
    b.assign(c, next);
    b.end_for();
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {5})), (Integers{0, 1, 1, 2, 3}));
}

TEST(Statements, AVarIsDeclaredAnewInEachIteration) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(3)});
    const ExprId i = b.loop("i", b.i(3));
    const SymbolId v = b.var("v", b.i(10));
    const ExprId j = b.loop("j", i);
    b.assign(v, b.add(b.read(v), b.add(j, b.i(1))));
    b.end_for();
    b.store(out, {i}, b.read(v));
    b.end_for();
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {3})), (Integers{10, 11, 13}));
}

TEST(Statements, LoopsTakeStepsUpToTheirEnd) {
    for (const auto& [begin, end, step] :
         {std::tuple<int, int, int>{0, 10, 3}, {2, 10, 4}, {-7, 2, 5}, {4, 4, 1}, {5, 2, 1}}) {
        Build b;
        const BufferId out = b.output("out", DType::Int64, {b.i(20)});
        const SymbolId n = b.var("n", b.i(0));
        const ExprId i = b.begin_for("i", b.i(begin), b.i(end), {.step = b.i(step)});
        b.store(out, {b.read(n)}, i);
        b.assign(n, b.add(b.read(n), b.i(1)));
        b.end_for();
        Integers expected(20, 0);
        std::size_t at = 0;
        for (int value = begin; value < end; value += step) expected[at++] = value;
        EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {20})), expected);
    }
}

TEST(Statements, LoopBoundsMayDependOnOuterLoopsAndBeEmpty) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(4), b.i(4)});
    const ExprId i = b.points("i", b.i(4));
    const ExprId j = b.begin_for("j", i, b.i(3), {.parallel = true});
    b.store(out, {i, j}, b.add(b.mul(i, b.i(10)), j));
    b.end_for();
    b.end_for();
    const Kernel kernel = b.take();
    for (const int threads : {1, 2}) {
        EXPECT_EQ(values_of(run<std::int64_t>(kernel, {}, {4, 4}, {.threads = threads})),
                  (Integers{0, 1, 2, 0, 0, 11, 12, 0, 0, 0, 22, 0, 0, 0, 0, 0}));
    }
}

TEST(Statements, IfTakesOneSide) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(4)});
    const ExprId i = b.loop("i", b.i(4));
    b.begin_if(b.less(i, b.i(2)));
    b.store(out, {i}, b.i(7));
    b.begin_else();
    b.begin_if(b.op(BinaryOp::Equal, i, b.i(3)));
    b.store(out, {i}, b.i(9));
    b.end_if();
    b.end_if();
    b.end_for();
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {4})), (Integers{7, 7, 0, 9}));
}

/// One expression before, in and after a branch: what only the branch computes is not there after.
TEST(Statements, WhatABranchComputesIsNotReusedOutsideIt) {
    Build b;
    const BufferId x = b.operand("x", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Int64, {b.extent(x)});
    const ExprId i = b.loop("i", b.extent(x));
    const ExprId loaded = b.let("loaded", b.at(x, {i}));
    const ExprId twice = b.mul(loaded, loaded);
    b.begin_if(b.less(loaded, b.i(0)));
    b.store(out, {i}, b.sub(twice, b.i(100)));
    b.end_if();
    b.begin_if(b.less(b.i(0), loaded));
    b.store(out, {i}, twice);
    b.end_if();
    b.end_for();
    Data<std::int64_t> operand(DType::Int64, {4}, {-2, 3, 0, 5});
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {operand.view}, {4})),
              (Integers{-96, 9, 0, 25}));
}

TEST(Statements, AndOrAndSelectDoNotEvaluateWhatTheyDoNotNeed) {
    Build b;
    const BufferId x = b.operand("x", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Int64, {b.i(6)});
    const ExprId i = b.loop("i", b.i(6));
    const ExprId inside = b.less(i, b.extent(x));
    const ExprId is_two = b.op(BinaryOp::Equal, b.at(x, {i}), b.i(2));
    const ExprId both = b.op(BinaryOp::And, inside, is_two);
    const ExprId outside = b.kernel().unary(UnaryOp::Not, inside);
    const ExprId other = b.op(BinaryOp::Equal, b.at(x, {i}), b.i(3));
    const ExprId either = b.op(BinaryOp::Or, outside, other);
    const ExprId value = b.kernel().select(inside, b.at(x, {i}), b.i(-1));
    const ExprId zero = b.kernel().select(b.op(BinaryOp::Equal, i, b.i(0)), b.i(0),
                                          b.op(BinaryOp::Div, b.i(60), i));
    const auto number = [&](ExprId flag) { return b.kernel().cast(flag, DType::Int64); };
    b.store(out, {i},
            b.add(b.mul(b.add(b.mul(number(both), b.i(2)), number(either)), b.i(10000)),
                  b.add(b.mul(value, b.i(100)), zero)));
    b.end_for();
    Data<std::int64_t> operand(DType::Int64, {4}, {1, 2, 3, 4});
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {operand.view}, {6})),
              (Integers{100, 20260, 10330, 420, 9915, 9912}));
}

TEST(Statements, SelectOfCheapSidesChoosesAsWell) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x)});
    const ExprId i = b.points("i", b.extent(x));
    const ExprId v = b.at(x, {i});
    b.store(out, {i}, b.kernel().select(b.less(b.f(0), v), v, b.mul(v, b.f(0.5))));
    b.end_for();
    Data<float> operand(DType::Float32, {4}, {-2, 3, NAN, -0.f});
    const Floats got = values_of(run<float>(b.take(), {operand.view}, {4}));
    EXPECT_EQ(got[0], -1);
    EXPECT_EQ(got[1], 3);
    EXPECT_TRUE(std::isnan(got[2]));
    EXPECT_TRUE(got[3] == 0 && std::signbit(got[3]));
}

TEST(Statements, ArgReduceKeepsTheFirstOfEqualsAndTheFirstNan) {
    for (const bool is_minimum : {true, false}) {
        for (const bool with_nan : {false, true}) {
            Build b;
            const BufferId x = b.operand("x", DType::Float32, 1);
            const BufferId out = b.output("out", DType::Int64, {});
            const SymbolId best = b.var("best", b.f(is_minimum ? INFINITY : -INFINITY));
            const SymbolId at = b.var("at", b.i(-1));
            const ExprId k = b.loop("k", b.extent(x), {best, at});
            b.arg_reduce(best, at, is_minimum ? BinaryOp::Less : BinaryOp::Max, b.at(x, {k}), k);
            b.end_for();
            b.store(out, {}, b.read(at));
            Data<float> operand(DType::Float32, {7}, {3, 1, 5, 1, 5, 2, 4});
            if (with_nan) operand.values[3] = operand.values[5] = NAN;
            const std::int64_t expected = with_nan ? 3 : is_minimum ? 1 : 2;
            EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {operand.view}, {}))[0], expected);
        }
    }
}

TEST(Statements, ArgReduceKeepsANegativeIndex) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Int64, {});
    const SymbolId best = b.var("best", b.f(-INFINITY));
    const SymbolId at = b.var("at", b.i(0));
    const ExprId k = b.loop("k", b.extent(x), {best, at});
    b.arg_reduce(best, at, BinaryOp::Max, b.at(x, {k}), b.add(k, b.i(-3)));
    b.end_for();
    b.store(out, {}, b.read(at));
    Data<float> operand(DType::Float32, {3}, {-INFINITY, 5, 4});
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {operand.view}, {}))[0], -2);
}

TEST(Statements, ArgReduceComparesUnsignedIntegersAsUnsigned) {
    Build b;
    const BufferId x = b.operand("x", DType::UInt64, 1);
    const BufferId out = b.output("out", DType::Int64, {});
    const SymbolId best = b.var("best", b.kernel().cast(b.i(0), DType::UInt64));
    const SymbolId at = b.var("at", b.i(0));
    const ExprId k = b.loop("k", b.extent(x), {best, at});
    b.arg_reduce(best, at, BinaryOp::Max, b.at(x, {k}), k);
    b.end_for();
    b.store(out, {}, b.read(at));
    Data<std::uint64_t> operand(DType::UInt64, {3}, {5, ~std::uint64_t(0), 7});
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {operand.view}, {}))[0], 1);
}

/// Reverses the head of each row by way of an array; the extent of a local one changes from row to
/// row.
TEST(Statements, ArraysBeginAnewAtEachAlloc) {
    for (const BufferKind kind : {BufferKind::Local, BufferKind::Shared}) {
        const bool is_local = kind == BufferKind::Local;
        Build b;
        const BufferId x = b.operand("x", DType::Float32, 2);
        const BufferId out = b.output("out", DType::Float32, {b.extent(x, 0), b.extent(x, 1)});
        const ExprId i = b.points("i", b.extent(x, 0));
        const ExprId n = b.let("n", b.add(i, b.i(1)));
        const BufferId tile =
            b.alloc(kind, "tile", DType::Float32, {is_local ? n : b.i(3), b.i(2)});
        const ExprId j = b.loop("j", n);
        b.store(tile, {j, b.i(1)}, b.at(x, {i, j}));
        b.end_for();
        b.barrier();
        const ExprId k = b.loop("k", n);
        b.store(out, {i, k}, b.at(tile, {b.sub(b.sub(n, b.i(1)), k), b.i(1)}));
        b.end_for();
        b.end_for();
        const Kernel kernel = b.take();
        Data<float> operand(DType::Float32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
        for (const int threads : {1, 3}) {
            EXPECT_EQ(values_of(run<float>(kernel, {operand.view}, {3, 3}, {.threads = threads})),
                      (Floats{1, 0, 0, 5, 4, 0, 9, 8, 7}));
        }
    }
}

TEST(Statements, AnArrayOfTheMainCodeIsSeenByEveryPoint) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x)});
    const BufferId tile = b.alloc(BufferKind::Local, "tile", DType::Float32, {b.extent(x)});
    const ExprId i = b.points("i", b.extent(x));
    b.store(tile, {i}, b.mul(b.at(x, {i}), b.f(2)));
    b.end_for();
    const ExprId j = b.points("j", b.extent(x));
    b.store(out, {j}, b.add(b.at(tile, {j}), b.at(tile, {b.i(0)})));
    b.end_for();
    const Kernel kernel = b.take();
    Data<float> operand(DType::Float32, {4}, {1, 2, 3, 4});
    for (const int threads : {1, 4}) {
        EXPECT_EQ(values_of(run<float>(kernel, {operand.view}, {4}, {.threads = threads})),
                  (Floats{4, 6, 8, 10}));
    }
}

TEST(Statements, OutMayBeReadAfterItIsWritten) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(6)});
    b.store(out, {b.i(0)}, b.i(1));
    const ExprId i = b.begin_for("i", b.i(1), b.i(6));
    b.store(out, {i}, b.mul(b.at(out, {b.sub(i, b.i(1))}), b.i(3)));
    b.end_for();
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {}, {6})), (Integers{1, 3, 9, 27, 81, 243}));
}

TEST(Statements, DimsExtentsAndScalarsAreBoundAtLaunch) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const ExprId n = b.dim("n");
    const ExprId scale = b.scalar("scale", DType::Float32);
    const ExprId narrow = b.scalar("narrow", DType::Int8);
    const ExprId flag = b.scalar("flag", DType::Bool);
    const ExprId half = b.scalar("half", DType::Float16);
    const BufferId out = b.output("out", DType::Float32, {n});
    const auto number = [&](ExprId e) { return b.kernel().cast(e, DType::Float32); };
    b.store(out, {b.i(0)}, number(n));
    b.store(out, {b.i(1)}, number(b.extent(x, 1)));
    b.store(out, {b.i(2)}, scale);
    b.store(out, {b.i(3)}, number(narrow));
    b.store(out, {b.i(4)}, number(flag));
    b.store(out, {b.i(5)}, number(half));
    Data<float> operand(DType::Float32, {0, 17}, {});
    How how;
    how.dims = {6};
    how.scalars = {{0, 0.1}, {-3, 0}, {1, 0}, {0, 0.1}};
    EXPECT_EQ(values_of(run<float>(b.take(), {operand.view}, {6}, how)),
              (Floats{6, 17, 0.1f, -3, 1, float_from_float16(float16_from_double(0.1))}));
}

TEST(Statements, StridesMayBeNegativeZeroOrTransposed) {
    Build b;
    const BufferId x = b.operand("x", DType::Int16, 2);
    const BufferId out = b.output("out", DType::Int16, {b.extent(x, 0), b.extent(x, 1)});
    const ExprId i = b.points("i", b.extent(x, 0)), j = b.points("j", b.extent(x, 1));
    b.store(out, {i, j}, b.at(x, {i, j}));
    b.end_for();
    b.end_for();
    const Kernel kernel = b.take();
    using Shorts = std::vector<std::int16_t>;
    Data<std::int16_t> data(DType::Int16, {2, 3}, {1, 2, 3, 4, 5, 6});
    const auto with = [&](std::size_t first, Integers shape, Integers strides) {
        View view = data.view;
        view.data = data.values.data() + first;
        view.shape = shape;
        view.strides = std::move(strides);
        return values_of(run<std::int16_t>(kernel, {view}, shape));
    };
    EXPECT_EQ(with(0, {3, 2}, {1, 3}), (Shorts{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(with(5, {2, 3}, {-3, -1}), (Shorts{6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(with(1, {2, 2}, {0, 1}), (Shorts{2, 3, 2, 3}));
    EXPECT_EQ(with(0, {0, 3}, {3, 1}), Shorts{});
}

TEST(Statements, ExtentsOfZeroRunNothing) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x, 0)});
    const ExprId i = b.points("i", b.extent(x, 0));
    const SymbolId sum = b.var("sum", b.f(0));
    const ExprId k = b.loop("k", b.extent(x, 1), {sum});
    b.accumulate(sum, BinaryOp::Add, b.at(x, {i, k}));
    b.end_for();
    b.store(out, {i}, b.read(sum));
    b.end_for();
    const Kernel kernel = b.take();
    Data<float> nothing(DType::Float32, {0, 3}, {}), empty_rows(DType::Float32, {2, 0}, {});
    EXPECT_EQ(values_of(run<float>(kernel, {nothing.view}, {0})), Floats{});
    EXPECT_EQ(values_of(run<float>(kernel, {empty_rows.view}, {2})), (Floats{0, 0}));
}

TEST(Statements, RankZeroOperandsAreScalars) {
    Build b;
    const BufferId x = b.operand("x", DType::Float64, 0);
    const BufferId out = b.output("out", DType::Float64, {});
    b.store(out, {}, b.mul(b.at(x, {}), b.at(x, {})));
    Data<double> operand(DType::Float64, {}, {1.5});
    EXPECT_EQ(values_of(run<double>(b.take(), {operand.view}, {}))[0], 2.25);
}

/// Reads that are proven inside are done early; a guarded one that is not stays where it is.
TEST(Statements, GuardedReadsAtTheBordersOfAConvolution) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1), w = b.operand("w", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x)});
    const ExprId o = b.points("o", b.extent(x));
    const SymbolId sum = b.var("sum", b.f(0));
    const ExprId k = b.loop("k", b.extent(w), {sum});
    const ExprId at = b.let("at", b.sub(b.add(o, k), b.i(1)));
    b.begin_if(b.op(BinaryOp::And, b.op(BinaryOp::LessEqual, b.i(0), at), b.less(at, b.extent(x))));
    b.accumulate(sum, BinaryOp::Add, b.mul(b.at(x, {at}), b.at(w, {k})));
    b.end_if();
    b.end_for();
    b.store(out, {o}, b.read(sum));
    b.end_for();
    Data<float> operand(DType::Float32, {4}, {1, 2, 3, 4}),
        weights(DType::Float32, {3}, {1, 10, 100});
    EXPECT_EQ(values_of(run<float>(b.take(), {operand.view, weights.view}, {4})),
              (Floats{210, 321, 432, 43}));
}

TEST(Statements, LongChainsOfOperationsAreNoProblem) {
    Build b;
    const BufferId x = b.operand("x", DType::Float64, 1);
    const BufferId out = b.output("out", DType::Float64, {});
    ExprId sum = b.at(x, {b.i(0)});
    for (int n = 1; n < 100000; ++n) sum = b.add(sum, b.at(x, {b.i(0)}));
    b.store(out, {}, sum);
    Data<double> operand(DType::Float64, {1}, {2});
    EXPECT_EQ(values_of(run<double>(b.take(), {operand.view}, {}))[0], 200000);
}

}  // namespace
}  // namespace quern::interpret::testing
