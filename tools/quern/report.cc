#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "progress.h"

namespace quern::command {
namespace {

using Json = nlohmann::json;

std::string_view name_of(Severity severity) {
    switch (severity) {
        case Severity::Error:
            return "error";
        case Severity::Warning:
            return "warning";
        default:
            return "note";
    }
}

Json to_json(const Diagnostic& diagnostic) {
    Json fixits = Json::array();
    for (const FixIt& fixit : diagnostic.fixits) {
        fixits.push_back(
            {{"begin", fixit.begin}, {"length", fixit.length}, {"replacement", fixit.replacement}});
    }
    return {{"severity", name_of(diagnostic.severity)},
            {"code", diagnostic.code},
            {"message", diagnostic.message},
            {"file", diagnostic.file},
            {"line", diagnostic.line},
            {"column", diagnostic.column},
            {"length", diagnostic.length},
            {"notes", diagnostic.notes},
            {"help", diagnostic.help},
            {"fixits", fixits}};
}

bool wants_colour() {
    const char* const refused = std::getenv("NO_COLOR");
    return isatty(STDERR_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

std::string text_of(const Diagnostic& diagnostic) {
    // An error without a place has no source line to show.
    if (diagnostic.line == 0) {
        const std::string file = diagnostic.file.empty() ? "quern" : diagnostic.file;
        return fmt::format("{}: {}: {}\n", file, name_of(diagnostic.severity), diagnostic.message);
    }
    std::string text = to_string(diagnostic);
    if (text.empty() || text.back() != '\n') text += '\n';
    return text;
}

std::string coloured(std::string text, Severity severity) {
    const std::string name(name_of(severity));
    const std::size_t at = text.find(": " + name);
    if (at == std::string::npos) return text;
    const char* const colour = severity == Severity::Error     ? "\033[1;31m"
                               : severity == Severity::Warning ? "\033[1;35m"
                                                               : "\033[1;36m";
    text.insert(at + 2 + name.size(), "\033[0m");
    text.insert(at + 2, colour);
    return text;
}

}  // namespace

void Reporter::add(const Diagnostic& diagnostic) {
    const std::string text = text_of(diagnostic);
    const std::lock_guard lock(mutex_);
    if (diagnostic.severity == Severity::Error) failed_ = true;
    if (!seen_.insert(text).second) return;
    if (options_.json) {
        all_.push_back(diagnostic);
        return;
    }
    if (diagnostic.severity == Severity::Note && !options_.notes) return;
    clear_progress();
    const std::string shown = wants_colour() ? coloured(text, diagnostic.severity) : text;
    // A text may have bytes of 0.
    std::fwrite(shown.data(), 1, shown.size(), stderr);
}

void Reporter::add(const std::vector<Diagnostic>& diagnostics) {
    for (const Diagnostic& diagnostic : diagnostics) add(diagnostic);
}

void Reporter::add_error(const std::string& message, const std::string& file) {
    Diagnostic diagnostic;
    diagnostic.message = message;
    diagnostic.file = file;
    diagnostic.length = 0;
    add(diagnostic);
}

int Reporter::finish() {
    if (options_.json) {
        Json array = Json::array();
        for (const Diagnostic& diagnostic : all_) array.push_back(to_json(diagnostic));
        // Bytes of a text that are not UTF-8 become U+FFFD: the array is always valid JSON.
        const std::string text = array.dump(2, ' ', false, Json::error_handler_t::replace);
        std::fputs((text + '\n').c_str(), stdout);
    }
    return failed_ ? 1 : 0;
}

}  // namespace quern::command
