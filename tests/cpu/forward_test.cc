#include <limits>
#include <string>
#include <utility>

#include "tests/cpu/compiled_run.h"
#include "tests/cpu/passes.h"

// Arrays of a point that hold what is as easily computed again disappear; the result stays.

namespace quern::cpu_test {
namespace {

class Forward : public Compiled {};

Tensor numbers(const Shape& shape) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = float((i * 37 + 11) % 23) / 16 - 0.7f;
    }
    return Tensor::from(shape, values);
}

/// A kernel of blocks of rows, `t` a tile of each.
std::string blocks(const std::string& body) {
    return "compute(x) {\n    @kernel custom\n    for b in 0..n:\n        for q in 0..m step 8:\n" +
           body + "}";
}

void expect_blocks(const std::string& body, double tolerance = 1e-5) {
    SCOPED_TRACE(body);
    for (const std::int64_t rows : {7, 16}) {
        for (const std::int64_t columns : {1, 19}) {
            expect_agreement(Case(blocks(body), {numbers({2, rows, columns})}), tolerance);
        }
    }
}

TEST_F(Forward, TilesUsedOnceAndMoreThanOnce) {
    expect_blocks(R"(
            let t = x[b, q:q+8] - 0.5
            out[b, q:q+8] = exp(t)
)");
    expect_blocks(R"(
            let t = x[b, q:q+8] - 0.5
            out[b, q:q+8] = exp(t) * t + row_sum(t)
)",
                  1e-4);
    expect_blocks(R"(
            let m = row_max(x[b, q:q+8])
            let t = x[b, q:q+8] - m
            let u = t * 2.0
            out[b, q:q+8] = u + t
)");
}

TEST_F(Forward, TilesThatAreReadElsewhereThanWhereTheyWereWritten) {
    const std::string text = R"(
compute(x) {
    @kernel custom
    for b in 0..n:
        for q in 0..m step 8:
            let t = x[b, q:q+8] * 2.0
            let u = transpose(t)
            out[b, q:q+8] = t @ (u @ t)
})";
    for (const std::int64_t rows : {3, 8, 21}) {
        expect_agreement(Case(text, {numbers({2, rows, 7})}), 1e-4);
    }
}

TEST_F(Forward, NotATileWhoseSourceChangesAfterIt) {
    expect_blocks(R"(
            var a = x[b, q:q+8] * 1.0
            let t = a + 1.0
            a = a * 3.0
            out[b, q:q+8] = t + a
)");
    expect_blocks(R"(
            var c = 2.0
            let t = x[b, q:q+8] * c
            c = 5.0
            out[b, q:q+8] = t + c
)");
    expect_blocks(R"(
            var a = x[b, q:q+8] * 1.0
            for k in 0..3:
                let t = a + 1.0
                a = t * 0.5
                a = a + t
            out[b, q:q+8] = a
)");
}

TEST_F(Forward, NotATileThatIsWrittenTwice) {
    expect_blocks(R"(
            var a = x[b, q:q+8] - 1.0
            a = x[b, q:q+8] + 1.0
            out[b, q:q+8] = a * 2.0
)");
}

TEST_F(Forward, SumsOfSeveralVectorsAtATime) {
    const std::string sum = R"(
compute(x) {
    @kernel custom
    for b in 0..n:
        var s = 0.0
        for i in 0..m: s += x[b, i] * x[b, i]
        out[b] = s
})";
    const std::string extreme = R"(
compute(x) {
    @kernel fused
    out = reduce(max, x, axis=-1) - reduce(min, x, axis=-1)
})";
    for (const std::int64_t width : {1, 16, 63, 65, 128, 1000}) {
        SCOPED_TRACE(width);
        expect_agreement(Case(sum, {numbers({3, width})}), 1e-4);
        expect_agreement(Case(extreme, {numbers({3, width})}));
    }
}

TEST_F(Forward, GuardsThatSomeLanesPass) {
    const std::string text = R"(
compute(x, w) {
    @kernel custom
    for i in 0..n, j in 0..m:
        var s = 0.0
        for a in 0..3:
            for c in 0..3:
                let y = i + a - 1
                let z = j * step + c - 1
                if y >= 0 and y < n and z >= 0 and z < m: s += x[y, z] * w[a, c]
        out[i, j] = s
})";
    for (const Shape& shape : {Shape{1, 1}, {2, 3}, {5, 16}, {4, 17}, {9, 50}, {3, 65}}) {
        for (const std::int64_t step : {1, 2}) {
            SCOPED_TRACE(to_string(shape));
            expect_agreement(Case(text, {numbers(shape), numbers({3, 3})}, {{"step", step}}), 1e-4);
        }
    }
    const std::string several = R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        var s = 0.0
        for k in 0..9:
            if i + k >= 4 and k < 7 and i + k < n:
                let v = x[i + k]
                s += v
                s = s * 0.5 + v
        out[i] = s
})";
    for (const std::int64_t n : {5, 31, 100}) {
        SCOPED_TRACE(n);
        expect_agreement(Case(several, {numbers({n})}), 1e-4);
    }
}

TEST_F(Forward, GuardsThatMoveEvenlyWithTheLanes) {
    std::string text = "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var s = x[i]\n";
    for (const char* condition :
         {"i + p < n", "p <= i", "n - 1 - i < p", "i < 2 * i - p", "3 * i <= i + p", "i + p < 9",
          "p - i <= 3", "i + p >= 0 and i + p < n and i * 2 < n"}) {
        text += std::string("  for k in 0..3:\n    if ") + condition + ": s = s * 0.5 + x[k % n]\n";
    }
    text += "  out[i] = s\n}";
    // Some sides wrap on the way from the first lane to the last.
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (const auto& [n, p] : {std::pair{std::int64_t(9), kMost - 3},
                               {50, -3},
                               {50, 20},
                               {50, kMost - 7},
                               {50, kMost - 20},
                               {50, kLeast + 5}}) {
        SCOPED_TRACE(std::to_string(n) + ", p " + std::to_string(p));
        expect_agreement(Case(text, {numbers({n})}, {{"p", p}}), 1e-6);
    }
}

/// A shared array of each point, of which another element may be read than one that is written.
std::string shared(const std::string& extent, const std::string& fill, const std::string& read) {
    return "compute(x, at) {\n    @kernel custom\n    for b in 0..n:\n        shared var t[" +
           extent + "]\n        for i in 0.." + fill +
           ": t[i] = x[b] * 2.0\n        barrier()\n        out[b] = " + read + "\n}";
}

TEST_F(Forward, NotAnArrayThatIsReadOrWrittenOutsideOfIt) {
    const Tensor x = numbers({3});
    const auto at = [](std::int64_t index) {
        return Tensor::from<std::int64_t>({3}, {1, index, 0});
    };
    const std::string gather = shared("4", "4", "t[at[b]]");
    expect_agreement(Case(gather, {x, at(3)}));
    const auto expect_failure = [](const Case& c) {
        EXPECT_FALSE(c.interpreted());
        EXPECT_EQ(first_wrong_pass(c, Numerics::Strict), "");
        for (const cpu::Simd simd : levels_here()) {
            EXPECT_FALSE(c.compiled(Numerics::Strict, simd)) << to_string(simd);
        }
    };
    for (const std::int64_t index : {std::int64_t(4), std::int64_t(-1), std::int64_t(1) << 40}) {
        SCOPED_TRACE(index);
        expect_failure(Case(gather, {x, at(index)}));
    }
    const std::string behind = shared("k", "k", "t[k] + f32(at[b])");
    for (const std::int64_t k : {0, 3}) expect_failure(Case(behind, {x, at(0)}, {{"k", k}}));
    expect_failure(
        Case(shared("4", "k", "t[0] + f32(at[b])"), {x, at(0)}, {{"k", std::int64_t(5)}}));
    const std::string beyond = R"(
compute(x, at) {
    @kernel custom
    for b in 0..n:
        shared var t[4]
        for i in 0..4: t[i] = x[b + i * k] * 2.0
        barrier()
        out[b] = t[0] + f32(at[b])
})";
    expect_agreement(Case(beyond, {x, at(0)}, {{"k", std::int64_t(0)}}));
    expect_failure(Case(beyond, {x, at(0)}, {{"k", std::int64_t(1)}}));
}

TEST_F(Forward, NotAnArrayWhoseElementsSayWhichIsRead) {
    const std::string text = R"(
compute(x) {
    @kernel custom
    for b in 0..n:
        shared var t[4]: int64
        for i in 0..4: t[i] = 3 - i
        barrier()
        out[b] = x[b] + f32(t[t[b % 4]])
})";
    expect_agreement(Case(text, {numbers({9})}));
}

}  // namespace
}  // namespace quern::cpu_test
