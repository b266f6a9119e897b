#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

const Given kVector{{{{8}}}, {}, false, {}, {}};

/// A kernel over one rank-1 operand x.
TEST(Check36, AnUndefinedNameListsTheOperandsAndTheNearestName) {
    const Analysed a = analyse(
        "compute(x) {\n@kernel elementwise\nfor i in 0..len:\n    out[i] = y[i]\n}", kVector);
    EXPECT_EQ(a.findings(), "E0411 4:14 `y`");
    EXPECT_TRUE(
        contains(a.words("E0411"),
                 "undefined name 'y': not an operand, loop variable, dimension or bound value"));
    EXPECT_TRUE(contains(a.words("E0411"), "the operands are x"));
    const Analysed near = analyse(
        "compute(weight) {\n@kernel custom\nfor i in 0..n:\n    out[i] = weigth[i]\n}", kVector);
    EXPECT_TRUE(contains(near.words("E0411"), "did you mean 'weight'?"));
    EXPECT_EQ(findings(over_x("for i in 0..n:\n    z = 3.0\n    out[i] = x[i]"), kVector),
              "E0411 4:5 `z`");
}

TEST(Check37, AScalarThatNothingBindsNamesArg) {
    const Given given{{{{2, 4}}, {{4}}, {{4}}}, {}, false, {}, {}};
    const Analysed a = analyse(example_text("16"), given);
    EXPECT_EQ(a.findings(), "E0411 18:35 `eps`");
    EXPECT_TRUE(contains(a.words("E0411"), "arg(\"eps\", value)"));
    Given bound = given;
    bound.arguments["eps"] = 1e-5;
    EXPECT_EQ(findings(example_text("16"), bound), "");
    bound.arguments["eps"] = std::int64_t(1);
    EXPECT_EQ(findings(example_text("16"), bound), "");
}

TEST(Check38, ConvolutionHasDefaultsAndSaysSo) {
    Given given{{{{1, 1, 5, 5}}, {{1, 1, 3, 3}}, {{1}}}, {}, false, {}, {}};
    const Analysed a = analyse(example_text("11"), given);
    EXPECT_EQ(a.output(), (Shape{1, 1, 3, 3}));
    EXPECT_TRUE(contains(a.words("N0803"), "by default 'stride' is 1 and 'padding' is 0"));
    given.arguments["stride"] = std::int64_t(2);
    given.arguments["padding"] = std::int64_t(1);
    const Analysed bound = analyse(example_text("11"), given);
    EXPECT_EQ(bound.findings(true), "");
    EXPECT_EQ(bound.output(), (Shape{1, 1, 3, 3}));
    given.arguments["stride"] = std::int64_t(0);
    EXPECT_TRUE(contains(findings(example_text("11"), given), "E0309"));
}

TEST(Check41, IndicesAreIntegersAndSomeNamesAreNotAssigned) {
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[0.5]"), kVector), "E0412 3:27 `0.5`");
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  let f = x[i]\n  out[i] = x[f]"), kVector),
              "E0412 5:14 `f`");
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  i = 3\n  out[i] = x[i]"), kVector),
              "E0413 4:3 `i`");
    EXPECT_EQ(
        findings(over_x("for i in 0..n:\n  let a = 1.0\n  a = 2.0\n  out[i] = x[i] + a"), kVector),
        "E0414 5:3 `a`");
}

TEST(Check42, TheIndexRuleSkipsANearerNameThatIsNoInteger) {
    const Given given{{{{1, 1, 3, 4}}, {{3, 2}}, {{3, 2}}}, {}, false, {}, {}};
    const Analysed a = analyse(example_text("18"), given);
    EXPECT_EQ(a.findings(), "W0702 10:19 `s`; W0702 11:19 `s`");
    EXPECT_EQ(a.output(), (Shape{1, 1, 3, 4}));
    Given pedantic = given;
    pedantic.pedantic = true;
    const Analysed refused = analyse(example_text("18"), pedantic);
    EXPECT_EQ(refused.findings(), "E0412 10:19 `s`; E0412 11:19 `s`");
    ASSERT_FALSE(refused.diagnostics[0].fixits.empty());
    EXPECT_EQ(refused.diagnostics[0].fixits[0].replacement, "s_value");
}

TEST(Check42, TheIndexRuleLeavesAnIntegerAlone) {
    const std::string text = over_x("for i in 0..n:\n  let j = n - 1 - i\n  out[i] = x[j] + x[i]");
    EXPECT_EQ(findings(text, kVector), "");
}

TEST(Check52, AnIntegerThatHidesALoopsVariableFromAnIndexIsWarnedOf) {
    const std::string before = "for i in 0..n:\n  var s = x[i]\n  if s > 1.0:\n";
    for (const char* use : {"s = x[i]", "s = x[i] + s * i", "s = x[i] + x[i]"}) {
        EXPECT_EQ(
            findings(over_x(before + "    let i = 0\n    " + use + "\n  out[i] = s"), kVector),
            "W0701 6:9 `i`")
            << use;
    }
    EXPECT_EQ(findings(over_x(before + "    let j = 0\n    s = x[j]\n  out[i] = s"), kVector), "");
}

TEST(Names, OfTruthValuesHaveAHelpOfTheirOwn) {
    for (const auto& [name, help] : {std::pair{"true", "bool(1)"}, {"false", "bool(0)"}}) {
        const Analysed a =
            analyse(over_x(std::string("for i in 0..n: out[i] = select(") + name + ", x[i], 0.0)"),
                    kVector);
        EXPECT_TRUE(contains(a.words("E0411"), help));
        EXPECT_FALSE(contains(a.words("E0411"), "bind it"));
    }
}

TEST(Check52, OneDeclarationIsWarnedOfOnce) {
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  var s = x[i]\n  if s > 1.0:\n    let i = 0\n"
                              "    if s > 2.0:\n      let i = 2\n      s = x[i]\n  out[i] = s"),
                       kVector),
              "W0701 6:9 `i`; W0701 8:11 `i`");
}

TEST(Check51, FunctionsAndTheirArity) {
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = gelu(x[i])"), kVector), "E0407 3:25 `gelu`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = exp(x[i], x[i])"), kVector).substr(0, 5),
              "E0408");
}

TEST(Check52, ShadowingWarnsAndRedeclaringIsRefused) {
    EXPECT_EQ(
        findings(
            over_x(
                "for i in 0..n:\n  let a = 1.0\n  if x[i] > 0.0:\n    let a = 2.0\n    out[i] = a"),
            kVector),
        "W0701 6:9 `a`");
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  let a = 1.0\n  let a = 2.0\n  out[i] = x[i] + a"),
                       kVector),
              "E0410 5:7 `a`");
}

TEST(Check53, ADottedOperandIsUsedByItsText) {
    const Given given{{{{2, 3}}, {{3, 4}}}, {}, false, {}, {}};
    const std::string body =
        " {\n@kernel matmul\nfor i in 0..M, j in 0..N:\n  var s = 0.0\n  for k in 0..K:\n"
        "    s += a[i, k] * ";
    EXPECT_EQ(
        findings("compute(a, weights.up)" + body + "weights.up[k, j]\n  out[i, j] = s\n}", given),
        "");
    EXPECT_EQ(findings("compute(a, w = weights.up)" + body + "w[k, j]\n  out[i, j] = s\n}", given),
              "");
    EXPECT_EQ(
        findings("compute(a, a + a)" + body + "a[k, j]\n  out[i, j] = s\n}", given).substr(0, 5),
        "E0409");
}

TEST(Names, ALetsScopeStartsAfterItsInitialiser) {
    const Analysed a = analyse(
        over_x(
            "for i in 0..n:\n  let v = x[i]\n  if v > 0.0:\n    let v = v + 1.0\n    out[i] = v"),
        kVector);
    EXPECT_EQ(a.findings(), "W0701 6:9 `v`");
    EXPECT_TRUE(contains(a.cir(), "let v.1: float32 = v + 1.0"));
}

TEST(Names, WhatTheHostBindsIsAConstantOrAScalar) {
    Given given = kVector;
    given.arguments = {{"shift", std::int64_t(2)}, {"scale", 0.5}, {"on", true}};
    const Analysed a =
        analyse(over_x("for i in 0..n: out[i] = select(on, x[i] * scale, 0.0) + shift"), given);
    EXPECT_EQ(a.findings(), "");
    EXPECT_TRUE(contains(a.cir(), "scalar scale: float64"));
    EXPECT_TRUE(contains(a.cir(), "+ 2.0"));
}

TEST(Names, OneOperandTooFewOrOfAnotherRankIsNamed) {
    EXPECT_EQ(
        findings("compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] + y[i]\n}", kVector)
            .substr(0, 9),
        "E0504 1:1");
    const Analysed a = analyse(
        "compute(x: [n, m]) {\n@kernel custom\nfor i in 0..n: out[i] = x[i, 0]\n}", kVector);
    EXPECT_EQ(a.findings().substr(0, 5), "E0504");
}

TEST(Check40, TooFewAndTooManyIndices) {
    const Given given{{{{3, 4}}}, {}, false, {}, {}};
    const Analysed few =
        analyse("compute(A) {\n@kernel custom\nfor i in 0..n: out[i] = A[i] + 1.0\n}", given);
    EXPECT_EQ(few.findings(), "E0402 3:25 `A[i]`");
    EXPECT_TRUE(contains(few.words("E0402"), "2-D operand 'A' indexed with 1 index gives a row"));
    EXPECT_EQ(findings("compute(A) {\n@kernel custom\nfor i in 0..n, j in 0..m, k in 0..l: out[i, "
                       "j, k] = A[i, j, k]\n}",
                       given),
              "E0403 3:61 `k`");
}

}  // namespace
}  // namespace quern::semantics
