#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

TEST(Check29, AWorkGroupAboveTheLimitNamesBothNumbers) {
    const std::string text =
        "compute(x) {\n@kernel custom\n@workgroup(64, 64)\nfor i in 0..n: out[i] = x[i]\n}";
    const Analysed a = analyse(text, with({{{4}}}));
    EXPECT_EQ(a.findings(), "E0605 3:1 `@workgroup(64, 64)`");
    EXPECT_TRUE(contains(a.words("E0605"), "1024"));
    EXPECT_TRUE(contains(a.words("E0605"), "4096"));
    EXPECT_EQ(
        findings(
            "compute(x) {\n@kernel custom\n@workgroup(32, 32)\nfor i in 0..n: out[i] = x[i]\n}",
            with({{{4}}})),
        "");
    // A product that leaves int64 is no small one.
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\n@workgroup(4294967296, 4294967296)\nfor i in "
                       "0..n: out[i] = x[i]\n}",
                       with({{{4}}}))
                  .substr(0, 5),
              "E0605");
}

TEST(Check30, AnUnknownReductionOperatorIsRefused) {
    EXPECT_EQ(findings("compute(x) {\n@kernel reduce(mean)\nfor i in 0..len: yield x[i]\n}",
                       with({{{4}}}))
                  .substr(0, 5),
              "E0310");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nout = reduce(mean, x)\n}", with({{{4}}}))
                  .substr(0, 5),
              "E0310");
}

TEST(Check31, StepsAreThoseOfTile) {
    const Given given = with({{{1, 1, 8, 4}}, {{1, 1, 8, 4}}, {{1, 1, 8, 4}}});
    std::string text = example_text("14");
    text.replace(text.find("block_q=64"), 10, "block_q=32");
    const Analysed a = analyse(text, given);
    EXPECT_EQ(a.findings(), "E0311 8:40 `64`");
    EXPECT_TRUE(contains(a.words("E0311"), "expected step 32, as @tile says of 'block_q', got 64"));
    EXPECT_EQ(findings(example_text("14"), given), "");
}

TEST(Check31, NamesOfTileWithoutALoopAreRefused) {
    const auto text = [](const std::string& tile, const std::string& body) {
        return "compute(x) {\n@kernel custom\n@tile(" + tile + ")\n" + body + "\n}";
    };
    const Given given = with({{{64}}});
    const std::string one = "for b in 0..len step 32: out[b:b+32] = x[b:b+32]";
    EXPECT_EQ(findings(text("p=32", one), given), "");
    const Analysed two = analyse(text("p=32, q=16", one), given);
    EXPECT_EQ(two.findings(), "E0311 3:13 `q=16`");
    EXPECT_TRUE(contains(two.words("E0311"), "@tile states 2 steps, the body has 1 loop with"));
    EXPECT_EQ(findings(text("p=32", "for i in 0..n: out[i] = x[i]"), given), "E0311 3:7 `p=32`");
    // A name that the body uses is a number with a name.
    EXPECT_EQ(findings(text("p=32, q=16",
                            "for b in 0..len step p: out[b:b+p] = x[b:b+p] * reduce(+, x[0:q])"),
                       given),
              "");
}

TEST(Check32, EveryBroadcastIsCheckedAndItsOperandUsed) {
    const auto text = [](const std::string& value) {
        return "compute(m, v, w) {\n@kernel elementwise\n@broadcast(v, axis=1)\n@broadcast(w, "
               "axis=0)\nfor i in 0..rows, j in 0..cols: out[i, j] = " +
               value + "\n}";
    };
    const Given given = with({{{3, 4}}, {{4}}, {{3}}});
    EXPECT_EQ(findings(text("m[i, j] * v[j] * w[i]"), given), "");
    EXPECT_EQ(findings(text("m[i, j] * v[i] * w[i]"), given).substr(0, 5), "E0505");
    const Analysed unused = analyse(text("m[i, j] * w[i]"), given);
    EXPECT_EQ(unused.findings(), "E0505 3:12 `v`");
    EXPECT_TRUE(contains(unused.words("E0505"), "the body does not use it"));
    EXPECT_EQ(findings(text("m[i, j] * v[j]"), given), "E0505 4:12 `w`");
    // Without loops it is used as a whole.
    EXPECT_EQ(findings("compute(m, v) {\n@kernel fused\n@broadcast(v, axis=1)\nout = m * v\n}",
                       with({{{3, 4}}, {{4}}})),
              "");
}

TEST(Check32, BroadcastDescribesTheBody) {
    const auto text = [](const std::string& decorator, const std::string& index) {
        return "compute(m, v) {\n@kernel elementwise\n@broadcast(" + decorator +
               ")\nfor i in 0..rows, j in 0..cols: out[i, j] = m[i, j] * v[" + index + "]\n}";
    };
    const Given given = with({{{3, 4}}, {{4}}});
    EXPECT_EQ(findings(text("v, axis=1", "j"), given), "");
    EXPECT_EQ(findings(text("v, axis=-1", "j"), given), "");
    EXPECT_EQ(findings(text("v, axis=5", "j"), given), "E0505 3:20 `5`");
    EXPECT_EQ(findings(text("v, axis=0", "j"), given), "E0505 4:55 `v[j]`");
    EXPECT_EQ(findings(text("v, axis=1", "0, j"), with({{{3, 4}}, {{1, 4}}})), "E0505 3:12 `v`");
    EXPECT_EQ(findings(text("z, axis=1", "j"), given).substr(0, 5), "E0411");
}

TEST(Check33, ASharedHintIsComparedWithTheSharedVariables) {
    const auto text = [](const std::string& bytes) {
        return "compute(x) {\n@kernel fused\n@shared(" + bytes +
               ")\nfor b in 0..n:\n  shared var s[3072]\n  for i in 0..3072: s[i] = x[b]\n  "
               "barrier()\n  out[b] = s[0]\n}";
    };
    const Analysed small = analyse(text("1"), with({{{4}}}));
    EXPECT_EQ(small.findings(), "E0312 3:9 `1`");
    EXPECT_TRUE(contains(small.words("E0312"), "1 byte,"));
    EXPECT_TRUE(contains(small.words("E0312"), "12288"));
    EXPECT_EQ(findings(text("12288"), with({{{4}}})), "");
    EXPECT_EQ(findings(text("3072 * 4 + 4"), with({{{4}}})), "W0706 3:9 `3072 * 4 + 4`");
    EXPECT_EQ(findings(text("4 * m"), with({{{4}}}, {{"m", std::int64_t(3072)}})), "");
}

TEST(Check38, AConvolutionIsRefusedOrExplainedAtItsKind) {
    const Given given = with({{{1, 1, 5, 5}}, {{1, 1, 3, 3}}, {{1}}});
    const std::string text = example_text("11");
    EXPECT_EQ(analyse(text, given).findings(true), "N0803 3:13 `conv2d`");
    std::string zero = text;
    zero.replace(zero.find("@kernel conv2d"), 14, "@kernel conv2d(stride=0)");
    EXPECT_EQ(analyse(zero, given).findings(), "E0309 3:27 `0`");
    Given host = given;
    host.arguments = {{"stride", std::int64_t(-1)}, {"padding", std::int64_t(0)}};
    EXPECT_EQ(analyse(text, host).findings(), "E0309 3:13 `conv2d`");
    for (const Number& number : {Number(true), Number(2.0)}) {
        host.arguments = {{"stride", number}};
        EXPECT_EQ(analyse(text, host).findings().substr(0, 19), "E0309 3:13 `conv2d`");
    }
}

TEST(Check38, AConvolutionsOwnNumbersAreNotTheCallers) {
    std::string text = example_text("11");
    text.replace(text.find("@kernel conv2d"), 14, "@kernel conv2d(stride=1)");
    Given given = with({{{1, 1, 5, 5}}, {{1, 1, 3, 3}}, {{1}}});
    EXPECT_EQ(analyse(text, given).output(), (Shape{1, 1, 3, 3}));
    given.arguments = {{"stride", std::int64_t(2)}};
    EXPECT_EQ(analyse(text, given).output(), (Shape{1, 1, 3, 3}));
    std::string twice = text;
    twice.replace(twice.find("(stride=1)"), 10, "(stride=1, stride=2)");
    EXPECT_EQ(findings(twice, given), "E0313 3:30 `stride=2`");
    text.replace(text.find("(stride=1)"), 10, "(stride=0)");
    EXPECT_EQ(analyse(text, given).findings(), "E0309 3:27 `0`");
}

TEST(Check31, ATileHasOneSize) {
    const std::string text =
        "compute(x) {\n@kernel custom\n@tile(block=4, block=8)\nfor i in 0..n step block: "
        "out[i:i+block] = x[i:i+block]\n}";
    EXPECT_EQ(findings(text, with({{{8}}})), "E0313 3:16 `block=8`");
}

TEST(Check38, AKindsNumbersHaveNames) {
    std::string text = example_text("11");
    text.replace(text.find("@kernel conv2d"), 14, "@kernel conv2d(2, 1)");
    EXPECT_EQ(findings(text, with({{{1, 1, 5, 5}}, {{1, 1, 3, 3}}, {{1}}})),
              "E0313 3:20 `2`; E0313 3:23 `1`");
    EXPECT_EQ(findings("compute(x) {\n@kernel elementwise(3)\nfor i in 0..len: out[i] = x[i]\n}",
                       with({{{4}}})),
              "E0313 2:21 `3`");
    EXPECT_EQ(findings("compute(x) {\n@kernel reduce(+, max)\nfor i in 0..len: yield x[i]\n}",
                       with({{{4}}}))
                  .substr(0, 5),
              "E0313");
}

TEST(Check49, YieldsFitTheirOperator) {
    const Given v = with({{{4}}}), m = with({{{2, 3}}});
    const auto one = [&](const std::string& kind, const std::string& body) {
        return findings("compute(x) {\n@kernel " + kind + "\nfor i in 0..len:\n  " + body + "\n}",
                        v);
    };
    EXPECT_TRUE(contains(one("elementwise", "yield x[i]"), "E0430 4:3"));
    EXPECT_TRUE(contains(one("reduce(+)", "yield (x[i], i)"), "E0431 4:"));
    EXPECT_TRUE(contains(one("reduce(argmax)", "yield x[i]"), "E0431 4:"));
    EXPECT_TRUE(contains(one("reduce(+)", "let a = x[i]"), "E0433"));
    const auto axis = [&](const std::string& k) {
        return findings("compute(x) {\n@kernel reduce(+, axis=" + k +
                            ")\nfor i in 0..r, j in 0..c: yield x[i, j]\n}",
                        m);
    };
    EXPECT_EQ(axis("2").substr(0, 5), "E0432");
    EXPECT_EQ(axis("-3").substr(0, 5), "E0432");
    EXPECT_EQ(axis("-2"), "");
    // What is no number is not out of range, too.
    EXPECT_EQ(axis("r"), "E0313 2:24 `r`");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nout = reduce(+, x, axis=2)\n}", m),
              "E0432 3:25 `2`");
}

TEST(Check49, ALoopThatIsKeptDoesNotDependOnOneThatIsReduced) {
    const auto found = [](const std::string& axis, const std::string& loops) {
        return analyse("compute(x: [n, n]) {\n@kernel reduce(+, axis=" + axis + ")\nfor " + loops +
                           ": yield x[i, j]\n}",
                       with({{{6, 6}}}));
    };
    EXPECT_EQ(found("0", "i in 0..n, j in 0..i").findings(), "E0432 3:24 `i`");
    EXPECT_EQ(found("0", "i in 0..n, j in n - i..n").findings(), "E0432 3:25 `i`");
    EXPECT_EQ(found("0", "i in 0..n, j in 0..n step i").findings(), "E0432 3:31 `i`");
    EXPECT_EQ(found("-1", "i in 0..n, j in 0..i").output(), Shape{6});
    EXPECT_EQ(found("1", "j in 0..n, i in 0..j").output(), Shape{6});
    // Before the loop the name is a dimension.
    EXPECT_EQ(found("1", "j in 0..i, i in 0..n").findings(), "");
    const Analysed three = analyse(
        "compute(x: [n, n]) {\n@kernel reduce(+, axis=2)\n"
        "for i in 0..n, j in 0..i, k in 0..n: yield x[i, j] * k\n}",
        with({{{6, 6}}}));
    EXPECT_EQ(three.output(), (Shape{6, 5}));
    // What no yield reaches would be 0.
    EXPECT_EQ(findings("compute(x: [n, n]) {\n@kernel reduce(*, axis=2)\n"
                       "for i in 0..n, j in i..n, k in 0..2: yield x[i, j]\n}",
                       with({{{6, 6}}})),
              "E0432 3:21 `i`");
}

TEST(Check49, AReduceKernelStoresOnlyWhatItYields) {
    const Given given = with({{{2, 3}}});
    const auto text = [](const std::string& kind) {
        return "compute(x) {\n@kernel " + kind +
               "\nfor i in 0..r, j in 0..c:\n  yield x[i, j]\n  out[i] = x[i, j]\n}";
    };
    for (const std::string kind : {"reduce(+)", "reduce(+, axis=1)"}) {
        const Analysed a = analyse(text(kind), given);
        EXPECT_EQ(a.findings(), "E0502 5:3 `out[i]`") << kind;
        EXPECT_TRUE(contains(a.words("E0502"), "'out' of a reduce kernel is what it yields"));
    }
}

TEST(Check82, AWorkGroupChangesNothingButTheHint) {
    const std::string plain = analyse(example_text("10"), with({{{1, 2, 2}}, {{1, 2, 2}}})).cir();
    for (const std::string hint : {"1", "32", "256", "16, 16", "7, 3"}) {
        std::string text = example_text("10");
        text.replace(text.find("16, 16, 1"), 9, hint);
        std::string cir = analyse(text, with({{{1, 2, 2}}, {{1, 2, 2}}})).cir();
        const auto at = cir.find("workgroup(");
        ASSERT_NE(at, std::string::npos);
        EXPECT_EQ(cir.substr(cir.find('{')), plain.substr(plain.find('{'))) << hint;
    }
}

}  // namespace
}  // namespace quern::semantics
