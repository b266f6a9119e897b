#include "quern/tensor.h"
#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

TEST(Check39, ADimensionWithTwoValuesNamesBothAndBothPlaces) {
    const Analysed a = analyse(example_text("09"), with({{{3, 5}}, {{4, 7}}}));
    EXPECT_EQ(a.findings(), "E0501 8:32 `k`");
    EXPECT_TRUE(
        contains(a.words("E0501"),
                 "dimension 'K' is 5 from axis 1 of 'A' (line 8, column 25) and 4 from axis 0 of "
                 "'B' (line 8, column 32)"));
    EXPECT_FALSE(a.binding);
}

TEST(Check45, AnExtentThatNothingBindsAsksForADeclaration) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n, j in 0..m:\n  out[i, j] = x[i]\n}";
    const Analysed a = analyse(text, with({{{4}}}));
    EXPECT_EQ(a.findings(), "E0503 3:24 `m`");
    EXPECT_TRUE(contains(a.words("E0503"), "declare it"));
    const Analysed bound = analyse(text, with({{{4}}}, {{"m", std::int64_t(3)}}));
    EXPECT_EQ(bound.output(), (Shape{4, 3}));
    EXPECT_EQ(analyse(example_text("12"), with({{{1, 1, 9, 8}}, {{1, 3, 2}}})).output(),
              (Shape{1, 1, 7, 7}));
}

TEST(Check46, AWindowLargerThanItsImageIsRefused) {
    const Analysed a = analyse(example_text("12"), with({{{1, 1, 3, 3}}, {{1, 5, 5}}}));
    EXPECT_EQ(a.findings(), "E0506 5:22 `out_h`; E0506 5:38 `out_w`");
    EXPECT_TRUE(contains(a.words("E0506"), "-1"));
}

TEST(Check47, QueriesAndKeysOfDifferentLengthDisagree) {
    const Analysed a = analyse(
        example_text("13"),
        with({{{1, 1, 128, 4}}, {{1, 1, 77, 4}}, {{1, 1, 77, 4}}, {{128, 128}, DType::Bool}}));
    EXPECT_EQ(a.findings().substr(0, 5), "E0501");
    EXPECT_TRUE(contains(a.words("E0501"), "'seq_len' is 128 from"));
    EXPECT_TRUE(contains(a.words("E0501"), "77 from axis 2 of 'K'"));
    EXPECT_TRUE(contains(
        findings(example_text("13"),
                 with({{{1, 1, 8, 4}}, {{1, 1, 8, 5}}, {{1, 1, 8, 4}}, {{8, 8}, DType::Bool}})),
        "E0501"));
}

TEST(Check54, AnOddRotaryWidthDoesNotFit) {
    EXPECT_TRUE(contains(findings(example_text("18"), with({{{1, 1, 3, 5}}, {{3, 2}}, {{3, 2}}})),
                         "E0508"));
    EXPECT_TRUE(contains(findings(example_text("18"), with({{{1, 1, 3, 6}}, {{3, 2}}, {{3, 2}}})),
                         "E0508"));
    EXPECT_EQ(analyse(example_text("18"), with({{{1, 1, 3, 4}}, {{3, 2}}, {{3, 2}}})).output(),
              (Shape{1, 1, 3, 4}));
}

TEST(Check46, NumbersThatInt64DoesNotHoldAreRefused) {
    constexpr std::int64_t kLeast = INT64_MIN, kMost = INT64_MAX;
    const auto of = [](const std::string& header, const char* name, std::int64_t value) {
        const std::string text =
            "compute(" + header + ") {\n@kernel custom\nfor i in 0..m:\n  out[i] = x[0] + 1.0\n}";
        return findings(text, with({{{4}}}, {{name, value}}));
    };
    EXPECT_TRUE(contains(of("x", "m", kLeast), "E0506")) << of("x", "m", kLeast);
    for (const std::int64_t k : {kLeast, kLeast + 4, kMost}) {
        for (const char* header : {"x: [k - m]", "x: [m - k]", "x: [2*k + m]", "x: [k + m]"}) {
            EXPECT_TRUE(contains(of(header, "k", k), "E0506"))
                << header << ", k " << k << ": " << of(header, "k", k);
        }
    }
    EXPECT_EQ(of("x: [k - m]", "k", 9), "");
}

TEST(Check46, APaddingThatExtentsDoNotHoldIsRefused) {
    for (const std::int64_t padding :
         {INT64_MIN, INT64_MIN + 1, (std::int64_t(1) << 31) + 1, INT64_MAX}) {
        const Given given = with({{{1, 1, 4, 4}}, {{1, 1, 2, 2}}, {{1}}}, {{"padding", padding}});
        EXPECT_TRUE(contains(findings(example_text("11"), given), "E0309")) << padding;
    }
}

TEST(Rule1, ADeclaredShapeOrTheHostBindsFirst) {
    const std::string text =
        "compute(x: [batch, 2*half]) {\n@kernel custom\nfor b in 0..batch, i in 0..half: out[b, i] "
        "= x[b, i + half]\n}";
    const Analysed a = analyse(text, with({{{3, 8}}}));
    EXPECT_EQ(a.origin("batch"), "3 from axis 0 of 'x' (declared)");
    EXPECT_EQ(a.origin("half"), "4 from axis 1 of 'x' (declared)");
    EXPECT_EQ(a.output(), (Shape{3, 4}));
    const Analysed odd = analyse(text, with({{{3, 7}}}));
    EXPECT_EQ(odd.findings(), "E0501 1:20 `2*half`");
    EXPECT_TRUE(contains(odd.words("E0501"), "no whole solution for 'half'"));
    const Analysed host = analyse(text, with({{{3, 8}}}, {{"batch", std::int64_t(4)}}));
    EXPECT_EQ(host.findings().substr(0, 5), "E0501");
    EXPECT_TRUE(contains(host.words("E0501"), "'batch' is 4"));
    EXPECT_TRUE(contains(host.words("E0501"), "3 from axis 0 of 'x'"));
    EXPECT_EQ(analyse(text, with({{{3, 8}}}, {{"batch", std::int64_t(3)}})).findings(), "");
}

TEST(Rule2, ABareIndexBindsTheExtentOfItsAxis) {
    const Analysed a = analyse(example_text("09"), with({{{3, 5}}, {{5, 7}}}));
    EXPECT_EQ(a.origin("M"), "3 from axis 0 of 'A' (bare index)");
    EXPECT_EQ(a.origin("N"), "7 from axis 1 of 'B' (bare index)");
    EXPECT_EQ(a.origin("K"), "5 from axis 1 of 'A' (bare index)");
    // A partial index counts.
    const Analysed q =
        analyse(example_text("13"),
                with({{{1, 2, 8, 4}}, {{1, 2, 8, 4}}, {{1, 2, 8, 4}}, {{8, 8}, DType::Bool}}));
    EXPECT_EQ(q.origin("heads"), "2 from axis 1 of 'Q' (bare index)");
}

TEST(Rule2, ALoopOverAPartOfADeclaredAxisSaysNothingOfIt) {
    const auto of = [](const std::string& header, const std::string& loop,
                       const std::vector<Operand>& operands, Arguments arguments = {}) {
        const Analysed a = analyse("compute(" + header + ") {\n@kernel custom\n" + loop + "\n}",
                                   with(operands, arguments));
        return a.findings().empty() ? quern::to_string(a.output()) : a.findings();
    };
    EXPECT_EQ(of("x: [m]", "for i in 0..m - 1: out[i] = x[i + 1] - x[i]", {{{5}}}), "[4]");
    EXPECT_EQ(of("x: [n + 1]", "for i in 0..n: out[i] = x[i + 1] - x[i]", {{{5}}}), "[4]");
    EXPECT_EQ(of("x: [m]", "for i in 0..4: out[i] = x[i]", {{{5}}}), "[4]");
    EXPECT_EQ(of("x: [8]", "for i in 0..4: out[i] = x[i]", {{{8}}}), "[4]");
    // Positions of a longer table.
    const std::string sum = "for i in 0..n, j in 0..d: out[i, j] = x[i, j] + table[i, j]";
    EXPECT_EQ(of("x: [n, d], table: [most, d]", sum, {{{3, 2}}, {{5, 2}}}), "[3, 2]");
    EXPECT_EQ(of("x: [n, d], table: [most, d]", sum, {{{3, 2}}, {{5, 1}}}).substr(0, 5), "E0501");
    EXPECT_EQ(of("x, table", sum, {{{3, 2}}, {{5, 2}}}).substr(0, 5), "E0501");
    const std::string prefix = "for i in 0..k: out[i] = x[i]";
    EXPECT_EQ(of("x: [m]", prefix, {{{5}}}, {{"k", std::int64_t(3)}}), "[3]");
    EXPECT_EQ(of("x", prefix, {{{5}}}, {{"k", std::int64_t(3)}}).substr(0, 5), "E0501");
    // What nothing else gives a value, the loop does.
    EXPECT_EQ(of("x: [m]", prefix, {{{5}}}), "[5]");
    EXPECT_EQ(of("x: [m]", "for i in 0..2*k: out[i] = x[i]", {{{6}}}), "[6]");
    EXPECT_EQ(of("x: [h*w]", "for i in 0..h*w: out[i] = x[i]", {{{6}}}, {{"h", std::int64_t(2)}}),
              "[6]");
    EXPECT_EQ(of("x: [m]", "for i in 0..m + 1: out[i] = x[i]", {{{5}}}).substr(0, 5), "E0507");
    // A loop that runs no iteration reads nothing.
    const std::string body = "for i in 0..m:\n  var s = 0.0\n  for k in 0..";
    EXPECT_EQ(of("x: [0], d: [m]", body + "0: s += x[max(k - 3, 0)]\n  out[i] = s", {{{0}}, {{3}}}),
              "[3]");
    EXPECT_EQ(of("x: [0], d: [m]", body + "1: s += x[max(k - 3, 0)]\n  out[i] = s", {{{0}}, {{3}}})
                  .substr(0, 5),
              "E0507");
    EXPECT_EQ(of("x: [m]", "for i in 0..6: out[i] = x[i / 2]", {{{3}}}), "[6]");
}

TEST(Rule4, AGuardByAnotherDeclaredDimensionReadsAPart) {
    const std::string body =
        "@kernel custom\nfor i in 0..4:\n  var v = 0.0\n  if i < n: v = x[i] + y[i]\n  out[i] = v";
    const auto of = [&](const std::string& header) {
        return findings("compute(" + header + ") {\n" + body + "\n}", with({{{5}}, {{3}}}))
            .substr(0, 5);
    };
    EXPECT_EQ(of("x: [most], y: [n]"), "");
    EXPECT_EQ(of("x, y: [n]"), "E0501");
    EXPECT_EQ(of("x, y"), "E0501");
}

TEST(Rule2, RowsOfCompressedStorageLieBetweenNeighbours) {
    const std::string text =
        "compute(first: [rows + 1], values: [n]) {\n@kernel custom\nfor r in 0..rows:\n  var sum = "
        "0.0\n  for k in first[r]..first[r + 1]: sum += values[k]\n  out[r] = sum\n}";
    const Analysed a = analyse(text, with({{{4}, DType::Int32}, {{7}}}));
    EXPECT_EQ(a.findings(), "");
    EXPECT_EQ(a.output(), Shape{3});
}

TEST(Rule6, AnIndexThatRunsDownReachesTheWholeAxis) {
    const auto of = [](const std::string& loops) {
        const Analysed a = analyse("compute(x) {\n@kernel custom\n" + loops + "\n}", with({{{5}}}));
        return a.findings().empty() ? a.origin("n") : a.findings();
    };
    const std::string whole = "5 from axis 0 of 'x' (largest range in bounds)";
    EXPECT_EQ(of("for i in 0..n: out[i] = x[n - 1 - i]"), whole);
    EXPECT_EQ(of("for i in 0..n:\n  var s = 0.0\n  for j in 0..i + 1: s += x[j]\n  out[i] = s"),
              whole);
    EXPECT_EQ(of("for i in 0..n:\n  var s = 0.0\n  for j in i..n: s += x[j]\n  out[i] = s"), whole);
    // Sums without an element itself: of as many elements, or of one less?
    EXPECT_EQ(
        of("for i in 0..n:\n  var s = 0.0\n  for j in 0..i: s += x[j]\n  out[i] = s").substr(0, 5),
        "E0503");
}

TEST(Rule2, ALoopThatBeginsLaterIsBoundByItsRange) {
    const std::string text = "compute(x) {\n@kernel custom\nfor i in 1..n: out[i] = x[i]\n}";
    EXPECT_TRUE(contains(analyse(text, with({{{4}}})).origin("n"), "4 from"));
    EXPECT_TRUE(contains(analyse(text, with({{{4}}})).origin("n"), "(largest range in bounds)"));
}

TEST(Rule3, ASliceBindsTheLoopsBound) {
    const Analysed a =
        analyse(example_text("14"), with({{{1, 1, 70, 4}}, {{1, 1, 70, 4}}, {{1, 1, 70, 4}}}));
    EXPECT_EQ(a.origin("seq_len"), "70 from axis 2 of 'K' (slice)");
    EXPECT_TRUE(contains(
        findings(example_text("14"), with({{{1, 1, 70, 4}}, {{1, 1, 71, 4}}, {{1, 1, 71, 4}}})),
        "E0501"));
}

TEST(Rule4, AGuardBindsThroughALet) {
    Given given = with({{{1, 1, 6, 5}}, {{1, 1, 3, 2}}, {{1}}});
    const Analysed a = analyse(example_text("11"), given);
    EXPECT_EQ(a.origin("in_h"), "6 from axis 2 of 'input' (guard)");
    EXPECT_EQ(a.origin("in_w"), "5 from axis 3 of 'input' (guard)");
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..4:\n  var v = 0.0\n  if i < n: v = x[i]\n  "
        "out[i] = v\n}";
    EXPECT_EQ(analyse(text, with({{{3}}})).origin("n"), "3 from axis 0 of 'x' (guard)");
}

TEST(Rule4, AGuardMayBeTheConditionOfASelectOrTheLeftSideOfAnAnd) {
    const auto text = [](const std::string& value) {
        return "compute(x, y) {\n@kernel custom\nfor i in 0..4: out[i] = " + value + "\n}";
    };
    const Given given = with({{{3}}, {{4}}});
    for (const std::string value :
         {"select(i < n, x[i], y[i])", "select(i < n and x[i] > 0.0, 1.0, y[i])",
          "select(i >= 0 and i < n, x[i] * 2.0, y[i])"}) {
        EXPECT_EQ(analyse(text(value), given).origin("n"), "3 from axis 0 of 'x' (guard)") << value;
    }
    EXPECT_EQ(findings(text("select(i < 3, x[i], y[i])"), given), "");
    // What the other side reads is not guarded, nor what stands beside.
    for (const std::string value : {"select(i < 3, y[i], x[i])", "select(i < 3, 1.0, y[i]) + x[i]",
                                    "select(i < 3 or x[i] > 0.0, 1.0, y[i])"}) {
        EXPECT_TRUE(contains(findings(text(value), given), "E0501")) << value;
    }
}

/// Sums over parts of x, each in a loop of its own.
std::string sums(const std::string& first, const std::string& second) {
    const auto loop = [](const std::string& lines) {
        return "  for p in 0..2:\n" + lines + "      s += x[i]\n";
    };
    return "compute(x: [n]) {\n@kernel custom\nfor w in 0..2:\n  var s = 0.0\n" + loop(first) +
           loop(second) + "  out[w] = s\n}";
}

TEST(Dimensions, ExtentsOfOneNameInTwoScopesAreTwo) {
    const Given ten = with({{{10}}});
    EXPECT_EQ(findings(sums("    let stop = min(n, 4)\n    for i in 0..stop:\n",
                            "    let stop = min(n, 7)\n    for i in 0..stop:\n"),
                       ten),
              "");
    EXPECT_EQ(findings(sums("    let k = 2\n    for i in 0..n / k:\n",
                            "    let k = 5\n    for i in 0..n / k:\n"),
                       ten),
              "");
}

TEST(Dimensions, AnExtentWithTheNameOfADimensionIsAnother) {
    const std::string hidden =
        "compute(x: [n], z: [m]) {\n@kernel custom\nfor w in 0..m:\n  var s = z[w]\n"
        "  if s > 0.0:\n    let m = n / 2\n    for i in 0..m: s += x[i]\n  out[w] = s\n}";
    const Analysed a = analyse(hidden, with({{{10}}, {{3}}}));
    EXPECT_EQ(a.findings(), "");
    EXPECT_EQ(a.output(), Shape{3});
    // Nor does it give a free name a value.
    const std::string free =
        "compute(x: [n]) {\n@kernel custom\nfor w in 0..k:\n  var s = 0.0\n  if w == 0:\n"
        "    let k = n / 2\n    for i in 0..k: s += x[i]\n  out[w] = s\n}";
    EXPECT_EQ(findings(free, with({{{10}}})), "E0503 3:13 `k`");
    EXPECT_EQ(findings(free, with({{{10}}}, {{"k", std::int64_t(3)}})), "");
}

TEST(Dimensions, AnExtentIsTheSameHoweverItIsWritten) {
    const Given given = with({{{6}}});
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor d in 0..h/2, e in 0..h / 2: "
                       "out[d, e] = x[d]\n}",
                       given),
              "");
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor d in 0..(h + 1)/2, e in 0..(h+1) / 2: "
                       "out[d, e] = x[d]\n}",
                       given),
              "");
}

TEST(Dimensions, AnExtentThatIsMadeOfAnotherAgreesWithIt) {
    const auto one = [](const std::string& operands, const std::string& range,
                        const std::string& body, const Given& given) {
        return findings("compute(" + operands + ") {\n@kernel custom\nfor i in 0.." + range +
                            ": out[i] = " + body + "\n}",
                        given);
    };
    const std::string halves = "x: [m], z: [n / 2]";
    const Analysed part = analyse(
        "compute(" + halves + ") {\n@kernel custom\nfor i in 0..n / 2 + 1: out[i] = x[i]\n}",
        with({{{5}}, {{3}}}));
    EXPECT_EQ(part.findings(), "");
    EXPECT_EQ(part.output(), Shape{4});
    EXPECT_EQ(one("x: [n/2], y: [n/2 + 1]", "n/2", "x[i] + y[i + 1]", with({{{3}}, {{4}}})), "");
    EXPECT_EQ(
        one("x: [n/2], y: [n/2 + 1]", "n/2", "x[i] + y[i + 1]", with({{{3}}, {{9}}})).substr(0, 5),
        "E0501");
    EXPECT_EQ(
        one("y: [n/2 + 1], x: [n/2]", "n/2", "x[i] + y[i + 1]", with({{{9}}, {{3}}})).substr(0, 5),
        "E0501");
    EXPECT_EQ(
        one("x: [n/2], y: [n/2 + n/2]", "2*(n/2)", "y[i]", with({{{5}}, {{11}}})).substr(0, 5),
        "E0501");
}

TEST(Dimensions, LenInAnExtentIsTheLengthOfTheVector) {
    const auto output = [](const std::string& kind, const std::string& range,
                           const std::string& body) {
        const Analysed a = analyse("compute(x) {\n@kernel " + kind + "\nfor i in 0.." + range +
                                       ": out[i] = " + body + "\n}",
                                   with({{{7}}}));
        EXPECT_EQ(a.findings(), "") << range;
        return a.output();
    };
    for (const char* kind : {"elementwise", "custom"}) {
        EXPECT_EQ(output(kind, "len - 1", "x[i]"), Shape{6});
        EXPECT_EQ(output(kind, "len - 1", "x[i + 1] - x[i]"), Shape{6});
        EXPECT_EQ(output(kind, "len/2", "x[i]"), Shape{3});
        EXPECT_EQ(output(kind, "len/2", "x[2 * i] + len"), Shape{3});
        EXPECT_EQ(output(kind, "len", "x[i]"), Shape{7});
    }
    // The caller's is the caller's.
    const std::string part =
        "compute(x: [n]) {\n@kernel custom\nfor i in 0..len - 1: out[i] = x[i]\n}";
    EXPECT_EQ(analyse(part, with({{{7}}}, {{"len", std::int64_t(3)}})).output(), Shape{2});
    EXPECT_EQ(analyse(part, with({{{7}}})).output(), Shape{6});
}

TEST(Dimensions, AnExtentThatDividesByZeroIsE0621) {
    const std::string guarded =
        "compute(x: [n], z: [k]) {\n@kernel custom\n"
        "for i in 0..select(k > 0, n / max(k, 0), 2): out[i] = x[0]\n}";
    EXPECT_EQ(analyse(guarded, with({{{6}}, {{0}}})).output(), Shape{2});
    EXPECT_EQ(analyse(guarded, with({{{6}}, {{3}}})).output(), Shape{2});
    EXPECT_EQ(analyse(guarded, with({{{9}}, {{3}}})).output(), Shape{3});
    EXPECT_EQ(findings("compute(x: [n]) {\n@kernel custom\nfor i in 0..n / k: out[i] = x[0]\n}",
                       with({{{6}}}, {{"k", std::int64_t(0)}}))
                  .substr(0, 5),
              "E0621");
    EXPECT_EQ(findings("compute(x: [n], y: [n / m], z: [m]) {\n@kernel custom\n"
                       "for i in 0..n / m: out[i] = y[i]\n}",
                       with({{{6}}, {{3}}, {{0}}}))
                  .substr(0, 5),
              "E0621");
}

TEST(Dimensions, AnExtentIsNamedWithItsParentheses) {
    const Analysed a =
        analyse("compute(x: [n]) {\n@kernel custom\nfor i in 0..(n - 9) / 2 - 7: out[i] = x[i]\n}",
                with({{{4}}}));
    EXPECT_EQ(a.findings(), "E0506 3:13 `(n - 9) / 2 - 7`");
    EXPECT_TRUE(contains(a.words("E0506"), "dimension '(n - 9) / 2 - 7' is"));
}

TEST(Rule4, AGuardThatIndexesNothingIsAScalarThatNobodyBinds) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = 0.0\n  if i < limit: v = x[i]\n  "
        "out[i] = v\n}";
    // A guarded read says what limit is, not how far the loop runs.
    EXPECT_EQ(findings(text, with({{{3}}})), "E0503 3:13 `n`");
    const std::string other =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = x[i]\n  if i * 2 < limit: v = "
        "0.0\n  out[i] = v\n}";
    EXPECT_EQ(findings(other, with({{{3}}})), "E0411 5:14 `limit`");
    EXPECT_EQ(findings(other, with({{{3}}}, {{"limit", std::int64_t(2)}})), "");
}

TEST(Rule5, TilesThatMeetShareTheirExtents) {
    const Analysed a =
        analyse(example_text("14"), with({{{1, 1, 8, 4}}, {{1, 1, 8, 4}}, {{1, 1, 8, 4}}}));
    EXPECT_TRUE(contains(a.origin("head_dim"), "4 from "));
    EXPECT_TRUE(contains(a.origin("head_dim"), "(tile shape)"));
    EXPECT_TRUE(contains(
        findings(example_text("14"), with({{{1, 1, 8, 4}}, {{1, 1, 8, 4}}, {{1, 1, 8, 6}}})),
        "E0501"));
    EXPECT_TRUE(contains(
        findings("compute(a, b) {\n@kernel custom\nfor i in 0..n: out[i] = dot(a[i], b[i])\n}",
                 with({{{2, 3}}, {{2, 4}}})),
        "E0501 3:25 `dot(a[i], b[i])`"));
}

TEST(Rule6, AnOutputOnlyExtentIsTheLargestInBounds) {
    const Analysed a = analyse(example_text("12"), with({{{1, 1, 9, 8}}, {{1, 3, 2}}}));
    EXPECT_EQ(a.origin("out_h").substr(0, 6), "7 from");
    EXPECT_TRUE(contains(a.origin("out_h"), "(largest range in bounds)"));
    const std::string strided =
        "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[3*i + 1]\n}";
    for (const auto& [extent, n] : {std::pair{1, 0}, {2, 1}, {4, 1}, {5, 2}, {9, 3}}) {
        EXPECT_EQ(analyse(strided, with({{{extent}}})).output(), Shape{n}) << extent;
    }
    // A guarded read says nothing.
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = 0.0\n  if i > 2: v "
                       "= x[i + 1]\n  out[i] = v\n}",
                       with({{{9}}})),
              "E0503 3:13 `n`");
}

TEST(Rule7, ConvolutionsHaveASchema) {
    const Analysed a = analyse(example_text("11"),
                               with({{{1, 1, 6, 5}}, {{1, 1, 3, 2}}, {{1}}},
                                    {{"stride", std::int64_t(2)}, {"padding", std::int64_t(1)}}));
    EXPECT_TRUE(contains(a.origin("out_h"), "3 from"));
    EXPECT_TRUE(contains(a.origin("out_h"), "(convolution schema)"));
    std::string other = example_text("11");
    other.replace(other.find("@kernel conv2d"), 14, "@kernel custom");
    EXPECT_TRUE(
        contains(findings(other, with({{{1, 1, 6, 5}}, {{1, 1, 3, 2}}, {{1}}},
                                      {{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}})),
                 "E0503"));
}

TEST(Dimensions, ABoundThatIsNotInvertibleIsOneOpaqueExtent) {
    const Analysed a = analyse(example_text("18"), with({{{1, 1, 3, 4}}, {{3, 2}}, {{3, 2}}}));
    EXPECT_EQ(a.origin("head_dim/2"), "2 from axis 1 of 'cos_cache' (bare index)");
    EXPECT_TRUE(contains(a.cir(), "`head_dim/2`"));
    // One that is known is a number; it leaves a linear bound alone.
    const Analysed known =
        analyse("compute(x: [n], y) {\n@kernel custom\nfor i in 0..n/2: out[i] = x[i] + y[i]\n}",
                with({{{5}}, {{3}}}));
    EXPECT_EQ(known.findings().substr(0, 5), "E0501");
    const Analysed linear =
        analyse("compute(x) {\n@kernel custom\nfor i in 0..3*n: out[i] = x[i]\n}", with({{{12}}}));
    EXPECT_EQ(linear.origin("n"), "4 from axis 0 of 'x' (bare index)");
    EXPECT_TRUE(contains(
        analyse("compute(x) {\n@kernel custom\nfor i in 0..3*n: out[i] = x[i]\n}", with({{{11}}}))
            .words("E0501"),
        "no whole solution for 'n'"));
}

TEST(Dimensions, AStridedGroupBindsItsAxis) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[3*i] + x[3*i + 1] + x[3*i + 2]\n}";
    EXPECT_EQ(analyse(text, with({{{9}}})).origin("n"), "3 from axis 0 of 'x' (strided accesses)");
    EXPECT_EQ(findings(text, with({{{10}}})).substr(0, 5), "E0508");
    // Without one of its offsets it is no group: the largest range in bounds.
    const std::string part =
        "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[3*i] + x[3*i + 1]\n}";
    EXPECT_EQ(analyse(part, with({{{9}}})).output(), Shape{3});
    EXPECT_EQ(analyse(part, with({{{11}}})).output(), Shape{4});
}

TEST(Dimensions, OneLoopOverLenIsFlatOnlyWhereItMustBe) {
    const std::string text = "compute(x) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i]\n}";
    EXPECT_TRUE(contains(analyse(text, with({{{2, 3}}})).cir(), "operand x: float32[x.0] flat"));
    EXPECT_FALSE(contains(analyse(text, with({{{6}}})).cir(), "flat"));
    const std::string custom = "compute(x) {\n@kernel custom\nfor i in 0..len: out[i] = x[i]\n}";
    EXPECT_EQ(findings(custom, with({{{2, 3}}})), "E0402 3:27 `x[i]`");
}

TEST(Dimensions, CirNamesAnExtentByItsDimension) {
    const std::string cir =
        analyse(example_text("14"), with({{{1, 1, 8, 4}}, {{1, 1, 8, 4}}, {{1, 1, 8, 4}}})).cir();
    EXPECT_TRUE(contains(cir, "min(64, seq_len - q_block)"));
    EXPECT_FALSE(contains(cir, "Q.2 - "));
    EXPECT_FALSE(contains(cir, "K.2 - "));
    // What has m_new's extent as one of its own needs no other.
    EXPECT_TRUE(
        contains(cir, "let m_new.extent: int64 = min(min(64, seq_len - q_block), m.extent0)"));
    int loops = 0;
    for (auto at = cir.find("in 0..m_new.extent {"); at != std::string::npos; ++loops) {
        at = cir.find("in 0..m_new.extent {", at + 1);
    }
    EXPECT_EQ(loops, 4) << cir;
    // An axis without absent lanes has no extent of its own.
    EXPECT_FALSE(contains(cir, "o.extent1"));
    EXPECT_TRUE(contains(cir, "in 0..head_dim"));
}

TEST(Check55, WhereANumberOfTheTextDisagreesTheTextIsNamed) {
    const Analysed a =
        analyse("compute(a: [n]) {\n@kernel custom\nfor i in 0..n step 2: out[i:i+2] = a[0:n]\n}",
                with({{{4}}}));
    EXPECT_TRUE(contains(a.words("E0501"), "and 2 from the text (line 3")) << a.words("E0501");
    const Analysed host =
        analyse(over_x("for i in 0..n: out[i] = x[i]"), with({{{4}}}, {{"n", std::int64_t(3)}}));
    EXPECT_TRUE(contains(host.words("E0501"), "the caller")) << host.words("E0501");
}

}  // namespace
}  // namespace quern::semantics
