// One mistake is one diagnostic: what follows from it is not reported.

#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

TEST(Recovery, AWrongClosingBracketClosesItsOwnOpenerToo) {
    EXPECT_EQ(all_in(value("relu(x[i)")), "E0107@4:26");
    EXPECT_EQ(all_in(value("x[relu(i]")), "E0107@4:26");
    EXPECT_EQ(all_in(value("max(relu(x[i), 0)")), "E0107@4:30");
    EXPECT_EQ(all_in(value("relu(x[i)\n        out[i] = exp(x[i)")), "E0107@4:26 E0107@5:25");
    EXPECT_EQ(all_in(value("relu(x[i]])")), "E0107@4:27");
}

const std::string kBody = "    @kernel elementwise\n    for i in 0..len:\n        out[i] = x[i]\n";

TEST(Recovery, ABraceBelowTheHeadOfAKernelIsOneError) {
    EXPECT_EQ(all_in("let y = compute(x)\n{\n" + kBody + "}\n"), "E0304@1:19");
    EXPECT_EQ(all_in("let y = compute(x)\n@kernel elementwise\n{\n    out = x\n}\n"), "E0304@1:19");
}

TEST(Recovery, AColonInPlaceOfTheBraceIsOneError) {
    EXPECT_EQ(all_in("let y = compute(x):\n" + kBody), "E0304@1:19");
    EXPECT_EQ(all_in("let y = compute(x): {\n" + kBody + "}\n"), "E0304@1:19");
    EXPECT_EQ(all_in("let y = compute(x)\n" + kBody), "E0304@1:19");
    EXPECT_EQ(all_in("let y = compute(x):\n" + kBody + "let z = 3 +\n"), "E0304@1:19 E0200@5:12");
}

TEST(Recovery, TheBodyOfAKernelWithAWrongHeadIsStillRead) {
    EXPECT_EQ(all_in("let y = compute(x)\n{\n    @kernel custom\n    out = x +\n}\n"),
              "E0304@1:19 E0200@4:14");
}

TEST(Recovery, ABraceBelowTheHeaderOfABlockIsOneError) {
    const std::string loop = "    for i in 0..len\n    {\n        out[i] = x[i]\n    }";
    EXPECT_EQ(all_in(body(loop)), "E0208@3:20");
    EXPECT_EQ(find_in(body(loop), "E0208").help[0],
              "the '{' stands at the end of the line of its statement");
    EXPECT_EQ(all_in(body("    for i in 0..len\n      {\n        out[i] = x[i]\n      }")),
              "E0208@3:20");
}

TEST(Recovery, ARangeOfPythonIsOneErrorWithTheLoopThatIsMeant) {
    const auto loop = [](const std::string& range) {
        return body("    for i in " + range + ":\n        out[i] = x[i]");
    };
    EXPECT_EQ(all_in(loop("range(n)")), "E0212@3:14");
    EXPECT_EQ(find_in(loop("range(n)"), "E0212").help[0], "a loop is written `for i in 0..n:`");
    EXPECT_EQ(find_in(loop("range(f(a, 1), n)"), "E0212").help[0],
              "a loop is written `for i in f(a, 1)..n:`");
    EXPECT_EQ(find_in(loop("range(1, n, 2)"), "E0212").help[0],
              "a loop is written `for i in 1..n step 2:`");
    EXPECT_EQ(find_in(loop("range()"), "E0212").help[0], "a loop is written `for i in 0..n:`");
    EXPECT_EQ(all_in(body("    let range = 3\n    for i in range..n: out[i] = x[i]")), "");
}

TEST(Recovery, AColonBetweenBoundsDoesNotOpenTheBlock) {
    EXPECT_EQ(all_in(body("    for i in 0:n {\n        out[i] = x[i]\n    }")), "E0212@3:15");
    EXPECT_EQ(all_in(body("    for i in 0:n:\n        out[i] = x[i]")), "E0212@3:15");
}

TEST(Recovery, ADecoratorBesideTheHeadIsOneErrorWhateverItsKernelYields) {
    EXPECT_EQ(all_in("let y = compute(x) @kernel custom {\n    out = x\n}\n"), "E0302@1:21");
    EXPECT_EQ(all_in("let y = compute(x) @kernel reduce(+) @workgroup(64) {\n    for i in 0..n:\n"
                     "        yield x[i]\n}\n"),
              "E0302@1:21");
    EXPECT_EQ(all_in("let y = compute(x) @kernel custom\n{\n    out = x\n}\n"), "E0302@1:21");
    EXPECT_EQ(all_in("@kernel reduce(+)\nlet y = compute(x) {\n    for i in 0..n: yield x[i]\n}\n"),
              "E0418@1:1");
}

TEST(Recovery, AStatementWithAnErrorIsNotAlsoRefusedForItsEnd) {
    EXPECT_EQ(all_in(body("    out = x\n    while (1 < 3) {\n        out = x\n    }")),
              "E0407@4:5");
    EXPECT_EQ(all_in(body("    out = x\n    while (1 < 3)\n    {\n        out = x\n    }")),
              "E0407@4:5");
    EXPECT_EQ(all_in(value("x[i]\n        out(i) = x[i]")), "E0407@5:9");
    EXPECT_EQ(all_in("compute(x) {\n    @kernel custom\n    @workgroup 64\n    out = x\n}\n"),
              "E0308@3:6");
    EXPECT_EQ(all_in("let y = compute(float* x, int n) {\n    @kernel custom\n    out = x\n}\n"),
              "E0409@1:17");
}

TEST(Recovery, TheArgumentsOfAnUnknownFunctionAreNotJudged) {
    EXPECT_EQ(all_in(value("x[i]\n        printf(\"%f\", x[i])")), "E0407@5:9");
    EXPECT_EQ(all_in(value("gelu(gelu(x[i]))")), "E0407@4:18");
    EXPECT_EQ(all_in(value("gelu(x[i]) + y[i]")), "E0407@4:18 E0411@4:31");
}

TEST(Recovery, WhatCannotBeAssignedIsNotReadEither) {
    const auto statement = [](const std::string& line) {
        return body("    for i in 0..n, j in 0..m:\n        " + line);
    };
    EXPECT_EQ(all_in(statement("out[i][j] = x[i, j]")), "E0206@4:19");
    EXPECT_EQ(find_in(statement("out[i][j] = x[i, j]"), "E0206").help[0],
              "indices stand in one pair of brackets: `out[i, j]`");
    EXPECT_EQ(all_in(statement("out->v = x[i, j]")), "E0206@4:12");
    EXPECT_EQ(all_in(statement("out[i, j], out[j, i] = x[i, j]")), "E0206@4:18");
}

TEST(Recovery, AnExpressionOnADeeperLineIsOneError) {
    EXPECT_EQ(all_in(value("x[i]\n            + 2")), "E0109@5:13");
}

TEST(Recovery, WhatBelongsToAHeaderThatIsNoneIsPassed) {
    EXPECT_EQ(all_in("if x > 0:\n    let y = 1 +\nelse:\n    let y = 2 +\nlet z = 3\n"),
              "E0418@1:1");
    EXPECT_EQ(all_in("class Model:\n    def forward(self, x):\n        return relu(x)\n"),
              "E0206@1:7");
    EXPECT_EQ(all_in("pipeline f(x: tensor[n])\n{\n    return relu(x)\n}\n"), "E0208@1:25");
    EXPECT_EQ(all_in(value("x[i]\n        if i < 1:\n            out[i] = 1\n"
                           "        elif i < 2:\n            out[i] = 2\n"
                           "        else:\n            out[i] = 3")),
              "E0206@7:14");
}

TEST(Recovery, AnElseWithoutAnyIfIsStillReported) {
    EXPECT_EQ(errors_in(value("x[i]\n        else:\n            out[i] = 1")), "E0207@5:9");
}

TEST(Recovery, AReductionThatWritesOutInsteadOfYieldingIsOneError) {
    EXPECT_EQ(all_in("compute(x) {\n    @kernel reduce(+)\n    for i in 0..n:\n"
                     "        out += x[i]\n}\n"),
              "E0433@2:13");
}

}  // namespace
}  // namespace quern::lang
