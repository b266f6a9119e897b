#include <bit>
#include <cmath>

#include "tests/interpret/kernels.h"

// Parallel points: the same result and the same failure on any number of threads, and the races
// that make a result depend on the order of the points.

namespace quern::interpret::testing {
namespace points_test {

constexpr Span kHere{70, 3};

/// for i, j in parallel: out[place(i, j)...] = value(i, j), on 1, 2 and 5 threads.
struct Nest {
    std::int64_t rows = 0, cols = 0;
    std::vector<std::int64_t> shape;

    using Indices = std::function<std::vector<ExprId>(Build&, ExprId, ExprId)>;
    using Body = std::function<void(Build&, BufferId, ExprId, ExprId)>;

    std::optional<Failure> with(const Body& body) const {
        Build b;
        std::vector<ExprId> extents;
        for (const std::int64_t extent : shape) extents.push_back(b.i(extent));
        const BufferId out = b.output("out", DType::Int64, extents);
        const ExprId i = b.points("i", b.i(rows)), j = b.points("j", b.i(cols));
        // A loop makes points worth several threads.
        b.loop("pause", b.i(20));
        b.end_for();
        body(b, out, i, j);
        b.end_for();
        b.end_for();
        const Kernel kernel = b.take();
        const auto one = run<std::int64_t>(kernel, {}, shape);
        for (const int threads : {2, 5}) {
            const auto many = run<std::int64_t>(kernel, {}, shape, {.threads = threads});
            EXPECT_EQ(many.failure.has_value(), one.failure.has_value());
            if (one.failure && many.failure) {
                EXPECT_EQ(many.failure->code, one.failure->code);
                EXPECT_EQ(many.failure->message, one.failure->message);
                EXPECT_EQ(many.failure->span, one.failure->span);
            } else {
                EXPECT_EQ(many.values, one.values);
            }
        }
        return one.failure;
    }

    std::optional<Failure> stores(const Indices& place) const {
        return with([&](Build& b, BufferId out, ExprId i, ExprId j) {
            b.store(out, place(b, i, j), b.add(b.mul(i, b.i(1000)), j), kHere);
        });
    }
};

using Indices = std::vector<ExprId>;

TEST(Points, EachWithAnElementOfItsOwnAreNoRace) {
    const Nest nest{5, 7, {5, 7}};
    EXPECT_FALSE(nest.stores([](Build&, ExprId i, ExprId j) { return Indices{i, j}; }));
    const Nest flat{5, 7, {200}};
    EXPECT_FALSE(flat.stores(
        [](Build& b, ExprId i, ExprId j) { return Indices{b.add(b.mul(i, b.i(7)), j)}; }));
    EXPECT_FALSE(flat.stores([](Build& b, ExprId i, ExprId j) {
        return Indices{b.sub(b.i(180), b.add(b.mul(i, b.i(9)), j))};
    }));
    // Not proven beforehand, but true: 3 i + 16 j, all different.
    EXPECT_FALSE(flat.stores([](Build& b, ExprId i, ExprId j) {
        return Indices{b.add(b.mul(i, b.i(3)), b.mul(j, b.i(16)))};
    }));
    EXPECT_FALSE(flat.stores([](Build& b, ExprId i, ExprId j) {
        return Indices{b.op(BinaryOp::Rem, b.mul(b.add(b.mul(i, b.i(7)), j), b.i(3)), b.i(101))};
    }));
}

TEST(Points, ThatWriteOneElementAreARace) {
    const Nest nest{5, 7, {9, 9}};
    const auto lost = nest.stores([](Build& b, ExprId i, ExprId) { return Indices{i, b.i(2)}; });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->code, Code::E0510);
    EXPECT_EQ(lost->span, kHere);
    EXPECT_EQ(lost->message,
              "two parallel points use element [0, 2] of 'out', and one of them writes it");
    const Nest flat{5, 7, {200}};
    const auto overlap = flat.stores(
        [](Build& b, ExprId i, ExprId j) { return Indices{b.add(b.mul(i, b.i(6)), j)}; });
    ASSERT_TRUE(overlap);
    EXPECT_EQ(overlap->message,
              "two parallel points use element [6] of 'out', and one of them writes it");
    const auto diagonal = nest.stores([](Build& b, ExprId i, ExprId j) {
        return Indices{b.op(BinaryOp::Min, i, b.i(4)), b.op(BinaryOp::Div, j, b.i(2))};
    });
    ASSERT_TRUE(diagonal);
    EXPECT_EQ(diagonal->code, Code::E0510);
}

TEST(Points, OfPairsOfStoresAreTakenTogether) {
    const Nest nest{3, 8, {3, 17}};
    const auto pair = [&](int second) {
        return nest.with([=](Build& b, BufferId out, ExprId i, ExprId j) {
            const ExprId twice = b.mul(j, b.i(2));
            b.store(out, {i, twice}, i, kHere);
            b.store(out, {i, b.add(twice, b.i(second))}, j, kHere);
        });
    };
    EXPECT_FALSE(pair(1));
    const auto race = pair(2);
    ASSERT_TRUE(race);
    EXPECT_EQ(race->code, Code::E0510);
    const Nest square{5, 5, {5, 5}};
    const auto transposed = square.with([](Build& b, BufferId out, ExprId i, ExprId j) {
        b.store(out, {i, j}, i);
        b.store(out, {j, i}, j, kHere);
    });
    ASSERT_TRUE(transposed);
    EXPECT_EQ(transposed->code, Code::E0510);
    const auto neighbours = nest.with([](Build& b, BufferId out, ExprId i, ExprId j) {
        b.store(out, {i, j}, i);
        b.store(out, {i, b.add(j, b.i(1))}, j, kHere);
    });
    ASSERT_TRUE(neighbours);
    EXPECT_EQ(neighbours->code, Code::E0510);
}

TEST(Points, ThatTakeStepsOwnWhatLiesBetween) {
    for (const std::int64_t width : {4, 5}) {
        Build b;
        const BufferId out = b.output("out", DType::Int64, {b.i(32)});
        const ExprId block =
            b.begin_for("block", b.i(0), b.i(20), {.step = b.i(4), .parallel = true});
        const ExprId r = b.loop("r", b.i(width));
        b.store(out, {b.add(block, r)}, b.i(1), kHere);
        b.end_for();
        b.end_for();
        const Kernel kernel = b.take();
        for (const int threads : {1, 3}) {
            const auto result = run<std::int64_t>(kernel, {}, {32}, {.threads = threads});
            EXPECT_EQ(result.failure.has_value(), width == 5);
        }
    }
}

TEST(Points, OfOneIterationNeedNoIndex) {
    const Nest nest{6, 1, {6}};
    EXPECT_FALSE(nest.stores([](Build&, ExprId i, ExprId) { return Indices{i}; }));
}

TEST(Points, WithBoundsThatDependOnEachOtherAreToldApart) {
    for (const bool races : {false, true}) {
        Build b;
        const BufferId out = b.output("out", DType::Int64, {b.i(64)});
        const ExprId i = b.points("i", b.i(8));
        const ExprId j = b.begin_for("j", b.i(0), i, {.parallel = true});
        const ExprId square = b.op(BinaryOp::Rem, b.add(b.mul(i, b.i(8)), j), b.i(64));
        b.store(out, {races ? b.op(BinaryOp::Rem, i, b.i(64)) : square}, j, kHere);
        b.end_for();
        b.end_for();
        const Kernel kernel = b.take();
        for (const int threads : {1, 4}) {
            const auto result = run<std::int64_t>(kernel, {}, {64}, {.threads = threads});
            ASSERT_EQ(result.failure.has_value(), races) << result.failure->message;
            if (races) {
                EXPECT_EQ(
                    result.failure->message,
                    "two parallel points use element [2] of 'out', and one of them writes it");
            }
        }
    }
}

/// Slow points 0 to 1249 and quick ones from 1250 on meet somewhere in between; on one thread the
/// first to find its element taken is point 1250.
TEST(Points, ReportTheRaceThatOneThreadFinds) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(20000)});
    const ExprId i = b.points("i", b.i(20000));
    const ExprId is_slow = b.less(i, b.i(1250));
    b.loop("pause", b.kernel().select(is_slow, b.i(1000), b.i(5)));
    b.end_for();
    const ExprId is_pair = b.op(BinaryOp::And, b.less(b.i(1249), i), b.less(i, b.i(2500)));
    b.store(out, {b.kernel().select(is_pair, b.sub(b.i(2499), i), i)}, i, kHere);
    b.end_for();
    const Kernel kernel = b.take();
    for (const int threads : {1, 2, 2, 2}) {
        const auto result = run<std::int64_t>(kernel, {}, {20000}, {.threads = threads});
        ASSERT_TRUE(result.failure);
        EXPECT_EQ(result.failure->message,
                  "two parallel points use element [1249] of 'out', and one of them writes it");
    }
}

/// Neither nest is proven to be without races; the second one finds the claims of the first.
TEST(Points, OfASecondNestMayUseWhatTheFirstOneUsed) {
    Build b;
    const BufferId out = b.output("out", DType::Int64, {b.i(64)});
    for (const char* names : {"ij", "kl"}) {
        const ExprId i = b.points(std::string(1, names[0]), b.i(8));
        const ExprId j = b.begin_for(std::string(1, names[1]), b.i(0), i, {.parallel = true});
        const ExprId place = b.op(BinaryOp::Rem, b.add(b.mul(i, b.i(8)), j), b.i(64));
        b.store(out, {place}, b.i(1));
        b.store(out, {place}, b.add(b.at(out, {place}), place));
        b.end_for();
        b.end_for();
    }
    const Kernel kernel = b.take();
    for (const int threads : {1, 2, 5}) {
        const auto got = values_of(run<std::int64_t>(kernel, {}, {64}, {.threads = threads}));
        EXPECT_EQ(got[8], 9);
        EXPECT_EQ(got[7 * 8 + 6], 63);
        EXPECT_EQ(got[63], 0);
    }
}

TEST(Points, MayReadWhatTheyWroteThemselves) {
    const Nest nest{4, 6, {4, 6}};
    EXPECT_FALSE(nest.with([](Build& b, BufferId out, ExprId i, ExprId j) {
        b.store(out, {i, j}, i);
        b.store(out, {i, j}, b.add(b.at(out, {i, j}), j));
    }));
}

TEST(Points, MayNotReadWhatOthersWrite) {
    const Nest nest{1, 600, {600}};
    const auto behind = nest.with([](Build& b, BufferId out, ExprId, ExprId j) {
        b.store(out, {j}, j);
        b.begin_if(b.less(b.i(0), j));
        b.store(out, {j}, b.at(out, {b.sub(j, b.i(1))}, kHere));
        b.end_if();
    });
    ASSERT_TRUE(behind);
    EXPECT_EQ(behind->code, Code::E0510);
    EXPECT_EQ(behind->message,
              "two parallel points use element [0] of 'out', and one of them writes it");
    const auto ahead = nest.with([](Build& b, BufferId out, ExprId, ExprId j) {
        b.store(out, {j}, j);
        b.begin_if(b.less(j, b.i(599)));
        b.store(out, {j}, b.at(out, {b.add(j, b.i(1))}, kHere));
        b.end_if();
    });
    ASSERT_TRUE(ahead);
    EXPECT_EQ(ahead->code, Code::E0421);
}

/// A second nest may write and read what a first one wrote, but its points are apart again.
TEST(Points, OfASecondNestBeginAnew) {
    for (const int offset : {0, 1}) {
        Build b;
        const BufferId out = b.output("out", DType::Int64, {b.i(50)});
        const ExprId i = b.points("i", b.i(50));
        b.store(out, {i}, i);
        b.end_for();
        const ExprId j = b.points("j", b.i(50));
        const ExprId other = b.op(BinaryOp::Rem, b.add(j, b.i(offset)), b.i(50));
        b.store(out, {j}, b.add(b.at(out, {other}), b.i(100)), kHere);
        b.end_for();
        const Kernel kernel = b.take();
        for (const int threads : {1, 2, 5}) {
            const auto result = run<std::int64_t>(kernel, {}, {50}, {.threads = threads});
            ASSERT_EQ(result.failure.has_value(), offset == 1);
            if (offset == 0) {
                EXPECT_EQ(result.values[49], 149);
            } else {
                EXPECT_EQ(result.failure->code, Code::E0510);
                EXPECT_EQ(
                    result.failure->message,
                    "two parallel points use element [1] of 'out', and one of them writes it");
            }
        }
    }
}

TEST(Points, GiveTheSameBitsOnAnyNumberOfThreads) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {b.extent(x, 0), b.extent(x, 0)});
    const ExprId i = b.points("i", b.extent(x, 0)), j = b.points("j", b.extent(x, 0));
    const BufferId row = b.alloc(BufferKind::Local, "row", DType::Float32, {b.extent(x, 1)});
    const SymbolId sum = b.var("sum", b.f(0));
    const ExprId k = b.loop("k", b.extent(x, 1), {sum});
    b.store(row, {k}, b.kernel().unary(UnaryOp::Exp, b.mul(b.at(x, {i, k}), b.at(x, {j, k}))));
    b.accumulate(sum, BinaryOp::Add, b.at(row, {k}));
    b.end_for();
    b.store(out, {i, j}, b.read(sum));
    b.end_for();
    b.end_for();
    const Kernel kernel = b.take();
    std::vector<float> values;
    for (int n = 0; n < 60 * 37; ++n) values.push_back(float(std::sin(n * 1.7)));
    Data<float> operand(DType::Float32, {60, 37}, values);
    const auto one = values_of(run<float>(kernel, {operand.view}, {60, 60}));
    for (const int threads : {2, 5}) {
        const auto many =
            values_of(run<float>(kernel, {operand.view}, {60, 60}, {.threads = threads}));
        for (std::size_t n = 0; n < one.size(); ++n) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(many[n]), std::bit_cast<std::uint32_t>(one[n]));
        }
    }
}

/// Points after the lowest one that fails take long before they fail too.
TEST(Points, ReportTheLowestFailureOnAnyNumberOfThreads) {
    Build b;
    const BufferId at = b.operand("at", DType::Int64, 1);
    const BufferId out = b.output("out", DType::Int64, {b.extent(at)});
    const ExprId i = b.points("i", b.extent(at));
    const ExprId later = b.kernel().select(b.less(i, b.i(8701)), b.i(1000), b.i(500000));
    b.loop("pause", b.kernel().select(b.less(i, b.i(7500)), b.i(20), later));
    b.end_for();
    const SymbolId sum = b.var("sum", b.i(0));
    const ExprId k = b.loop("k", b.i(3), {sum});
    b.accumulate(sum, BinaryOp::Add, b.at(at, {b.add(b.at(at, {i}), k)}, kHere));
    b.end_for();
    b.store(out, {i}, b.read(sum));
    b.end_for();
    const Kernel kernel = b.take();
    std::vector<std::int64_t> indices(20000, 0);
    for (std::size_t n = 8700; n < indices.size(); ++n) indices[n] = 20000 + std::int64_t(n);
    Data<std::int64_t> operand(DType::Int64, {20000}, indices);
    for (const int threads : {1, 2, 5}) {
        for (int repeat = 0; repeat < 5; ++repeat) {
            const auto result =
                run<std::int64_t>(kernel, {operand.view}, {20000}, {.threads = threads});
            ASSERT_TRUE(result.failure);
            EXPECT_EQ(result.failure->message,
                      "index 28700 is outside axis 0 of 'at', which has 20000 elements");
        }
    }
}

TEST(Points, ReportProgressThatGrows) {
    Build b;
    const BufferId out = b.output("out", DType::Float64, {b.i(4000)});
    const ExprId i = b.points("i", b.i(4000));
    const SymbolId sum = b.var("sum", b.f(0, DType::Float64));
    const ExprId k = b.loop("k", b.i(1500), {sum});
    b.accumulate(sum, BinaryOp::Add,
                 b.kernel().unary(UnaryOp::Sin, b.kernel().cast(k, DType::Float64)));
    b.end_for();
    b.store(out, {i}, b.read(sum));
    b.end_for();
    std::vector<double> seen;
    How how;
    how.threads = 2;
    how.progress = [&](double fraction) { seen.push_back(fraction); };
    EXPECT_FALSE(run<double>(b.take(), {}, {4000}, how).failure);
    for (std::size_t n = 0; n < seen.size(); ++n) {
        EXPECT_TRUE(seen[n] >= (n == 0 ? 0 : seen[n - 1]) && seen[n] <= 1);
    }
}

}  // namespace points_test
}  // namespace quern::interpret::testing
