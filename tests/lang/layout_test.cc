#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

const std::string kRelu = R"(let y = compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = relu(x[i])
}
)";

std::string without_indentation(const std::string& text) {
    std::string flat;
    bool at_start = true;
    for (const char c : text) {
        if (at_start && c == ' ') continue;
        at_start = c == '\n';
        flat += c;
    }
    return flat;
}

std::string indented_by(const std::string& text, const std::string& prefix) {
    std::string result = prefix;
    for (const char c : text) {
        result += c;
        if (c == '\n') result += prefix;
    }
    return result;
}

TEST(Layout, Check01_EveryKernelParsesAndItsPrintedTreeIsTheSame) {
    ASSERT_EQ(kernel_files().size(), 20u);
    for (const auto& path : kernel_files()) {
        const std::string text = text_of_file(path);
        EXPECT_EQ(all_in(text), "") << path;
        const std::string once = printed(text);
        EXPECT_TRUE(same_trees(text, once)) << once;
        EXPECT_EQ(printed(once), once);
    }
}

TEST(Layout, Check02_K14WithoutItsClosingBraceIsE0108AtTheEndWithANote) {
    std::string text = kernel_text("14");
    text = text.substr(0, text.rfind('}'));
    const Diagnostic d = find_in(text, "E0108");
    EXPECT_EQ(errors_in(text),
              fmt::format("E0108@{}:1", std::count(text.begin(), text.end(), '\n') + 1));
    EXPECT_EQ(d.message, "'{' is never closed");
    ASSERT_EQ(d.notes.size(), 1u);
    EXPECT_EQ(d.notes[0], "the '{' is here (line 2, column 29)");
}

TEST(Layout, Check03_FlatTextOfK09IsE0103AtTheLineAfterTheFirstColon) {
    const std::string flat = without_indentation(kernel_text("09"));
    EXPECT_EQ(errors_in(flat), "E0103@6:1 E0103@8:1");
    const Diagnostic d = find_in(flat, "E0103");
    EXPECT_EQ(d.message, "expected an indented block after ':'");
    EXPECT_EQ(d.source, "var sum = 0.0");
    EXPECT_EQ(d.notes, std::vector<std::string>{"the 'for' on line 5 opens the block"});
}

TEST(Layout, Check04_ABlockOnTheLineOfItsColonIsTheSameTree) {
    EXPECT_TRUE(same_trees(kRelu, R"(let y = compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = relu(x[i])
}
)"));
    EXPECT_FALSE(same_trees(kRelu, R"(let y = compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = relu(x[0])
}
)"));
}

TEST(Layout, Check05_TheBraceFormIsTheSameTree) {
    EXPECT_TRUE(same_trees(kRelu, R"(let y = compute(x) {
    @kernel elementwise
    for i in 0..len { out[i] = relu(x[i]); }
})"));
    EXPECT_TRUE(same_trees(
        kRelu,
        "let y = compute(x) { @kernel elementwise; for i in 0..len { out[i] = relu(x[i]) } }"));
}

TEST(Layout, Check06_AnyCommonIndentationIsTheSameTree) {
    for (const std::size_t columns : {1u, 4u, 20u}) {
        EXPECT_TRUE(same_trees(kRelu, indented_by(kRelu, std::string(columns, ' '))));
    }
    EXPECT_EQ(errors_in(indented_by(kRelu, "\t")).substr(0, 9), "E0102@2:2");
}

TEST(Layout, TheFirstLineOfABraceMayBeLeftOfItsContext) {
    EXPECT_TRUE(same_trees(kRelu, R"(
        let y = compute(x) {
  @kernel elementwise
  for i in 0..len:
   out[i] = relu(x[i])
                     }
)"));
}

TEST(Layout, Check07_TabsAndSpacesInOneIndentationAreE0102) {
    EXPECT_EQ(errors_in("compute(x) {\n  @kernel custom\n  \tout = x\n}"), "E0102@3:3");
    EXPECT_EQ(errors_in("compute(x) {\n\t@kernel custom\n\t  out = x\n}"), "E0102@3:2");
}

TEST(Layout, Check07_ATabLineBesideASpaceLineOfOneBlockIsE0102) {
    EXPECT_EQ(errors_in("compute(x) {\n    @kernel custom\n\tout = x\n}"), "E0102@3:1");
    EXPECT_EQ(
        errors_in("compute(x) {\n    @kernel custom\n    for i in 0..len:\n\t\tout[i] = x[i]\n}"),
        "E0102@4:1");
}

TEST(Layout, MixedIndentationIsReportedOncePerBlock) {
    EXPECT_EQ(errors_in("compute(x) {\n    @kernel custom\n\tout = x\n\tout[0] = 1\n}"),
              "E0102@3:1");
}

TEST(Layout, TabsAloneIndentAsWell) {
    EXPECT_EQ(all_in("compute(x) {\n\t@kernel custom\n\tfor i in 0..len:\n\t\tout[i] = x[i]\n}"),
              "");
    // Another context may use the other white space.
    EXPECT_EQ(all_in("  let y = compute(x) {\n\t@kernel custom\n\tout = x\n  }\n"), "");
}

TEST(Layout, Check08_ADedentToAColumnNeverOpenedIsE0101) {
    EXPECT_EQ(errors_in(body("    for i in 0..len:\n        out[i] = x[i]\n      out[0] = 1")),
              "E0101@5:7");
    EXPECT_EQ(errors_in(body("  out = x")), "E0101@3:3");
}

TEST(Layout, Check09_AnIndentWithoutColonIsE0109) {
    EXPECT_EQ(errors_in(body("    out = x\n        out = x")), "E0109@4:9");
    EXPECT_EQ(errors_in("let a = b\n    let c = d\n"), "E0109@2:5");
}

TEST(Layout, AnIndentAfterABlockOnOneLineIsE0109) {
    EXPECT_EQ(errors_in(body("    for i in 0..len: out[i] = x[i]\n        out[0] = 1")),
              "E0109@4:9");
}

TEST(Layout, AColonAtTheEndOfTheBodyIsE0103) {
    EXPECT_EQ(errors_in(body("    out = x\n    for i in 0..len:")), "E0103@5:1");
    EXPECT_EQ(errors_in("pipeline f(a: int):\nreturn a"), "E0103@2:1");
}

TEST(Layout, BlankLinesAndCommentsDoNotCount) {
    EXPECT_TRUE(same_trees(kRelu, R"(// first
let y = compute(x) {   // opens

       // anywhere
    @kernel elementwise
  // and here
    for i in 0..len:  // a block

// left
        out[i] = relu(x[i])   // value

}
// last)"));
}

TEST(Layout, LinesEndInTheWindowsWayToo) {
    std::string text;
    for (const char c : kRelu) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
    EXPECT_TRUE(same_trees(kRelu, text));
    EXPECT_EQ(find_in("let a =\r\n", "E0200").source, "let a =");
}

TEST(Layout, ALineEndInBracketsIsWhiteSpace) {
    EXPECT_TRUE(same_trees("let a = f(b,\nc,\n   d[\n1\n])\n", "let a = f(b, c, d[1])"));
}

TEST(Layout, ABraceInBracketsOpensStatementsAndReturnsToTheBrackets) {
    EXPECT_TRUE(same_trees(R"(let a = [
    compute(x) {
        @kernel custom
        out = x
    },
  compute(x) {
     @kernel custom
     out = x },
])",
                           "let a = [compute(x) { @kernel custom; out = x }, "
                           "compute(x) { @kernel custom; out = x }]"));
}

TEST(Layout, ElseBelongsToTheIfOfItsColumn) {
    const std::string inner = printed(body(R"(    for i in 0..len:
        if i < 1:
            if i < 2:
                out[i] = 1
            else:
                out[i] = 2)"));
    const std::string outer = printed(body(R"(    for i in 0..len:
        if i < 1:
            if i < 2:
                out[i] = 1
        else:
            out[i] = 2)"));
    EXPECT_NE(inner, outer);
    EXPECT_TRUE(same_trees(inner, body(R"(    for i in 0..len {
        if i < 1 { if i < 2 { out[i] = 1 } else { out[i] = 2 } }
    })")));
    EXPECT_TRUE(same_trees(outer, body(R"(    for i in 0..len {
        if i < 1 { if i < 2 { out[i] = 1 } }
        else { out[i] = 2 }
    })")));
}

TEST(Layout, ABlockMayFollowItsColonOnlyAsASimpleStatement) {
    EXPECT_EQ(errors_in(body("    for i in 0..len: for j in 0..len: out[i] = x[j]")), "E0207@3:22");
}

TEST(Layout, NestingUpToFortyLevelsIsAccepted) {
    const auto parentheses = [](int n) {
        return "let a = " + std::string(std::size_t(n), '(') + "b" +
               std::string(std::size_t(n), ')');
    };
    EXPECT_EQ(errors_in(parentheses(40)), "");
    EXPECT_EQ(errors_in(parentheses(41)), "E0104@1:49");
    EXPECT_EQ(errors_in(parentheses(100000)), "E0104@1:49");
}

std::string nested_blocks(int n) {
    std::string text = "compute(x) {\n  @kernel custom\n  out = x\n";
    for (int i = 0; i < n; ++i) text += std::string(std::size_t(i + 2), ' ') + "if 1:\n";
    return text + std::string(std::size_t(n + 2), ' ') + "out = x\n}\n";
}

TEST(Layout, Check22_BlocksNestedDeeperThanFortyAreE0104) {
    EXPECT_EQ(errors_in(nested_blocks(40)), "");
    EXPECT_EQ(errors_in(nested_blocks(41)), "E0104@45:44");
    EXPECT_EQ(errors_in(nested_blocks(3000)), "E0104@45:44");
}

TEST(Layout, Check22_BracesAndPrefixesCountToo) {
    std::string braces = "compute(x) { @kernel custom; out = x; ";
    for (int i = 0; i < 50; ++i) braces += "if 1 { ";
    EXPECT_EQ(errors_in(braces).substr(0, 5), "E0104");
    EXPECT_EQ(errors_in("let a = " + std::string(41, '-') + "b"), "E0104@1:49");
    EXPECT_EQ(errors_in("let a = " + std::string(40, '!') + "b"), "");
    EXPECT_EQ(errors_in("let a = " + std::string(100000, '!') + "b"), "E0104@1:49");
}

TEST(Layout, Check22_LongChainsAreRefusedBeforeTheyOverflowAStack) {
    std::string sum = "let a = b";
    for (int i = 0; i < 999; ++i) sum += "+b";
    EXPECT_EQ(errors_in(sum), "");
    for (int i = 0; i < 100000; ++i) sum += "+b";
    EXPECT_EQ(errors_in(sum).substr(0, 5), "E0104");
    std::string path = "let a = b";
    for (int i = 0; i < 100000; ++i) path += ".c";
    EXPECT_EQ(errors_in(path).substr(0, 5), "E0104");
    std::string branches = "compute(x) {\n@kernel custom\nout = x\n";
    for (int i = 0; i < 100000; ++i) branches += i == 0 ? "if 1 { }" : " else if 1 { }";
    EXPECT_EQ(errors_in(branches + "}").substr(0, 5), "E0104");
}

}  // namespace
}  // namespace quern::lang
