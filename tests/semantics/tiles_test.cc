#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

const Given kMatrix = with({{{2, 100}}});

std::string rows(const std::string& body) {
    return "compute(x) {\n@kernel custom\nfor b in 0..n:\n" + body + "\n}";
}

TEST(Tiles, ASliceOfConstantLengthHasAnExtentOfWhatIsThere) {
    const Analysed a = analyse(rows("  var total = 0.0\n  for k in 0..m step 64:\n    total += "
                                    "reduce(+, x[b, k:k+64])\n  out[b] = total"),
                               kMatrix);
    EXPECT_EQ(a.findings(), "");
    EXPECT_EQ(a.origin("m"), "100 from axis 1 of 'x' (slice)");
    EXPECT_TRUE(contains(a.cir(), "in 0..min(64, m - k)"));
    EXPECT_EQ(findings(rows("  var total = 0.0\n  for k in 0..m step 64:\n    total += reduce(+, "
                            "x[b, k:2*k+64])\n  out[b] = total"),
                       kMatrix),
              "E0415 6:29 `k:2*k+64`");
}

TEST(Tiles, TheEndOfASliceIsADimension) {
    const Analysed a = analyse(rows("  out[b] = reduce(+, x[b, 0:m])"), kMatrix);
    EXPECT_EQ(a.origin("m"), "100 from axis 1 of 'x' (largest range in bounds)");
    EXPECT_EQ(analyse(rows("  out[b, 0:m] = x[b, 8:m+8]"), kMatrix).output(), (Shape{2, 92}));
    EXPECT_EQ(analyse(rows("  out[b, 0:3*m] = x[b, 0:3*m]"), kMatrix).output(), (Shape{2, 99}));
    // Two reads: the lesser.
    const std::string two =
        "compute(x, y) {\n@kernel custom\nfor b in 0..n: out[b] = reduce(+, x[b, 0:m] * y[0:m])\n}";
    EXPECT_TRUE(contains(analyse(two, with({{{2, 5}}, {{4}}})).origin("m"), "4 from min("));
    EXPECT_EQ(analyse("compute(x, y) {\n@kernel custom\nout[0] = reduce(+, x[0:m] * y[0:k])\n}",
                      with({{{5}}, {{4}}}))
                  .findings()
                  .substr(0, 5),
              "E0501");
    // What binds it otherwise comes first.
    EXPECT_EQ(
        analyse("compute(x, y: [m]) {\n@kernel custom\nfor b in 0..n: out[b] = reduce(+, x[b, "
                "0:m] * y[0:m])\n}",
                with({{{2, 5}}, {{4}}}))
            .origin("m"),
        "4 from axis 0 of 'y' (declared)");
    EXPECT_TRUE(contains(analyse(rows("  out[b] = reduce(+, x[b, 0:m])"),
                                 with({{{2, 100}}}, {{"m", std::int64_t(7)}}))
                             .cir(),
                         "in 0..min(7, x.1)"));
}

TEST(Tiles, WhereASliceBeginsIsNoDimension) {
    EXPECT_EQ(findings(rows("  out[b] = reduce(+, x[b, k:k+4])"), kMatrix).substr(0, 13),
              "E0411 4:27 `k");
    EXPECT_EQ(findings(rows("  out[b] = reduce(+, x[b, m:2*m])"), kMatrix).substr(0, 5), "E0411");
    EXPECT_EQ(
        findings(rows("  if x[b, 0] > 0.0: out[b] = reduce(+, x[b, 0:m])"), kMatrix).substr(0, 5),
        "E0411");
}

TEST(Tiles, ASliceBeginsWithinItsAxis) {
    const auto sum = [](const std::string& slice, std::int64_t extent) {
        return findings("compute(x) {\n@kernel custom\nout[0] = reduce(+, x[" + slice + "])\n}",
                        with({{{extent}}}));
    };
    EXPECT_EQ(sum("20:24", 16), "E0507 3:22 `20:24`");
    EXPECT_EQ(sum("16:20", 16), "E0507 3:22 `16:20`");
    EXPECT_EQ(sum("-2:2", 16), "E0507 3:22 `-2:2`");
    EXPECT_EQ(sum("17:", 16), "E0507 3:22 `17:`");
    // Lanes beyond the end are absent, and what is left of an axis may be nothing.
    EXPECT_EQ(sum("14:18", 16), "");
    EXPECT_EQ(sum("16:", 16), "");
    EXPECT_EQ(sum("0:4", 0), "");
    const Analysed a = analyse("compute(x) {\n@kernel custom\nout[0] = reduce(+, x[k:k+4])\n}",
                               with({{{16}}}, {{"k", std::int64_t(20)}}));
    EXPECT_TRUE(
        contains(a.words("E0507"),
                 "expected a slice that begins within axis 0 of 'x', which has 16 elements, "
                 "got 20"));
}

TEST(Tiles, ASliceOfOutHasOneLengthEverywhere) {
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor b in 0..len step 32: out[b:len] = "
                       "x[b:b+32]\n}",
                       with({{{64}}})),
              "E0415 3:30 `b:len`");
}

TEST(Tiles, AVarJoinsAScalarAndATile) {
    const Analysed a = analyse(
        rows("  var m = -inf\n  m = row_max(x[b, 0:4])\n  out[b] = reduce(max, m)"), kMatrix);
    EXPECT_EQ(a.findings(), "");
    const Analysed tile = analyse(
        rows("  var o = 0.0\n  for k in 0..3:\n    o = o + x[b, 0:4]\n  out[b, 0:4] = o"), kMatrix);
    EXPECT_EQ(tile.findings(), "");
    EXPECT_TRUE(contains(tile.cir(), "local o: float32[4]"));
    EXPECT_EQ(findings(rows("  var o = 0.0\n  o = x[b, 0:4]\n  o = x[b, 0:5]\n  out[b, 0:4] = o"),
                       kMatrix)
                  .substr(0, 9),
              "E0502 6:3");
}

TEST(Tiles, TilesOfOneShapeMeetAndOthersDoNot) {
    EXPECT_EQ(findings(rows("  out[b] = reduce(+, x[b, 0:4] * x[b, 4:8])"), kMatrix), "");
    EXPECT_EQ(findings(rows("  out[b] = reduce(+, x[b, 0:4] * x[b, 4:9])"), kMatrix),
              "E0502 4:22 `x[b, 0:4] * x[b, 4:9]`");
    EXPECT_EQ(findings(rows("  out[b] = x[b, 0:4] + 1.0"), kMatrix), "");
    EXPECT_TRUE(
        contains(analyse(rows("  var v = 0.0\n  v += x[b, 0:4]\n  out[b, 0:4] = v"), kMatrix).cir(),
                 "local v: float32[4]"));
}

TEST(Tiles, AViewIsNotCopiedAndAValueIsComputedOnce) {
    const std::string view =
        analyse(rows("  let t = x[b, 0:4]\n  out[b] = reduce(+, t * t)"), kMatrix).cir();
    EXPECT_FALSE(contains(view, "local t"));
    const std::string value =
        analyse(rows("  let t = exp(x[b, 0:4])\n  out[b] = reduce(+, t * t)"), kMatrix).cir();
    EXPECT_TRUE(contains(value, "local t: float32[4]"));
}

TEST(Tiles, AnUpdateThatReadsOtherElementsGoesThroughACopy) {
    const auto text = [](const std::string& value) {
        return rows("  var o = zeros(4, 4)\n  o = " + value +
                    "\n  out[b] = reduce(+, o) + x[b, 0]");
    };
    EXPECT_TRUE(contains(analyse(text("transpose(o) + 1.0"), kMatrix).cir(), "o.next"));
    EXPECT_FALSE(contains(analyse(text("o * 2.0 + 1.0"), kMatrix).cir(), "o.next"));
    EXPECT_TRUE(contains(analyse(text("o + row_sum(transpose(o))"), kMatrix).cir(), "local"));
}

TEST(Tiles, ReduceKeepsAnAxisOfOneSoThatItBroadcasts) {
    EXPECT_EQ(analyse("compute(x) {\n@kernel fused\nout = x - reduce(max, x, axis=1)\n}", kMatrix)
                  .output(),
              (Shape{2, 100}));
    EXPECT_EQ(analyse("compute(x) {\n@kernel fused\nout = row_sum(x)\n}", kMatrix).output(),
              (Shape{2, 1}));
}

TEST(Tiles, MatmulWantsTwoTilesOfRankTwo) {
    EXPECT_EQ(
        findings("compute(a, b) {\n@kernel fused\nout = a @ b\n}", with({{{2, 3}}, {{3, 4}}})), "");
    EXPECT_EQ(analyse("compute(a, b) {\n@kernel fused\nout = a @ transpose(b)\n}",
                      with({{{2, 3}}, {{4, 3}}}))
                  .output(),
              (Shape{2, 4}));
    EXPECT_EQ(
        findings("compute(a, b) {\n@kernel fused\nout = a @ b\n}", with({{{2, 3}}, {{4, 4}}})),
        "E0501 3:7 `a @ b`");
    EXPECT_EQ(findings("compute(a, b) {\n@kernel fused\nout = a @ b\n}", with({{{2, 3}}, {{3}}})),
              "E0415 3:7 `a @ b`");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nout = dot(x, x)\n}", with({{{2, 3}}})),
              "E0415 3:7 `dot(x, x)`");
}

TEST(Reductions, ALoopReducesWhatItOnlyAccumulates) {
    const auto cir = [](const std::string& body) {
        return analyse(rows("  var s = 0.0\n" + body + "\n  out[b] = s"), kMatrix).cir();
    };
    EXPECT_TRUE(contains(cir("  for k in 0..m: s += x[b, k]"), "reduces s"));
    EXPECT_TRUE(contains(cir("  for k in 0..m: s *= x[b, k]"), "s *= x[b, k]"));
    EXPECT_TRUE(contains(cir("  for k in 0..m: s = max(s, x[b, k])"), "s max= x[b, k]"));
    EXPECT_TRUE(contains(cir("  for k in 0..m: s = min(x[b, k], s)"), "s min= x[b, k]"));
    // A running sum is read in its loop, so its order is the text's.
    EXPECT_FALSE(
        contains(cir("  for k in 0..m:\n    s += x[b, k]\n    if s > 3.0: s = 0.0"), "reduces"));
    EXPECT_FALSE(contains(cir("  for k in 0..m: s = s * 0.5 + x[b, k]"), "reduces"));
    EXPECT_TRUE(contains(cir("  for k in 0..m: s -= x[b, k]"), "reduces s"));
    EXPECT_TRUE(contains(cir("  for k in 0..m: s -= x[b, k]"), "s += -x[b, k]"));
    EXPECT_FALSE(contains(cir("  for k in 0..m: s = s - x[b, k]"), "reduces"));
    EXPECT_FALSE(contains(cir("  for k in 0..m:\n    s += x[b, k]\n    s *= x[b, k]"), "reduces"));
    EXPECT_TRUE(contains(cir("  for k in 0..m:\n    for l in 0..3: s += x[b, k]"),
                         "for k in 0..m reduces s"));
    // Inside the outer loop s is read, inside the inner one it is not.
    const std::string half =
        cir("  for k in 0..m:\n    for l in 0..3: s += x[b, k]\n    s = s / 2.0");
    EXPECT_FALSE(contains(half, "for k in 0..m reduces"));
    EXPECT_TRUE(contains(half, "for l in 0..3 reduces s"));
}

TEST(Reductions, MatmulInText) {
    EXPECT_EQ(analyse(example_text("09"), with({{{2, 3}}, {{3, 4}}})).cir(),
              R"(kernel matmul : matmul workgroup(16, 16) {
    dim M, N, K
    operand A: float32[A.0, A.1]
    operand B: float32[B.0, B.1]
    output out: float32[M, N]
    require M == A.0 bare_index E0501
    require K == A.1 bare_index E0501
    require K == B.0 bare_index E0501
    require N == B.1 bare_index E0501
    parallel for i in 0..M {
        parallel for j in 0..N {
            var sum: float32 = 0.0
            for k in 0..K reduces sum {
                sum += A[i, k] * B[k, j]
            }
            out[i, j] = sum
        }
    }
}
)");
}

TEST(Reductions, AFunctionAfterAReductionAppliesToItsResult) {
    Given given = with({{{4}}});
    given.then = {{"sqrt", {}}};
    const std::string cir =
        analyse("compute(x) {\n@kernel reduce(+)\nfor i in 0..len: yield x[i]\n}", given).cir();
    EXPECT_TRUE(contains(cir, "out[] = sqrt(result)"));
    given.then = {{"gelu", {}}};
    EXPECT_EQ(findings("compute(x) {\n@kernel reduce(+)\nfor i in 0..len: yield x[i]\n}", given)
                  .substr(0, 5),
              "E0407");
}

}  // namespace
}  // namespace quern::semantics
