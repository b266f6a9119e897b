#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

TEST(Check48, OperandsAreNotWrittenAndOutIs) {
    EXPECT_TRUE(
        contains(findings(over_x("for i in 0..n: x[i] = 0.0"), with({{{4}}})), "E0420 3:16 `x`"));
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = out[i] + x[i]"), with({{{4}}})).substr(0, 5),
              "E0421");
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  let a = x[i]"), with({{{4}}})).substr(0, 5),
              "E0422");
}

TEST(Check50, ABodyThatIsNotWrittenIsRefused) {
    EXPECT_EQ(findings(over_x("..."), with({{{4}}})).substr(0, 9), "E0406 3:1");
}

TEST(Check55, ABoundThatAnIndexNeedNotReachRefusesNothing) {
    for (const char* index : {"min(i * i, n - 1)", "clamp(i % 4, 0, n - 1)",
                              "clamp(i * i, 0, n - 1)", "min(i * i, n - 1) + 0 * i"}) {
        const std::string text = std::string("for i in 0..n: out[i] = x[i] + x[") + index + "]";
        EXPECT_EQ(findings(over_x(text), with({{{4}}})), "") << index;
    }
    EXPECT_EQ(findings(over_x("for i in 0..5: out[i] = x[(i * i) % 8]"), with({{{5}}})), "");
    EXPECT_EQ(
        findings(over_x("for i in 0..n: out[max(i * i, i) - i * i + i] = x[i]"), with({{{4}}}))
            .find("E0507"),
        std::string::npos);
}

TEST(Check55, AnIndexThatIsProvablyOutsideIsRefused) {
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[i] + x[-1]"), with({{{4}}})),
              "E0507 3:34 `-1`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[i] + x[n]"), with({{{4}}})),
              "E0507 3:34 `n`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[i] + x[i + 1]"), with({{{4}}})),
              "E0507 3:34 `i + 1`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[i] + x[i - 1]"), with({{{4}}})),
              "E0507 3:34 `i - 1`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = x[i] + x[n - 1 - i]"), with({{{4}}})), "");
    EXPECT_EQ(
        findings(over_x("for i in 0..n:\n  var v = x[i]\n  if i > 0: v += x[i - 1]\n  out[i] = v"),
                 with({{{4}}})),
        "");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i] = select(i > 0, x[i - 1], 0.0) + x[i]"),
                       with({{{4}}})),
              "");
}

TEST(Output, ASingleStoreReachesOnePastItsLargestIndex) {
    EXPECT_EQ(analyse(over_x("for i in 0..n: out[i] = x[i]"), with({{{4}}})).output(), Shape{4});
    EXPECT_EQ(analyse(over_x("for i in 0..n: out[i + 2] = x[i]"), with({{{4}}})).output(),
              Shape{6});
    EXPECT_EQ(analyse(over_x("for i in 0..n: out[3*i] = x[i]"), with({{{4}}})).output(), Shape{10});
    EXPECT_EQ(analyse(over_x("for i in 0..n: out[n - 1 - i] = x[i]"), with({{{4}}})).output(),
              Shape{4});
    EXPECT_EQ(
        analyse(over_x("for i in 0..4, j in 0..4: out[i + 4*j] = x[i]"), with({{{4}}})).output(),
        Shape{16});
    EXPECT_EQ(analyse(over_x("for i in 0..n: out[0, i, 2] = x[i]"), with({{{4}}})).output(),
              (Shape{1, 4, 3}));
}

TEST(Output, AnEmptyLoopGivesAnEmptyAxis) {
    for (const char* index : {"i", "i + 2", "3*i", "n - 1 - i", "2*i + 1"}) {
        EXPECT_EQ(
            analyse(over_x(std::string("for i in 0..n: out[") + index + "] = x[i]"), with({{{0}}}))
                .output(),
            Shape{0})
            << index;
    }
    EXPECT_EQ(
        analyse(
            "compute(x) {\n@kernel custom\nfor i in 0..n, j in 0..3: out[3*i + j + 1] = x[i, j]\n}",
            with({{{0, 3}}}))
            .output(),
        Shape{0});
}

TEST(Output, SeveralStoresJoin) {
    const std::string text = over_x("for i in 0..n:\n  out[2*i] = x[i]\n  out[2*i + 1] = x[i]");
    const Analysed a = analyse(text, with({{{4}}}));
    EXPECT_EQ(a.output(), Shape{8});
    EXPECT_TRUE(contains(a.cir(), "output out: float32[n * 2]"));
    EXPECT_EQ(analyse("compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\nfor j in "
                      "0..m: out[j] = y[j]\n}",
                      with({{{4}}, {{7}}}))
                  .output(),
              Shape{7});
    EXPECT_EQ(analyse("compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\nfor j in "
                      "0..m: out[n + j] = y[j]\n}",
                      with({{{4}}, {{0}}}))
                  .output(),
              Shape{4});
    EXPECT_EQ(findings(over_x("for i in 0..n:\n  out[i] = x[i]\n  out[i, 0] = x[i]"), with({{{4}}}))
                  .substr(0, 5),
              "E0502");
}

TEST(Output, ACondition) {
    // `if` is ignored: the extent does not depend on elements.
    EXPECT_EQ(
        analyse(over_x("for i in 0..n:\n  if x[i] > 0.0: out[i] = x[i]"), with({{{4}}})).output(),
        Shape{4});
}

TEST(Output, ANegativeIndexAndOneFromDataAreRefused) {
    EXPECT_EQ(findings(over_x("for i in 0..n: out[i - 1] = x[i]"), with({{{4}}})),
              "E0507 3:20 `i - 1`");
    EXPECT_EQ(findings(over_x("for i in 0..n: out[x[i]] = 1.0"), with({{{4}, DType::Int64}})),
              "E0503 3:20 `x[i]`");
}

TEST(Output, ATileHasTheTrailingAxes) {
    EXPECT_EQ(analyse(over_x("for b in 0..n: out[b] = exp(x[b, 0:3])"), with({{{2, 5}}})).output(),
              (Shape{2, 3}));
    EXPECT_EQ(analyse(over_x("out = exp(x) * 2.0"), with({{{2, 5}}})).output(), (Shape{2, 5}));
    EXPECT_EQ(analyse(over_x("out = reduce(+, x)"), with({{{2, 5}}})).output(), Shape{});
    EXPECT_EQ(analyse(over_x("out = reduce(+, x, axis=0)"), with({{{2, 5}}})).output(),
              (Shape{1, 5}));
    EXPECT_EQ(analyse(example_text("14"), with({{{1, 2, 70, 4}}, {{1, 2, 70, 4}}, {{1, 2, 70, 4}}}))
                  .output(),
              (Shape{1, 2, 70, 4}));
}

TEST(Output, ABodyWithoutLoopsIsParallelOverAxesThatNothingReduces) {
    const Analysed a = analyse("compute(x) {\n@kernel fused\nout = x / reduce(+, x, axis=-1)\n}",
                               with({{{2, 5}}}));
    EXPECT_TRUE(contains(a.cir(), "parallel for axis0 in 0..x.0"));
    EXPECT_FALSE(contains(a.cir(), "axis1"));
    EXPECT_FALSE(contains(
        analyse("compute(x) {\n@kernel fused\nout = x / reduce(+, x)\n}", with({{{2, 5}}})).cir(),
        "parallel"));
}

/// In the first iteration of the outer loop the inner one is empty.
TEST(Output, HasAnExtentWhereALoopDependsOnAnother) {
    const auto shape = [](const std::string& body) {
        return analyse("compute(x: [n, n]) {\n@kernel custom\n" + body + "\n}", with({{{6, 6}}}))
            .output();
    };
    EXPECT_EQ(shape("for i in 0..n:\n  for j in 0..i: out[i, j] = x[i, j]"), (Shape{6, 5}));
    EXPECT_EQ(shape("for i in 0..n:\n  for j in 0..i: out[j, i] = x[i, j]"), (Shape{5, 6}));
    EXPECT_EQ(shape("for i in 0..n:\n  for j in i+1..n: out[i, j-1] = x[i, j]"), (Shape{6, 5}));
    EXPECT_EQ(shape("for i in 0..n:\n  for j in 0..min(i, 3): out[i, j] = x[i, j]"), (Shape{6, 3}));
    EXPECT_EQ(shape("for i in 0..n:\n  for j in 0..i / 2: out[i, j] = x[i, j]"), (Shape{6, 2}));
    EXPECT_EQ(shape("for i in 0..n:\n  for j in i..i + 3: out[i, j] = x[i, 0]"), (Shape{6, 8}));
    EXPECT_EQ(shape("for i in 0..1:\n  for j in 0..i: out[i, j] = x[0, 0] * n"), (Shape{1, 0}));
}

TEST(Output, ReadUnderAConditionBeforeAnythingElseHasTheRankOfItsSubscripts) {
    const auto of = [](const std::string& body) {
        return analyse("compute(x: [n]) {\n@kernel custom\n" + body + "\n}", with({{{3}}}));
    };
    EXPECT_EQ(of("for i in 0..n:\n  if i > 1: out[i] += x[i]").output(), Shape{3});
    EXPECT_EQ(of("for i in 0..n:\n  if i > 1: out[i] = select(i > 5, out[i], x[i])").output(),
              Shape{3});
    EXPECT_EQ(of("for i in 0..n:\n  for q in 0..3:\n    if q > 0: out[i, q] = out[i, q - 1] + x[i]")
                  .output(),
              (Shape{3, 3}));
}

TEST(Output, WithoutAnExtentSaysWhetherDataOrTheIndexIsWhy) {
    const auto words = [](const std::string& index) {
        return analyse(
                   "compute(x: [n]) {\n@kernel custom\nfor i in 0..n: out[" + index + "] = 1.0\n}",
                   with({{{3}, DType::Int32}}))
            .words("E0503");
    };
    EXPECT_TRUE(contains(words("i * i"), "the largest index of 'out' is not seen here"));
    EXPECT_TRUE(contains(words("x[i]"), "the largest index of 'out' depends on data here"));
}

TEST(Output, IsEmptyWhereALoopThatStoresIsEmpty) {
    const auto shape = [](const std::string& body, std::int64_t n) {
        const Analysed a =
            analyse("compute(x: [n]) {\n@kernel custom\n" + body + "\n}", with({{{n}}}));
        EXPECT_EQ(a.findings(), "") << body;
        return a.output();
    };
    EXPECT_EQ(shape("for i in 1..n: out[i] = x[i]", 1), Shape{0});
    EXPECT_EQ(shape("for i in 2..n: out[i] = x[i]", 1), Shape{0});
    EXPECT_EQ(shape("for i in 1..n: out[i] = x[i]", 4), Shape{4});
    EXPECT_EQ(shape("for i in 0..n: out[2*i] = x[i]", 0), Shape{0});
    EXPECT_EQ(shape("for i in 0..n: out[i + 1] = x[i]", 0), Shape{0});
    const std::string block =
        "for i in 0..n:\n  let h = 1.0\n  for j in 4*i..4*i + 4: out[2*j] = h";
    EXPECT_EQ(shape(block, 0), Shape{0});
    EXPECT_EQ(shape(block, 2), Shape{15});
    const std::string rows = "for i in 0..n:\n  for j in 0..i + 4: out[i, j] = x[i]";
    EXPECT_EQ(shape(rows, 0), (Shape{0, 0}));
    EXPECT_EQ(shape(rows, 3), (Shape{3, 6}));
}

TEST(Output, IsPipedOnlyWhereEachStoreIsTheLast) {
    const auto piped = [](const std::string& body, const std::string& function) {
        Given given = with({{{3}}});
        given.then = {{function, {}}};
        return findings("compute(x: [n]) {\n@kernel custom\n" + body + "\n}", given);
    };
    const std::string whole = "for i in 0..n: out[i] = x[i]", part = "for i in 1..n: out[i] = x[i]";
    const std::string twice = "for i in 0..n:\n  out[i] = x[i]\n  out[i] += 1.0";
    EXPECT_EQ(piped(whole, "exp"), "");
    EXPECT_EQ(piped(part, "abs"), "");
    EXPECT_EQ(piped(part, "exp"), "E0421 3:16 `out[i]`");
    EXPECT_EQ(piped(part, "rsqrt"), "E0421 3:16 `out[i]`");
    const std::string below = "for i in 0..n:\n  for j in 0..i + 1: out[i, j] = x[i]";
    EXPECT_EQ(piped(below, "exp"), "E0421 4:22 `out[i, j]`");
    EXPECT_EQ(piped(below, "abs"), "");
    const std::string triangle =
        "for i in 0..n:\n  for j in 0..i:\n    let h = x[i]\n    for k in 2*j..2*j + 2: "
        "out[i, k] = h";
    const std::string parts[] = {
        // A triangle of blocks; a loop that may have no iteration.
        triangle,
        "for i in 0..n:\n  let h = x[i]\n  for j in 0..i: out[i] = h",
        "for i in 0..n:\n  let h = x[i]\n  for j in 0..n - 1: out[i] = h",
        // What another store makes longer.
        "for i in 0..n:\n  let h = x[i]\n  out[i] = h\n  if h > 0.0: out[i + n] = h",
        "for i in 0..n step 4: out[i:i+4] = x[i:i+4]\nfor i in 0..n: out[n + i + 4] = 1.0",
        "for i in 0..n: out[2*i] = x[i]\nfor i in 0..1: out[2*i + 1] = 5.0",
        // Rows or elements that are left out.
        "for i in 0..n step 2:\n  for j in 0..n: out[i * n + j] = x[j]",
        "for i in 0..n: out[i * n + i] = x[i]",
        "for i in 0..n: out[i + i / 2] = x[i]",
    };
    for (const std::string& part : parts)
        EXPECT_EQ(piped(part, "exp").substr(0, 5), "E0421") << part;
    const char* const wholes[] = {
        "for i in 0..n, j in 0..n: out[i * n + j] = x[j]",
        "for i in 0..n, j in 0..4: out[4*i + j] = x[i]",
        "for i in 0..n:\n  let h = x[i]\n  for j in 0..2: out[i] = h",
        "for i in 0..n:\n  out[2*i] = x[i]\n  out[2*i + 1] = 1.0",
        "for i in 0..2*n: out[i / 2, i % 2] = x[i / 2]",
    };
    for (const char* whole_too : wholes) EXPECT_EQ(piped(whole_too, "exp"), "") << whole_too;
    EXPECT_EQ(piped(twice, "abs"), "E0421 5:3 `out[i]`");
}

TEST(Output, OfAReductionIsPipedOnlyWhereAYieldReachesAllOrZeroStaysZero) {
    const auto piped = [](const std::string& loops, const std::string& function) {
        Given given = with({{{3}}});
        given.then = {{function, {}}};
        return findings("compute(x: [n]) {\n@kernel reduce(+, axis=2)\nfor i in 0..n, " + loops +
                            ", q in 0..n: yield x[q]\n}",
                        given)
            .substr(0, 5);
    };
    EXPECT_EQ(piped("j in 0..i + 1", "cos"), "E0432");
    EXPECT_EQ(piped("j in 0..i + 1", "sqrt"), "");
    EXPECT_EQ(piped("j in 0..n", "cos"), "");
}

TEST(Output, ReadWhereADimensionHasNoValueIsRefused) {
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor i in 0..m:\n  out[i] = x[0]\n  out[i] += "
                       "1\n}",
                       with({{{4}, DType::Int64}}))
                  .substr(0, 5),
              "E0503");
}

TEST(N0801, IsSaidExactlyWhenElementsMayStayUnwritten) {
    const auto notes = [](const std::string& body) {
        return analyse("compute(x) {\n@kernel custom\n" + body + "\n}", with({{{4}}}))
            .findings(true);
    };
    EXPECT_EQ(notes("for i in 0..n: out[i] = x[i]"), "");
    EXPECT_EQ(notes("for i in 0..n:\n  out[2*i] = x[i]\n  out[2*i + 1] = x[i]"), "");
    EXPECT_EQ(notes("for i in 0..n: out[2*i] = x[i]"), "N0801 3:16 `out[2*i]`");
    EXPECT_EQ(notes("for i in 0..n: out[i + 1] = x[i]"), "N0801 3:16 `out[i + 1]`");
    EXPECT_EQ(notes("for i in 0..n:\n  if x[i] > 0.0: out[i] = x[i]"), "N0801 4:18 `out[i]`");
    EXPECT_EQ(notes("for i in 0..n step 2: out[i] = x[0]").substr(0, 5), "E0503");
    EXPECT_EQ(notes("for i in 0..n: out[i, i] = x[i]"), "N0801 3:16 `out[i, i]`");
    EXPECT_EQ(notes("for i in 0..n:\n  if x[i] > 0.0: out[i] = x[i]\n  else: out[i] = 0.0"), "");
    EXPECT_EQ(notes("for i in 0..n: out[n - 1 - i] = x[i]"), "");
    const auto blocks = [&](const std::string& outer, const std::string& inner) {
        return notes("for q in 0..n:\n  let first = x[q]\n  for i in " + outer +
                     ":\n    for j in " + inner + ": out[q, j] = first")
            .substr(0, 5);
    };
    EXPECT_EQ(blocks("0..30 step 4", "i..min(i + 4, 30)"), "");
    EXPECT_EQ(blocks("0..8", "4*i..min(4*i + 4, 30)"), "");
    EXPECT_EQ(blocks("0..8", "4*i..4*i + 4"), "");
    EXPECT_EQ(blocks("0..30 step 4", "i..min(i + 3, 30)"), "N0801");
    EXPECT_EQ(blocks("0..8", "4*i..4*i + 3"), "N0801");
    EXPECT_EQ(blocks("1..8", "4*i..4*i + 4"), "N0801");
    EXPECT_EQ(blocks("0..8", "4*i + 1..4*i + 4"), "N0801");
    EXPECT_EQ(blocks("0..8", "0..i + 1"), "N0801");
    EXPECT_EQ(blocks("0..8", "i..8"), "N0801");
    EXPECT_EQ(notes("for i in 0..n: out[i, 0] = x[i]"), "");
    EXPECT_EQ(notes("out[0] = x[0]"), "");
    EXPECT_EQ(notes("for b in 0..n: out[b, 0:3] = x[0:3] * x[b]"), "");
    EXPECT_EQ(notes("for b in 0..n: out[b, 1:4] = x[0:3] * x[b]"), "N0801 3:16 `out[b, 1:4]`");
    EXPECT_EQ(notes("for b in 0..1:\n  out[0] = x[0]\n  out[1] = x[1]"), "");
    EXPECT_EQ(notes("for b in 0..1:\n  out[0] = x[0]\n  out[2] = x[1]"), "N0801 5:3 `out[2]`");
    EXPECT_EQ(notes("for k in 0..n step 2: out[k:k+2] = x[k:k+2]"), "");
    EXPECT_EQ(notes("for k in 0..4 step 2: out[k:k+1] = x[0:1]"), "N0801 3:23 `out[k:k+1]`");
    EXPECT_EQ(analyse(example_text("14"), with({{{1, 2, 70, 4}}, {{1, 2, 70, 4}}, {{1, 2, 70, 4}}}))
                  .findings(true),
              "");
    EXPECT_EQ(analyse(example_text("15"), with({{{7}}})).findings(true), "");
}

TEST(Output, ThatIsReadAndCannotBeStoredIsRefusedOnce) {
    const Given one = with({{{4}, DType::Int32}}), two = with({{{3, 4}}});
    const auto code = [](const std::string& body, const Given& given) {
        const std::string found = findings(over_x(body), given);
        return found.substr(0, found.find(' '));
    };
    EXPECT_EQ(code("for i in 0..n:\n  if x[i] > 0: out[i] += f16(x[i])", one), "");
    const Analysed adds = analyse(over_x("for i in 0..n:\n  if x[i] > 0: out[i] += x[i]"), one);
    EXPECT_EQ(adds.findings(), "");
    EXPECT_EQ(adds.out_dtype(), DType::Int32);
    EXPECT_EQ(code("for i in 0..n, j in 0..m:\n  out[i, j] = x[i, j]\n"
                   "  if j > 0: out[i, j] = x[i, j] + out[i, j - 1]",
                   one),
              "E0403");
    EXPECT_EQ(code("for i in 0..n:\n  out[i, k] = x[i]\n  out[i, k] = out[i, 0]", one), "E0411");
    EXPECT_EQ(code("for i in 0..n, j in 0..m:\n  out[i, j] = i32(1)\n"
                   "  out[i, j] = out[i, j] + x[i, j]",
                   two),
              "E0404");
}

TEST(Output, SlicesInALoopThatAnotherOneBoundsReachItsLargestEnd) {
    const auto shape = [](const std::string& loops) {
        const Analysed a =
            analyse(over_x("for b in 0..n:\n  for q in " + loops + " step 4: out[b, q:q+4] = x[b]"),
                    with({{{6}}}));
        EXPECT_EQ(a.findings(), "") << loops;
        return a.output();
    };
    EXPECT_EQ(shape("0..b"), (Shape{6, 5}));
    EXPECT_EQ(shape("0..n - b"), (Shape{6, 6}));
    EXPECT_EQ(shape("0..b / 2"), (Shape{6, 2}));
    EXPECT_EQ(shape("0..min(b, 3)"), (Shape{6, 3}));
    EXPECT_EQ(shape("0..n"), (Shape{6, 6}));
}

TEST(Output, HasNoExtentThatOnlyADtypeLimits) {
    for (const DType dtype : {DType::UInt8, DType::Int32}) {
        const Given data = with({{{6}, dtype}});
        const auto body = [](const std::string& end, const std::string& index) {
            return over_x("for b in 0..n:\n  for q in 0.." + end + ": out[b, " + index +
                          "] = i32(q)\n  out[b, 0] = 1");
        };
        EXPECT_EQ(findings(body("x[b]", "q"), data).substr(0, 5), "E0503");
        EXPECT_EQ(findings(body("x[b] + 1", "2 * q"), data).substr(0, 5), "E0503");
        EXPECT_EQ(findings(body("u16(min(x[b], -1))", "q"), data).substr(0, 5), "E0503");
        EXPECT_EQ(analyse(body("min(x[b], 16)", "q"), data).output(), (Shape{6, 16}));
        EXPECT_EQ(analyse(body("x[b] % 5", "q + 1"), data).output(), (Shape{6, 5}));
        EXPECT_EQ(analyse(body("x[b] % 5 + 1", "q"), data).output(), (Shape{6, 5}));
        EXPECT_EQ(analyse(body("min(x[b], 4) * 2 - 1", "q"), data).output(), (Shape{6, 7}));
        EXPECT_EQ(analyse(body("max(min(x[b], 4), 0)", "q"), data).output(), (Shape{6, 4}));
        EXPECT_EQ(analyse(body("select(x[b] > 2, min(x[b], 3), 9)", "q"), data).output(),
                  (Shape{6, 9}));
        EXPECT_EQ(findings(body("max(x[b], 4)", "q"), data).substr(0, 5), "E0503");
        const auto placed = [](const std::string& index) {
            return over_x("for b in 0..n:\n  var v = i64(x[b])\n  for q in 0..3: out[b, " + index +
                          "] = i32(q)\n  out[b, 0] = 1");
        };
        EXPECT_EQ(analyse(placed("q + v % 7"), data).output(), (Shape{6, 9}));
        EXPECT_EQ(analyse(placed("(v % 7) * 2"), data).output(), (Shape{6, 13}));
        EXPECT_EQ(analyse(placed("max(min(v, 3), 0)"), data).output(), (Shape{6, 4}));
        EXPECT_EQ(findings(placed("v"), data).substr(0, 5), "E0503");
        EXPECT_EQ(analyse(body("x[b]", "q % 7"), data).output(), (Shape{6, 7}));
    }
}

}  // namespace
}  // namespace quern::semantics
