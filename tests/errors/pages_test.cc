// Every code has a page in docs/errors that says what the library does.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "example.h"
#include "quern/runtime/device_options.h"

namespace quern::errors {
namespace {

struct Row {
    const char* code;
    const char* title;
};

// GoogleTest prints the parameter of each test.
void PrintTo(const Row& row, std::ostream* stream) { *stream << row.code; }

constexpr Row kRows[] = {
#define CODE(code, enumerator, title) {#code, title},
#include "quern/lang/codes.def"
#undef CODE
};

std::string all_of(const std::vector<Diagnostic>& list) {
    std::string text;
    for (const Diagnostic& diagnostic : list) text += to_string(diagnostic) + "\n";
    return text.empty() ? "nothing was reported" : text;
}

bool is_error(const Diagnostic& diagnostic) { return diagnostic.severity == Severity::Error; }

std::string line_of(const std::string& text, int line) {
    std::istringstream lines(text);
    std::string found;
    for (int n = 0; n < line; ++n) std::getline(lines, found);
    return found;
}

/// What a reader of the data relies on, whatever the code.
void expect_well_formed(const Diagnostic& diagnostic, const std::string& text) {
    constexpr std::string_view kLetters = "EWN";
    EXPECT_EQ(kLetters.find(diagnostic.code.front()),
              static_cast<std::size_t>(diagnostic.severity));
    EXPECT_FALSE(diagnostic.message.empty());
    EXPECT_EQ(diagnostic.file, "<kernel>");
    ASSERT_GE(diagnostic.line, 1);
    EXPECT_EQ(diagnostic.source, line_of(text, diagnostic.line));
    EXPECT_GE(diagnostic.column, 1);
    EXPECT_LE(diagnostic.column, static_cast<int>(diagnostic.source.size()) + 1);
    EXPECT_GE(diagnostic.length, 1);
}

class Pages : public ::testing::TestWithParam<Row> {};

TEST_P(Pages, HoldWhatTheyPromise) {
    const auto [code, title] = GetParam();
    const Page page = read_page(code);
    EXPECT_EQ(page.title, "# " + std::string(code) + ": " + title);
    EXPECT_LE(page.lines, 60) << "a page fits on a screen";
    for (const Example* example : {&page.wrong, &page.right}) {
        if (example->needs.empty()) continue;
        if (!has_device(example->needs)) GTEST_SKIP() << "no device " << example->needs;
    }

    const std::vector<Diagnostic> wrong = diagnostics_of(page.wrong);
    int found = 0;
    for (const Diagnostic& diagnostic : wrong) {
        if (diagnostic.code == code) ++found;
        expect_well_formed(diagnostic, page.wrong.text);
        EXPECT_TRUE(diagnostic.code == code || !is_error(diagnostic)) << to_string(diagnostic);
    }
    EXPECT_GT(found, 0) << "the wrong example gives:\n" << all_of(wrong);

    const std::vector<Diagnostic> right = diagnostics_of(page.right);
    EXPECT_TRUE(right.empty()) << "the right example gives:\n" << all_of(right);
}

INSTANTIATE_TEST_SUITE_P(Errors, Pages, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.code); });

/// The place of the diagnostic in the wrong example, as "line: underlined text".
std::string place_of(const std::string& code) {
    for (const Diagnostic& d : diagnostics_of(read_page(code).wrong)) {
        if (d.code != code) continue;
        return std::to_string(d.line) + ": " +
               d.source.substr(static_cast<std::size_t>(d.column - 1),
                               static_cast<std::size_t>(d.length));
    }
    return "nowhere";
}

TEST(PagePosition, IsThatOfTheStore) {
    EXPECT_EQ(place_of("E0420"), "4: x");
    EXPECT_EQ(place_of("E0510"), "5: out[i]");
}

TEST(PagePosition, IsThatOfTheIndex) {
    EXPECT_EQ(place_of("E0403"), "5: j");
    EXPECT_EQ(place_of("E0412"), "5: i * 0.5");
    EXPECT_EQ(place_of("E0507"), "5: i + 1");
}

TEST(PagePosition, IsThatOfTheSecondDeclaration) {
    EXPECT_EQ(place_of("E0305"), "3: kernel");
    EXPECT_EQ(place_of("E0410"), "5: y");
}

TEST(PagePosition, IsThatOfTheLineThatFailsAtRunTime) {
    EXPECT_EQ(place_of("E0514").substr(0, 5), "10: t");
    EXPECT_EQ(place_of("E0620").substr(0, 2), "4:");
    EXPECT_EQ(place_of("E0621"), "5: n[i] / d[i]");
}

TEST(PageIndex, ListsEveryCodeInOrder) {
    std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/docs/errors/README.md");
    std::vector<std::string> rows;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("| [")) rows.push_back(line);
    }
    std::vector<std::string> expected;
    for (const auto& [code, title] : kRows) {
        expected.push_back(std::string("| [") + code + "](" + code + ".md) | " + title + " |");
    }
    EXPECT_EQ(rows, expected);
}

TEST(PageIndex, HasNoPageOfAnUnknownCode) {
    std::set<std::string> known = {"README"};
    for (const Row& row : kRows) known.insert(row.code);
    const auto folder = std::filesystem::path(QUERN_SOURCE_DIR) / "docs" / "errors";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        EXPECT_TRUE(known.count(entry.path().stem().string())) << entry.path().filename();
    }
}

TEST(PageExample, ReadsWhatItsFirstCommentsSay) {
    const Example example = read_example(
        "// operands: x: float32[2, 3], i: int64[1] = 7, s: bool\n"
        "// arg: eps = 1e-5, n = 4\n"
        "// pedantic\n"
        "// needs: vulkan:0\n"
        "compute(x, i, s) { ... }\n");
    ASSERT_EQ(example.operands.size(), 3u);
    EXPECT_EQ(example.operands[0].name, "x");
    EXPECT_EQ(example.operands[0].tensor.shape(), Shape({2, 3}));
    EXPECT_EQ(example.operands[0].tensor.values(), std::vector<double>({0, 1, 2, 3, 0, 1}));
    EXPECT_EQ(example.operands[1].tensor.dtype(), DType::Int64);
    EXPECT_EQ(example.operands[1].tensor.values(), std::vector<double>({7}));
    EXPECT_EQ(example.operands[2].tensor.rank(), 0);
    ASSERT_EQ(example.arguments.size(), 2u);
    EXPECT_EQ(std::get<double>(example.arguments[0].value), 1e-5);
    EXPECT_EQ(std::get<std::int64_t>(example.arguments[1].value), 4);
    EXPECT_TRUE(example.pedantic);
    EXPECT_EQ(example.needs, "vulkan:0");
}

}  // namespace
}  // namespace quern::errors
