#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"
#include "quern/lang/syntax.h"

namespace quern::lang {

enum class Code : std::uint16_t {
#define CODE(code, enumerator, title) code,
#include "quern/lang/codes.def"
#undef CODE
};

struct Source;

/// Returns "E0103".
std::string_view to_string(Code code);

/// Returns the title of the code's page.
std::string_view title(Code code);

/// Collects what is wrong with one text, in the order of the text, up to `kLimit` errors.
class Diagnostics {
public:
    static constexpr int kLimit = 20;

    /// `text` is copied. An empty `file` is shown as "<kernel>". `first_line` is the line of the
    /// text's first line in its file.
    explicit Diagnostics(std::string_view text, std::string file = {}, int first_line = 1);

    /// Of a text that was parsed, shown where it stands.
    explicit Diagnostics(const Source& source);

    /// Lets one add notes, help and fix-its to the diagnostic just made. A reference to it does not
    /// outlive the next `add`.
    class Entry {
    public:
        Entry& note(std::string text);
        /// A note that ends with the place: "... (line 3, column 9)".
        Entry& note_at(Span span, std::string text);
        Entry& help(std::string text);
        Entry& fix(Span span, std::string replacement);

    private:
        friend class Diagnostics;
        Entry(Diagnostics& owner, std::size_t index) : owner_(owner), index_(index) {}
        Diagnostics& owner_;
        std::size_t index_;
    };

    /// Adds a diagnostic; its severity is the first letter of its code. The same code at the same
    /// place is kept once.
    Entry add(Code code, Span span, std::string message);

    bool has_errors() const noexcept { return errors_ > 0; }
    int error_count() const noexcept { return errors_; }
    std::size_t size() const noexcept { return list_.size(); }

    /// Discards what was added after the collection had `size` diagnostics.
    void truncate(std::size_t size);

    /// All of it, errors and warnings, by place in the text.
    std::vector<Diagnostic> sorted() const;

    /// Throws KernelError with everything if there is an error; else hands warnings and notes to
    /// the handler.
    void raise() const;

    /// Line and column, from 1, of a byte of the text.
    std::pair<int, int> place(std::uint32_t offset) const;

    /// A diagnostic without code and message at a place of the text.
    Diagnostic at(Span span) const;

private:
    std::string text_;
    std::string file_;
    int first_line_ = 1;
    std::optional<Diagnostic> stands_for_;
    int errors_ = 0;
    std::vector<std::uint32_t> line_starts_;
    std::vector<std::pair<std::uint32_t, Diagnostic>> list_;
    Diagnostic overflow_;
};

/// The candidates within edit distance 2 of `name`, nearest first: "did you mean". None of a name
/// of one letter.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace quern::lang
