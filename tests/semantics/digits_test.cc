// One loop over several axes: its quotients and remainders as indices.

#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

std::string loop(const std::string& range, const std::string& body,
                 const std::string& operands = "x") {
    return "compute(" + operands + ") {\n@kernel custom\nfor i in 0.." + range + ": " + body +
           "\n}";
}

TEST(Digits, OfAProductBindItsFactors) {
    const Analysed a = analyse(loop("n*m", "out[i] = x[i / m, i % m]"), with({{{3, 5}}}));
    EXPECT_EQ(a.origin("n"), "3 from axis 0 of 'x' (bare index)");
    EXPECT_EQ(a.origin("m"), "5 from axis 1 of 'x' (bare index)");
    EXPECT_EQ(a.output(), Shape{15});
    const Analysed three =
        analyse(loop("a*b*c", "out[i] = x[i / (b*c), i / c % b, i % c]"), with({{{3, 5, 2}}}));
    EXPECT_EQ(three.findings(), "");
    EXPECT_EQ(three.output(), Shape{30});
    EXPECT_EQ(analyse(loop("3*m", "out[i] = x[i % m]"), with({{{5}}})).output(), Shape{15});
    EXPECT_EQ(analyse(loop("n*m", "out[i] = x[i / m, i % m]"), with({{{3, 0}}})).output(),
              Shape{0});
}

TEST(Digits, ThatDisagreeNameBothPlaces) {
    const Analysed a = analyse(loop("n*m", "out[i] = x[i / m, i % m] + y[i / m]", "x, y"),
                               with({{{3, 5}}, {{4}}}));
    EXPECT_EQ(a.findings(), "E0501 3:47 `i / m`");
    EXPECT_TRUE(contains(a.words("E0501"), "'n' is 3 from axis 0 of 'x'"));
}

TEST(Digits, AFactorThatNothingBindsIsNamed) {
    const Analysed a = analyse(loop("n*m", "out[i] = x[i % m]"), with({{{5}}}));
    EXPECT_EQ(a.findings(), "E0503 3:13 `n*m`");
    EXPECT_TRUE(contains(a.words("E0503"), "dimension 'n' has no value"));
    EXPECT_EQ(
        analyse(loop("n*m", "out[i] = x[i % m]"), with({{{5}}}, {{"n", std::int64_t(2)}})).output(),
        Shape{10});
    EXPECT_EQ(findings(loop("n*m", "out[i] = x[0]"), with({{{5}}})), "E0503 3:13 `n*m`");
}

TEST(Digits, AKnownFactorLeavesTheOtherToItsProduct) {
    const std::string text = loop("n*m", "out[i / m, i % m] = x[i]");
    const Analysed a = analyse(text, with({{{15}}}, {{"m", std::int64_t(5)}}));
    EXPECT_EQ(a.findings(true), "");
    EXPECT_EQ(a.output(), (Shape{3, 5}));
    EXPECT_EQ(findings(text, with({{{16}}}, {{"m", std::int64_t(5)}})).substr(0, 5), "E0501");
    EXPECT_EQ(findings(text, with({{{16}}}, {{"m", std::int64_t(0)}})).substr(0, 5), "E0503");
}

TEST(Digits, OfWhatDoesNotDivideTheRangeBindNothing) {
    // i / m also takes the value n, and i % (m + 1) never m: nothing is known.
    EXPECT_EQ(findings(loop("n*m + 1", "out[i] = x[i / m, i % m]"), with({{{3, 5}}})),
              "E0503 3:13 `n*m + 1`");
    // A number is no dimension: the operand may be longer.
    EXPECT_EQ(findings(loop("4*n", "out[i] = x[i % 4] + y[i]", "x, y"), with({{{9}}, {{8}}})), "");
}

TEST(Digits, ThatTellPointsApartAreNoRace) {
    const auto store = [](const std::string& index) {
        return findings(loop("a*b*c", "out[" + index + "] = x[i / (b*c), i / c % b, i % c]"),
                        with({{{3, 5, 2}}}));
    };
    EXPECT_EQ(store("i / (b*c), i / c % b, i % c"), "");
    EXPECT_EQ(store("i % c, i / c % b, i / c / b"), "");
    EXPECT_EQ(store("i / c, i % c"), "");
    EXPECT_EQ(store("i / (b*c), i % c").substr(0, 5), "E0510");
    EXPECT_EQ(store("i / c % b, i % c").substr(0, 5), "E0510");
    EXPECT_EQ(store("i / c, i % b").substr(0, 5), "E0510");
    EXPECT_EQ(findings(loop("24", "out[i / 4, i / 2 % 2, i % 2] = x[i]"), with({{{24}}})), "");
    EXPECT_EQ(findings(loop("24", "out[i / 4, i % 2] = x[i]"), with({{{24}}})).substr(0, 5),
              "E0510");
}

TEST(Digits, ThatReachEveryElementLeaveNoneAtZero) {
    const auto notes = [](const std::string& range, const std::string& index) {
        return analyse(loop(range, "out[" + index + "] = x[i]"), with({{{24}}})).findings(true);
    };
    EXPECT_EQ(notes("24", "i / 4, i % 4"), "");
    EXPECT_EQ(notes("24", "i / 4, i / 2 % 2, i % 2"), "");
    EXPECT_EQ(notes("24", "i / 5, i % 5").substr(0, 5), "N0801");
    EXPECT_EQ(notes("24", "i, i / 4, i % 4").substr(0, 5), "N0801");
}

TEST(Dimensions, AnOpaqueExtentHasAValueWhereItsPartsHave) {
    EXPECT_EQ(analyse("compute(x: [n]) {\n@kernel custom\nfor i in 0..n/2: out[i] = x[2*i + 1]\n}",
                      with({{{7}}}))
                  .output(),
              Shape{3});
}

}  // namespace
}  // namespace quern::semantics
