#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

TEST(Names, OutMayBeReadWhereAGuardDecidesBeforeTheStoreStands) {
    const auto value = [](const std::string& v) {
        return errors_in(
            "compute(x) {\n    @kernel custom\n    for w in 0..rows:\n"
            "        for i in 0..n:\n            let p = " +
            v + "\n            out[w, i] = x[w, i]\n}\n");
    };
    EXPECT_EQ(value("select(i > 0, out[w, i - 1], 0.0)"), "");
    EXPECT_EQ(value("i > 0 and out[w, i - 1] > 2.0"), "");
    EXPECT_EQ(value("i == 0 or not (out[w, i - 1] > 2.0)"), "");
    EXPECT_EQ(value("select(out[w, 0] > 0.0, 1.0, 0.0)"), "E0421@5:28");
    EXPECT_EQ(value("out[w, 0] > 0.0 and i > 0"), "E0421@5:21");
    EXPECT_EQ(value("min(1.0, out[w, 0])"), "E0421@5:30");
    EXPECT_EQ(value("(i > 0 and i > 1) == (out[w, 0] > 0.0)"), "E0421@5:43");
}

TEST(Names, OutMayBeReadByALoopThatMayBeEmptyBeforeTheStoreStands) {
    const auto recurrence = [](const std::string& range) {
        return errors_in(
            "compute(x) {\n    @kernel custom\n    for w in 0..rows:\n"
            "        for i in 0..n:\n            var t = x[w, i]\n"
            "            for k in " +
            range + ": t = t - out[w, k]\n            out[w, i] = t\n}\n");
    };
    EXPECT_EQ(recurrence("0..i"), "");
    EXPECT_EQ(recurrence("i..n"), "");
    EXPECT_EQ(recurrence("0..n"), "E0421@6:36") << "the first iteration reads";
    EXPECT_EQ(errors_in("compute(x) {\n    @kernel custom\n    let c = 2\n    for i in 0..n:\n"
                        "        var t = x[i]\n        for k in 0..c: t = t - out[k]\n"
                        "        out[i] = t\n}\n"),
              "E0421@6:32");
    EXPECT_EQ(errors_in("compute(x) {\n    @kernel custom\n    for i in 0..n, k in 0..i:\n"
                        "        out[i, k] = out[i, k] + x[i]\n}\n"),
              "E0421@4:21");
}

TEST(Names, Check36_AnUndefinedNameThatIsIndexedIsE0411ListingTheOperands) {
    const std::string text =
        "let y = compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n        out[i] = "
        "relu(y[i])\n}";
    EXPECT_EQ(errors_in(text), "E0411@4:23");
    const Diagnostic d = find_in(text, "E0411");
    EXPECT_EQ(d.message,
              "undefined name 'y': not an operand, loop variable, dimension or bound value");
    EXPECT_EQ(d.notes, std::vector<std::string>{"the operands are x"});
}

TEST(Names, Check36_ANearMissIsSuggested) {
    const std::string text = "compute(data) { @kernel custom; for i in 0..n { out[i] = daat[i] } }";
    EXPECT_EQ(find_in(text, "E0411").help, std::vector<std::string>{"did you mean 'data'?"});
}

TEST(Names, FreeNamesUsedAsNumbersAreLeftToTheBinding) {
    EXPECT_EQ(all_in(value("x[i] * eps + stride / hidden")), "");
    EXPECT_EQ(all_in(value("x[anything]")), "");
}

TEST(Names, ALetIsKnownBehindItsValue) {
    EXPECT_EQ(errors_in(body("    let a = a[0]\n    out = x")), "E0411@3:13");
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        let a = x\n    out = a[0]")),
              "E0411@5:11");
    EXPECT_EQ(all_in(body("    shared var t[4]\n    let u = t[0]\n    out = x + u")), "");
}

TEST(Names, Check41_ALoopVariableCannotBeAssigned) {
    const std::string text = body("    for i in 0..len:\n        i = 3\n        out[i] = x[i]");
    EXPECT_EQ(errors_in(text), "E0413@4:9");
    EXPECT_EQ(find_in(text, "E0413").notes[0], "it is declared here (line 3, column 9)");
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        i += 3\n        out[i] = x[i]")),
              "E0413@4:9");
}

TEST(Names, Check41_ALetCannotBeAssigned) {
    const std::string text = body("    let a = 1.0\n    a = 2.0\n    out = x");
    EXPECT_EQ(errors_in(text), "E0414@4:5");
    EXPECT_EQ(find_in(text, "E0414").help, std::vector<std::string>{"declare it with 'var'"});
    EXPECT_EQ(errors_in(body("    var a = 1.0\n    a = 2.0\n    out = x * a")), "");
}

TEST(Names, AnAssignmentNeedsADeclaration) {
    EXPECT_EQ(errors_in(body("    a = 2.0\n    out = x")), "E0411@3:5");
    EXPECT_EQ(find_in(body("    a = 2.0\n    out = x"), "E0411").help.back(),
              "declare it: `var a = ...`");
    EXPECT_EQ(errors_in(body("    a[0] = 2.0\n    out = x")), "E0411@3:5");
}

TEST(Names, Check48_AKernelDoesNotWriteItsOperands) {
    EXPECT_EQ(errors_in(body("    out = x\n    x[0] = 0")), "E0420@4:5");
    EXPECT_EQ(errors_in(body("    out = x\n    x += 1")), "E0420@4:5");
    EXPECT_EQ(errors_in("compute(m.w) { @kernel custom; out = m.w; m.w[0] = 1 }"), "E0420@1:43");
}

TEST(Names, Check48_OutIsWrittenBeforeItIsRead) {
    EXPECT_EQ(errors_in(value("out[i] + x[i]")), "E0421@4:18");
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        out[i] += x[i]")), "E0421@4:9");
    EXPECT_EQ(errors_in(body("    out = x\n    out[0] = out[1]\n    out[0] += 1")), "");
}

TEST(Names, Check48_OutIsWritten) {
    EXPECT_EQ(errors_in(body("    let a = x")), "E0422@1:1");
    EXPECT_EQ(errors_in("compute(x) { }"), "E0422@1:1");
}

TEST(Names, Check50_AnUnwrittenBodyIsE0406Alone) {
    EXPECT_EQ(errors_in(body("    ...")), "E0406@3:5");
}

TEST(Names, Check51_AnUnknownFunctionIsE0407WithNearNames) {
    EXPECT_EQ(errors_in(value("gelu(x[i])")), "E0407@4:18");
    EXPECT_EQ(find_in(value("gelu(x[i])"), "E0407").help[0], "did you mean 'relu'?");
    EXPECT_EQ(errors_in(value("x(i)")), "E0407@4:18");
    EXPECT_EQ(errors_in(value("x[i](i)")), "E0407@4:18");
    EXPECT_EQ(errors_in(value("x.f(i)")), "E0407@4:18");
    EXPECT_EQ(errors_in(body("    out = x\n    split(x, 3)")), "E0407@4:5");
}

TEST(Names, Check51_AWrongNumberOfArgumentsIsE0408) {
    EXPECT_EQ(errors_in(value("exp(x[i], 2)")), "E0408@4:18");
    EXPECT_EQ(find_in(value("exp(x[i], 2)"), "E0408").message,
              "wrong number of arguments: 'exp' takes 1, got 2");
    EXPECT_EQ(errors_in(value("max(x[i])")), "E0408@4:18");
    EXPECT_EQ(errors_in(value("clamp(x[i], 0, 1)")), "");
    EXPECT_EQ(errors_in(value("reduce(+)")), "E0408@4:18");
    EXPECT_EQ(find_in(value("reduce(+)"), "E0408").message,
              "wrong number of arguments: 'reduce' takes 2 to 3, got 1");
    EXPECT_EQ(errors_in(value("reduce()")), "E0408@4:18");
    EXPECT_EQ(errors_in(value("reduce(+, x, axis=0)")), "");
    EXPECT_EQ(errors_in(value("reduce(+, x, dim=0)")), "E0408@4:31");
    EXPECT_EQ(errors_in(value("exp(x=2)")), "E0408@4:22");
}

TEST(Names, CastsAreCallsOfADtype) {
    for (const char* dtype :
         {"bool", "f16", "bf16", "f32", "float32", "f64", "i8", "int64", "u8", "uint32"}) {
        EXPECT_EQ(all_in(value(fmt::format("{}(x[i])", dtype))), "") << dtype;
        EXPECT_EQ(errors_in(value(fmt::format("{}(x[i], 2)", dtype))), "E0408@4:18") << dtype;
        EXPECT_EQ(errors_in(body(fmt::format("    var a: {} = 1\n    out = a", dtype))), "")
            << dtype;
    }
    // A dtype for storage: what computes with it is refused where dtypes are known.
    EXPECT_EQ(errors_in(value("float8_e4m3(x[i])")), "");
}

TEST(Names, AnUnknownDtypeIsE0416) {
    EXPECT_EQ(errors_in(body("    var a: f23 = 1\n    out = x")), "E0416@3:12");
    EXPECT_EQ(find_in(body("    var a: f23 = 1\n    out = x"), "E0416").help[0],
              "did you mean 'f32'?");
    EXPECT_EQ(errors_in(body("    shared var t[4]: half\n    out = x")), "E0416@3:22");
}

TEST(Names, Check52_ShadowingWarns) {
    const std::string text =
        body("    let a = 1\n    for i in 0..len:\n        let a = x[i]\n        out[i] = a");
    EXPECT_EQ(all_in(text), "W0701@5:13");
    EXPECT_EQ(find_in(text, "W0701").notes[0],
              "the name that it hides is declared here (line 3, column 9)");
    EXPECT_EQ(all_in(body("    let x = x[0]\n    out = x")), "W0701@3:9");
    EXPECT_EQ(
        all_in(body("    for i in 0..len:\n        for i in 0..2:\n            out[i] = x[i]")),
        "W0701@4:13");
}

TEST(Names, Check42_AnIndexThatSkipsAShadowingNameIsLeftToW0702) {
    EXPECT_EQ(all_in(kernel_text("18")), "");
    // Without such an index it is shadowing like any other.
    EXPECT_EQ(all_in(body("    for s in 0..len:\n        let s = x[s]\n        out[0] = s")),
              "W0701@4:13");
}

TEST(Names, Check52_ASecondDeclarationInOneBlockIsE0410) {
    const std::string text = body("    let a = 1\n    var a = 2\n    out = x");
    EXPECT_EQ(errors_in(text), "E0410@4:9");
    EXPECT_EQ(find_in(text, "E0410").notes[0], "it is declared first here (line 3, column 9)");
    EXPECT_EQ(errors_in(body("    for i in 0..n, i in 0..m:\n        out[i] = x[i]")),
              "E0410@3:20");
    EXPECT_EQ(errors_in("compute(x, x) { @kernel custom; out = x }"), "E0410@1:12");
    EXPECT_EQ(errors_in("compute(x, x = y) { @kernel custom; out = x }"), "E0410@1:12");
    EXPECT_EQ(errors_in("compute(a.b, a.b) { @kernel custom; out = a.b }"), "E0410@1:14");
    EXPECT_EQ(errors_in("compute(a.b, a.c) { @kernel custom; out = a.b + a.c }"), "");
}

TEST(Names, BlocksSideBySideHaveTheirOwnNames) {
    EXPECT_EQ(all_in(body("    for i in 0..n:\n        let a = x[i]\n        out[i] = a\n"
                          "    for i in 0..n:\n        let a = x[i]\n        out[i] = a")),
              "");
    EXPECT_EQ(all_in("let a = 1\nlet a = 2\n"), "");
}

TEST(Names, BranchesHaveTheirOwnNames) {
    EXPECT_EQ(all_in(body("    if n > 1:\n        let a = 1\n        out = x\n    else:\n"
                          "        let a = 2\n        out = x * a\n    let a = 3")),
              "");
}

TEST(Names, Check53_ADottedOperandIsKnownByItsPath) {
    EXPECT_EQ(
        all_in(
            "compute(weights.qkv) { @kernel custom; for i in 0..n { out[i] = weights.qkv[i] } }"),
        "");
    EXPECT_EQ(
        errors_in(
            "compute(weights.qkv) { @kernel custom; for i in 0..n { out[i] = weights.q[i] } }"),
        "E0411@1:65");
    EXPECT_EQ(errors_in("compute(w = weights.qkv) { @kernel custom; for i in 0..n { out[i] = "
                        "weights.qkv[i] } }"),
              "E0411@1:69");
    EXPECT_EQ(all_in("compute(a . b) { @kernel custom; out = a.b }"), "");
}

TEST(Names, Check53_AnOperandExpressionWithoutAliasIsE0409) {
    EXPECT_EQ(errors_in("compute(f(x)) { @kernel custom; out = 1 }"), "E0409@1:9");
    EXPECT_EQ(errors_in("compute(a[0]) { @kernel custom; out = 1 }"), "E0409@1:9");
    EXPECT_EQ(errors_in("compute(a, (b)) { @kernel custom; out = 1 }"), "E0409@1:13");
    EXPECT_EQ(find_in("compute(f(x)) { @kernel custom; out = 1 }", "E0409").help[0],
              "as in `compute(w = f(x))`");
    EXPECT_EQ(errors_in("compute(w = f(x)) { @kernel custom; out = w }"), "");
}

TEST(Names, HostConstructsInAKernelAreE0417) {
    EXPECT_EQ(errors_in(value("await x")), "E0417@4:18");
    EXPECT_EQ(errors_in(value("\"text\"")), "E0417@4:18");
    EXPECT_EQ(errors_in(value("10ms")), "E0417@4:18");
    EXPECT_EQ(errors_in(value("[x]")), "E0417@4:18");
    EXPECT_EQ(errors_in(value("x[i] |> exp()")), "E0417@4:23");
    EXPECT_EQ(errors_in(value("compute(x) { @kernel custom; out = x }")), "E0417@4:18");
    EXPECT_EQ(errors_in(body("    out = x\n    return x")), "E0417@4:5");
    EXPECT_EQ(errors_in(body("    out = x\n    config { a: 1 }")), "E0417@4:5");
}

TEST(Names, KernelConstructsInAScriptAreE0418) {
    EXPECT_EQ(errors_in("for i in 0..n:\n    a = i"), "E0418@1:1");
    EXPECT_EQ(errors_in("if a:\n    b = 1\nlet c = +"), "E0418@1:1 E0200@3:9");
    EXPECT_EQ(errors_in("yield a"), "E0418@1:1");
    EXPECT_EQ(errors_in("shared var a[3]"), "E0418@1:1");
    EXPECT_EQ(errors_in("..."), "E0418@1:1");
    EXPECT_EQ(errors_in("@device(\"cpu\")"), "E0418@1:1");
    EXPECT_EQ(errors_in("a += 1"), "E0418@1:3");
}

TEST(Names, AKernelKeepsItsNamesAroundAnotherOne) {
    EXPECT_EQ(all_in("compute(a, b = compute(c) { @kernel reduce(+, axis=7); for i in 0..n { yield "
                     "c[i] } }) {\n"
                     "@kernel reduce(max); for i in 0..n { yield a[i] } }"),
              "E0432@1:52");
}

TEST(Names, AKernelDoesNotSeeTheNamesOfAnother) {
    EXPECT_EQ(errors_in("compute(a, b = compute(c) { @kernel custom; out = a[0] }) { @kernel "
                        "custom; out = a + b }"),
              "E0411@1:51");
    EXPECT_EQ(errors_in("let z = compute(a) { @kernel custom; out = a }\n"
                        "let y = compute(b) { @kernel custom; out = a[0] + b }"),
              "E0411@2:44");
}

}  // namespace
}  // namespace quern::lang
