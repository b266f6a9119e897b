// What a diagnostic says, as data and as text. Specification section 11.

#include "quern/lang/diagnostics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quern/lang/parse.h"

namespace quern::lang {
namespace {

std::vector<Diagnostic> found_in(const std::string& text, const std::string& file = {}) {
    Diagnostics diagnostics(text, file);
    ParseOptions options;
    options.file = file;
    parse(text, options, diagnostics);
    return diagnostics.sorted();
}

/// A kernel over x; its first line of `lines` is line 3.
std::string kernel_of(const std::string& lines) {
    return "compute(x) {\n    @kernel elementwise\n" + lines + "}\n";
}

const std::string kLostIndentation =
    "let y = compute(x) {\n"
    "        @kernel elementwise\n"
    "        for i in 0..len:\n"
    "        out[i] = relu(x[i])\n"
    "}\n";

TEST(RenderedDiagnostic, IsTheExampleOfTheSpecification) {
    const auto list = found_in(kLostIndentation, "softmax.quern");
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(to_string(list[0]),
              "softmax.quern:4:9: error[E0103]: expected an indented block after ':'\n"
              "    4 |         out[i] = relu(x[i])\n"
              "      |         ^\n"
              "note: the 'for' on line 3 opens the block\n"
              "help: indent the body, put it on the same line, or use { ... ; ... }");
}

TEST(RenderedDiagnostic, UnderlinesAllOfTheWrongToken) {
    const auto list = found_in(kernel_of("    for i in 0..len:\n        out[i] = gelux(x[i])\n"));
    ASSERT_EQ(list.size(), 1u);
    const std::string text = to_string(list[0]);
    EXPECT_NE(text.find("    4 |         out[i] = gelux(x[i])\n"
                        "      |                  ^~~~~\n"),
              std::string::npos)
        << text;
}

TEST(RenderedDiagnostic, CallsATextWithoutAFileAKernel) {
    const auto list = found_in(kLostIndentation);
    ASSERT_EQ(list.size(), 1u);
    EXPECT_TRUE(to_string(list[0]).starts_with("<kernel>:4:9: error[E0103]: "));
}

TEST(RenderedDiagnostic, KeepsTabsBeforeTheCaret) {
    Diagnostic diagnostic;
    diagnostic.code = "E0105";
    diagnostic.message = "'^' is not part of the language";
    diagnostic.file = "a.quern";
    diagnostic.line = 12;
    diagnostic.column = 4;
    diagnostic.source = "\tx ^ 2";
    EXPECT_EQ(to_string(diagnostic),
              "a.quern:12:4: error[E0105]: '^' is not part of the language\n"
              "   12 | \tx ^ 2\n"
              "      | \t  ^");
}

TEST(RenderedDiagnostic, CountsACharacterOfSeveralBytesOnce) {
    Diagnostic diagnostic;
    diagnostic.code = "E0200";
    diagnostic.message = "expected a value";
    diagnostic.file = "a.quern";
    diagnostic.line = 1;
    diagnostic.source = "let a = [\"\u00e4\u00f6\u20ac\", \u00d7\u00d7]";
    diagnostic.column = int(diagnostic.source.find("\u00d7")) + 1;
    diagnostic.length = 4;
    EXPECT_EQ(to_string(diagnostic),
              "a.quern:1:21: error[E0200]: expected a value\n"
              "    1 | let a = [\"\u00e4\u00f6\u20ac\", \u00d7\u00d7]\n"
              "      |                 ^~");
}

TEST(RenderedDiagnostic, StopsTheUnderlineAtTheEndOfTheLine) {
    const auto list = found_in("config {\n    compute_device: \"interpreter\n}\n");
    ASSERT_EQ(list.size(), 1u);
    Diagnostic diagnostic = list[0];
    diagnostic.length = 1000;
    const std::string text = to_string(diagnostic);
    EXPECT_NE(text.find("    2 |     compute_device: \"interpreter\n"
                        "      |                     ^~~~~~~~~~~~\n"),
              std::string::npos)
        << text;
}

TEST(RenderedDiagnostic, NamesWarningsAndNotes) {
    Diagnostic diagnostic;
    diagnostic.severity = Severity::Warning;
    diagnostic.code = "W0701";
    diagnostic.message = "'y' shadows another name";
    EXPECT_EQ(to_string(diagnostic), "warning[W0701]: 'y' shadows another name");
    diagnostic.severity = Severity::Note;
    diagnostic.code = "N0802";
    EXPECT_EQ(to_string(diagnostic), "note[N0802]: 'y' shadows another name");
}

TEST(DiagnosticData, SaysWhereAndWhatBeforeAnyText) {
    const auto list = found_in(kLostIndentation, "softmax.quern");
    ASSERT_EQ(list.size(), 1u);
    const Diagnostic& d = list[0];
    EXPECT_EQ(d.severity, Severity::Error);
    EXPECT_EQ(d.code, "E0103");
    EXPECT_EQ(d.message, "expected an indented block after ':'");
    EXPECT_EQ(d.file, "softmax.quern");
    EXPECT_EQ(d.line, 4);
    EXPECT_EQ(d.column, 9);
    EXPECT_EQ(d.length, 1);
    EXPECT_EQ(d.source, "        out[i] = relu(x[i])");
    ASSERT_EQ(d.notes.size(), 1u);
    EXPECT_EQ(d.notes[0], "the 'for' on line 3 opens the block");
    ASSERT_EQ(d.help.size(), 1u);
    EXPECT_TRUE(d.fixits.empty());
}

TEST(DiagnosticData, OffersTheChangeThatMendsAMisspelling) {
    const std::string text = "compute(x) {\n    @kernal elementwise\n    out = relu(x)\n}\n";
    const auto list = found_in(text);
    ASSERT_EQ(list.size(), 1u);
    const Diagnostic& d = list[0];
    EXPECT_EQ(d.code, "E0302");
    EXPECT_EQ(d.help, std::vector<std::string>({"did you mean '@kernel'?"}));
    ASSERT_EQ(d.fixits.size(), 1u);
    std::string mended = text;
    mended.replace(d.fixits[0].begin, d.fixits[0].length, d.fixits[0].replacement);
    EXPECT_EQ(mended, "compute(x) {\n    @kernel elementwise\n    out = relu(x)\n}\n");
    EXPECT_TRUE(found_in(mended).empty());
}

TEST(DiagnosticData, TakesItsSeverityFromItsCode) {
    Diagnostics diagnostics("abc");
    diagnostics.add(Code::N0801, {0, 1}, "a note");
    diagnostics.add(Code::W0701, {1, 1}, "a warning");
    EXPECT_FALSE(diagnostics.has_errors());
    diagnostics.add(Code::E0411, {2, 1}, "an error");
    EXPECT_TRUE(diagnostics.has_errors());
    const auto list = diagnostics.sorted();
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[0].severity, Severity::Note);
    EXPECT_EQ(list[1].severity, Severity::Warning);
    EXPECT_EQ(list[2].severity, Severity::Error);
}

TEST(DiagnosticData, CountsLinesFromThatOfTheFirstLine) {
    Diagnostics diagnostics("ab\ncd\r\nef", "k.cc", 40);
    diagnostics.add(Code::E0411, {4, 1}, "here").note_at({7, 2}, "and there");
    const auto list = diagnostics.sorted();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].line, 41);
    EXPECT_EQ(list[0].column, 2);
    EXPECT_EQ(list[0].source, "cd");
    EXPECT_EQ(list[0].notes, std::vector<std::string>({"and there (line 42, column 1)"}));
}

TEST(DiagnosticData, IsOneCharacterLongAtLeast) {
    Diagnostics diagnostics("ab\n");
    diagnostics.add(Code::E0108, {3, 0}, "at the end");
    EXPECT_EQ(diagnostics.sorted()[0].length, 1);
    EXPECT_EQ(diagnostics.sorted()[0].line, 2);
    EXPECT_EQ(diagnostics.sorted()[0].source, "");
}

TEST(SeveralDiagnostics, ComeInTheOrderOfTheText) {
    Diagnostics diagnostics("abcdef");
    diagnostics.add(Code::E0411, {4, 1}, "third");
    diagnostics.add(Code::W0701, {0, 1}, "first");
    diagnostics.add(Code::E0402, {4, 1}, "fourth: same place, added later");
    diagnostics.add(Code::E0411, {2, 1}, "second");
    std::string order;
    for (const Diagnostic& d : diagnostics.sorted()) order += d.message.substr(0, 6) + ".";
    EXPECT_EQ(order, "first.second.third.fourth.");
}

TEST(SeveralDiagnostics, OfOneCodeAtOnePlaceAreOne) {
    Diagnostics diagnostics("abc");
    diagnostics.add(Code::E0411, {1, 1}, "kept").note("with its note");
    diagnostics.add(Code::E0411, {1, 2}, "dropped").note("as is this one");
    const auto list = diagnostics.sorted();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].message, "kept");
    EXPECT_EQ(list[0].notes, std::vector<std::string>({"with its note"}));
}

TEST(SeveralDiagnostics, OnTwoLinesAreReportedInOneGo) {
    const auto list = found_in(
        kernel_of("    for i in 0..len:\n        let a = x[i] +\n        out[i] = x[i] ^ 2\n"));
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].code, "E0200");
    EXPECT_EQ(list[0].line, 4);
    EXPECT_EQ(list[1].code, "E0105");
    EXPECT_EQ(list[1].line, 5);
}

TEST(SeveralDiagnostics, StopAtTwentyErrors) {
    std::string lines = "    for i in 0..len:\n";
    for (int n = 0; n < 50; ++n) lines += "        out[i] = x[i] +\n";
    const auto list = found_in(kernel_of(lines));
    EXPECT_EQ(list.size(), 20u);
    EXPECT_EQ(list.back().line, 23);
    EXPECT_EQ(list.back().notes.back(), "after 20 errors no more are looked for");
    EXPECT_TRUE(list.front().notes.empty());

    Diagnostics diagnostics(std::string(100, 'a'));
    for (std::uint32_t n = 0; n < 50; ++n) diagnostics.add(Code::E0411, {n, 1}, "error");
    diagnostics.add(Code::W0701, {60, 1}, "a warning is not counted");
    EXPECT_EQ(diagnostics.sorted().size(), 21u);
}

TEST(SeveralDiagnostics, AreThrownTogether) {
    Diagnostics diagnostics("abc", "a.quern");
    diagnostics.add(Code::E0411, {2, 1}, "second");
    diagnostics.add(Code::W0701, {1, 1}, "first");
    try {
        diagnostics.raise();
        FAIL() << "nothing was thrown";
    } catch (const KernelError& error) {
        ASSERT_EQ(error.diagnostics().size(), 2u);
        EXPECT_EQ(error.diagnostics()[0].code, "W0701");
        EXPECT_NE(std::string(error.what()).find("a.quern:1:3: error[E0411]: second"),
                  std::string::npos)
            << error.what();
    }
}

TEST(SeveralDiagnostics, WithoutAnErrorGoToTheHandler) {
    std::vector<std::string> heard;
    const WarningHandler before =
        set_warning_handler([&](const Diagnostic& d) { heard.push_back(d.code); });
    Diagnostics diagnostics("abc");
    diagnostics.add(Code::N0801, {2, 1}, "a note");
    diagnostics.add(Code::W0701, {1, 1}, "a warning");
    diagnostics.raise();
    set_warning_handler(before);
    EXPECT_EQ(heard, std::vector<std::string>({"W0701", "N0801"}));
}

TEST(NearestNames, AreWithinTwoChanges) {
    const std::vector<std::string> names = {"kernel", "workgroup", "tile", "shared"};
    EXPECT_EQ(nearest("kernal", names), std::vector<std::string>({"kernel"}));
    EXPECT_EQ(nearest("karnal", names), std::vector<std::string>({"kernel"}));
    EXPECT_TRUE(nearest("karnaly", names).empty());
    EXPECT_EQ(nearest("worgkroup", names), std::vector<std::string>({"workgroup"}));
}

TEST(NearestNames, CountASwapOfNeighboursAsOneChange) {
    EXPECT_EQ(nearest("xep", {"exp"}), std::vector<std::string>({"exp"}));
}

TEST(NearestNames, ComeNearestFirstAndOnce) {
    EXPECT_EQ(nearest("gamma", {"gama_", "gemma", "alpha", "gemma", "gammas"}),
              std::vector<std::string>({"gemma", "gammas", "gama_"}));
}

TEST(NearestNames, LeaveOutTheNameItself) { EXPECT_TRUE(nearest("sum", {"sum"}).empty()); }

TEST(NearestNames, OfShortNamesAreOneChangeAway) {
    EXPECT_EQ(nearest("ab", {"ac", "cd", "abc"}), std::vector<std::string>({"ac", "abc"}));
}

}  // namespace
}  // namespace quern::lang
