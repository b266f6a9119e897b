#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/lang/diagnostics.h"
#include "quern/lang/issue.h"
#include "quern/lang/syntax.h"

namespace quern::lang {

/// Writes the message of one issue. `describe` in messages.cc chooses the function.
class Writer {
public:
    Writer(const Issue& issue, const Tree& tree, Diagnostics& diagnostics)
        : issue_(issue), tree_(tree), diagnostics_(diagnostics) {}

    Diagnostics::Entry say(std::string message) {
        return diagnostics_.add(issue_.code, issue_.span, std::move(message));
    }

    std::string_view text_at(Span span) const { return tree_.text.substr(span.begin, span.length); }
    std::string_view text() const { return text_at(issue_.span); }
    std::string_view other() const { return text_at(issue_.other); }
    std::string name() const { return "'" + std::string(text()) + "'"; }

    /// What stands where something else was expected.
    std::string found() const;

    /// "expected ..., got ...".
    Diagnostics::Entry expected(std::string_view what);

    int line_of(Span span) const { return diagnostics_.place(span.begin).first; }

    /// The source around the issue: before it on its line, without the white space at either end,
    /// and from it to the end of the text.
    std::string_view before() const;
    std::string_view after() const { return tree_.text.substr(issue_.span.begin); }

    void suggest(Diagnostics::Entry entry, const std::vector<std::string>& candidates,
                 std::string_view prefix = "") const;

    void layout();
    void syntax();
    void decorators();
    void names();
    void functions();
    void stores();
    void yields();
    void host_construct();
    void decorator_argument();
    void undefined();

private:
    std::string mend_of_expression() const;
    std::string mend_of_end() const;
    std::string mend_of_name() const;
    std::string mend_of_block() const;
    void loop_bounds();

    NodeId enclosing_compute() const;
    void collect(NodeId compute, std::vector<std::string>& operands,
                 std::vector<std::string>& locals) const;

    const Issue& issue_;
    const Tree& tree_;
    Diagnostics& diagnostics_;
};

}  // namespace quern::lang
