#include "quern/lir/iterations.h"

#include <gtest/gtest.h>

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

TEST(Iterations, HaveAsManyInstructionsAsTheirBodies) {
    const Function function = over_points([](Builder& b, ValueId point) {
        b.begin_for(b.integer(0), b.parameter({ParameterKind::Dim, 0}), 1);
        b.add(point, point);
        b.end_for();
    });
    const auto instructions = [&](std::uint64_t n) {
        return bounds_of(function, std::vector<std::uint64_t>{0, 1000, n}).instructions;
    };
    // Those of one more iteration each time, twice since the grid's end counts.
    EXPECT_EQ(instructions(8) - instructions(7), 2u);
    EXPECT_EQ(instructions(1000) - instructions(0), 2000u);
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
