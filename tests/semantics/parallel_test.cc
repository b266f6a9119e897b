// Acceptance checks E: races, barriers, work-groups.
#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

TEST(Check80, PointsThatWriteOneElementAreARace) {
    const Analysed a =
        analyse("compute(A) {\n@kernel custom\nfor i in 0..n, j in 0..m: out[i] = A[i, j]\n}",
                with({{{2, 3}}}));
    EXPECT_EQ(a.findings(), "E0510 3:27 `out[i]`");
    EXPECT_TRUE(contains(a.words("E0510"), "'j'"));
    EXPECT_TRUE(contains(a.words("E0510"), "reduce over j"));
    // A loop that is not of the outermost nest is in order.
    EXPECT_EQ(findings("compute(A) {\n@kernel custom\nfor i in 0..n:\n  var s = 0.0\n  for j in "
                       "0..m:\n    s = A[i, j]\n    out[i] = s\n}",
                       with({{{2, 3}}})),
              "");
    EXPECT_EQ(
        findings("compute(A) {\n@kernel custom\nfor i in 0..n, j in 0..1: out[i] = A[i, j]\n}",
                 with({{{2, 1}}})),
        "");
}

TEST(Check81, StridedPairsAreNoRaceAndNeighboursAre) {
    const auto stores = [](const std::string& body) {
        return findings("compute(x) {\n@kernel custom\nfor d in 0..n:\n" + body + "\n}",
                        with({{{4}}}));
    };
    EXPECT_EQ(stores("  out[2*d] = x[d]\n  out[2*d + 1] = x[d]"), "");
    EXPECT_EQ(stores("  out[d] = x[d]\n  out[d + 1] = x[d]"), "E0510 5:3 `out[d + 1]`");
    EXPECT_EQ(stores("  out[2*d] = x[d]\n  out[2*d + 2] = x[d]"), "E0510 5:3 `out[2*d + 2]`");
    EXPECT_EQ(stores("  out[2*d] = x[d]\n  out[2*d + 3] = x[d]"), "");
    EXPECT_EQ(stores("  out[d, 0] = x[d]\n  out[d, 1] = x[d]"), "");
    EXPECT_EQ(stores("  out[d] = x[d]\n  out[d] = 2.0 * x[d]"), "");
}

TEST(Check81, BlocksOfRowsOfAPointAreApart) {
    const auto stores = [](const std::string& outer, const std::string& inner,
                           const std::string& body) {
        return findings("compute(x) {\n@kernel custom\nfor i in 0.." + outer + ":\n  for j in " +
                            inner + ":\n    " + body + "\n}",
                        with({{{30}}}, {{"n", std::int64_t(30)}, {"m", std::int64_t(8)}}));
    };
    EXPECT_EQ(stores("n step 4", "i..min(i + 4, n)", "out[j] = x[j]"), "");
    EXPECT_EQ(stores("n step 4", "i..min(i + 3, n)", "out[j] = x[j]"), "");
    EXPECT_EQ(stores("m", "4*i..min(4*i + 4, n)", "out[j] = x[j]"), "");
    EXPECT_EQ(stores("m", "4*i + 1..4*i + 4", "out[j + 1] = 1.0 + x[0]"), "");
    const std::string races[][3] = {
        {"n step 4", "i..min(i + 5, n)", "out[j] = x[j]"},
        {"n step 4", "i..n", "out[j] = x[j]"},
        {"n step 4", "i..min(i + 4, n)", "out[j:j+2] = x[j:j+2]"},
        {"n step 4", "i..i + m", "out[j] = x[0]"},
        {"n step 4", "i - 1..i + 4", "out[j + 1] = x[0]"},
    };
    // Rows that begin in a block and pass its end, where the point's own loop runs through it.
    const auto of_point = [](const std::string& body) {
        return findings(
            "compute(x) {\n@kernel custom\nfor i in 0..n:\n  let h = x[i]\n  for k in "
            "4*i..4*i + 4: " +
                body + "\n}",
            with({{{8}}}));
    };
    EXPECT_EQ(of_point("out[k] = h"), "");
    EXPECT_EQ(of_point("out[k:k+2] = x[0:2]").substr(0, 5), "E0510");
    for (const auto& [outer, inner, body] : races)
        EXPECT_EQ(stores(outer, inner, body).substr(0, 5), "E0510") << inner << ": " << body;
}

TEST(Check81, RowMajorStoresByNamedDimensionsAreApart) {
    const auto store = [](const std::string& loops, const std::string& index) {
        return findings(
                   "compute(x) {\n@kernel custom\n" + loops + " out[" + index +
                       "] = 1.0 + x[0, 0, 0]\n}",
                   with({{{3, 4, 5}}},
                        {{"a", std::int64_t(3)}, {"b", std::int64_t(4)}, {"c", std::int64_t(5)}}))
            .substr(0, 5);
    };
    const std::string parallel = "for i in 0..a, j in 0..b, k in 0..c:";
    EXPECT_EQ(store(parallel, "(i * b + j) * c + k"), "");
    EXPECT_EQ(store(parallel, "i * b * c + j * c + k"), "");
    EXPECT_EQ(store(parallel, "(k * a + i) * b + j"), "");
    EXPECT_EQ(store("for i in 0..a, j in 0..b step 2:", "i * b + j"), "");
    EXPECT_EQ(store(parallel, "(i * c + j) * c + k"), "E0510");
    EXPECT_EQ(store(parallel, "i * b + j * c + k"), "E0510");
    EXPECT_EQ(store(parallel, "(i * b + j) * c + k + i"), "");
    // The last loops are those of a point.
    const std::string of_point =
        "for i in 0..a:\n  let first = x[0, 0, 0]\n  for j in 0..b, k in 0..c:";
    EXPECT_EQ(store(of_point, "(i * b + j) * c + k"), "");
    EXPECT_EQ(store(of_point, "(i * c + j) * c + k"), "E0510");
    EXPECT_EQ(store("for i in 0..a, k in 0..c:\n  let first = x[0, 0, 0]\n  for j in 0..b:",
                    "i * b + j, k"),
              "");
}

TEST(Check81, AnIndexThatMixesTwoParallelLoopsMustTellThemApart) {
    const auto store = [](const std::string& index) {
        return findings("compute(x) {\n@kernel custom\nfor i in 0..3, j in 0..4: out[" + index +
                            "] = x[i, j]\n}",
                        with({{{3, 4}}}));
    };
    EXPECT_EQ(store("4*i + j"), "");
    EXPECT_EQ(store("i + 3*j"), "");
    EXPECT_EQ(store("i + j"), "E0510 3:27 `out[i + j]`");
    EXPECT_EQ(store("3*i + j"), "E0510 3:27 `out[3*i + j]`");
    EXPECT_EQ(store("i / 2, j"), "E0510 3:27 `out[i / 2, j]`");
    EXPECT_EQ(store("i / 2, i % 2, j"), "");
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor i in 0..8 step 2: out[i / 2] = x[i]\n}",
                       with({{{8}}})),
              "");
    EXPECT_EQ(store("j, i"), "");
    EXPECT_EQ(store("i + j, j"), "");
}

TEST(Check81, SlicesThatOverlapTheNextPointsAreARace) {
    const auto slice = [](const std::string& index, const std::string& value) {
        return findings("compute(x) {\n@kernel custom\nfor k in 0..8 step 2: out[" + index +
                            "] = " + value + "\n}",
                        with({{{8}}}));
    };
    EXPECT_EQ(slice("k:k+2", "x[0:2]"), "");
    EXPECT_EQ(slice("k:k+3", "x[0:3]"), "E0510 3:23 `out[k:k+3]`");
    EXPECT_EQ(slice("2*k:2*k+4", "x[0:4]"), "");
    EXPECT_EQ(slice("0:2", "x[0:2]"), "E0510 3:23 `out[0:2]`");
}

TEST(Check83, ABarrierThatSomeLanesMayMissIsRefused) {
    const auto with_condition = [](const std::string& condition) {
        return findings(
            "compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  for i in 0..4: s[i] "
            "= x[b, i]\n  if " +
                condition + ":\n    barrier()\n  out[b] = 1.0\n}",
            with({{{2, 4}}}));
    };
    EXPECT_EQ(with_condition("x[b, 0] > 0.0"), "E0512 7:5 `barrier()`");
    EXPECT_EQ(with_condition("b > 0"), "");
    EXPECT_EQ(with_condition("n > 3"), "");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  let v = "
                       "x[b, 0]\n  if v > 0.0:\n    barrier()\n  s[0] = v\n  out[b] = v\n}",
                       with({{{2, 4}}})),
              "E0512 7:5 `barrier()`");
    // How often a loop runs may differ between lanes too.
    EXPECT_EQ(
        findings(
            "compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  var k = 0\n  if "
            "x[b, 0] > 0.0: k = 3\n  for i in 0..k: barrier()\n  s[0] = 1.0\n  out[b] = 1.0\n}",
            with({{{2, 4}}}))
            .substr(0, 5),
        "E0512");
}

/// K19's feed-forward kernel with `before` and `after` in place of its barrier.
std::string feed_forward(const std::string& between) {
    return R"(compute(x, w) {
@kernel fused
for b in 0..batch:
    shared var up[width]
    for f in 0..width:
        var sum = 0.0
        for h in 0..hidden: sum += x[b, h] * w[h, f]
        up[f] = sum
)" + between +
           R"(    for h in 0..hidden:
        var sum = 0.0
        for f in 0..width: sum += up[f] * w[h, f]
        out[b, h] = sum
})";
}

TEST(Check84, ASharedVarIsReadAfterABarrier) {
    const Given given = with({{{2, 3}}, {{3, 5}}});
    EXPECT_EQ(findings(feed_forward("    barrier()\n"), given), "");
    const Analysed a = analyse(feed_forward(""), given);
    EXPECT_EQ(a.findings(), "E0513 11:35 `up`");
    EXPECT_TRUE(contains(a.words("E0513"), "shared 'up' is read before a barrier"));
}

/// Each condition would double what was used since the last barrier: this one would not end.
TEST(Check84, UsesUnderManyConditionsAreFewUses) {
    std::string text =
        "compute(x: [n]) {\n@kernel custom\nfor i in 0..n:\n  shared var t[n]: f32\n"
        "  for u in 0..n: t[u] = x[u]\n  barrier()\n  var s = t[0]\n"
        "  for a in 0..n, b in 0..n:\n";
    for (int k = 0; k < 60; ++k) text += "    if x[a] > 0.0: s += t[a] + t[b]\n";
    EXPECT_EQ(findings(text + "  out[i] = s\n}", with({{{4}}})), "");
}

TEST(E0513, AWriteAfterAReadNeedsABarrierToo) {
    const auto body = [](const std::string& between) {
        return "compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  var total = "
               "0.0\n  for t in 0..3:\n"
               "    for i in 0..4: s[i] = x[b, i]\n    barrier()\n    for i in 0..4: total += s[3 "
               "- i]\n" +
               between + "  out[b] = total\n}";
    };
    const Given given = with({{{2, 4}}});
    EXPECT_EQ(findings(body("    barrier()\n"), given), "");
    const Analysed a = analyse(body(""), given);
    EXPECT_EQ(a.findings(), "E0513 7:20 `s[i] = x[b, i]`");
    EXPECT_TRUE(contains(a.words("E0513"), "shared 's' is written before a barrier"));
    EXPECT_TRUE(contains(a.words("E0513"), "it is read here (line 9"));
    // In place: each lane reads and writes its own element.
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  for i in "
                       "0..4: s[i] = x[b, i]\n  barrier()\n"
                       "  for i in 0..4: s[i] = s[i] + 1.0\n  barrier()\n  for i in 0..4: out[b, "
                       "i] = s[3 - i]\n}",
                       given),
              "");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  for i in "
                       "0..4: s[i] = x[b, i]\n  barrier()\n"
                       "  for i in 0..4: s[i] = s[3 - i] + 1.0\n  barrier()\n  for i in 0..4: "
                       "out[b, i] = s[3 - i]\n}",
                       given)
                  .substr(0, 5),
              "E0513");
}

TEST(E0513, TwoWritesOfDifferentLoopsNeedABarrier) {
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[4]\n  for i in "
                       "0..4: s[i] = x[b, i]\n  for i in 0..4: s[3 - i] = 1.0\n"
                       "  barrier()\n  for i in 0..4: out[b, i] = s[i]\n}",
                       with({{{2, 4}}}))
                  .substr(0, 9),
              "E0513 6:1");
}

/// One shared array written by two nested loops, without a barrier between iterations.
std::string staged(const std::string& shape, const std::string& outer, const std::string& lanes,
                   const std::string& index) {
    return "compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[" + shape +
           "]\n  for t in 0.." + outer + ":\n    for i in 0.." + lanes + ": s[" + index +
           "] = x[b, i]\n  barrier()\n  out[b] = s[0]\n}";
}

TEST(E0513, AnotherIterationOfAnOuterLoopMayWriteTheSameElement) {
    const Given given = with({{{2, 16}}});
    EXPECT_EQ(findings(staged("4", "3", "4", "(i + t) % 4"), given).substr(0, 22),
              "E0513 6:20 `s[(i + t) ");
    EXPECT_EQ(findings(staged("64", "4", "16", "i + t"), given).substr(0, 5), "E0513");
    EXPECT_EQ(findings(staged("64", "4", "16", "15*t + i"), given).substr(0, 5), "E0513");
    EXPECT_EQ(findings(staged("64", "4", "m", "3*i + t"), given).substr(0, 5), "E0513");
    // The same lane each time, or another part of the array.
    EXPECT_EQ(findings(staged("16", "3", "16", "i"), given), "");
    EXPECT_EQ(findings(staged("64", "4", "16", "16*t + i"), given), "");
    EXPECT_EQ(findings(staged("64", "4", "10", "16*t + i"), with({{{2, 10}}})), "");
    EXPECT_EQ(findings(staged("4*m", "4", "m", "t*m + i"), given), "");
    EXPECT_EQ(findings(staged("4*m", "4", "m", "4*i + t"), given), "");
    EXPECT_EQ(
        findings(staged("k*m", "k", "m", "i*k + t"), with({{{2, 16}}}, {{"k", std::int64_t(4)}})),
        "");
}

/// What is said of a point's statements, with x[rows, 64] and s given.
std::string of_point(const std::string& statements) {
    std::string text = "compute(x: [rows, 64]) {\n@kernel fused\nfor b in 0..rows:\n";
    for (std::size_t at = 0; at < statements.size();) {
        const std::size_t end = statements.find('\n', at);
        text += "  " + statements.substr(at, end - at) + '\n';
        at = end == std::string::npos ? statements.size() : end + 1;
    }
    return findings(text + "}", with({{{4, 64}}}, {{"s", std::int64_t(3)}})).substr(0, 5);
}

const std::string kFilled =
    "shared var t[64]: float32\nfor i in 0..64: t[i] = x[b, i]\nbarrier()\n";
const std::string kReversed = "barrier()\nfor i in 0..64: out[b, i] = t[63 - i]\n";

/// What is said of statements between those two.
std::string said(const std::string& between) { return of_point(kFilled + between + kReversed); }

TEST(E0513, ElementsOfOtherIterationsAreApart) {
    // Every lane's own, in iterations around the lanes.
    EXPECT_EQ(of_point("shared var t[8]: float32\nfor i in 0..8: t[i] = 0.0\nbarrier()\n"
                       "for i in 0..8:\n  for k in 0..8: t[i] += x[b, i * 8 + k]\nbarrier()\n"
                       "for i in 0..8: out[b, i] = t[7 - i]\n"),
              "");
    EXPECT_EQ(of_point("shared var u[4, 8]: float32\nshared var v[8, 4]: float32\n"
                       "shared var a[4, 4]: float32\nfor i in 0..4, k in 0..8: u[i, k] = x[b, i * "
                       "8 + k]\nfor k in 0..8, j in 0..4: v[k, j] = x[b, k * 4 + j]\n"
                       "for i in 0..4, j in 0..4: a[i, j] = 0.0\nbarrier()\n"
                       "for j in 0..4, i in 0..4:\n  for k in 0..8: a[i, j] += u[i, k] * v[k, j]\n"
                       "barrier()\nfor i in 0..4, j in 0..4: out[b, i, j] = a[j, i]\n"),
              "");
    // In steps of other lanes.
    EXPECT_EQ(of_point(kFilled + "for i in 0..8:\n  for k in 0..8: t[i + k] += x[b, k % 64]\n" +
                       kReversed),
              "E0513");
    // One element of all lanes.
    EXPECT_EQ(
        of_point(kFilled + "for j in 0..3:\n  for i in 0..8:\n    for k in 0..8: t[i + j] = 1.0\n" +
                 kReversed),
        "");
}

TEST(E0513, RangesOfLanesThatDoNotOverlapAreApart) {
    EXPECT_EQ(said("for i in 0..32: t[i] = t[i] + t[i + 32]\n"), "");
    EXPECT_EQ(said("for i in 0..33: t[i] = t[i] + t[i + 32]\n"), "E0513");
    EXPECT_EQ(said("for i in 0..32: t[i + 32] = t[i] + t[i + 32]\n"), "");
    EXPECT_EQ(said("for i in 0..rows: t[i] = t[i] + t[i + rows]\n"), "");
    EXPECT_EQ(said("for i in 0..rows: t[2 * i] = t[i] + t[i + rows]\n"), "E0513");
    EXPECT_EQ(said("for i in 0..rows + 1: t[i] = t[i] + t[i + rows]\n"), "E0513");
    // Every second.
    EXPECT_EQ(said("for i in 0..60 step 2: t[i] = t[i + 1]\n"), "");
    EXPECT_EQ(said("for i in 0..60 step 2: t[i] = t[i + 2]\n"), "E0513");
    EXPECT_EQ(said("for i in 0..30 step 3: t[2 * i] = t[2 * i + 2]\n"), "");
    // Of two loops, and of one beside none.
    EXPECT_EQ(said("for i in 0..60: t[i] = 1.0\nfor i in 60..64: t[i] = 0.0\n"), "");
    EXPECT_EQ(said("for i in 0..61: t[i] = 1.0\nfor i in 60..64: t[i] = 0.0\n"), "E0513");
    EXPECT_EQ(said("for i in 0..62: t[i + 1] = x[b, i % 64]\nt[0] = 0.0\nt[63] = 1.0\n"), "");
    EXPECT_EQ(said("for i in 0..63: t[i + 1] = x[b, i % 64]\nt[0] = 0.0\nt[63] = 1.0\n"), "E0513");
    EXPECT_EQ(
        said("for i in 0..4: t[3 - i] = x[b, i % 64]\nfor i in 0..4: t[i + 4] = x[b, i % 64]\n"),
        "");
    EXPECT_EQ(said("for i in 0..rows: t[i] = 1.0\nfor i in 0..rows: t[rows + i] = 1.0\n"), "");
    EXPECT_EQ(
        said("for i in 0..4: t[4 - i] = x[b, i % 64]\nfor i in 0..4: t[i + 4] = x[b, i % 64]\n"),
        "E0513");
    // One loop in the other: an element of a lane and one of all lanes.
    EXPECT_EQ(said("for i in 0..8:\n  t[i] = 0.0\n  for k in 0..8: t[i] += x[b, k % 64]\n"),
              "E0513");
    // What lanes do not make of their number by multiples is anywhere.
    EXPECT_EQ(said("for i in 0..8: t[i % 4] = t[i % 4 + 1]\n"), "E0513");
    EXPECT_EQ(said("for i in 0..8:\n  let f = x[b, i % 64]\n  t[i64(f)] = t[i64(f) + 1]\n"),
              "E0513");
}

TEST(E0513, RowsOfConstantsAreApart) {
    const std::string begin =
        "shared var t[2, 32]: float32\nfor i in 0..32: t[0, i] = x[b, i % 64]\n";
    const std::string end = "barrier()\nfor i in 0..32: out[b, i] = t[1, 31 - i] + t[0, i]\n";
    EXPECT_EQ(of_point(begin + "for i in 0..32: t[1, i] = x[b, (i + 32) % 64]\n" + end), "");
    EXPECT_EQ(of_point(begin + "for i in 0..32: t[0, 31 - i] = x[b, i % 64]\n" + end), "E0513");
}

TEST(E0513, VarsAndLetsAreTheirPresentValues) {
    EXPECT_EQ(said("var d = 1\nfor i in 0..8: t[i + d] = t[i + d] * 0.5\n"), "");
    EXPECT_EQ(said("let d = 1\nfor i in 0..8: t[i + d] = t[i + d] * 0.5\n"), "");
    EXPECT_EQ(said("for i in 0..8: t[i + i64(x[b, s])] = t[i + i64(x[b, s])] + 1.0\n"), "");
    EXPECT_EQ(said("for i in 0..8: t[i + i64(x[b, s])] = t[i + i64(x[b, 0])] + 1.0\n"), "E0513");
    EXPECT_EQ(said("var d = 1\nfor i in 0..8: t[i + d] = 1.0\nd = d + 1\n"
                   "for i in 0..8: t[i + d] = 2.0\n"),
              "E0513");
    // Each iteration has another.
    EXPECT_EQ(said("var d = 0\nfor a in 0..3:\n  for i in 0..40: t[i + d] = x[b, i % 64] + a\n"
                   "  d = d + 1\n"),
              "E0513");
    EXPECT_EQ(
        said("var d = 0\nfor a in 0..3:\n  let e = d\n  for i in 0..40: t[i + e] = x[b, i % 64]\n"
             "  d = d + 1\n"),
        "E0513");
    EXPECT_EQ(said("for a in 0..3:\n  let e = i64(x[b, a % 64])\n  for i in 0..40: t[i + e] = x[b, "
                   "i % 64]\n"),
              "E0513");
    EXPECT_EQ(said("for a in 0..3:\n  let e = a * 16\n  for i in 0..16: t[i + e] = x[b, i % 64]\n"),
              "");
    EXPECT_EQ(said("for a in 0..3:\n  let e = 4\n  for i in 0..16: t[i + e] = x[b, i % 64]\n"), "");
    EXPECT_EQ(said("var d = 0\nif x[b, 0] > 0.0: d = 1\nfor i in 0..40: t[i + d] = x[b, i % 64]\n"),
              "");
    // An element of another array says where, in each iteration the same.
    EXPECT_EQ(said("shared var u[64]: int64\nfor i in 0..64: u[i] = i64(x[b, i])\nbarrier()\n"
                   "var d = 0\nfor i in 0..8: t[u[i + d]] += 1.0\n"),
              "");
    // A branch sees what there was before the other.
    EXPECT_EQ(
        said("var d = 0\nfor i in 0..8:\n  t[i + d] = 1.0\n  if x[b, i % 64] > 0.0:\n    d = 0\n"
             "  else:\n    t[i + d] = 2.0\n"),
        "");
    // In halves, by a var.
    EXPECT_EQ(said("var h = 32\nfor a in 0..6:\n  for i in 0..h: t[i] += t[i + h]\n  barrier()\n"
                   "  h = h / 2\n"),
              "");
    // One element of all lanes.
    EXPECT_EQ(
        said("var d = 0\nfor a in 0..3:\n  for i in 0..40: t[d] += x[b, i % 64]\n  d = 2 - d\n"),
        "");
    EXPECT_EQ(said("var d = 0\nfor i in 0..40: t[d] = x[b, i % 64]\nd = d + 1\nt[d] = 1.0\n"),
              "E0513");
    // A var of each lane.
    EXPECT_EQ(said("var d = 0\nfor a in 0..5:\n  t[d] = 1.0\n  d = d + 1\n"), "");
    EXPECT_EQ(said("for i in 0..8:\n  var d = i\n  if x[b, i] > 0.0: d = 7 - i\n"
                   "  t[d] = t[d + 1]\n"),
              "E0513");
}

TEST(E0513, ABarrierOfALoopThatMayNotRunIsNotPassed) {
    const auto behind = [](const std::string& loop) {
        return of_point("shared var t[64]: float32\nfor i in 0..64: t[i] = x[b, i]\n" + loop +
                        "for i in 0..64: out[b, i] = t[63 - i]\n");
    };
    EXPECT_EQ(behind("for a in 0..b: barrier()\n"), "E0513");
    EXPECT_EQ(behind("for a in 0..0: barrier()\n"), "E0513");
    EXPECT_EQ(behind("for a in 0..b + 1: barrier()\n"), "");
    EXPECT_EQ(behind("for a in 0..2: barrier()\n"), "");
    EXPECT_EQ(behind("for a in 0..rows: barrier()\n"), "");
}

/// Each is twice the one before: nothing walks what they stand for.
TEST(E0513, LetsOfLetsAreFew) {
    std::string text = kFilled + "let a0 = b + 1\n";
    for (int k = 0; k < 50; ++k) {
        text += "let a" + std::to_string(k + 1) + " = a" + std::to_string(k) + " + a" +
                std::to_string(k) + " % 7\n";
    }
    EXPECT_EQ(of_point(text + "for i in 0..8: t[(i + a50) % 8] = 1.0\n" + kReversed), "");
}

TEST(Check85, ABarrierWithoutACooperativeKernelWarns) {
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor i in 0..n:\n  let v = x[i]\n  "
                       "barrier()\n  out[i] = v\n}",
                       with({{{4}}})),
              "W0708 5:3 `barrier()`");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\n@workgroup(64)\nfor i in 0..n:\n  let v = "
                       "x[i]\n  barrier()\n  out[i] = v\n}",
                       with({{{4}}})),
              "");
}

TEST(Check86, SharedVariablesAboveTheLimitAreRefusedBeforeLaunch) {
    Given given = with({{{2, 3}}, {{3, 5000}}});
    given.limits.shared_bytes = 16384;
    const Analysed a = analyse(feed_forward("    barrier()\n"), given);
    EXPECT_EQ(a.findings(), "E0610 4:16 `up`");
    EXPECT_TRUE(contains(a.words("E0610"), "20000 bytes"));
    EXPECT_TRUE(contains(a.words("E0610"), "16384"));
    given.operands[1].shape = {3, 4096};
    EXPECT_EQ(findings(feed_forward("    barrier()\n"), given), "");
}

TEST(Parallel, TheOutermostPerfectNestIsParallel) {
    const auto loops = [](const std::string& number, std::vector<Operand> operands,
                          Arguments arguments = {}) {
        const std::string cir =
            analyse(example_text(number), with(std::move(operands), std::move(arguments))).cir();
        std::string names;
        for (auto at = cir.find("parallel for "); at != std::string::npos;
             at = cir.find("parallel for ", at + 1)) {
            names +=
                (names.empty() ? "" : " ") + cir.substr(at + 13, cir.find(' ', at + 13) - at - 13);
        }
        return names;
    };
    const Operand m{{2, 2}}, q{{1, 1, 2, 2}}, v{{2}};
    EXPECT_EQ(loops("01", {v}), "i");
    EXPECT_EQ(loops("03", {m, v}), "i j");
    EXPECT_EQ(loops("04", {v}), "");
    EXPECT_EQ(loops("07", {m}), "i");
    EXPECT_EQ(loops("08", {v}), "");
    EXPECT_EQ(loops("09", {m, m}), "i j");
    EXPECT_EQ(loops("10", {{{1, 2, 2}}, {{1, 2, 2}}}), "b i j");
    EXPECT_EQ(loops("11", {q, q, {{1}}}), "b oc oh ow");
    EXPECT_EQ(loops("12", {q, {{1, 2, 2}}}), "b c oh ow");
    EXPECT_EQ(loops("13", {q, q, q, {{2, 2}, DType::Bool}}), "b h i");
    EXPECT_EQ(loops("14", {q, q, q}), "b h q_block");
    EXPECT_EQ(loops("15", {v}), "");
    EXPECT_EQ(loops("16", {m, v, v}, {{"eps", 0.1}}), "b");
    EXPECT_EQ(loops("17", {v}), "i");
    EXPECT_EQ(loops("18", {q, {{2, 1}}, {{2, 1}}}), "b h s d");
}

TEST(Check80, DigitsOfPartsOfLoopsAreToldApart) {
    const auto found = [](const std::string& loops, const std::string& index) {
        return findings("compute(x: [n, m]) {\n@kernel custom\nfor " + loops + ": out[" + index +
                            "] = x[0, 0]\n}",
                        with({{{4, 3}}}))
            .substr(0, 5);
    };
    const std::string whole = "i in 0..n, j in 0..m";
    for (const char* index :
         {"i * m + j", "i * m + j + m", "(i + 1) * m + j", "i * m + (m - 1 - j)",
          "(n - 1 - i) * m + j", "j * n + i", "i * (m + 2) + j"}) {
        EXPECT_EQ(found(whole, index), "") << index;
    }
    for (const char* loops : {"i in 1..n, j in 0..m", "i in 0..n, j in 1..m",
                              "i in 0..n, j in 0..m - 1", "i in 2..n, j in 1..m - 1"}) {
        EXPECT_EQ(found(loops, "i * m + j"), "") << loops;
    }
    EXPECT_EQ(found("i in 0..n, j in 0..n * m", "i * n * m + j"), "");
    EXPECT_EQ(found("i in 0..n, j in 0..n * m", "i * (n * m) + j"), "");
    EXPECT_EQ(found("i in 0..n, j in 0..n + m", "i * (n + m) + j"), "");
    EXPECT_EQ(found("i in 0..n, j in 0..n + 1", "i * (n + 1) + j"), "");
    EXPECT_EQ(found("i in 1..n, j in 2..5", "i * 3 + j"), "");
    EXPECT_EQ(found(whole, "i * (2 * m + 2) + 2 * j"), "");
    // These do meet.
    EXPECT_EQ(found("i in 0..n, j in 4*i..4*i+3", "j - 4 * i"), "E0510");
    EXPECT_EQ(found("i in 0..2, j in i..n step 2", "j - i"), "E0510");
    EXPECT_EQ(found("i in 0..n, j in 0..m, k in i..i+3", "j * 3 + k, i + j"), "E0510");
    const auto inner = [](const std::string& body) {
        return findings("compute(x: [n, m]) {\n@kernel custom\nfor i in 0..n, j in 0..m:\n" + body +
                            "\n}",
                        with({{{4, 3}}}))
            .substr(0, 5);
    };
    EXPECT_EQ(inner("  let f = x[i, j]\n  for c in 0..3: out[i*m + j + c] = f"), "E0510");
    EXPECT_EQ(found(whole, "i * n + j"), "E0510");
    EXPECT_EQ(found("i in 0..n, j in 0..m + 1", "i * m + j"), "E0510");
    EXPECT_EQ(found("i in 0..5, j in 0..3", "i * m + i + 3 * j"), "E0510");
    EXPECT_EQ(found("i in 0..n, j in 0..n + m", "i * n + j"), "E0510");
    EXPECT_EQ(found("i in 1..n, j in 1..5", "i * 3 + j"), "E0510");
}

}  // namespace
}  // namespace quern::semantics
