#include <limits>

#include "tests/interpret/kernels.h"

// Each way in which a launch can fail: code, place and message.

namespace quern::interpret::testing {
namespace {

constexpr Span kHere{40, 9};

void expect_failure(const std::optional<Failure>& failure, Code code, Span span,
                    const std::string& message) {
    ASSERT_TRUE(failure);
    EXPECT_EQ(lang::to_string(failure->code), lang::to_string(code));
    EXPECT_EQ(failure->span, span);
    EXPECT_EQ(failure->message, message);
}

/// out[i] = x[at[i]].
Kernel gather(Span load, Span index) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1), at = b.operand("at", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Float32, {b.extent(at)});
    const ExprId i = b.points("i", b.extent(at));
    b.store(out, {i}, b.at(x, {b.at(at, {i}, index)}, load));
    b.end_for();
    return b.take();
}

TEST(Failures, AnIndexOutsideItsOperandIsReportedAtTheIndex) {
    const Kernel kernel = gather({10, 8}, {12, 5});
    Data<float> x(DType::Float32, {10}, std::vector<float>(10));
    for (const std::int64_t bad : {std::int64_t(10), std::int64_t(1000000), std::int64_t(-1),
                                   std::numeric_limits<std::int64_t>::min()}) {
        Data<std::int64_t> at(DType::Int64, {3}, {0, 9, bad});
        expect_failure(
            run<float>(kernel, {x.view, at.view}, {3}).failure, Code::E0507, {12, 5},
            "index " + std::to_string(bad) + " is outside axis 0 of 'x', which has 10 elements");
    }
    Data<std::int64_t> good(DType::Int64, {3}, {0, 9, 4});
    EXPECT_FALSE(run<float>(kernel, {x.view, good.view}, {3}).failure);
}

TEST(Failures, AnIndexWhoseNodeIsFromElsewhereIsReportedAtTheRead) {
    const Kernel kernel = gather({100, 8}, {12, 5});
    Data<float> x(DType::Float32, {1}, {1});
    Data<std::int64_t> at(DType::Int64, {1}, {1});
    expect_failure(run<float>(kernel, {x.view, at.view}, {1}).failure, Code::E0507, {100, 8},
                   "index 1 is outside axis 0 of 'x', which has 1 element");
}

TEST(Failures, AnAffineIndexThatLeavesItsOperandFailsAtTheFirstSuchPoint) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x, 0), b.extent(x, 1)});
    const ExprId i = b.points("i", b.extent(x, 0)), j = b.points("j", b.extent(x, 1));
    b.store(out, {i, j}, b.at(x, {i, b.add(j, b.i(1))}, kHere));
    b.end_for();
    b.end_for();
    Data<float> x_data(DType::Float32, {2, 3}, std::vector<float>(6));
    expect_failure(run<float>(b.take(), {x_data.view}, {2, 3}).failure, Code::E0507, kHere,
                   "index 3 is outside axis 1 of 'x', which has 3 elements");
}

TEST(Failures, AnAffineIndexBelowZeroFails) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x)});
    const ExprId i = b.points("i", b.extent(x));
    b.store(out, {i}, b.at(x, {b.sub(i, b.i(1))}, kHere));
    b.end_for();
    Data<float> x_data(DType::Float32, {3}, std::vector<float>(3));
    expect_failure(run<float>(b.take(), {x_data.view}, {3}).failure, Code::E0507, kHere,
                   "index -1 is outside axis 0 of 'x', which has 3 elements");
}

TEST(Failures, AStoreOutsideOutFails) {
    Build b;
    const BufferId at = b.operand("at", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Float32, {b.i(4)});
    b.store(out, {b.at(at, {b.i(0)})}, b.f(1), kHere);
    Data<std::int64_t> index(DType::Int64, {1}, {4});
    expect_failure(run<float>(b.take(), {index.view}, {4}).failure, Code::E0507, kHere,
                   "index 4 is outside axis 0 of 'out', which has 4 elements");
}

TEST(Failures, AnIndexOutsideAnArrayFails) {
    Build b;
    const BufferId out = b.output("out", DType::Float32, {b.i(1)});
    const ExprId n = b.dim("n");
    const BufferId tile = b.alloc(BufferKind::Local, "tile", DType::Float32, {b.i(2), n});
    const ExprId i = b.loop("i", b.i(5));
    b.store(tile, {b.i(1), i}, b.f(1), kHere);
    b.end_for();
    b.store(out, {b.i(0)}, b.at(tile, {b.i(1), b.i(0)}));
    How how;
    how.dims = {3};
    expect_failure(run<float>(b.take(), {}, {1}, how).failure, Code::E0507, kHere,
                   "index 3 is outside axis 1 of 'tile', which has 3 elements");
}

TEST(Failures, ARankZeroOperandOfNoElementsCannotBeReadThroughAnEmptyAxis) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {});
    b.store(out, {}, b.at(x, {b.i(0)}, kHere));
    Data<float> empty(DType::Float32, {0}, {});
    expect_failure(run<float>(b.take(), {empty.view}, {}).failure, Code::E0507, kHere,
                   "index 0 is outside axis 0 of 'x', which has 0 elements");
}

TEST(Failures, IntegerDivisionByZero) {
    for (const DType dtype : {DType::Int8, DType::Int64, DType::UInt32, DType::UInt64}) {
        for (const BinaryOp op : {BinaryOp::Div, BinaryOp::Rem, BinaryOp::FloorDiv}) {
            Build b;
            const BufferId x = b.operand("x", DType::Int64, 1);
            const BufferId out = b.output("out", dtype, {b.extent(x)});
            const ExprId i = b.points("i", b.extent(x));
            const ExprId y = b.kernel().cast(b.at(x, {i}), dtype);
            b.store(out, {i}, b.op(op, y, y, kHere));
            b.end_for();
            Data<std::int64_t> x_data(DType::Int64, {3}, {1, -1, 0});
            expect_failure(run<std::int64_t>(b.take(), {x_data.view}, {3}).failure, Code::E0621,
                           kHere, "integer division by zero");
        }
    }
}

TEST(Failures, AnIntegerToANegativePowerHasNoValue) {
    Build b;
    const BufferId x = b.operand("x", DType::Int32, 1);
    const BufferId out = b.output("out", DType::Int32, {});
    b.store(out, {}, b.op(BinaryOp::Pow, b.at(x, {b.i(0)}), b.at(x, {b.i(1)}), kHere));
    const Kernel kernel = b.take();
    for (const std::int32_t base : {0, 1, -1, 2}) {
        Data<std::int32_t> data(DType::Int32, {2}, {base, -3});
        expect_failure(run<std::int32_t>(kernel, {data.view}, {}).failure, Code::E0621, kHere,
                       "expected an exponent of at least 0 for an integer, got -3");
    }
}

TEST(Failures, ADivisionThatNoIterationReachesDoesNotFail) {
    Build b;
    const BufferId x = b.operand("x", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Int64, {});
    const ExprId zero = b.let("zero", b.at(x, {b.i(0)}));
    const SymbolId v = b.var("v", b.i(5));
    b.loop("i", zero);
    b.assign(v, b.op(BinaryOp::Div, b.i(1), zero));
    b.end_for();
    b.store(out, {}, b.read(v));
    Data<std::int64_t> data(DType::Int64, {1}, {0});
    EXPECT_EQ(values_of(run<std::int64_t>(b.take(), {data.view}, {}))[0], 5);
}

TEST(Failures, AProductWithZeroStillEvaluatesItsFactors) {
    Build b;
    const BufferId x = b.operand("x", DType::Int64, 1), y = b.operand("y", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {});
    const ExprId quotient = b.op(BinaryOp::Div, b.i(1), b.at(x, {b.i(0)}), kHere);
    const ExprId nothing = b.mul(quotient, b.i(0));
    Build c = b;
    b.store(out, {}, b.at(y, {nothing}));
    c.store(out, {}, c.kernel().cast(nothing, DType::Float32));
    Data<std::int64_t> zero(DType::Int64, {1}, {0});
    Data<float> data(DType::Float32, {1}, {1});
    for (const Kernel& kernel : {b.take(), c.take()}) {
        expect_failure(run<float>(kernel, {zero.view, data.view}, {}).failure, Code::E0621, kHere,
                       "integer division by zero");
    }
}

TEST(Failures, AStepOfZeroIsRefused) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.i(8)});
    const ExprId i = b.begin_for("i", b.i(0), b.i(8), {.step = b.extent(x), .span = kHere});
    b.store(out, {i}, b.f(1));
    b.end_for();
    Data<float> empty(DType::Float32, {0}, {});
    expect_failure(run<float>(b.take(), {empty.view}, {8}).failure, Code::E0506, kHere,
                   "the step of the loop over 'i' is 0, expected at least 1");
}

TEST(Failures, AnElementOfOutIsReadBeforeItIsWritten) {
    Build b;
    const BufferId out = b.output("out", DType::Float32, {b.i(2), b.i(3)});
    b.store(out, {b.i(0), b.i(0)}, b.f(1));
    b.store(out, {b.i(0), b.i(1)}, b.at(out, {b.i(1), b.i(2)}, kHere));
    expect_failure(run<float>(b.take(), {}, {2, 3}).failure, Code::E0421, kHere,
                   "element [1, 2] of 'out' is read before it is written");
}

/// The second point allocates the same memory again: what the first one wrote is not there.
TEST(Failures, AnElementOfAnArrayIsReadBeforeThisPointWroteIt) {
    for (const BufferKind kind : {BufferKind::Local, BufferKind::Shared}) {
        Build b;
        const BufferId out = b.output("out", DType::Float32, {b.i(300)});
        const ExprId i = b.points("i", b.i(300));
        const BufferId tile = b.alloc(kind, "tile", DType::Float32, {b.i(4)});
        b.begin_if(b.op(BinaryOp::NotEqual, i, b.i(299)));
        b.store(tile, {b.i(3)}, b.f(1));
        b.end_if();
        b.store(out, {i}, b.at(tile, {b.i(3)}, kHere));
        b.end_for();
        expect_failure(run<float>(b.take(), {}, {300}).failure, Code::E0514, kHere,
                       "element [3] of 'tile' is read before it is written");
    }
}

/// Point 0 alone writes; its array is gone at every later point, however many there were between.
TEST(Failures, AnArrayOfAnEarlierPointIsNeverSeen) {
    Build b;
    const BufferId out = b.output("out", DType::Float32, {b.i(600)});
    const ExprId reader = b.dim("reader");
    const ExprId i = b.points("i", b.i(600));
    const BufferId tile = b.alloc(BufferKind::Local, "tile", DType::Float32, {b.i(4)});
    b.begin_if(b.op(BinaryOp::Equal, i, b.i(0)));
    b.store(tile, {b.i(1)}, b.f(1));
    b.end_if();
    b.begin_if(b.op(BinaryOp::Equal, i, reader));
    b.store(out, {i}, b.at(tile, {b.i(1)}));
    b.end_if();
    b.end_for();
    const Kernel kernel = b.take();
    for (std::int64_t point = 0; point < 600; ++point) {
        How how;
        how.dims = {point};
        EXPECT_EQ(run<float>(kernel, {}, {600}, how).failure.has_value(), point != 0) << point;
    }
}

TEST(Failures, ACheckThatDoesNotHoldHasItsOwnCode) {
    for (const std::int64_t n : {0, 1}) {
        Build b;
        const BufferId x = b.operand("x", DType::Float32, 1);
        const BufferId out = b.output("out", DType::Float32, {});
        b.check(b.less(b.i(0), b.extent(x)), Code::E0620, kHere);
        b.store(out, {}, b.f(2));
        Data<float> data(DType::Float32, {n}, std::vector<float>(std::size_t(n)));
        const auto failure = run<float>(b.take(), {data.view}, {}).failure;
        if (n == 1) {
            EXPECT_FALSE(failure);
        } else {
            expect_failure(failure, Code::E0620, kHere, std::string(lang::title(Code::E0620)));
        }
    }
}

TEST(Failures, ArraysAboveTheLimitAreRefused) {
    Build b;
    const BufferId out = b.output("out", DType::Float32, {b.i(2)});
    const ExprId n = b.dim("n");
    const ExprId i = b.points("i", b.i(2));
    const BufferId small = b.alloc(BufferKind::Local, "small", DType::Float64, {b.i(100)});
    b.store(small, {b.i(0)}, b.f(0, DType::Float64));
    const BufferId large = b.alloc(BufferKind::Shared, "large", DType::Float32, {n, n}, kHere);
    b.store(large, {b.i(0), b.i(0)}, b.f(1));
    b.store(out, {i}, b.at(large, {b.i(0), b.i(0)}));
    b.end_for();
    const Kernel kernel = b.take();
    How how;
    how.local_limit = 1200;
    how.dims = {10};
    EXPECT_FALSE(run<float>(kernel, {}, {2}, how).failure);
    how.dims = {11};
    expect_failure(run<float>(kernel, {}, {2}, how).failure, Code::E0610, kHere,
                   "with 'large' the arrays of one point need 1284 bytes, the limit is 1200");
    how.dims = {std::int64_t(1) << 40};
    expect_failure(run<float>(kernel, {}, {2}, how).failure, Code::E0610, kHere,
                   "with 'large' the arrays of one point need 9223372036854775807 bytes, the "
                   "limit is 1200");
    how.dims = {-2};
    expect_failure(run<float>(kernel, {}, {2}, how).failure, Code::E0506, kHere,
                   "an extent of 'large' is -2");
}

TEST(Failures, AViewOfAnotherDtypeIsABrokenInvariant) {
    const Kernel kernel = gather({}, {});
    Data<double> x(DType::Float64, {1}, {1});
    Data<std::int64_t> at(DType::Int64, {1}, {0});
    EXPECT_THROW(run<float>(kernel, {x.view, at.view}, {1}), InternalError);
    EXPECT_THROW(run<float>(kernel, {at.view}, {1}), InternalError);
}

}  // namespace
}  // namespace quern::interpret::testing
