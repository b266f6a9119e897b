#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "quern/lang/parse.h"

// Texts for the tests of the language, and what a parse says of them in short.

namespace quern::lang {

struct Outcome {
    std::shared_ptr<const Source> source;
    std::vector<Diagnostic> diagnostics;
};

inline Outcome parsed(std::string text, bool pedantic = false) {
    Diagnostics diagnostics(text);
    ParseOptions options;
    options.pedantic = pedantic;
    Outcome outcome;
    outcome.source = parse(std::move(text), options, diagnostics);
    outcome.diagnostics = diagnostics.sorted();
    return outcome;
}

/// "E0103@4:1 W0701@5:9": code, line and column of each diagnostic, in their order.
inline std::string all_in(const std::string& text, bool pedantic = false) {
    std::string list;
    for (const Diagnostic& d : parsed(text, pedantic).diagnostics) {
        list += fmt::format("{}{}@{}:{}", list.empty() ? "" : " ", d.code, d.line, d.column);
    }
    return list;
}

/// The same for errors alone.
inline std::string errors_in(const std::string& text, bool pedantic = false) {
    std::string list;
    for (const Diagnostic& d : parsed(text, pedantic).diagnostics) {
        if (d.severity != Severity::Error) continue;
        list += fmt::format("{}{}@{}:{}", list.empty() ? "" : " ", d.code, d.line, d.column);
    }
    return list;
}

/// The diagnostic with this code, or an empty one.
inline Diagnostic find_in(const std::string& text, std::string_view code, bool pedantic = false) {
    for (const Diagnostic& d : parsed(text, pedantic).diagnostics) {
        if (d.code == code) return d;
    }
    return {};
}

/// A kernel over x with these body lines, indented by four columns; its first line is line 3.
inline std::string body(const std::string& lines) {
    return "compute(x) {\n    @kernel custom\n" + lines + "\n}\n";
}

/// `out[i] = expression` in a loop over i; the expression begins at line 4, column 18.
inline std::string value(const std::string& expression) {
    return body("    for i in 0..len:\n        out[i] = " + expression);
}

/// The tree of an expression at host level, in canonical form.
inline std::string printed(const std::string& text) {
    const Outcome outcome = parsed(text);
    for (const Diagnostic& d : outcome.diagnostics) {
        if (d.severity == Severity::Error) return to_string(d);
    }
    return print(outcome.source->tree());
}

inline bool same_trees(const std::string& a, const std::string& b) {
    return same(parsed(a).source->tree(), parsed(b).source->tree());
}

inline std::vector<std::filesystem::path> kernel_files() {
    std::vector<std::filesystem::path> files;
    const auto folder = std::filesystem::path(QUERN_SOURCE_DIR) / "examples" / "kernels";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".quern") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

inline std::string text_of_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The text of the kernel with this number: "09".
inline std::string kernel_text(std::string_view number) {
    for (const auto& path : kernel_files()) {
        if (path.filename().string().starts_with(number)) return text_of_file(path);
    }
    return {};
}

}  // namespace quern::lang
