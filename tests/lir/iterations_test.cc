#include "quern/lir/iterations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quern/lir/builder.h"

namespace quern::lir {
namespace {

/// The loop over the points of a grid, and what `body` puts into it for its variable.
template <class Body>
Function over_points(const Body& body) {
    Builder b("points");
    const ValueId begin = b.parameter({ParameterKind::GridBegin, 0});
    const ValueId end = b.parameter({ParameterKind::GridEnd, 0});
    body(b, b.begin_for(begin, end, 1));
    b.end_for();
    return b.take();
}

std::uint64_t most(const Function& function, const std::vector<std::uint64_t>& words) {
    EXPECT_EQ(verify(function), std::vector<std::string>{});
    return bounds_of(function, words).iterations;
}

TEST(Iterations, OfAPointWithoutLoopsAreThoseOfTheGrid) {
    EXPECT_EQ(most(over_points([](Builder&, ValueId) {}), {0, 1000}), 2u);
}

TEST(Iterations, OfLoopsAreThoseOfParametersAndOfLoopsInsideTheirProduct) {
    const Function function = over_points([](Builder& b, ValueId) {
        const ValueId rows = b.parameter({ParameterKind::Dim, 0});
        const ValueId columns = b.parameter({ParameterKind::Dim, 1});
        const ValueId first = b.integer(0);
        b.begin_for(first, rows, 2);
        b.begin_for(first, columns, 1);
        b.end_for();
        b.end_for();
        b.begin_for(first, b.mul(rows, columns), 1);
        b.end_for();
    });
    // Once more each: two of the grid; in each four of the outer loop, in each of those eight; and
    // thirty-six.
    EXPECT_EQ(most(function, {0, 1000, 5, 7}), 2u * (1 + 4 * (1 + 8) + 36));
    EXPECT_EQ(most(function, {0, 1000, 0, 7}), 2u * (1 + 1 * (1 + 8) + 1));
    EXPECT_EQ(most(function, {0, 1000, std::uint64_t{1} << 40, 7}), kUnbounded);
}

TEST(Iterations, OfALoopThatBeginsBehindThePointAreAtMostThoseFromTheFirst) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const ValueId n = b.parameter({ParameterKind::Dim, 0});
        b.begin_for(b.add(point, b.integer(1)), n, 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000, 1000}), 2u * (1 + 1000));
}

TEST(Iterations, HaveAsManyInstructionsAsTheirBodies) {
    const Function function = over_points([](Builder& b, ValueId point) {
        b.begin_for(b.integer(0), b.parameter({ParameterKind::Dim, 0}), 1);
        b.add(point, point);
        b.end_for();
    });
    const auto instructions = [&](std::uint64_t n) {
        return bounds_of(function, std::vector<std::uint64_t>{0, 1000, n}).instructions;
    };
    EXPECT_EQ(instructions(8) - instructions(7), 1u);
    EXPECT_EQ(instructions(1000) - instructions(0), 1000u);
    EXPECT_EQ(instructions(std::uint64_t{1} << 40), kUnbounded);
}

TEST(Iterations, OfABlockOfAPointAreThoseOfTheBlockWhereverItBegins) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const ValueId n = b.parameter({ParameterKind::Dim, 0});
        const ValueId block = b.parameter({ParameterKind::Block, 0});
        const ValueId begin = b.mul(point, block);
        const ValueId end = b.add(begin, block);
        b.begin_for(begin, b.binary(Op::Min, end, n), 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000, std::uint64_t{1} << 40, 6}), 2u * (1 + 7));
}

TEST(Iterations, OfWholeStepsOfABlockAndOfWhatTheyLeaveAreThoseOfTheBlock) {
    constexpr std::int64_t kWidth = 4;
    const Function function = over_points([](Builder& b, ValueId point) {
        const ValueId n = b.parameter({ParameterKind::Dim, 0});
        const ValueId block = b.parameter({ParameterKind::Block, 0});
        const ValueId from = b.mul(point, block);
        const ValueId to = b.binary(Op::Min, b.add(from, block), n);
        const ValueId width = b.integer(kWidth);
        const ValueId many = b.binary(Op::Div, b.sub(to, from), width);
        const ValueId done = b.add(from, b.mul(many, width));
        b.begin_for(from, done, kWidth);
        b.end_for();
        b.begin_for(done, to, 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000, 40, 12}), 2u * (1 + 4 + 1)) << "nothing is left";
    EXPECT_EQ(most(function, {0, 1000, 40, 6}), 2u * (1 + 2 + 4)) << "blocks are no whole steps";
    for (const std::int64_t block : {1, 4, 6, 31}) {
        const std::uint64_t bound = most(function, {0, 1000, 37, std::uint64_t(block)});
        EXPECT_EQ(bound, 2u * (1 + (block / kWidth + 1) + kWidth));
        for (std::int64_t from = 0; from < 60; from += block) {
            const std::int64_t size = std::min(from + block, std::int64_t(37)) - from;
            const std::int64_t trips = size > 0 ? size / kWidth + size % kWidth : std::int64_t(0);
            EXPECT_GE(bound, std::uint64_t(trips)) << from;
        }
    }
}

TEST(Iterations, AreSoonFoundWhereMinimaAreOfEachOther) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const ValueId n = b.parameter({ParameterKind::Dim, 0});
        ValueId x = b.add(point, n), y = b.sub(n, point);
        for (int depth = 0; depth < 60; ++depth) {
            const ValueId less = b.binary(Op::Min, x, y);
            y = b.binary(Op::Min, y, x);
            x = less;
        }
        b.begin_for(point, x, 1);
        b.end_for();
    });
    // No end is further than 5 behind the point, nor than 5 less the point.
    EXPECT_EQ(most(function, {0, 1000, 5}), 2u * (1 + 6));
}

TEST(Iterations, OfWhatWholeStepsOfNoKnownWidthLeaveAreUnbounded) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const BufferId widths = b.buffer("widths", DType::Int64, Space::Global, false);
        const ValueId to = b.load(widths, b.integer(1), 1), width = b.load(widths, point, 1);
        const ValueId many = b.binary(Op::Div, b.sub(to, point), width);
        b.begin_for(b.add(point, b.mul(many, width)), to, 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000}), kUnbounded);
}

TEST(Iterations, OfBranchesAreThoseOfBothSides) {
    const Function function = over_points([](Builder& b, ValueId) {
        const ValueId n = b.parameter({ParameterKind::Dim, 0});
        const ValueId first = b.integer(0);
        b.begin_if(b.compare(Op::Less, first, n));
        b.begin_for(first, b.integer(3), 1);
        b.end_for();
        b.begin_else();
        b.begin_for(first, b.integer(9), 1);
        b.end_for();
        b.end_if();
    });
    EXPECT_EQ(most(function, {0, 1000, 1}), 2u * (1 + 4 + 10));
}

TEST(Iterations, OfALoopToALoadedNumberAreUnbounded) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const BufferId counts = b.buffer("counts", DType::Int64, Space::Global, false);
        b.begin_for(b.integer(0), b.load(counts, point, 1), 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000}), kUnbounded);
}

TEST(Iterations, OfALoopToANumberThatWrapsAreUnbounded) {
    const Function function = over_points([](Builder& b, ValueId) {
        const ValueId n = b.cast(b.parameter({ParameterKind::Dim, 0}), DType::Int32);
        const ValueId square = b.mul(n, n);
        const ValueId below = b.sub(b.constant(DType::Int32, 0), square);
        const ValueId end = b.binary(Op::Max, b.constant(DType::Int32, 3), below);
        b.begin_for(b.integer(0), b.cast(end, DType::Int64), 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000, 50000}), kUnbounded);
    EXPECT_EQ(most(function, {0, 1000, 5}), 2u * (1 + 4));
}

}  // namespace
}  // namespace quern::lir
