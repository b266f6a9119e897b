#include <limits>
#include <string>

#include "tests/cpu/compiled_run.h"

// What the loops of a point compute or read again goes to an array: never what they change.

namespace quern::cpu_test {
namespace tiles_test {

class Tiles : public Compiled {};

Tensor numbers(const Shape& shape, DType dtype = DType::Float32, int seed = 1) {
    std::vector<double> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = double((i * 37 + std::size_t(seed) * 11) % 23) / 16 - 0.7;
    }
    return Tensor::from(shape, values).to(dtype);
}

/// A kernel of points b, whose loops stand in `body`. Each has a tile, since only points with
/// arrays get more of them.
std::string point(const std::string& body) {
    return "compute(x, y) {\n    @kernel custom\n    for b in 0..n:\n"
           "        var t = zeros(2, 2)\n        t = t + 1.0\n        var s = 0.0\n" +
           body + "        out[b] = s + reduce(+, t)\n}";
}

const std::string kProduct = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..r: s += exp(x[b, i, k]) * y[j, k]
)");

TEST_F(Tiles, HoldAFunctionOfTheOuterAndTheInnermostLoop) {
    for (const Shape& sizes : {Shape{3, 1, 1, 1},
                               {2, 9, 5, 17},
                               {1, 16, 33, 8},
                               {2, 8, 0, 3},
                               {2, 0, 4, 3},
                               {5, 10, 16, 31}}) {
        SCOPED_TRACE(to_string(sizes));
        expect_agreement(Case(kProduct, {numbers({sizes[0], sizes[1], sizes[3]}),
                                         numbers({sizes[2], sizes[3]}, DType::Float32, 2)}),
                         1e-4, 10);
    }
}

TEST_F(Tiles, HoldEveryFloatingDtype) {
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        expect_agreement(Case(kProduct, {numbers({2, 9, 17}, dtype), numbers({16, 17}, dtype, 2)}),
                         2e-2, 10);
    }
}

TEST_F(Tiles, HoldNanAndInfinities) {
    Tensor x = numbers({2, 9, 17});
    x.data<float>()[20] = std::numeric_limits<float>::quiet_NaN();
    x.data<float>()[200] = std::numeric_limits<float>::infinity();
    expect_agreement(Case(kProduct, {x, numbers({16, 17}, DType::Float32, 2)}), 1e-4, 10);
}

TEST_F(Tiles, ReadOperandsThatAreViews) {
    const Tensor x = numbers({17, 9, 2}).permute({2, 1, 0});
    const Tensor y = numbers({17, 16}).permute({1, 0});
    expect_agreement(Case(kProduct, {x, y}), 1e-4, 10);
    expect_agreement(Case(kProduct, {x.contiguous(), numbers({16, 40}).slice(1, 3, 37, 2)}), 1e-4,
                     10);
}

TEST_F(Tiles, TurnAnOperandOfAProduct) {
    const std::string text = R"(
compute(x, y) {
    @kernel custom
    for b in 0..n:
        let S = x[b] @ transpose(y[b])
        out[b] = row_sum(exp(S - row_max(S)))
})";
    for (const std::int64_t rows : {1, 7, 16, 33, 64}) {
        SCOPED_TRACE(rows);
        expect_agreement(Case(text, {numbers({3, rows, 20}), numbers({3, 37, 20})}), 1e-4);
    }
}

TEST_F(Tiles, DoNotHoldWhatTheNestAssigns) {
    const std::string text = point(R"(
        for i in 0..p:
            for j in 0..q:
                var c = 0.0
                c += y[j, 0]
                c = c + x[b, i, 0]
                for k in 0..r: s += exp(c * y[j, k])
)");
    expect_agreement(Case(text, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
    const std::string running = point(R"(
        var c = 0.0
        for i in 0..p:
            for j in 0..q:
                c = c * 0.5 + x[b, i, 0]
                for k in 0..r: s += exp(c * y[j, k]) + exp(c)
)");
    expect_agreement(Case(running, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
}

TEST_F(Tiles, DoNotHoldWhatAConditionGuards) {
    const std::string text = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..r: s += select(k + i < r, exp(x[b, i, k]), 0.0) * y[j, k]
)");
    expect_agreement(Case(text, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
    const std::string before = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..r: s += select(k > 0, exp(x[b, i, k - 1]), 1.0) * y[j, k]
)");
    expect_agreement(Case(before, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
    const std::string shifted = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..r:
                    if k + 1 < r: s += exp(x[b, i, k + 1]) * y[j, k]
)");
    expect_agreement(Case(shifted, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
}

TEST_F(Tiles, DoNotHoldAFunctionOverLoopsWhoseLengthsDiffer) {
    const std::string text = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..i: s += exp(x[b, i, k]) * y[j, k]
)");
    expect_agreement(Case(text, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
}

TEST_F(Tiles, DoNotHoldAFunctionWhoseLoopEndsWhereAnotherSays) {
    const std::string text = point(R"(
        for i in 0..p:
            for j in 0..q:
                for k in 0..min(j, 8): s += exp(x[b, i, k]) * y[j, k]
)");
    expect_agreement(Case(text, {numbers({2, 9, 17}), numbers({16, 17})}), 1e-4, 10);
}

std::string schedule_of(const Case& c) {
    return CompiledKernel(c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Sse41).schedule();
}

TEST_F(Tiles, AreMadeInPointsWithArraysAndLeaveOtherPointsToLanes) {
    const Case with(kProduct, {numbers({2, 9, 17}), numbers({16, 17})});
    EXPECT_EQ(with.kernel().buffers.size(), 4u);
    // The loops that fill the array, beside those that read it.
    const std::string schedule = schedule_of(with);
    EXPECT_NE(schedule.find("k: vector 16"), schedule.rfind("k: ")) << schedule;
    const std::string blur = R"(
compute(x) {
    @kernel custom
    for i in 0..n, j in 0..m:
        var s = 0.0
        for a in 0..5:
            for c in 0..5: s += exp(-0.1 * f32(a * a)) * x[i + a, j + c]
        out[i, j] = s
})";
    const Case without(blur, {numbers({40, 70})});
    EXPECT_NE(schedule_of(without).find("j: vector 16"), std::string::npos) << schedule_of(without);
    expect_agreement(without, 1e-4, 10);
}

TEST_F(Tiles, AreNotMadeOfWhatIsTooLarge) {
    expect_agreement(Case(kProduct, {numbers({1, 300, 300}), numbers({3, 300})}), 1e-3, 1000);
}

TEST_F(Tiles, DoNotHoldAFunctionOverALoopWhoseEndChangesInTheNest) {
    const std::string text = R"(
compute(x, y) {
    @kernel custom
    for p in 0..P:
        var c = 0
        shared var t[64, 16]
        for q in 0..64, r in 0..16: t[q, r] = 0.0
        barrier()
        for i in 0..64:
            c = c + 1
            for j in 0..min(c, 16):
                var s = 0.0
                for k in 0..32: s += x[p, j, k] * y[i, k]
                t[i, j] = s
        barrier()
        for q in 0..64, r in 0..16: out[p, q, r] = t[q, r]
})";
    expect_agreement(Case(text, {uniform({2, 16, 32}, 1), uniform({64, 32}, 2)}), 1e-5, 10);
    const std::string function = R"(
compute(x, y) {
    @kernel custom
    for p in 0..P:
        var c = 0
        var total = 0.0
        shared var t[64]
        for q in 0..64: t[q] = x[p, q] * 0.5
        barrier()
        for i in 0..8:
            c = c + 7
            for k in 0..c: total += exp(t[k]) * y[i, k]
        out[p] = total
})";
    expect_agreement(Case(function, {uniform({3, 64}, 1), uniform({8, 64}, 2)}), 1e-5, 100);
}

}  // namespace tiles_test
}  // namespace quern::cpu_test
