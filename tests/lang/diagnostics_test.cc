#include "quern/lang/diagnostics.h"

#include <gtest/gtest.h>

#include "texts.h"

namespace quern::lang {
namespace {

TEST(Diagnostics, AreRenderedAsInSection11) {
    const std::string text =
        "out = compute(x) { @kernel elementwise\n\n    for i in 0..len:\n    out[i] = "
        "relu(x[i])\n}\n";
    Diagnostics diagnostics(text, "softmax.quern");
    parse(text, {}, diagnostics);
    EXPECT_EQ(to_string(diagnostics.sorted().front()),
              "softmax.quern:4:5: error[E0103]: expected an indented block after ':'\n"
              "    4 |     out[i] = relu(x[i])\n"
              "      |     ^\n"
              "note: the 'for' on line 3 opens the block\n"
              "help: indent the body, put it on the same line, or use { ... ; ... }");
}

TEST(Diagnostics, UnderlineTheWholeToken) {
    Diagnostics diagnostics("let abc = def\n");
    diagnostics.add(Code::E0411, {10, 3}, "wrong");
    EXPECT_EQ(to_string(diagnostics.sorted().front()),
              "<kernel>:1:11: error[E0411]: wrong\n    1 | let abc = def\n      |           ^~~");
}

TEST(Diagnostics, KeepTabsBeforeTheCaret) {
    Diagnostics diagnostics("\tab\n");
    diagnostics.add(Code::W0701, {2, 1}, "wrong");
    EXPECT_EQ(to_string(diagnostics.sorted().front()),
              "<kernel>:1:3: warning[W0701]: wrong\n    1 | \tab\n      | \t ^");
}

TEST(Diagnostics, CountLinesFromTheFirstLineGiven) {
    Diagnostics diagnostics("a\nbc", "file.cc", 40);
    diagnostics.add(Code::E0411, {3, 1}, "wrong").note_at({0, 1}, "here");
    const Diagnostic d = diagnostics.sorted().front();
    EXPECT_EQ(d.line, 41);
    EXPECT_EQ(d.column, 2);
    EXPECT_EQ(d.source, "bc");
    EXPECT_EQ(d.notes[0], "here (line 40, column 1)");
}

TEST(Diagnostics, AreSortedByPlaceAndKeptOncePerCodeAndPlace) {
    Diagnostics diagnostics("abcdef");
    diagnostics.add(Code::E0411, {4, 1}, "second").help("kept");
    diagnostics.add(Code::N0802, {1, 1}, "first");
    diagnostics.add(Code::E0411, {4, 1}, "again").help("lost");
    diagnostics.add(Code::E0412, {4, 1}, "third");
    const std::vector<Diagnostic> all = diagnostics.sorted();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].message, "first");
    EXPECT_EQ(all[0].severity, Severity::Note);
    EXPECT_EQ(all[1].message, "second");
    EXPECT_EQ(all[1].help, std::vector<std::string>{"kept"});
    EXPECT_EQ(all[2].message, "third");
}

TEST(Diagnostics, HoldTwentyErrorsAndAnyNumberOfWarnings) {
    Diagnostics diagnostics(std::string(100, 'x'));
    for (std::uint32_t i = 0; i < 50; ++i)
        diagnostics.add(Code::E0411, {i, 1}, "error").note("note");
    for (std::uint32_t i = 0; i < 50; ++i) diagnostics.add(Code::W0701, {i, 1}, "warning");
    EXPECT_EQ(diagnostics.size(), 70u);
}

TEST(Diagnostics, CanBeTruncated) {
    Diagnostics diagnostics("abc");
    diagnostics.add(Code::W0701, {0, 1}, "warning");
    const std::size_t size = diagnostics.size();
    diagnostics.add(Code::E0411, {1, 1}, "error");
    EXPECT_TRUE(diagnostics.has_errors());
    diagnostics.truncate(size);
    EXPECT_FALSE(diagnostics.has_errors());
    EXPECT_EQ(diagnostics.size(), 1u);
}

TEST(Diagnostics, RaiseThrowsEverythingAndHandsOverWarnings) {
    std::vector<std::string> seen;
    WarningHandler before =
        set_warning_handler([&](const Diagnostic& d) { seen.push_back(d.code); });
    Diagnostics diagnostics("abc");
    diagnostics.add(Code::W0701, {0, 1}, "warning");
    diagnostics.raise();
    EXPECT_EQ(seen, std::vector<std::string>{"W0701"});
    diagnostics.add(Code::E0411, {1, 1}, "error");
    try {
        diagnostics.raise();
        ADD_FAILURE() << "expected an error";
    } catch (const KernelError& error) {
        EXPECT_EQ(error.diagnostics().size(), 2u);
    }
    set_warning_handler(std::move(before));
}

TEST(Diagnostics, EveryCodeHasItsNameAndTitle) {
    EXPECT_EQ(to_string(Code::E0103), "E0103");
    EXPECT_EQ(title(Code::E0103), "expected an indented block after ':'");
    EXPECT_EQ(to_string(Code::N0804), "N0804");
}

TEST(Nearest, GivesCandidatesWithinTwoEditsNearestFirst) {
    EXPECT_EQ(nearest("kernal", {"parallel", "kernel", "carnal"}),
              (std::vector<std::string>{"kernel", "carnal"}));
    EXPECT_EQ(nearest("daat", {"data"}), std::vector<std::string>{"data"});
    EXPECT_EQ(nearest("same", {"same"}), std::vector<std::string>{});
    EXPECT_EQ(nearest("abcd", {"wxyz", "abcdefg"}), std::vector<std::string>{});
    EXPECT_EQ(nearest("xy", {"y", "abc", "xz"}), (std::vector<std::string>{"y", "xz"}));
}

TEST(Nearest, GivesNothingForANameOfOneLetter) {
    EXPECT_EQ(nearest("x", {"y", "abc", "xy"}), std::vector<std::string>{});
    EXPECT_TRUE(find_in(value("y[i]"), "E0411").help.empty());
}

TEST(Messages, NameWhatCame) {
    EXPECT_EQ(find_in("let a = ,", "E0200").message, "expected an expression, got ','");
    EXPECT_EQ(find_in("let a = \"" + std::string(60, 'x') + "\" \"" + std::string(60, 'x') + "\"",
                      "E0206")
                  .message,
              "expected the end of the statement, got '\"" + std::string(36, 'x') + "...'");
}

}  // namespace
}  // namespace quern::lang
