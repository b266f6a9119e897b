#include <fmt/format.h>

#include "quern/lang/mends.h"
#include "quern/lang/workspace.h"
#include "quern/lang/writer.h"

// Messages of the lexer and the grammar: E01xx and E02xx.

namespace quern::lang {
namespace {

void help_with(Diagnostics::Entry entry, std::string help) {
    if (!help.empty()) entry.help(std::move(help));
}

}  // namespace

void Writer::layout() {
    switch (issue_.code) {
        case Code::E0101:
            say("dedent to a column that was never opened")
                .help("return to the column of a block around this line");
            return;
        case Code::E0102:
            if (issue_.variant == 0) {
                say("tabs and spaces mixed in the indentation of one line");
            } else {
                const bool tab = text().front() == '\t';
                say(
                    fmt::format("tabs and spaces mixed in indentation: this line begins with {}, "
                                "lines before it with {}",
                                tab ? "tabs" : "spaces", tab ? "spaces" : "tabs"));
            }
            return;
        case Code::E0103:
            say("expected an indented block after ':'")
                .note(fmt::format("the '{}' on line {} opens the block", other(),
                                  line_of(issue_.other)))
                .help(issue_.variant == 1
                          ? "the body of a pipeline stands on the lines below it, indented"
                          : "indent the body, put it on the same line, or use { ... ; ... }");
            return;
        case Code::E0104:
            if (issue_.variant == 0) {
                say(fmt::format("nested more than {} levels deep", kMaxDepth));
            } else {
                say("nested too deeply: a chain of too many operators or branches")
                    .help("give parts of it a name with 'let'");
            }
            return;
        case Code::E0105: {
            const Stranger stranger = stranger_of(text());
            Diagnostics::Entry entry =
                say(fmt::format("{} is not part of the language", stranger.shown));
            if (!stranger.help.empty()) entry.help(stranger.help);
            return;
        }
        case Code::E0106:
            say("string is never closed").help("a string ends on the line that it begins on");
            return;
        case Code::E0107:
            if (issue_.variant == 0) {
                say(fmt::format("'{}' does not match '{}'", text(), other()))
                    .note_at(issue_.other, fmt::format("the '{}' is here", other()));
            } else {
                say(fmt::format("'{}' closes nothing", text()));
            }
            return;
        case Code::E0108:
            if (issue_.variant == 0) {
                Diagnostics::Entry entry = say(fmt::format("'{}' is never closed", text()));
                const std::string_view line = after().substr(0, after().find('\n'));
                if (line.find("//") != std::string_view::npos) {
                    entry.help("'//' begins a comment; integers are divided with '/'");
                }
            } else {
                say("'{' is never closed").note_at(issue_.other, "the '{' is here");
            }
            return;
        case Code::E0109:
            say("unexpected indentation")
                .help(
                    "only a line that ends with ':' is followed by a deeper one; an expression "
                    "goes on to the next line inside parentheses");
            return;
        default:
            if (issue_.variant == 1) {
                say("number is out of range: the largest float is about 1.797e308")
                    .help("infinity is written 'inf'");
            } else {
                say("number is out of range: the largest integer is 9223372036854775807");
            }
            return;
    }
}

/// What the token may have been meant as where an expression is expected.
std::string Writer::mend_of_expression() const {
    if (issue_.span.length == 0) {
        return "an expression goes on to the next line only inside ( ) or [ ]";
    }
    const char c = text().front();
    const char last = before().empty() ? ' ' : before().back();
    const char next = after().size() > 1 ? after()[1] : ' ';
    if (c == '{') return "a '{' stands at the end of the line that it belongs to";
    if (c == '*' && last == '*') return "a power is written `pow(x, 2)`, or `x * x`";
    if (c == last && (c == '<' || c == '>')) {
        return "there is no shift: multiply or divide by a power of 2";
    }
    if (c == '+' && (last == '+' || next == '+')) return "write `i += 1`";
    if (c == '.' && next >= '0' && next <= '9') {
        return "a number has digits on both sides of its point: `0.5`";
    }
    if (c == '=' && before().ends_with("..")) {
        return "a loop runs up to its upper bound and without it: `0..n + 1`";
    }
    if (c == '=' && last == '%') return "write `a = a % b`";
    if (text() == "..." && last != ' ') return "an axis is taken whole with ':'";
    return {};
}

/// The same where a statement should have ended.
std::string Writer::mend_of_end() const {
    const char next = after().size() > 1 ? after()[1] : ' ';
    if (text() == "?" || text() == "if") return "a choice is written `select(condition, a, b)`";
    if (text() == ":" && next == '=') return "declare the name: `let v = ...` or `var v = ...`";
    if (text().ends_with('=') && before().find("][") != std::string_view::npos) {
        return "indices stand in one pair of brackets: `out[i, j]`";
    }
    if (text() == ",") return "an assignment has one name on its left";
    if (text() == "->") return "a member stands behind a dot";
    if (text() == ":" && next == ':') return "names have no '::'";
    const std::string_view last = last_word(before());
    if (last == "compute") return "operands stand in parentheses: `compute(x) {`";
    if (last == "async") return "write `compute(x) @async {`";
    if (text() == "f" && last != before()) {
        return "a number has no suffix; convert it, as in `float32(1.0)`";
    }
    std::string_view statement = before();
    const std::size_t opener = statement.find_last_of(";{:");
    if (opener != std::string_view::npos) statement.remove_prefix(opener + 1);
    while (statement.starts_with(' ')) statement.remove_prefix(1);
    const std::string_view word = first_word(statement);
    if (const auto mend = mend_of_word(word); !mend.empty()) return std::string(mend);
    std::string small(word);
    for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    for (const std::string_view keyword : {"for", "if", "else", "let", "var", "yield", "return"}) {
        if (small == keyword && word != keyword) {
            return fmt::format("words are written in small letters: `{}`", keyword);
        }
    }
    if (text() == "{") return "a kernel is written `compute(x) { ... }`";
    return {};
}

/// The same where a name should follow a dot.
std::string Writer::mend_of_name() const {
    std::string_view path = before();
    if (path.empty() || path.back() != '.') return {};
    path.remove_suffix(1);
    const std::string_view word = last_word(path);
    const bool after_number = !word.empty() && word.front() >= '0' && word.front() <= '9';
    if (after_number) return fmt::format("a number has digits behind its point: `{}.0`", word);
    if (text().empty() || text().front() < '0' || text().front() > '9') return {};
    std::size_t begin = path.size();
    while (begin > 0 && (path[begin - 1] == '.' || !last_word(path.substr(0, begin)).empty())) {
        --begin;
    }
    return fmt::format("an element is written `{}[{}]`", path.substr(begin), first_word(text()));
}

/// The same where a block should begin.
std::string Writer::mend_of_block() const {
    if (issue_.variant == 2) return "the '{' stands at the end of the line of its statement";
    if (text() == "=") return "equality is written `==`";
    if (text() == "is") return "equality is written `==`, inequality `!=`";
    if (text() == ".." || text() == "by") return "a step is written `0..n step 2`";
    return {};
}

void Writer::loop_bounds() {
    const std::string_view variable = other();
    if (issue_.variant == 1) {
        const std::string_view call = after().substr(issue_.span.length);
        const std::string_view arguments = inside_brackets(call.substr(call.find('(')));
        const std::string bounds = bounds_of_range(arguments);
        expected("'..' between the loop bounds")
            .help(fmt::format("a loop is written `for {} in {}:`", variable,
                              bounds.empty() ? "0..n" : bounds));
    } else {
        expected("'..' between the loop bounds")
            .help(fmt::format("a loop is written `for {} in 0..n:`", variable));
    }
}

void Writer::syntax() {
    switch (issue_.code) {
        case Code::E0200:
            if (issue_.variant == 1) {
                say(fmt::format("expected an expression: '|>' leads to a call, as in '{}()'",
                                other()));
            } else {
                help_with(expected("an expression"), mend_of_expression());
            }
            return;
        case Code::E0201:
            help_with(expected(issue_.variant == 1 ? "a name of a function after '|>'" : "a name"),
                      mend_of_name());
            return;
        case Code::E0203:
            say("comparisons do not chain").help("join them: `0 < i and i < 4`");
            return;
        case Code::E0204:
            expected("',' or ')'");
            return;
        case Code::E0205:
            help_with(
                expected(issue_.variant == 1 ? "'[' and the extents of the operand" : "',' or ']'"),
                text() == ".." ? "a slice is written `x[0:3]`" : "");
            return;
        case Code::E0206:
            help_with(expected("the end of the statement"), mend_of_end());
            return;
        case Code::E0207:
            if (issue_.variant == 1) {
                expected("a statement without a block of its own behind ':'")
                    .help("put it on the next line, indented more");
            } else {
                expected("a statement");
            }
            return;
        case Code::E0208:
            if (issue_.variant == 1) {
                expected("':' to open a block")
                    .help("the body of a pipeline stands below its ':', indented");
            } else {
                Diagnostics::Entry entry = say("expected ':' or '{' to open a block");
                entry.note(fmt::format("the '{}' on line {} needs a block", other(),
                                       line_of(issue_.other)));
                help_with(entry, mend_of_block());
            }
            return;
        case Code::E0210:
            expected("a loop variable").help("a loop is written `for i in 0..n:`");
            return;
        case Code::E0211:
            expected("'in' after the loop variable").help("a loop is written `for i in 0..n:`");
            return;
        case Code::E0212:
            loop_bounds();
            return;
        case Code::E0213:
            expected("a name after 'shared var'");
            return;
        case Code::E0214:
            say("a shared variable needs a size").help("as in `shared var t[64]`");
            return;
        case Code::E0215:
            expected(issue_.variant == 1 ? "a name, a number or '?' as an extent of the type"
                                         : "a type");
            return;
        case Code::E0216:
            say("a declaration needs '=' and a value")
                .help(last_word(before()) == "mut" ? std::string(mend_of_word("mut"))
                      : text() == "["              ? "an array is written `shared var t[64]`"
                                                   : "as in `var sum = 0.0`");
            return;
        case Code::E0217:
            expected("a name to declare");
            return;
        case Code::E0218:
            say(fmt::format("{} is reserved and cannot be declared", name()));
            return;
        case Code::E0219:
            expected(issue_.variant == 1 ? "':' and a value behind the name of a setting"
                                         : "a setting 'name: value'");
            return;
        default:
            expected(issue_.variant == 1   ? "'(' and the parameters of the pipeline"
                     : issue_.variant == 2 ? "':' and the type of the parameter"
                                           : "a parameter 'name: type'")
                .help("as in `pipeline f(x: tensor[n]) -> tensor[n]:`");
            return;
    }
}

}  // namespace quern::lang
