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
    return most_iterations(function, words);
}

TEST(Iterations, OfAPointWithoutLoopsAreNone) {
    EXPECT_EQ(most(over_points([](Builder&, ValueId) {}), {0, 1000}), 0u);
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
    // Three of the outer loop, seven in each, and thirty-five.
    EXPECT_EQ(most(function, {0, 1000, 5, 7}), 3u + 3 * 7 + 35);
    EXPECT_EQ(most(function, {0, 1000, 0, 7}), 0u);
    EXPECT_EQ(most(function, {0, 1000, std::uint64_t{1} << 40, 7}), kUnbounded);
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
    EXPECT_EQ(most(function, {0, 1000, std::uint64_t{1} << 40, 6}), 6u);
}

TEST(Iterations, OfBranchesAreThoseOfTheLonger) {
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
    EXPECT_EQ(most(function, {0, 1000, 1}), 9u);
}

TEST(Iterations, OfALoopToALoadedNumberAreUnbounded) {
    const Function function = over_points([](Builder& b, ValueId point) {
        const BufferId counts = b.buffer("counts", DType::Int64, Space::Global, false);
        b.begin_for(b.integer(0), b.load(counts, point, 1), 1);
        b.end_for();
    });
    EXPECT_EQ(most(function, {0, 1000}), kUnbounded);
}

}  // namespace
}  // namespace quern::lir
