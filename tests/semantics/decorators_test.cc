#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

Given with(std::vector<Operand> operands, Arguments arguments = {}) {
    return {std::move(operands), std::move(arguments), false, {}, {}};
}

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
    EXPECT_TRUE(contains(small.words("E0312"), "1 bytes"));
    EXPECT_TRUE(contains(small.words("E0312"), "12288"));
    EXPECT_EQ(findings(text("12288"), with({{{4}}})), "");
    EXPECT_EQ(findings(text("3072 * 4 + 4"), with({{{4}}})), "W0706 3:9 `3072 * 4 + 4`");
    EXPECT_EQ(findings(text("4 * m"), with({{{4}}}, {{"m", std::int64_t(3072)}})), "");
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
