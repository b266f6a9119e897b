// What a diagnostic tells one who writes as in Python, PyTorch, C++, CUDA or Triton.

#include "quern/lang/mends.h"

#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

std::string message_of(const std::string& text, std::string_view code) {
    return find_in(text, code).message;
}

/// The first help of the diagnostic with this code.
std::string help_of(const std::string& text, std::string_view code) {
    const Diagnostic d = find_in(text, code);
    return d.help.empty() ? "" : d.help[0];
}

TEST(Mends, ACharacterThatIsNotAsciiIsShownAsItIs) {
    EXPECT_EQ(message_of("let \u03b1 = 3", "E0105"), "'\u03b1' is not part of the language");
    EXPECT_EQ(all_in("let \u03b1\u03b2\u03b3 = 3"), "E0105@1:5");
    EXPECT_EQ(message_of("let a = \U0001f600", "E0105"),
              "'\U0001f600' is not part of the language");
}

TEST(Mends, BytesThatAreNotUtf8AreShownInHexadecimal) {
    for (const char* bytes : {"\xff", "\xe2\x88", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
        const unsigned first = static_cast<unsigned char>(bytes[0]);
        EXPECT_EQ(message_of(fmt::format("let a = {}", bytes), "E0105"),
                  fmt::format("the byte 0x{:02x} is not part of the language", first));
    }
    EXPECT_EQ(message_of("let a = \x01", "E0105"), "the byte 0x01 is not part of the language");
}

TEST(Mends, ATypographicCharacterIsFollowedByTheAsciiOne) {
    EXPECT_EQ(help_of("let a = b \u2212 1", "E0105"), "write the ASCII '-'");
    EXPECT_EQ(help_of("let a = b \u2013 1", "E0105"), "write the ASCII '-'");
    EXPECT_EQ(help_of("let a = b \u00d7 2", "E0105"), "write '*'");
    EXPECT_EQ(help_of("let a = b \u2264 2", "E0105"), "write '<='");
    EXPECT_NE(help_of(body("    for i in 0\u2026n: out[i] = x[i]"), "E0105").find("`0..n`"),
              std::string::npos);
    EXPECT_EQ(message_of("let a =\u00a0"
                         "3",
                         "E0105"),
              "the character U+00A0, no-break space, is not part of the language");
    EXPECT_EQ(help_of("let a =\u00a0"
                      "3",
                      "E0105"),
              "write the ASCII space");
}

TEST(Mends, QuotesOfAnotherKindAreOneError) {
    for (const char* text : {"\u201ccpu\u201d", "\u2018cpu\u2019", "'cpu'", "`cpu`"}) {
        EXPECT_EQ(all_in(fmt::format("config {{ compute_device: {} }}", text)), "E0105@1:26")
            << text;
    }
    EXPECT_NE(help_of("let a = \u201ccpu\u201d", "E0105").find("ASCII"), std::string::npos);
    EXPECT_EQ(all_in("let a = b'\nlet c = 3 +\n"), "E0105@1:10 E0200@2:12");
}

TEST(Mends, LogicalOperatorsOfCAreOneErrorEach) {
    EXPECT_EQ(all_in(body("    out = x\n    if 1 && 2: out = x")), "E0105@4:10");
    EXPECT_EQ(message_of("let a = b || c", "E0105"), "'||' is not part of the language");
    EXPECT_EQ(help_of("let a = b && c", "E0105"), "the operator is written 'and'");
}

TEST(Mends, ACommentOfAnotherLanguageIsOneErrorAndIsPassed) {
    EXPECT_EQ(all_in(value("x[i]  # it's (open")), "E0105@4:24");
    EXPECT_EQ(all_in(value("x[i]\n        /* out[i\n        += */\n        out[i] = 3")),
              "E0105@5:9");
    EXPECT_EQ(all_in(value("x[i] /* open")), "E0105@4:23");
    EXPECT_EQ(help_of("let a = 3 /* b */", "E0105"), "a comment begins with //");
}

TEST(Mends, AStatementOfAnotherLanguageNamesTheOneHere) {
    const std::pair<std::string, std::string> kCases[] = {
        {"float v = x[i]", "`let v = ...`"},
        {"float32 v = x[i]", "`var v: float32 = 0.0`"},
        {"auto v = x[i]", "`let v = ...`"},
        {"elif i < 2:", "`else if`"},
        {"while i < 2:", "`for i in 0..n:`"},
        {"For j in 0..2:", "`for`"},
        {"v := x[i]", "`let v = ...`"},
        {"out[i] = x[i] if i < 2 else 0", "`select(condition, a, b)`"},
        {"out[i] = i < 2 ? x[i] : 0", "`select(condition, a, b)`"},
        {"out[i] = x[i] * 1.0f", "`float32(1.0)`"},
    };
    for (const auto& [line, mend] : kCases) {
        const std::string text = value("x[i]\n        " + line);
        EXPECT_EQ(parsed(text).diagnostics.size(), 1u) << line;
        EXPECT_NE(help_of(text, "E0206").find(mend), std::string::npos)
            << line << ": " << help_of(text, "E0206");
    }
    EXPECT_NE(help_of("def f(x):\n    return relu(x)\n", "E0206").find("`pipeline "),
              std::string::npos);
}

TEST(Mends, AnExpressionOfAnotherLanguageNamesTheOneHere) {
    const std::pair<std::string, std::string> kCases[] = {
        {"x[i] ** 2", "`pow(x, 2)`"},
        {"x[i] << 1", "no shift"},
        {"x[i] * .5", "`0.5`"},
        {"x[i] +", "inside ( )"},
    };
    for (const auto& [expression, mend] : kCases) {
        const std::string text = value(expression);
        EXPECT_EQ(parsed(text).diagnostics.size(), 1u) << expression;
        EXPECT_NE(help_of(text, "E0200").find(mend), std::string::npos)
            << expression << ": " << help_of(text, "E0200");
    }
    EXPECT_EQ(help_of(value("x[i] * 1."), "E0201"), "a number has digits behind its point: `1.0`");
    EXPECT_EQ(help_of(value("x[i // 2]"), "E0108"),
              "'//' begins a comment; integers are divided with '/'");
}

TEST(Mends, AFunctionOfAnotherLibraryNamesTheOneHere) {
    EXPECT_EQ(help_of(value("torch.exp(x[i])"), "E0407"), "write `exp(...)`");
    EXPECT_EQ(help_of(value("x[i].exp()"), "E0407"), "write `exp(...)`");
    EXPECT_EQ(help_of(value("where(i < 2, 1, 2)"), "E0407"), "write `select(condition, a, b)`");
    EXPECT_EQ(help_of(value("x(i)"), "E0407"), "an element is written `x[i]`");
    EXPECT_NE(help_of(value("x[threadIdx.x]"), "E0411").find("`for i in 0..len:`"),
              std::string::npos);
}

TEST(Mends, AnElementOfAListIsWrittenWithBrackets) {
    EXPECT_EQ(help_of("let y = relu(layers.3.g)", "E0201"), "an element is written `layers[3]`");
    EXPECT_EQ(help_of("let y = relu(m.layers.3.g)", "E0201"),
              "an element is written `m.layers[3]`");
}

TEST(Mends, AComparisonWithOneSignNamesTheOneWithTwo) {
    EXPECT_EQ(help_of(body("    out = x\n    if 1 = 0:\n        out = x"), "E0208"),
              "equality is written `==`");
    EXPECT_EQ(all_in(body("    out = x\n    if 1 = 0 { out = x; }")), "E0208@4:10");
}

TEST(Mends, ACompoundAssignmentOfAScriptIsWrittenOut) {
    EXPECT_EQ(all_in("var c = 0\nc += 1\n"), "E0418@2:3");
    EXPECT_EQ(help_of("var c = 0\nc += 1\n", "E0418"),
              "a script assigns to a var with '=': `c = c + ...`");
}

TEST(Mends, APipelineOnOneLineIsToldThatItsBodyIsBelow) {
    EXPECT_EQ(help_of("pipeline f(x: tensor[n]) -> tensor[n]: return relu(x)\n", "E0103"),
              "the body of a pipeline stands on the lines below it, indented");
}

}  // namespace
}  // namespace quern::lang
