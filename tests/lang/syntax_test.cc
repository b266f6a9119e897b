#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

TEST(Syntax, Check10_AForWithoutColonIsE0208AtTheEndOfItsLine) {
    const std::string text = body("    for i in 0..len\n        out[i] = x[i]");
    EXPECT_EQ(errors_in(text), "E0208@3:20");
    EXPECT_EQ(find_in(text, "E0208").message, "expected ':' or '{' to open a block");
    EXPECT_EQ(errors_in(body("    out = x\n    if x[0] > 1.0   // no colon\n        out = x")),
              "E0208@4:18");
    EXPECT_EQ(errors_in(body("    if 1:\n        out = x\n    else\n        out = x")),
              "E0208@5:9");
}

TEST(Syntax, Check11_ALoopWithoutDotsIsE0212) {
    const std::string text = body("    for i in 0 len:\n        out[i] = x[i]");
    EXPECT_EQ(errors_in(text), "E0212@3:16");
    EXPECT_EQ(find_in(text, "E0212").message, "expected '..' between the loop bounds, got 'len'");
}

TEST(Syntax, Check12_ALoopWithoutVariableIsE0210) {
    EXPECT_EQ(errors_in(body("    for in 0..n:\n        out = x")), "E0210@3:9");
    EXPECT_EQ(errors_in(body("    for i 0..n:\n        out = x")), "E0211@3:11");
}

TEST(Syntax, Check13_AMissingOperandIsE0200AtTheEndOfTheLine) {
    const std::string text = value("x[i] +");
    EXPECT_EQ(errors_in(text), "E0200@4:24");
    EXPECT_EQ(find_in(text, "E0200").message, "expected an expression, got the end of the line");
}

TEST(Syntax, Check14_ACaretIsE0105WithHelpNamingPow) {
    const std::string text = value("x[i] ^ 2");
    EXPECT_EQ(errors_in(text), "E0105@4:23");
    EXPECT_EQ(find_in(text, "E0105").help,
              std::vector<std::string>{"use `pow(x, 3)` or `x * x * x`"});
}

TEST(Syntax, Check15_ComparisonsDoNotChain) {
    EXPECT_EQ(errors_in(body("    if 0 < x[0] < 4:\n        out = x")), "E0203@3:17");
    EXPECT_EQ(errors_in("let a = (b < c) == d"), "");
}

TEST(Syntax, Check16_AnOpenBracketIsE0108AtItsOpener) {
    EXPECT_EQ(errors_in(value("x[i")), "E0108@4:19");
    EXPECT_EQ(errors_in("let b = (a"), "E0108@1:9");
    EXPECT_EQ(errors_in("let b = (a\nlet c = 2\n"), "E0108@1:9");
    EXPECT_EQ(find_in("let b = (a", "E0108").message, "'(' is never closed");
}

TEST(Syntax, Check16_AWrongClosingBracketIsE0107NamingBoth) {
    const std::string text = value("x[i)");
    EXPECT_EQ(errors_in(text), "E0107@4:21");
    EXPECT_EQ(find_in(text, "E0107").message, "')' does not match '['");
    EXPECT_EQ(errors_in("let b = f(a]"), "E0107@1:12");
    EXPECT_EQ(errors_in("let b = a)"), "E0107@1:10");
    EXPECT_EQ(errors_in("let b = a }"), "E0107@1:11");
}

TEST(Syntax, OneWrongBracketIsOneError) {
    EXPECT_EQ(errors_in("let b = f(a])"), "E0107@1:12");
    EXPECT_EQ(errors_in("let b = f(a])\nlet c = d)"), "E0107@1:12 E0107@2:10");
}

TEST(Syntax, Check16_AMissingCommaIsE0204) {
    EXPECT_EQ(errors_in(value("max(x[i] 2)")), "E0204@4:27");
    EXPECT_EQ(errors_in("compute(a b) { @kernel custom; out = a }"), "E0204@1:11");
    EXPECT_EQ(errors_in("let a = (b c)"), "E0204@1:12");
    EXPECT_EQ(errors_in("let a = [b c]"), "E0205@1:12");
    EXPECT_EQ(errors_in(value("x[i j]")), "E0205@4:22");
}

TEST(Syntax, Check17_AnOpenStringIsE0106) {
    EXPECT_EQ(errors_in("let a = \"abc\nlet b = 2"), "E0106@1:9");
    EXPECT_EQ(errors_in("let a = \"a // b\""), "");
}

TEST(Syntax, Check18_VarAndLetAreNamesWhereNoNameFollows) {
    const std::string text = body(R"(    var n = 4.0
    var var = 0.0
    var += 2.0
    var /= n
    let let = var
    var step = let + var
    out = x * step)");
    EXPECT_EQ(all_in(text), "");
    const Outcome outcome = parsed(text);
    const Tree tree = outcome.source->tree();
    std::vector<std::pair<Kind, Op>> found;
    for (std::uint32_t i = 0; i < tree.count; ++i) {
        const Node& node = tree.nodes[i];
        if (node.kind == Kind::Decl || node.kind == Kind::Assign) {
            found.emplace_back(node.kind, node.op);
        }
    }
    const std::vector<std::pair<Kind, Op>> expected = {
        {Kind::Decl, Op::Var},      {Kind::Decl, Op::Var}, {Kind::Assign, Op::AddSet},
        {Kind::Assign, Op::DivSet}, {Kind::Decl, Op::Let}, {Kind::Decl, Op::Var},
        {Kind::Assign, Op::Set}};
    EXPECT_EQ(found, expected);
}

TEST(Syntax, Check18_SharedIsAKeywordOnlyBeforeVar) {
    EXPECT_EQ(
        all_in(body("    var shared = 1.0\n    shared += 2.0\n    shared var t[4]\n    out = x")),
        "");
}

/// The kinds of the nodes of `let a = TEXT`, without those of the declaration.
std::string leaves_of(const std::string& text) {
    const Outcome outcome = parsed("let a = " + text);
    if (!outcome.diagnostics.empty()) return outcome.diagnostics.front().code;
    const Tree tree = outcome.source->tree();
    std::string list;
    for (std::uint32_t i = 0; i < tree.count; ++i) {
        const Node& node = tree.nodes[i];
        if (node.first >= 0 || node.kind == Kind::Empty || node.span.begin < 8) continue;
        list += fmt::format("{}{}", list.empty() ? "" : " ", tree.text_of(NodeId(i)));
        list += node.kind == Kind::Int        ? ":i"
                : node.kind == Kind::Float    ? ":f"
                : node.kind == Kind::Quantity ? ":q"
                                              : "";
    }
    return list;
}

TEST(Syntax, Check19_NumbersLexAsOneToken) {
    EXPECT_EQ(leaves_of("1e-6"), "1e-6:f");
    EXPECT_EQ(leaves_of("0.7978845608"), "0.7978845608:f");
    EXPECT_EQ(leaves_of("2E+3"), "2E+3:f");
    EXPECT_EQ(leaves_of("1000ms"), "1000ms:q");
    EXPECT_EQ(leaves_of("24GB"), "24GB:q");
    EXPECT_EQ(leaves_of("1e"), "1e:q");
    EXPECT_EQ(leaves_of("1.5x"), "E0206");
    EXPECT_EQ(leaves_of("1.x"), "1:i x");
}

TEST(Syntax, Check19_ARangeOfNumbersIsThreeTokens) {
    EXPECT_EQ(all_in(body("    for i in 1..2:\n        out[i] = x[i]")), "");
    EXPECT_EQ(all_in(body("    for i in 0..len:\n        out[i] = x[i]")), "");
    EXPECT_EQ(leaves_of("1..2"), "E0206");
}

TEST(Syntax, IntegersBeyondSixtyThreeBitsAreE0110) {
    EXPECT_EQ(errors_in("let a = 9223372036854775807"), "");
    EXPECT_EQ(errors_in("let a = 9223372036854775808"), "E0110@1:9");
    EXPECT_EQ(errors_in("let a = 00000000000000000000001"), "");
    EXPECT_EQ(errors_in("let a = 99999999999999999999GB"), "E0110@1:9");
    EXPECT_EQ(errors_in("let a = 99999999999999999999.0"), "");
}

TEST(Syntax, FloatsThatRoundToInfinityAreE0110) {
    for (const char* number :
         {"1.7976931348623157e308", "0.00017976931348623158e312", "179769313486231580.0e291",
          "1e308", "1e-999", "0e999", "0.0e99999999999999999999", "1.0e-99999999999999999999"}) {
        EXPECT_EQ(errors_in(fmt::format("let a = {}", number)), "") << number;
    }
    const std::string zeros(309, '0');
    for (const std::string& number :
         {std::string("1e999"), std::string("1.7976931348623159e308"), std::string("0.1e310"),
          std::string("1797693134862315.9e293"), std::string("1e99999999999999999999"),
          "1" + zeros + ".0", "0." + zeros + "1e619"}) {
        EXPECT_EQ(errors_in("let a = " + number), "E0110@1:9") << number;
    }
    EXPECT_EQ(errors_in("let a = 1" + zeros.substr(1) + ".0"), "");
    EXPECT_EQ(find_in("let a = 1e999", "E0110").help[0], "infinity is written 'inf'");
}

TEST(Syntax, Check20_ErrorsOnTwoLinesAreBothReportedInOrder) {
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        let a = x[i] +\n        out[i] = a b")),
              "E0200@4:23 E0206@5:20");
    EXPECT_EQ(errors_in("let a = \nlet b = 3 4\nlet c = )\n"), "E0200@1:8 E0206@2:11 E0107@3:9");
    // A name error is not hidden by a syntax error that declares nothing.
    EXPECT_EQ(
        errors_in(body("    for i in 0..len:\n        out[i] = x[i] +\n        out[i] = y[i]")),
        "E0200@4:24 E0411@5:18");
}

TEST(Syntax, AStoreThatCannotBeReadIsStillAStore) {
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        out[i i] = x[i]")), "E0205@4:15");
    EXPECT_EQ(
        errors_in("compute(x) {\n    @kernel reduce(+)\n    for i in 0..n:\n        yield +\n}"),
        "E0200@4:15");
}

TEST(Syntax, WhatALostStatementMayHaveDeclaredIsNotMissed) {
    EXPECT_EQ(errors_in(body("    shared var t[\n    out = t[0]")).substr(0, 10), "E0108@3:17");
    EXPECT_EQ(errors_in(body("    vra t = x\n    out = t[0]")), "E0206@3:9");
}

TEST(Syntax, AtMostTwentyErrorsAreReported) {
    std::string text;
    for (int i = 0; i < 50; ++i) text += "let a =\n";
    EXPECT_EQ(parsed(text).diagnostics.size(), 20u);
}

TEST(Syntax, Check21_OperatorsOfOneLevelGroupToTheLeft) {
    EXPECT_TRUE(same_trees("let r = a @ b / c", "let r = (a @ b) / c"));
    EXPECT_FALSE(same_trees("let r = a @ b / c", "let r = a @ (b / c)"));
    EXPECT_TRUE(same_trees("let r = a - b + c", "let r = (a - b) + c"));
    EXPECT_FALSE(same_trees("let r = a - b + c", "let r = a - (b + c)"));
}

TEST(Syntax, Check21_MinusBindsTighterThanAProduct) {
    EXPECT_TRUE(same_trees("let r = -x @ y", "let r = (-x) @ y"));
    EXPECT_FALSE(same_trees("let r = -x @ y", "let r = -(x @ y)"));
    EXPECT_TRUE(same_trees("let r = -x[0].y", "let r = -(x[0].y)"));
    EXPECT_TRUE(same_trees("let r = - -x", "let r = -(-x)"));
}

TEST(Syntax, Check21_ABoundIsAWholeSum) {
    EXPECT_TRUE(same_trees(body("    for i in 0..3*n:\n        out[i] = x[i]"),
                           body("    for i in 0..(3*n):\n        out[i] = x[i]")));
}

TEST(Syntax, LogicBindsLooserThanComparison) {
    EXPECT_TRUE(same_trees("let r = not a == b and c < d or e",
                           "let r = ((not (a == b)) and (c < d)) or e"));
    EXPECT_TRUE(same_trees("let r = a and not b", "let r = a and (not b)"));
    EXPECT_TRUE(same_trees("let r = !a or !b", "let r = (not a) or (not b)"));
    EXPECT_EQ(errors_in("let r = a + not b"), "E0200@1:13");
    EXPECT_EQ(errors_in("let r = a == not b"), "E0200@1:14");
}

TEST(Syntax, ParenthesesThatMatterArePrinted) {
    for (const char* text :
         {"let a = (b < c) == (d < e)", "let a = b - (c - d)", "let a = -(b + c)",
          "let a = (-b)[0]", "let a = not (b or c)", "let a = (b + c).d(e)", "let a = (await b).c",
          "let a = (b |> c()) + d"}) {
        EXPECT_EQ(printed(text), std::string(text) + "\n");
    }
}

TEST(Syntax, ParenthesesTellANameFromTheKeywordItLooksLike) {
    for (const char* text :
         {"(let)", "(var(a))", "(return)", "(pipeline and b)", "(compute)(a)", "let a = (await)[0]",
          "let a = (await)(b)", "await = 3", "await.b = 3", "let = 3", "let[0] = 3",
          "let (await, b) = c", "let await = b + (await)"}) {
        EXPECT_EQ(printed(text), std::string(text) + "\n");
    }
}

TEST(Syntax, AParenthesizedNameIsAnExpressionNoTarget) {
    EXPECT_EQ(all_in(value("(x)[i]")), "");
    EXPECT_EQ(errors_in("(a) = 3"), "E0206@1:5");
    EXPECT_EQ(errors_in(body("    (out) = x")), "E0206@3:11");
}

TEST(Syntax, SlicesHoldWholeSums) {
    EXPECT_TRUE(same_trees("let r = K[b, v:v+64]", "let r = K[b, (v):(v + 64)]"));
    EXPECT_EQ(printed("let r = a[:, 1:, :2, ::3, 1:2:3]"), "let r = a[:, 1:, :2, ::3, 1:2:3]\n");
}

TEST(Syntax, AwaitReadsItsTimeLimitAndItsDefault) {
    EXPECT_EQ(printed("let r = await f timeout 1000ms else d"),
              "let r = await f timeout 1000ms else d\n");
    EXPECT_EQ(printed("let r = (await f) + await g(h)[0]"), "let r = await f + await g(h)[0]\n");
    EXPECT_EQ(printed("let r = (await f timeout 1ms) + 2"), "let r = (await f timeout 1ms) + 2\n");
    EXPECT_EQ(printed("let await = 3"), "let await = 3\n");
}

TEST(Syntax, PipesLeadToCalls) {
    EXPECT_EQ(printed("a + b |> f(c) |> g()"), "a + b |> f(c) |> g()\n");
    EXPECT_EQ(errors_in("a |> 3"), "E0201@1:6");
    EXPECT_EQ(errors_in("a |> f"), "E0200@1:7");
}

TEST(Syntax, ACallOfAPipelineTakesDecorators) {
    EXPECT_EQ(printed("let a = f(x) @device(\"cpu\") @async |> g() @parallel(data)"),
              "let a = f(x) @device(\"cpu\") @async |> g() @parallel(data)\n");
    EXPECT_EQ(printed("let a = f(x) @ device"), "let a = f(x) @ device\n");
    EXPECT_EQ(printed("let a = f(x) @other"), "let a = f(x) @ other\n");
}

TEST(Syntax, InAKernelAnAtBehindACallIsAProduct) {
    EXPECT_EQ(all_in(body("    out = exp(x) @parallel")), "");
}

TEST(Syntax, OperandsHaveAliasesPathsAndShapes) {
    const std::string text =
        "compute(a, w = f(b), m.q.k, y: [n, 2 * m + 1]) {\n    @kernel custom\n    out = a + w + "
        "m.q.k + y\n}\n";
    EXPECT_EQ(printed(text), text);
    EXPECT_EQ(errors_in("compute(a: n) { @kernel custom; out = a }"), "E0205@1:12");
}

TEST(Syntax, TypesOfAPipelineMayHaveUnknownExtents) {
    const std::string text =
        "pipeline f(x: tensor[batch, 3, ?], n: int) -> tensor[?]:\n    return x\n";
    EXPECT_EQ(printed(text), text);
    EXPECT_EQ(errors_in("pipeline f(x):\n    return x"), "E0220@1:13");
    EXPECT_EQ(errors_in("pipeline f(3):\n    return x"), "E0220@1:12");
    EXPECT_EQ(errors_in("pipeline f(x: 3):\n    return x"), "E0215@1:15");
    EXPECT_EQ(errors_in("pipeline f(x: t[+]):\n    return x"), "E0215@1:17");
    EXPECT_EQ(errors_in("pipeline f(x: int, x: int):\n    return x"), "E0410@1:20");
    EXPECT_EQ(errors_in("pipeline f:\n    return x"), "E0220@1:11");
    EXPECT_EQ(errors_in("pipeline f(x: int)\n    return x"), "E0208@1:19");
    EXPECT_EQ(errors_in("pipeline f(x: int): return x"), "E0103@1:21");
    EXPECT_EQ(errors_in("let pipeline = 3\npipeline = 4"), "");
}

TEST(Syntax, ConfigHoldsSettings) {
    EXPECT_EQ(printed("config { a: 1, b: \"x\" }"), "config {\n    a: 1\n    b: \"x\"\n}\n");
    EXPECT_EQ(errors_in("config { 3 }"), "E0219@1:10");
    EXPECT_EQ(errors_in("config { a 3 }"), "E0219@1:12");
    EXPECT_EQ(errors_in("config = 3"), "");
}

TEST(Syntax, DeclarationsNeedANameAndAValue) {
    EXPECT_EQ(errors_in("let 3 = 4"), "E0217@1:5");
    EXPECT_EQ(errors_in("let; var"), "E0217@1:4 E0217@1:9");
    EXPECT_EQ(errors_in(body("    let (a, b) = x\n    out = x")), "E0217@3:9");
    EXPECT_EQ(errors_in("let (a, 3) = b"), "E0217@1:9");
    EXPECT_EQ(errors_in("let a"), "E0216@1:6");
    EXPECT_EQ(errors_in(body("    var a\n    out = x")), "E0216@3:10");
    EXPECT_EQ(errors_in(body("    var a: 3 = 1\n    out = x")), "E0215@3:12");
    EXPECT_EQ(errors_in(body("    shared var 3[4]\n    out = x")), "E0213@3:16");
    EXPECT_EQ(errors_in(body("    shared var t\n    out = x")), "E0214@3:17");
    EXPECT_EQ(errors_in(body("    shared var t[0]\n    out = x")), "E0309@3:18");
    EXPECT_EQ(printed("let (a, b) = f()"), "let (a, b) = f()\n");
}

TEST(Syntax, ReservedWordsCannotBeDeclared) {
    for (const char* word : {"and", "or", "not", "in", "if", "else", "for", "yield"}) {
        const std::string w = word;
        EXPECT_EQ(errors_in("let " + w + " = 1"), "E0218@1:5") << w;
        EXPECT_EQ(errors_in(body("    var " + w + " = 1\n    out = x")), "E0218@3:9") << w;
        EXPECT_EQ(errors_in(body("    for " + w + " in 0..len:\n        out = x")), "E0218@3:9")
            << w;
        EXPECT_EQ(errors_in(body("    shared var " + w + "[4]\n    out = x")), "E0218@3:16") << w;
        EXPECT_EQ(errors_in("compute(" + w + " = a) { @kernel custom; out = 1 }"), "E0218@1:9")
            << w;
        EXPECT_EQ(errors_in("pipeline f(" + w + ": int):\n    return 1"), "E0218@1:12") << w;
    }
}

TEST(Syntax, ContextualWordsAreNames) {
    EXPECT_EQ(all_in(R"(compute(len, data, step, out2 = all) {
    @kernel custom
    for timeout in 0..n step 4:
        let compute = len[timeout]
        var kernel: f32 = compute + data[timeout]
        out[timeout] = kernel * any + step[timeout] - out2[timeout]
})"),
              "");
}

TEST(Syntax, AStatementEndsWithItsLine) {
    EXPECT_EQ(errors_in("let a = b c"), "E0206@1:11");
    EXPECT_EQ(errors_in(value("x[i] y")), "E0206@4:23");
    EXPECT_EQ(errors_in("a + b = c"), "E0206@1:7");
    EXPECT_EQ(errors_in("else"), "E0207@1:1");
    EXPECT_EQ(errors_in(body("    out = x\n    else:\n        out = x")), "E0207@4:5");
    EXPECT_EQ(errors_in("let a = b.3"), "E0201@1:11");
}

TEST(Syntax, StrangersNameThemselves) {
    EXPECT_EQ(find_in("let a = b & c", "E0105").help[0], "the operator is written 'and'");
    EXPECT_EQ(find_in("let a = b | c", "E0105").help[0],
              "the operator is written 'or', a pipe '|>'");
    EXPECT_EQ(find_in("# text", "E0105").help[0], "a comment begins with //");
    EXPECT_EQ(errors_in("let \xc3\xa4\xc3\xb6 = 3"), "E0105@1:5");
    EXPECT_EQ(find_in(std::string("let a = \0", 9), "E0105").message,
              "the byte 0x00 is not part of the language");
}

TEST(Syntax, AnEmptyTextIsAnEmptyScript) {
    for (const char* text : {"", "\n", "   ", "// nothing", "\n\n  // nothing\n", ";;\n;"}) {
        EXPECT_EQ(all_in(text), "");
        EXPECT_EQ(printed(text), "");
    }
}

}  // namespace
}  // namespace quern::lang
