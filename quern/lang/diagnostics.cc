#include "quern/lang/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "quern/lang/parse.h"
#include "quern/support/check.h"

namespace quern::lang {
namespace {

struct CodeInfo {
    std::string_view name;
    std::string_view title;
};

constexpr CodeInfo kCodes[] = {
#define CODE(code, enumerator, title) {#code, title},
#include "quern/lang/codes.def"
#undef CODE
};

Severity severity_of(Code code) {
    const char letter = to_string(code).front();
    return letter == 'E' ? Severity::Error : letter == 'W' ? Severity::Warning : Severity::Note;
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t(0));
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

std::string_view to_string(Code code) { return kCodes[static_cast<std::size_t>(code)].name; }

std::string_view title(Code code) { return kCodes[static_cast<std::size_t>(code)].title; }

Diagnostics::Diagnostics(std::string_view text, std::string file, int first_line)
    : text_(text), file_(file.empty() ? "<kernel>" : std::move(file)), first_line_(first_line) {
    line_starts_.push_back(0);
    for (std::size_t i = 0; i < text_.size(); ++i) {
        if (text_[i] == '\n') line_starts_.push_back(static_cast<std::uint32_t>(i + 1));
    }
}

Diagnostics::Diagnostics(const Source& source)
    : Diagnostics(source.text, source.file, source.first_line) {
    stands_for_ = source.stands_for;
}

std::pair<int, int> Diagnostics::place(std::uint32_t offset) const {
    const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    const auto line = after - line_starts_.begin() - 1;
    return {first_line_ + static_cast<int>(line),
            static_cast<int>(offset - line_starts_[static_cast<std::size_t>(line)]) + 1};
}

Diagnostic Diagnostics::at(Span span) const {
    if (stands_for_) return *stands_for_;
    Diagnostic diagnostic;
    diagnostic.file = file_;
    std::tie(diagnostic.line, diagnostic.column) = place(span.begin);
    diagnostic.length = static_cast<int>(std::max(span.length, std::uint32_t(1)));
    const std::size_t start = line_starts_[static_cast<std::size_t>(diagnostic.line - first_line_)];
    std::string_view source = std::string_view(text_).substr(start);
    source = source.substr(0, source.find('\n'));
    if (source.ends_with('\r')) source.remove_suffix(1);
    diagnostic.source = source;
    return diagnostic;
}

Diagnostics::Entry Diagnostics::add(Code code, Span span, std::string message) {
    const bool error = severity_of(code) == Severity::Error;
    const std::string_view name = to_string(code);
    const bool known = std::any_of(list_.begin(), list_.end(), [&](const auto& entry) {
        return entry.first == span.begin && entry.second.code == name;
    });
    if (known || (error && errors_ == kLimit)) {
        overflow_ = Diagnostic();
        return Entry(*this, list_.size());
    }
    Diagnostic diagnostic = at(span);
    diagnostic.severity = severity_of(code);
    diagnostic.code = name;
    diagnostic.message = std::move(message);
    if (error) ++errors_;
    list_.emplace_back(span.begin, std::move(diagnostic));
    return Entry(*this, list_.size() - 1);
}

Diagnostics::Entry& Diagnostics::Entry::note(std::string text) {
    auto& list = owner_.list_;
    Diagnostic& target = index_ < list.size() ? list[index_].second : owner_.overflow_;
    target.notes.push_back(std::move(text));
    return *this;
}

Diagnostics::Entry& Diagnostics::Entry::note_at(Span span, std::string text) {
    if (owner_.stands_for_) return note(std::move(text));
    const auto [line, column] = owner_.place(span.begin);
    return note(fmt::format("{} (line {}, column {})", text, line, column));
}

Diagnostics::Entry& Diagnostics::Entry::help(std::string text) {
    auto& list = owner_.list_;
    Diagnostic& target = index_ < list.size() ? list[index_].second : owner_.overflow_;
    target.help.push_back(std::move(text));
    return *this;
}

Diagnostics::Entry& Diagnostics::Entry::fix(Span span, std::string replacement) {
    if (owner_.stands_for_) return *this;
    auto& list = owner_.list_;
    Diagnostic& target = index_ < list.size() ? list[index_].second : owner_.overflow_;
    target.fixits.push_back({span.begin, span.length, std::move(replacement)});
    return *this;
}

void Diagnostics::truncate(std::size_t size) {
    while (list_.size() > size) {
        if (list_.back().second.severity == Severity::Error) --errors_;
        list_.pop_back();
    }
}

std::vector<Diagnostic> Diagnostics::sorted() const {
    std::vector<std::size_t> order(list_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return list_[a].first < list_[b].first; });
    std::vector<Diagnostic> result;
    result.reserve(order.size());
    for (const std::size_t i : order) result.push_back(list_[i].second);
    if (errors_ == kLimit) {
        const auto last = std::find_if(result.rbegin(), result.rend(), [](const Diagnostic& d) {
            return d.severity == Severity::Error;
        });
        last->notes.push_back(fmt::format("after {} errors no more are looked for", kLimit));
    }
    return result;
}

void Diagnostics::raise() const {
    std::vector<Diagnostic> all = sorted();
    if (has_errors()) quern::raise(KernelError(std::move(all)));
    for (const Diagnostic& diagnostic : all) warn(diagnostic);
}

std::vector<std::string> nearest(std::string_view name,
                                 const std::vector<std::string>& candidates) {
    // One letter is near to every other one.
    if (name.size() < 2) return {};
    // Of a name of up to three letters little would be left by two changes.
    const std::size_t limit = name.size() < 4 ? 1 : 2;
    std::vector<std::pair<std::size_t, std::string>> found;
    for (const std::string& candidate : candidates) {
        if (candidate.size() > name.size() + limit || name.size() > candidate.size() + limit) {
            continue;
        }
        const std::size_t distance = edit_distance(name, candidate);
        if (distance > 0 && distance <= limit) found.emplace_back(distance, candidate);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> names;
    for (auto& [distance, candidate] : found) {
        if (std::find(names.begin(), names.end(), candidate) == names.end()) {
            names.push_back(std::move(candidate));
        }
    }
    return names;
}

}  // namespace quern::lang

namespace quern {

std::string to_string(const Diagnostic& diagnostic) {
    constexpr std::array<std::string_view, 3> kSeverities = {"error", "warning", "note"};
    const std::string_view severity = kSeverities[static_cast<std::size_t>(diagnostic.severity)];
    std::string text;
    if (!diagnostic.file.empty()) text += diagnostic.file + ":";
    if (diagnostic.line > 0) {
        text += fmt::format("{}:{}:", diagnostic.line, diagnostic.column);
    }
    if (!text.empty()) text += ' ';
    text += severity;
    if (!diagnostic.code.empty()) text += fmt::format("[{}]", diagnostic.code);
    text += fmt::format(": {}", diagnostic.message);
    if (diagnostic.line > 0) {
        // Columns are bytes; a character of UTF-8 is shown as one.
        const auto is_rest_of_character = [](char c) { return (c & 0xC0) == 0x80; };
        const auto column = static_cast<std::size_t>(std::max(diagnostic.column - 1, 0));
        std::string margin = diagnostic.source.substr(0, column);
        const std::size_t behind = column - margin.size();
        std::erase_if(margin, is_rest_of_character);
        // Tabs are kept, so that the caret stands under its character whatever their width.
        std::replace_if(
            margin.begin(), margin.end(), [](char c) { return c != '\t'; }, ' ');
        margin.append(behind, ' ');
        const auto length = static_cast<std::size_t>(std::max(diagnostic.length, 1));
        std::string marked = behind > 0 ? "" : diagnostic.source.substr(column, length);
        std::erase_if(marked, is_rest_of_character);
        text += fmt::format("\n{:>5} | {}\n      | {}^{}", diagnostic.line, diagnostic.source,
                            margin, std::string(std::max<std::size_t>(marked.size(), 1) - 1, '~'));
    }
    for (const std::string& note : diagnostic.notes) text += "\nnote: " + note;
    for (const std::string& help : diagnostic.help) text += "\nhelp: " + help;
    return text;
}

}  // namespace quern
