// What the interpreter watches while a kernel runs, and compiled code checks or is seen to hold.

#include "quern/error.h"
#include "quern/kernel.h"
#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

class Watch : public Compiled {};

std::string failure_of(const std::string& text, const std::vector<Tensor>& operands,
                       const char* device) {
    try {
        Kernel(text).on(Device(device)).run(operands);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// The device cpu refuses what the interpreter refuses, in the same words.
void expect_failure(const std::string& code, const std::string& text,
                    const std::vector<Tensor>& operands) {
    const std::string expected = failure_of(text, operands, "interpreter");
    EXPECT_NE(expected.find(code), std::string::npos) << expected;
    EXPECT_EQ(failure_of(text, operands, "cpu"), expected);
}

const char* const kFeedForward = R"(
compute(x, up) {
    @kernel fused
    for b in 0..batch:
        shared var hidden[width]
        for f in 0..width:
            var sum = 0.0
            for h in 0..size:
                sum += x[b, h] * up[h, f]
            hidden[f] = relu(sum)
        barrier()
        for h in 0..size:
            out[b, h] = x[b, h] + hidden[h % width] * 0.5
})";

TEST_F(Watch, ASharedVariableThatIsFilledFirst) {
    for (const std::int64_t width : {1, 3, 16, 33}) {
        const std::vector<Tensor> operands = {uniform({5, 17}, 1), uniform({17, width}, 2)};
        expect_agreement(Case(kFeedForward, operands));
    }
}

TEST_F(Watch, ASharedVariableOfTwoAxesAndOfOtherDtypes) {
    for (const char* dtype : {"float32", "float64", "int32", "bool", "float16", "uint8"}) {
        const std::string text = std::string(R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var tile[rows, cols]: )") +
                                 dtype + R"(
        for r in 0..rows:
            for c in 0..cols:
                tile[r, c] = )" + dtype +
                                 R"((x[b, r, c] > 0.0)
        barrier()
        for r in 0..rows:
            for c in 0..cols:
                out[b, c, r] = tile[r, c]
})";
        const std::vector<Tensor> operands = {uniform({3, 5, 18}, 3)};
        expect_agreement(Case(text, operands));
    }
}

TEST_F(Watch, ASharedVariableThatIsFilledInPart) {
    const char* const text = R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[64]
        for i in 0..n:
            kept[i] = x[b, i]
        barrier()
        for i in 0..n:
            out[b, i] = kept[n - 1 - i] + select(i > 0 and kept[max(i - 1, 0)] > 0.0, 1.0, 2.0)
})";
    for (const std::int64_t n : {1, 7, 16, 40, 64}) {
        const std::vector<Tensor> operands = {uniform({4, n}, 4)};
        expect_agreement(Case(text, operands));
    }
}

TEST_F(Watch, AReadOfAnElementThatIsNotWrittenIsReported) {
    expect_failure("E0514", R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[64]
        for i in 0..n:
            if x[b, i] > 0.0:
                kept[i] = x[b, i]
        barrier()
        for i in 0..n:
            out[b, i] = kept[i]
})",
                   {uniform({4, 20}, 5)});
}

TEST_F(Watch, WhatIsNotEvaluatedIsNotRead) {
    const char* const text = R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[64]
        for i in 0..n:
            if x[b, i] > 0.0:
                kept[i] = x[b, i]
        barrier()
        for i in 0..n:
            out[b, i] = select(x[b, i] > 0.0, kept[i], -1.0)
            if x[b, i] > 0.0 and kept[i] > 0.5:
                out[b, i] = 7.0
            if x[b, i] <= 0.0 or kept[i] < 0.25:
                out[b, i] = 8.0
})";
    const std::vector<Tensor> operands = {uniform({4, 35}, 6)};
    expect_agreement(Case(text, operands));
}

TEST_F(Watch, EachPointHasASharedVariableOfItsOwn) {
    // What the point before left must not count as written.
    expect_failure("E0514", R"(
compute(x) {
    @kernel fused
    for b in 0..batch:
        shared var kept[4]
        if x[b, 0] > 0.0:
            kept[0] = x[b, 0]
        barrier()
        out[b] = kept[0]
})",
                   {Tensor::from({3, 1}, std::vector<float>{1, -1, 1})});
}

TEST_F(Watch, PointsMayReadWhatTheyWrote) {
    const char* const text = R"(
compute(x) {
    @kernel custom
    for i in 0..rows:
        var scale = x[i, 0]
        for j in 0..cols:
            out[i, j] = x[i, j] * scale
            if j > 0:
                out[i, j] = x[i, j] + out[i, j - 1]
})";
    for (const std::int64_t cols : {1, 2, 17, 100}) {
        const std::vector<Tensor> operands = {uniform({6, cols}, 7)};
        expect_agreement(Case(text, operands));
    }
}

TEST_F(Watch, AReadOfTheOutputBeforeItIsWrittenIsReported) {
    expect_failure("E0421", R"(
compute(x) {
    @kernel custom
    for i in 0..rows:
        for j in 0..cols:
            if x[i, j] > 0.0:
                out[i, j] = 1.0
            out[i, j] += x[i, j]
})",
                   {uniform({6, 20}, 8)});
}

/// Two stores of a point: apart from those of every other point where y is as long as x.
const char* const kTwoStores = R"(
compute(x, y) {
    @kernel custom
    for i in 0..n:
        let s = reduce(+, y[0:m])
        out[i] = x[i] + s
        if x[i] > 0.0:
            out[i] = x[i] - s
        out[m + i] = x[i] * s
})";

TEST_F(Watch, PointsThatWriteApartAreRunThoughItIsNotSeenBefore) {
    for (const std::int64_t n : {1, 2, 17, 40}) {
        expect_agreement(Case(kTwoStores, {uniform({n}, 9), uniform({n}, 10)}));
        expect_agreement(Case(kTwoStores, {uniform({n}, 9), uniform({n + 3}, 10)}));
    }
    expect_agreement(Case("compute(x) {\n@kernel custom\nfor i in 0..n: out[n - 1 - i] = x[i]\n}",
                          {uniform({37}, 9)}));
    expect_agreement(
        Case("compute(x) {\n@kernel custom\nfor i in 0..24: out[i / 8, i % 8] = x[i]\n}",
             {uniform({24}, 9)}));
}

TEST_F(Watch, PointsThatMeetAreReported) {
    expect_failure("E0510", kTwoStores, {uniform({24}, 10), uniform({23}, 11)});
    expect_failure("E0510", kTwoStores, {uniform({24}, 10), uniform({1}, 11)});
}

TEST_F(Watch, PointsOfASecondNestMayWriteWhatAFirstOneWrote) {
    expect_agreement(Case(R"(
compute(x, y) {
    @kernel custom
    for i in 0..n:
        let s = reduce(+, y[0:m])
        out[i] = x[i]
        out[m + i] = s
    for i in 0..n:
        out[n - 1 - i] = -x[i]
})",
                          {uniform({24}, 12), uniform({24}, 13)}));
}

}  // namespace
}  // namespace quern::cpu_test
