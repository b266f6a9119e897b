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

}  // namespace
}  // namespace quern::semantics
