#include "tests/semantics/findings.h"

namespace quern::semantics {
namespace {

std::string elementwise(const std::string& operands, const std::string& value) {
    return "compute(" + operands + ") {\n@kernel elementwise\nfor i in 0..len: out[i] = " + value +
           "\n}";
}

Given of(DType dtype) { return with({{{8}, dtype}}); }

TEST(Check43, AConditionIsABoolOrAnInteger) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = 0.0\n  if x[i]: v = 1.0\n  out[i] "
        "= v\n}";
    const Analysed a = analyse(text, of(DType::Float32));
    EXPECT_EQ(a.findings(), "E0405 5:6 `x[i]`");
    EXPECT_TRUE(contains(a.words("E0405"), "x[i] != 0.0"));
    for (const DType dtype : {DType::Bool, DType::UInt8, DType::Int32, DType::Int64}) {
        EXPECT_EQ(findings(text, of(dtype)), "") << to_string(dtype);
    }
}

TEST(Check44, IntegersAndFloatsDoNotMixButLiteralsFit) {
    const Given mixed = with({{{8}, DType::Int32}, {{8}, DType::Float32}});
    EXPECT_EQ(findings(elementwise("a, b", "a[i] * b[i]"), mixed), "E0404 3:27 `a[i] * b[i]`");
    const Analysed a = analyse(elementwise("a", "a[i] * 2.0"), of(DType::Int32));
    EXPECT_EQ(a.out_dtype(), DType::Float32);
    EXPECT_EQ(analyse(elementwise("a", "a[i] * 2"), of(DType::Int32)).out_dtype(), DType::Int32);
    EXPECT_EQ(analyse(elementwise("a", "a[i] * 2.0"), of(DType::Float16)).out_dtype(),
              DType::Float16);
    EXPECT_EQ(analyse(elementwise("a", "a[i] * 0.1"), of(DType::Float64)).out_dtype(),
              DType::Float64);
    EXPECT_EQ(analyse(elementwise("a, b", "a[i] + f32(b[i])"), with({{{8}}, {{8}, DType::Int32}}))
                  .findings(),
              "");
}

struct Promotion {
    DType a, b, result;
};

TEST(Types, FloatsAndIntegersPromoteAmongThemselves) {
    const Promotion rows[] = {{DType::Float16, DType::Float32, DType::Float32},
                              {DType::Float16, DType::BFloat16, DType::Float32},
                              {DType::Float32, DType::Float64, DType::Float64},
                              {DType::Int8, DType::Int32, DType::Int32},
                              {DType::UInt8, DType::Int8, DType::Int16},
                              {DType::UInt32, DType::Int8, DType::Int64},
                              {DType::UInt8, DType::UInt32, DType::UInt32},
                              {DType::Bool, DType::Int8, DType::Int8}};
    for (const Promotion& row : rows) {
        for (const bool swapped : {false, true}) {
            const Given given =
                with({{{8}, swapped ? row.b : row.a}, {{8}, swapped ? row.a : row.b}});
            const Analysed a = analyse(elementwise("a, b", "a[i] + b[i]"), given);
            ASSERT_TRUE(a.lowered) << a.findings();
            EXPECT_EQ(a.out_dtype(), row.result) << to_string(row.a) << to_string(row.b);
        }
    }
    EXPECT_EQ(findings(elementwise("a, b", "a[i] + b[i]"),
                       with({{{8}, DType::UInt64}, {{8}, DType::Int8}})),
              "E0415 3:27 `a[i] + b[i]`");
}

TEST(Types, LiteralsAloneAreFloat32AndInt64) {
    EXPECT_EQ(
        analyse(elementwise("a", "select(a[i] > 0.0, 2.0, 3.0)"), of(DType::Float64)).out_dtype(),
        DType::Float32);
    EXPECT_EQ(analyse(elementwise("a", "i64(a[i]) * 0 + 2 * i"), of(DType::Float64)).out_dtype(),
              DType::Int64);
    EXPECT_EQ(
        analyse(elementwise("a", "select(a[i] > 0, sqrt(i), 1.0)"), of(DType::Int64)).out_dtype(),
        DType::Float32);
    EXPECT_EQ(analyse(elementwise("a", "a[i] < 2"), of(DType::Int8)).out_dtype(), DType::Bool);
}

TEST(Types, AWeakLiteralIsMadeInTheDtypeItMeets) {
    EXPECT_TRUE(contains(analyse(elementwise("a", "a[i] * 0.1"), of(DType::Float64)).cir(),
                         "a[i] * 0.1:float64"));
    // 1 / 3 in float32 and then widened would be another number.
    const std::string cir =
        analyse(elementwise("a", "a[i] * (1.0 / 3.0)"), of(DType::Float64)).cir();
    EXPECT_TRUE(contains(cir, "a[i] * (1.0:float64 / 3.0:float64)"));
    // Literals of either sign are rounded once.
    for (const char* number : {"0.1", "-0.1", "min(0.1, 0.3)"}) {
        EXPECT_FALSE(contains(
            analyse(elementwise("a", std::string("a[i] * ") + number), of(DType::Float16)).cir(),
            "float32"))
            << number;
    }
}

TEST(Types, AVarIsTheJoinOfItsAssignments) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = 0\n  v = x[i]\n  out[i] = v\n}";
    for (const DType dtype : {DType::Int8, DType::Float16, DType::Float32, DType::Float64}) {
        const Analysed a = analyse(text, of(dtype));
        EXPECT_TRUE(contains(a.cir(), "var v: " + std::string(to_string(dtype))))
            << to_string(dtype);
        EXPECT_EQ(a.out_dtype(), dtype);
    }
    EXPECT_TRUE(contains(analyse("compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = 1.0\n  v "
                                 "= x[i]\n  out[i] = v\n}",
                                 of(DType::Int8))
                             .cir(),
                         "var v: float32 = 1.0"));
    EXPECT_EQ(findings("compute(x, y) {\n@kernel custom\nfor i in 0..n:\n  var v = x[i]\n  v = "
                       "y[i]\n  out[i] = v\n}",
                       with({{{8}, DType::Int32}, {{8}}})),
              "E0404 5:3 `v = y[i]`");
}

std::string summed(const std::string& statements) {
    return "compute(x) {\n@kernel custom\nfor b in 0..rows:\n  var s = 0.0\n  for i in 0..n:\n" +
           statements + "  out[b] = s\n}";
}

TEST(Types, AVarHasItsDtypeWhereverItIsReadInAChainOfThem) {
    struct Row {
        std::string body;
        DType given, result;
    };
    const std::string all = "  for q in 0..N: ",
                      fill = "  shared var a[N]\n" + all + "a[q] = x[i, q]\n  barrier()\n";
    const Row rows[] = {
        {"  var s = 0\n" + all + "s += x[i, q]\n  var m = s / N\n  out[i] = m\n", DType::Float32,
         DType::Float32},
        {"  var m = 0\n" + all +
             "m = max(m, x[i, q])\n  var s = 0.0\n  s = sqrt(m)\n  out[i] = s\n",
         DType::BFloat16, DType::BFloat16},
        {"  var a = 0\n  var b = 0\n  for q in 0..N:\n    a = x[i, q]\n    b = a\n  out[i] = b\n",
         DType::UInt8, DType::UInt8},
        {"  var a = 0\n  var b = 0\n  for q in 0..N:\n    a = x[i, q]\n    b = a\n  out[i] = b\n",
         DType::UInt64, DType::UInt64},
        {"  var f = 0\n  f = x[i, 0] > 3.0\n  var g = 0\n  g = f\n  out[i] = g\n", DType::Float32,
         DType::Bool},
        {fill + "  shared var b[N]\n" + all + "b[q] = a[N - 1 - q]\n  barrier()\n" + all +
             "out[i, q] = b[q]\n",
         DType::Float32, DType::Float32},
        {fill + "  var s = 0\n" + all + "s += a[q]\n  out[i] = s\n", DType::Float32,
         DType::Float32},
        {fill + all + "out[i, q] = sqrt(a[q])\n" + all + "out[i, q] += x[i, q]\n", DType::BFloat16,
         DType::BFloat16},
    };
    for (const Row& row : rows) {
        const Analysed a =
            analyse("compute(x: [M, N]) {\n@kernel custom\nfor i in 0..M:\n" + row.body + "}",
                    with({{{2, 3}, row.given}}));
        EXPECT_EQ(a.findings(), "") << row.body;
        EXPECT_EQ(a.out_dtype(), row.result) << row.body;
    }
}

TEST(Types, WhatIsReadOfAnOutputOfLiteralsIsWeak) {
    const auto text = [](const std::string& first, const std::string& then) {
        return "compute(x: [M, N]) {\n@kernel custom\nfor i in 0..M:\n  out[i] = " + first +
               "\n  for q in 0..N: out[i] " + then + "\n}";
    };
    for (const DType dtype : {DType::Int32, DType::UInt8, DType::UInt64, DType::Float16,
                              DType::Float32, DType::Float64}) {
        for (const std::string then : {"+= x[i, q]", "= max(out[i], x[i, q])"}) {
            const Analysed a = analyse(text("0", then), with({{{2, 3}, dtype}}));
            EXPECT_EQ(a.findings(), "") << to_string(dtype);
            EXPECT_EQ(a.out_dtype(), dtype) << then;
        }
    }
    EXPECT_EQ(analyse(text("0.0", "+= x[i, q]"), with({{{2, 3}, DType::Float16}})).out_dtype(),
              DType::Float16);
}

TEST(Types, AVarThatBeginsWithAnElementOfTheOutputHasItsDtype) {
    const auto text = [](const std::string& rest) {
        return "compute(x: [N]) {\n@kernel custom\nfor i in 0..N:\n  out[i] = x[i]\n" + rest +
               "\n}";
    };
    for (const DType dtype : {DType::Bool, DType::UInt8, DType::Int32, DType::Int64, DType::Float16,
                              DType::Float32, DType::Float64}) {
        const Given given = with({{{8}, dtype}});
        EXPECT_EQ(analyse(text("  var v = out[i]\n  out[i] = v"), given).out_dtype(), dtype);
        EXPECT_EQ(analyse(text("  var v = out[i]\n  var w = v\n  out[i] = w"), given).out_dtype(),
                  dtype);
    }
    const Given integers = with({{{8}, DType::Int64}});
    for (const char* rest :
         {"  var v = i32(out[i])\n  out[i] = v", "  var v = max(out[i], 3)\n  out[i] = v % 3",
          "  var v = out[i]\n  out[i] = x[v]"}) {
        const Analysed a = analyse(text(rest), integers);
        EXPECT_EQ(a.findings(), "") << rest;
        EXPECT_EQ(a.out_dtype(), DType::Int64) << rest;
    }
    EXPECT_EQ(findings(text("  var v = out[i]\n  if v: out[i] = not v"), of(DType::Bool)), "");
    const Analysed tile = analyse(
        "compute(x: [N, 4]) {\n@kernel custom\nfor i in 0..N:\n  out[i, 0:4] = x[i, 0:4]\n"
        "  var v = out[i, 0:4]\n  out[i, 0:4] = v\n}",
        with({{{8, 4}, DType::Int32}}));
    EXPECT_EQ(tile.findings(), "");
    EXPECT_EQ(tile.out_dtype(), DType::Int32);
    EXPECT_EQ(findings("compute(x: [N]) {\n@kernel custom\nfor i in 0..N:\n  var v = out[i]\n"
                       "  out[i] = v\n}",
                       of(DType::Int32)),
              "E0421 4:11 `out`");
}

TEST(Types, OfLongChainsOfVarsSettle) {
    for (const std::string start : {"0", "0.0"}) {
        std::string vars, chain;
        constexpr int kVars = 130;
        for (int n = 0; n < kVars; ++n) {
            const std::string name = "v" + std::to_string(n);
            vars += "  var " + name + " = " + start + "\n";
            if (n > 0) chain += "    v" + std::to_string(n - 1) + " = " + name + "\n";
        }
        chain += "    v" + std::to_string(kVars - 1) + " = x[i, q]\n";
        const Analysed a = analyse("compute(x: [M, N]) {\n@kernel custom\nfor i in 0..M:\n" + vars +
                                       "  for q in 0..N:\n" + chain + "  out[i] = v0\n}",
                                   with({{{2, 3}, DType::Float64}}));
        EXPECT_EQ(a.findings(), "");
        EXPECT_EQ(a.out_dtype(), DType::Float64);
    }
}

TEST(Types, NegatedAndAbsoluteTruthIsAnInteger) {
    for (const std::string value : {"-x[i]", "abs(x[i])", "-x[i] + 0"}) {
        EXPECT_EQ(analyse(elementwise("x", value), of(DType::Bool)).out_dtype(), DType::Int64)
            << value;
    }
}

TEST(Types, AVarStartedByAFloatTakesIntegersHoweverTheyAreAdded) {
    const Given given = with({{{2, 4}, DType::Int32}});
    for (const std::string statement :
         {"s += x[b, i]", "s -= x[b, i]", "s = s + x[b, i]", "s = x[b, i] + s + x[b, i]",
          "s = max(s, x[b, i])", "s = s - 0.5 * x[b, i] - x[b, i]",
          "s = select(x[b, i] > 0, s, x[b, i])"}) {
        const Analysed a = analyse(summed("    " + statement + "\n"), given);
        EXPECT_EQ(a.findings(), "") << statement;
        EXPECT_TRUE(contains(a.cir(), "var s: float32 = 0.0")) << statement;
    }
    // In either order: half an integer is a float because of the literal only.
    EXPECT_EQ(findings(summed("    s += 0.5 * x[b, i]\n    s += x[b, i]\n"), given), "");
    EXPECT_EQ(findings(summed("    s += x[b, i]\n    s += 0.5 * x[b, i]\n"), given), "");
    // What a cast or an operand made a float is one for good.
    EXPECT_EQ(findings(summed("    s = f32(x[b, i]) + x[b, i]\n"), given),
              "E0404 6:9 `f32(x[b, i]) + x[b, i]`");
}

TEST(Types, SumsOfHalvesAreFloat32AndRoundAtTheStore) {
    const Analysed a =
        analyse(example_text("09"), with({{{2, 3}, DType::Float16}, {{3, 2}, DType::Float16}}));
    EXPECT_TRUE(contains(a.cir(), "var sum: float32 = 0.0"));
    // The product is float32 too: rounded once, with the sum.
    EXPECT_TRUE(contains(a.cir(), "sum += float32(A[i, k]) * float32(B[k, j])"));
    EXPECT_TRUE(contains(a.cir(), "out[i, j] = float16(sum)"));
    // Without a sum nothing widens.
    const std::string plain = analyse(elementwise("a", "a[i] * a[i]"), of(DType::Float16)).cir();
    EXPECT_TRUE(contains(plain, "out[i] = a[i] * a[i]"));
}

TEST(Types, AProductUnderASumIsMadeInTheDtypeOfTheSum) {
    const Given given = with({{{8}, DType::Int8}, {{8}, DType::Int8}});
    const std::string wide = "int64(a[i]) * int64(b[i])";
    EXPECT_TRUE(
        contains(analyse("compute(a, b) {\n@kernel custom\nvar s = 0\nfor i in 0..n: s += a[i] * "
                         "b[i]\nout[0] = s\n}",
                         given)
                     .cir(),
                 "s += " + wide));
    EXPECT_TRUE(contains(
        analyse("compute(a, b) {\n@kernel reduce(+)\nfor i in 0..n: yield a[i] * b[i]\n}", given)
            .cir(),
        wide));
    const std::string tiles =
        analyse("compute(a, b) {\n@kernel custom\nout[0] = reduce(+, a[0:8] * b[0:8])\n}", given)
            .cir();
    EXPECT_TRUE(contains(tiles, ") * int64(b["));
    // A product that nothing adds up keeps its dtype.
    EXPECT_TRUE(
        contains(analyse(elementwise("a, b", "a[i] * b[i]"), given).cir(), "out[i] = a[i] * b[i]"));
}

TEST(Types, APowerOfIntegersIsAnInteger) {
    const Given given = with({{{8}, DType::Int8}, {{8}, DType::UInt16}});
    EXPECT_EQ(analyse(elementwise("a, b", "pow(a[i], 2)"), given).out_dtype(), DType::Int8);
    EXPECT_EQ(analyse(elementwise("a, b", "pow(2, b[i])"), given).out_dtype(), DType::UInt16);
    EXPECT_EQ(analyse(elementwise("a, b", "pow(a[i], b[i])"), given).out_dtype(), DType::Int32);
    EXPECT_EQ(analyse(elementwise("a, b", "select(a[i] > 0, pow(i, 2), 0)"), given).out_dtype(),
              DType::Int64);
    // A float on one side makes it one of floats.
    EXPECT_EQ(analyse(elementwise("a, b", "pow(a[i], 2.0)"), given).out_dtype(), DType::Float32);
    EXPECT_EQ(analyse(elementwise("a, b", "pow(2.0, b[i])"), given).out_dtype(), DType::Float32);
    EXPECT_EQ(analyse(elementwise("a", "pow(a[i], 2)"), of(DType::Float16)).out_dtype(),
              DType::Float16);
}

TEST(Types, AQuotientReachesAFloatThroughSumsAndProducts) {
    const auto warned = [](const std::string& value) {
        return findings(elementwise("x", "x[i] * (" + value + ")"), of(DType::Float32));
    };
    EXPECT_EQ(warned("i / 2"), "W0703 3:35 `i / 2`");
    EXPECT_EQ(warned("i / 2 + 1"), "W0703 3:35 `i / 2`");
    EXPECT_EQ(warned("1 - 3 * (i / 2)"), "W0703 3:44 `i / 2`");
    EXPECT_EQ(warned("-(i / 2)"), "W0703 3:37 `i / 2`");
    // A multiple, and a digit, are meant to be whole.
    EXPECT_EQ(warned("i / 2 * 2"), "");
    EXPECT_EQ(warned("i - i / 2 * 2"), "");
    EXPECT_EQ(warned("i / 2 % 2"), "");
    EXPECT_EQ(warned("i + 2"), "");
}

TEST(Types, SumsOfIntegersAreWideAndExtremesAreNot) {
    const auto dtype = [&](const char* op, DType of_dtype) {
        return analyse(std::string("compute(x) {\n@kernel reduce(") + op +
                           ")\nfor i in 0..len: yield x[i]\n}",
                       of(of_dtype))
            .out_dtype();
    };
    EXPECT_EQ(dtype("+", DType::Int8), DType::Int64);
    EXPECT_EQ(dtype("+", DType::Bool), DType::Int64);
    EXPECT_EQ(dtype("*", DType::UInt16), DType::UInt64);
    EXPECT_EQ(dtype("max", DType::UInt16), DType::UInt16);
    EXPECT_EQ(dtype("min", DType::Float16), DType::Float16);
    EXPECT_EQ(dtype("and", DType::Int8), DType::Bool);
    EXPECT_EQ(dtype("+", DType::BFloat16), DType::BFloat16);
}

TEST(Types, TheOutputIsTheJoinOfItsStores) {
    const std::string text =
        "compute(a, b) {\n@kernel custom\nfor i in 0..n:\n  out[2*i] = a[i]\n  out[2*i + 1] = "
        "b[i]\n}";
    EXPECT_EQ(analyse(text, with({{{4}, DType::Float16}, {{4}, DType::Float32}})).out_dtype(),
              DType::Float32);
    EXPECT_EQ(analyse(text, with({{{4}, DType::Int8}, {{4}, DType::Int32}})).out_dtype(),
              DType::Int32);
    EXPECT_EQ(findings(text, with({{{4}, DType::Int8}, {{4}, DType::Float32}})).substr(0, 9),
              "E0404 5:3");
    const std::string literal =
        "compute(a) {\n@kernel custom\nfor i in 0..n:\n  out[2*i] = 0\n  out[2*i + 1] = a[i]\n}";
    EXPECT_EQ(analyse(literal, of(DType::Float16)).out_dtype(), DType::Float16);
    EXPECT_EQ(analyse(literal, of(DType::UInt8)).out_dtype(), DType::UInt8);
}

TEST(Types, AQuotientOfIntegersUsedAsAFloatWarns) {
    EXPECT_EQ(findings(elementwise("x", "x[i] * (i / 2)"), of(DType::Float32)),
              "W0703 3:35 `i / 2`");
    EXPECT_EQ(findings(elementwise("x", "x[i] + i / 2"), of(DType::Float32)), "W0703 3:34 `i / 2`");
    EXPECT_EQ(findings(elementwise("x", "x[i] * (i / 2)"), of(DType::Int32)), "");
    EXPECT_EQ(findings(elementwise("x", "x[i] * i / 2"), of(DType::Float32)), "");
    EXPECT_EQ(findings(elementwise("x", "f32(x[i] / 2)"), of(DType::Int32)),
              "W0703 3:31 `x[i] / 2`");
    EXPECT_EQ(findings(elementwise("x", "sqrt(x[i] / 2)"), of(DType::Int32)),
              "W0703 3:32 `x[i] / 2`");
}

TEST(Types, ASharedVarTakesTheTypeOfWhatIsStored) {
    const auto text = [](const std::string& type) {
        return "compute(x) {\n@kernel fused\nfor b in 0..batch:\n  shared var s[8]" + type +
               "\n  for i in 0..8: s[i] = x[b, i]\n  barrier()\n  for i in 0..8: out[b, i] = s[7 - "
               "i]\n}";
    };
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Float64, DType::Int32}) {
        const Analysed a = analyse(text(""), with({{{2, 8}, dtype}}));
        EXPECT_TRUE(contains(a.cir(), "shared s: " + std::string(to_string(dtype)) + "[8]"))
            << to_string(dtype);
    }
    EXPECT_TRUE(contains(analyse(text(": f64"), with({{{2, 8}}})).cir(), "shared s: float64[8]"));
    EXPECT_EQ(findings(text(": f7"), with({{{2, 8}}})).substr(0, 5), "E0416");
}

TEST(Types, Float8IsForStorage) {
    EXPECT_EQ(findings(elementwise("x", "x[i]"), of(DType::Float8E4M3)).substr(0, 5), "E0606");
    EXPECT_EQ(findings(elementwise("x", "float8_e4m3(x[i])"), of(DType::Float32)),
              "E0606 3:27 `float8_e4m3`");
    EXPECT_EQ(findings("compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v: float8_e4m3 = 0.0\n "
                       " out[i] = x[i] + v\n}",
                       of(DType::Float32)),
              "E0606 4:10 `float8_e4m3`");
    EXPECT_EQ(findings("compute(x) {\n@kernel fused\nfor i in 0..n:\n  shared var v[4]: f8_e5m2\n "
                       " out[i] = x[i]\n}",
                       of(DType::Float32)),
              "E0606 4:20 `f8_e5m2`");
}

TEST(Types, ADeclaredDtypeIsKept) {
    const Analysed a = analyse(
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v: f64 = 0.0\n  for k in 0..4: v += "
        "x[i]\n  out[i] = v\n}",
        of(DType::Float32));
    EXPECT_TRUE(contains(a.cir(), "var v: float64"));
    EXPECT_EQ(a.out_dtype(), DType::Float64);
}

TEST(Types, TruthAndRemaindersHaveTheirOperands) {
    EXPECT_EQ(findings(elementwise("x", "x[i] % 2.0"), of(DType::Float32)),
              "E0415 3:27 `x[i] % 2.0`");
    EXPECT_EQ(findings(elementwise("x", "x[i] % 3"), of(DType::Int32)), "");
    EXPECT_EQ(analyse(elementwise("x", "not x[i]"), of(DType::Int32)).out_dtype(), DType::Bool);
    EXPECT_EQ(findings(elementwise("x", "not x[i]"), of(DType::Float32)), "E0405 3:31 `x[i]`");
}

TEST(Types, OfVarsThatGatherTruthAreTheirOwn) {
    const auto dtype = [](const std::string& body, DType of) {
        const Analysed a = analyse(over_x("for i in 0..n:\n" + body), with({{{4}, of}}));
        EXPECT_EQ(a.findings(), "") << body;
        return a.out_dtype();
    };
    for (const char* word : {"or", "and"}) {
        const std::string gathers = std::string("  v = v ") + word +
                                    " i > 3\n  for k in 0..3: v = v " + word +
                                    " k > i\n  out[i] = v";
        EXPECT_EQ(dtype("  var v = x[i]\n" + gathers, DType::Int32), DType::Int32) << word;
        EXPECT_EQ(dtype("  var v = x[i]\n" + gathers, DType::Bool), DType::Bool) << word;
        EXPECT_EQ(findings(over_x("for i in 0..n:\n  var v = x[i]\n" + gathers),
                           with({{{4}, DType::Float32}}))
                      .substr(0, 5),
                  "E0405")
            << word;
    }
    for (const char* adds :
         {"v += 1", "v *= 3", "v += x[i]", "v = max(v, 2)", "v = v + 1", "v -= 1"}) {
        const std::string body = std::string("  var v = x[i]\n  ") + adds + "\n  out[i] = v";
        EXPECT_EQ(dtype(body, DType::Bool), DType::Int64) << adds;
    }
    EXPECT_EQ(dtype("  var v = x[i]\n  v += 1.0\n  out[i] = v", DType::Bool), DType::Float32);
}

}  // namespace
}  // namespace quern::semantics
