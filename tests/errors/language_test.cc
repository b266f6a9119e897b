// Every example of docs/language.md runs without an error.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors/example.h"

namespace quern::errors {
namespace {

/// The ```quern blocks with the heading that they stand under.
std::vector<std::pair<std::string, std::string>> blocks_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::pair<std::string, std::string>> blocks;
    std::string line, heading;
    bool inside = false;
    while (std::getline(file, line)) {
        if (inside && line == "```") {
            inside = false;
        } else if (inside) {
            blocks.back().second += line + "\n";
        } else if (line == "```quern") {
            inside = true;
            blocks.emplace_back(heading, "");
        } else if (line.rfind("## ", 0) == 0) {
            heading = line.substr(3);
        }
    }
    return blocks;
}

TEST(LanguageReference, EveryExampleRunsWithoutAnError) {
    const auto blocks = blocks_of(QUERN_SOURCE_DIR "/docs/language.md");
    ASSERT_GE(blocks.size(), 15u);
    for (const auto& [heading, text] : blocks) {
        SCOPED_TRACE(heading + "\n" + text);
        const Example example = read_example(text);
        EXPECT_TRUE(example.has_operands);
        for (const Diagnostic& d : diagnostics_of(example)) {
            EXPECT_NE(d.severity, Severity::Error) << to_string(d);
        }
    }
}

TEST(LanguageReference, EverySectionHasAnExample) {
    std::ifstream file(QUERN_SOURCE_DIR "/docs/language.md");
    std::stringstream text;
    text << file.rdbuf();
    const auto blocks = blocks_of(QUERN_SOURCE_DIR "/docs/language.md");
    std::string line;
    while (std::getline(text, line)) {
        if (line.rfind("## ", 0) != 0) continue;
        const std::string heading = line.substr(3);
        bool found = false;
        for (const auto& block : blocks) found = found || block.first == heading;
        EXPECT_TRUE(found) << heading;
    }
}

}  // namespace
}  // namespace quern::errors
