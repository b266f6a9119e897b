#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

/// A kernel over x with these decorators: the first one begins at line 2, column 5.
std::string decorated(const std::string& decorators, const std::string& header = "") {
    return "compute(x) " + header + "{\n    " + decorators + "\n    for i in 0..len:\n" +
           "        out[i] = x[i]\n}\n";
}

std::string reducing(const std::string& kind, const std::string& yielded = "x[i]") {
    return "compute(x) {\n    @kernel " + kind + "\n    for i in 0..n, j in 0..m:\n        yield " +
           yielded + "\n}\n";
}

TEST(Decorators, Check23_AMissingKernelIsANoteAndPedanticallyAnError) {
    const std::string text = "compute(x) {\n    out = x\n}\n";
    EXPECT_EQ(all_in(text), "N0802@1:1");
    EXPECT_EQ(all_in(text, true), "E0303@1:1");
    EXPECT_EQ(find_in(text, "N0802").severity, Severity::Note);
}

TEST(Decorators, AKernelWithoutKindIsE0303) {
    EXPECT_EQ(errors_in(decorated("@kernel")), "E0303@2:12");
}

TEST(Decorators, Check24_TwoKernelsAreE0305AtTheSecond) {
    const std::string text = decorated("@kernel matmul\n    @kernel fused");
    EXPECT_EQ(errors_in(text), "E0305@3:6");
    EXPECT_EQ(find_in(text, "E0305").notes[0], "the first one is here (line 2, column 6)");
}

TEST(Decorators, Check25_AMisspeltDecoratorIsE0302WithASuggestion) {
    const std::string text = decorated("@kernal elementwise");
    EXPECT_EQ(all_in(text), "E0302@2:6");
    const Diagnostic d = find_in(text, "E0302");
    EXPECT_EQ(d.help, std::vector<std::string>{"did you mean '@kernel'?"});
    ASSERT_EQ(d.fixits.size(), 1u);
    EXPECT_EQ(d.fixits[0].replacement, "kernel");
    EXPECT_EQ(text.substr(d.fixits[0].begin, d.fixits[0].length), "kernal");
}

TEST(Decorators, ADecoratorInTheWrongPlaceIsE0302SayingWhereItBelongs) {
    EXPECT_EQ(find_in(decorated("@kernel custom\n    @async"), "E0302").help[0],
              "'@async' stands before the '{'");
    EXPECT_EQ(find_in(decorated("@kernel custom", "@tile(a=1) "), "E0302").help[0],
              "'@tile' stands in the body");
    EXPECT_EQ(errors_in(decorated("@3")), "E0301@2:6");
}

TEST(Decorators, Check26_ADecoratorAfterTheFirstStatementIsE0306) {
    EXPECT_EQ(errors_in(body("    out = x\n    @workgroup(16)")), "E0306@4:5");
}

TEST(Decorators, Check27_TheSameDecoratorTwiceIsE0307) {
    EXPECT_EQ(errors_in(decorated("@kernel custom", "@async @async ")), "E0307@1:20");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(1)\n    @workgroup(1)")),
              "E0307@4:6");
    EXPECT_EQ(errors_in("compute(x, y, z) {\n    @kernel custom\n    @broadcast(y, axis=1)\n"
                        "    @broadcast(z, axis=0)\n    out = x + y + z\n}"),
              "");
}

TEST(Decorators, Check28_AWorkgroupTakesOneToThreePositiveSizes) {
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(16, 16, 4)")), "");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(16, 16, 4, 2)")), "E0308@3:6");
    EXPECT_EQ(find_in(decorated("@kernel custom\n    @workgroup(16, 16, 4, 2)"), "E0308").message,
              "@workgroup takes one to three sizes, got 4");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup()")), "E0308@3:6");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(0)")), "E0309@3:16");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(8, -1)")), "E0309@3:19");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @workgroup(n=8)")), "E0313@3:16");
}

TEST(Decorators, Check30_AnUnknownReductionOperatorIsE0310ListingAllEight) {
    EXPECT_EQ(errors_in(reducing("reduce(%)")), "E0310@2:20");
    EXPECT_EQ(find_in(reducing("reduce(%)"), "E0310").help[0],
              "the operators are +, *, min, max, and, or, argmin, argmax");
    for (const char* op : {"+", "*", "min", "max", "and", "or"}) {
        EXPECT_EQ(all_in(reducing(fmt::format("reduce({})", op))), "") << op;
    }
    for (const char* wrong : {"sum", "-", "/", "x[0]", "3", "!", "axis=1", "\"+\""}) {
        EXPECT_EQ(errors_in(reducing(fmt::format("reduce({})", wrong))).substr(0, 10), "E0310@2:20")
            << wrong;
    }
    EXPECT_EQ(errors_in(reducing("reduce")), "E0310@2:13");
    EXPECT_EQ(errors_in(reducing("reduce()")), "E0310@2:13");
    EXPECT_EQ(errors_in(body("    out = reduce(%, x)")), "E0310@3:18");
    EXPECT_EQ(errors_in(body("    out = reduce(x, x)")), "E0310@3:18");
}

TEST(Decorators, TheReduceOfABodyHasTheSixOperatorsThatReturnNoIndex) {
    for (const char* wrong : {"argmin", "argmax", "mean"}) {
        const std::string text = body(fmt::format("    out = reduce({}, x)", wrong));
        EXPECT_EQ(errors_in(text), "E0310@3:18") << wrong;
        EXPECT_EQ(find_in(text, "E0310").help.back(),
                  "the operators of the function are +, *, min, max, and, or");
    }
    EXPECT_EQ(find_in(reducing("reduce(mean)"), "E0310").help[0],
              "a mean is the sum, `+`, divided by the number of elements");
}

TEST(Decorators, ANameThatIsAnOperatorIsOneEvenIfItIsDeclared) {
    EXPECT_EQ(all_in(body("    let max = 1.0\n    out = reduce(max, x) + max")), "");
}

TEST(Decorators, Check34_DeviceStandsInTheHeaderOrInTheBody) {
    EXPECT_EQ(errors_in(decorated("@kernel custom", "@device(\"auto\") ")), "");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @device(\"auto\")")), "");
    const std::string same = decorated("@kernel custom\n    @device(\"cpu\")", "@device(\"cpu\") ");
    EXPECT_EQ(errors_in(same), "");
    const std::string list =
        decorated("@kernel custom\n    @device([\"cpu\"])", "@device(\"cpu\") ");
    EXPECT_EQ(errors_in(list), "");
    const std::string other =
        decorated("@kernel custom\n    @device(\"auto\")", "@device(\"cpu\") ");
    EXPECT_EQ(errors_in(other), "E0307@3:13");
    EXPECT_EQ(find_in(other, "E0307").notes[0], "and \"cpu\" before the body (line 1, column 20)");
}

TEST(Decorators, AListOfOneDeviceIsThatDevice) {
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @device(\"a\")", "@device([\"a\"]) ")), "");
    EXPECT_EQ(
        errors_in(decorated("@kernel custom\n    @device(\"a\")", "@device([\"a\", \"b\"]) ")),
        "E0307@3:13");
}

TEST(Decorators, OfTwoKernelsTheFirstCounts) {
    const std::string text = "compute(x) {\n    @kernel reduce(+)\n    @kernel fused\n" +
                             std::string("    for i in 0..n:\n        yield x[i]\n}\n");
    EXPECT_EQ(errors_in(text), "E0305@3:6");
}

TEST(Decorators, WrongArgumentsAreE0313) {
    for (const char* header :
         {"@device ", "@device(3) ", "@device([]) ", "@device([1]) ", "@async(1) ", "@parallel ",
          "@parallel(rows) ", "@device(\"a\", \"b\") "}) {
        EXPECT_EQ(errors_in(decorated("@kernel custom", header)).substr(0, 5), "E0313") << header;
    }
    for (const char* decorator : {"@shared", "@shared(1, 2)", "@tile", "@tile(4)", "@broadcast(x)",
                                  "@broadcast(x, 1)", "@broadcast(x, dim=1)"}) {
        const std::string text = decorated(fmt::format("@kernel custom\n    {}", decorator));
        EXPECT_EQ(errors_in(text).substr(0, 5), "E0313") << decorator;
    }
    EXPECT_EQ(errors_in(reducing("reduce(+, 1)")), "E0313@2:23");
    EXPECT_EQ(errors_in(reducing("reduce(+, dim=1)")), "E0313@2:23");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @tile(a=0)")), "E0309@3:13");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @shared(0)")), "E0309@3:13");
}

TEST(Decorators, BroadcastNamesAnOperand) {
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @broadcast(x, axis=0)")), "");
    EXPECT_EQ(errors_in(decorated("@kernel custom\n    @broadcast(v, axis=0)")), "E0411@3:16");
}

TEST(Decorators, AnUnknownKindIsANote) {
    const std::string text = decorated("@kernel elementwize");
    EXPECT_EQ(all_in(text), "N0804@2:13");
    EXPECT_EQ(find_in(text, "N0804").help[0], "did you mean 'elementwise'?");
}

TEST(Decorators, TheyEndLikeStatements) {
    EXPECT_EQ(errors_in("compute(x) { @kernel custom; @workgroup(4); out = x }"), "");
    EXPECT_EQ(errors_in("compute(x) { @kernel custom @workgroup(4); out = x }"), "E0206@1:29");
}

TEST(Decorators, AComputeNeedsABody) {
    EXPECT_EQ(errors_in("let a = compute(x)"), "E0304@1:19");
    EXPECT_EQ(errors_in("let a = compute(x) @async"), "E0304@1:26");
    EXPECT_EQ(errors_in("let a = compute(x)\n{ @kernel custom; out = x }").substr(0, 10),
              "E0304@1:19");
}

TEST(Decorators, Check49_YieldBelongsToReduceKernels) {
    EXPECT_EQ(errors_in(reducing("elementwise")), "E0430@4:9");
    EXPECT_EQ(errors_in(body("    out = x\n    yield x[0]")), "E0430@4:5");
    EXPECT_EQ(errors_in(reducing("reduce(+)", "(x[i], i)")), "E0431@4:15");
    EXPECT_EQ(errors_in(reducing("reduce(argmax)")), "E0431@4:15");
    EXPECT_EQ(errors_in(reducing("reduce(argmin)", "(x[i], i, j)")), "E0431@4:15");
    EXPECT_EQ(errors_in(reducing("reduce(argmax)", "(x[i], i)")), "");
    EXPECT_EQ(
        errors_in(
            "compute(x) {\n    @kernel reduce(+)\n    for i in 0..n:\n        let a = x[i]\n}"),
        "E0433@2:13");
}

TEST(Decorators, Check49_TheAxisIsOneOfTheLoopVariables) {
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=0)")), "");
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=1)")), "");
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=-2)")), "");
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=2)")), "E0432@2:28");
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=-3)")), "E0432@2:28");
    EXPECT_EQ(errors_in(reducing("reduce(+, axis=99999999999)")), "E0432@2:28");
    EXPECT_EQ(find_in(reducing("reduce(+, axis=2)"), "E0432").message,
              "reduction axis 2 is out of range: the kernel has 2 loop variables");
    // Loops one inside the other count as well, up to the first other statement.
    const std::string nested =
        "compute(x) {\n    @kernel reduce(+, axis=1)\n    for i in 0..n:\n        for j in 0..m:\n"
        "            let a = x[i, j]\n            for k in 0..2:\n                yield a\n}";
    EXPECT_EQ(errors_in(nested), "");
    EXPECT_EQ(errors_in(std::string(nested).replace(nested.find("=1"), 2, "=2")), "E0432@2:28");
}

}  // namespace
}  // namespace quern::lang
