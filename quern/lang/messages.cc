#include "quern/lang/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/lang/words.h"
#include "quern/lang/workspace.h"

namespace quern::lang {
namespace {

constexpr std::string_view kOperators = "+, *, min, max, and, or, argmin, argmax";

std::string quoted(std::string_view text) { return fmt::format("'{}'", text); }

/// Writes the message of one issue; the switch over codes is `describe`.
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
    std::string name() const { return quoted(text()); }

    /// What stands where something else was expected.
    std::string found() const {
        if (issue_.span.length == 0) return "the end of the line";
        if (text().size() > 40) return quoted(std::string(text().substr(0, 37)) + "...");
        return name();
    }

    Diagnostics::Entry expected(std::string_view what) {
        return say(fmt::format("expected {}, got {}", what, found()));
    }

    int line_of(Span span) const { return diagnostics_.place(span.begin).first; }

    void suggest(Diagnostics::Entry entry, const std::vector<std::string>& candidates,
                 std::string_view prefix = "") const {
        const std::vector<std::string> near = nearest(text(), candidates);
        if (near.empty()) return;
        std::string list;
        for (std::size_t i = 0; i < near.size() && i < 3; ++i) {
            list += fmt::format("{}'{}{}'", i == 0 ? "" : " or ", prefix, near[i]);
        }
        entry.help(fmt::format("did you mean {}?", list));
        if (near.size() == 1) entry.fix(issue_.span, near.front());
    }

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
    NodeId enclosing_compute() const;
    void collect(NodeId compute, std::vector<std::string>& operands,
                 std::vector<std::string>& locals) const;

    const Issue& issue_;
    const Tree& tree_;
    Diagnostics& diagnostics_;
};

std::vector<std::string> words(Word first, Word last) {
    std::vector<std::string> list;
    for (auto id = static_cast<std::size_t>(first); id <= static_cast<std::size_t>(last); ++id) {
        list.emplace_back(kWords[id].text);
    }
    return list;
}

std::vector<std::string> function_names() {
    std::vector<std::string> list;
    for (const WordInfo& word : kWords) {
        if (word.is_function && !word.is_dtype) list.emplace_back(word.text);
    }
    return list;
}

std::vector<std::string> dtype_names() {
    std::vector<std::string> list;
    for (const WordInfo& word : kWords) {
        if (word.is_dtype) list.emplace_back(word.text);
    }
    return list;
}

std::string joined(const std::vector<std::string>& list) {
    return fmt::format("{}", fmt::join(list, ", "));
}

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
                .help("indent the body, put it on the same line, or use { ... ; ... }");
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
            const std::string_view c = text();
            Diagnostics::Entry entry = say(fmt::format(
                "{} is not part of the language",
                c.front() >= ' ' ? name()
                                 : fmt::format("the byte 0x{:02x}", unsigned(c.front()) & 0xff)));
            if (c == "^") entry.help("use `pow(x, 3)` or `x * x * x`");
            if (c == "&") entry.help("the operator is written 'and'");
            if (c == "|") entry.help("the operator is written 'or', a pipe '|>'");
            if (c == "#") entry.help("a comment begins with //");
            if (c == "'") entry.help("a string stands between double quotes");
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
                say(fmt::format("'{}' is never closed", text()));
            } else {
                say("'{' is never closed").note_at(issue_.other, "the '{' is here");
            }
            return;
        case Code::E0109:
            say("unexpected indentation")
                .help("only a line that ends with ':' is followed by a deeper one");
            return;
        default:
            say("number is out of range: the largest integer is 9223372036854775807");
            return;
    }
}

void Writer::syntax() {
    switch (issue_.code) {
        case Code::E0200:
            if (issue_.variant == 1) {
                say(fmt::format("expected an expression: '|>' leads to a call, as in '{}()'",
                                other()));
            } else {
                expected("an expression");
            }
            return;
        case Code::E0201:
            expected(issue_.variant == 1 ? "a name of a function after '|>'" : "a name");
            return;
        case Code::E0203:
            say("comparisons do not chain").help("join them: `0 < i and i < 4`");
            return;
        case Code::E0204:
            expected("',' or ')'");
            return;
        case Code::E0205:
            expected(issue_.variant == 1 ? "'[' and the extents of the operand" : "',' or ']'");
            return;
        case Code::E0206:
            expected("the end of the statement");
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
                expected("':' to open a block");
            } else {
                say("expected ':' or '{' to open a block")
                    .note(fmt::format("the '{}' on line {} needs a block", other(),
                                      line_of(issue_.other)));
            }
            return;
        case Code::E0210:
            expected("a loop variable").help("a loop is written `for i in 0..n:`");
            return;
        case Code::E0211:
            expected("'in' after the loop variable").help("a loop is written `for i in 0..n:`");
            return;
        case Code::E0212:
            expected("'..' between the loop bounds").help("a loop is written `for i in 0..n:`");
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
            say("a declaration needs '=' and a value").help("as in `var sum = 0.0`");
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
                                           : "a parameter 'name: type'");
            return;
    }
}

void Writer::decorators() {
    constexpr Word kFirst = Word::Kernel;
    constexpr Word kLast = Word::Parallel;
    switch (issue_.code) {
        case Code::E0301:
            say(fmt::format("expected a decorator name after '@', got {}", found()))
                .help(issue_.variant == 1 ? "before '{': @device, @async, @parallel"
                                          : "in a body: @kernel, @workgroup, @shared, @tile, "
                                            "@broadcast, @device");
            return;
        case Code::E0302:
            if (issue_.variant == 2) {
                say(fmt::format("unknown decorator '@{}' in a kernel body", text()))
                    .help(fmt::format("'@{}' stands before the '{{'", text()));
            } else if (issue_.variant == 3) {
                say(fmt::format("unknown decorator '@{}' before the '{{'", text()))
                    .help(fmt::format("'@{}' stands in the body", text()));
            } else {
                std::vector<std::string> known = words(kFirst, kLast);
                known.emplace_back("shared");
                suggest(say(fmt::format("unknown decorator '@{}'", text())), known, "@");
            }
            return;
        case Code::E0303:
            if (issue_.variant == 1) {
                say("missing kernel kind: the body has no @kernel")
                    .help("as in `@kernel elementwise`; without a better name, `@kernel custom`");
            } else {
                say(fmt::format("missing kernel kind after '@kernel', got {}", found()))
                    .help("as in `@kernel elementwise`; without a better name, `@kernel custom`");
            }
            return;
        case Code::N0802:
            say("kernel kind is missing, treated as custom")
                .help("say what the body is, as in `@kernel elementwise`");
            return;
        case Code::N0804:
            suggest(say(fmt::format("kernel kind {} is unknown, treated as custom", name())),
                    words(Word::Elementwise, Word::Custom));
            return;
        case Code::E0304:
            say(fmt::format("expected '{{' to open the kernel body, got {}", found()));
            return;
        case Code::E0305:
            say("a kernel body has exactly one @kernel")
                .note_at(issue_.other, "the first one is here");
            return;
        case Code::E0306:
            say("decorators come before the first statement of the body");
            return;
        case Code::E0307:
            if (issue_.variant == 1) {
                say(fmt::format("decorator given twice: '@device' is {} here", text()))
                    .note_at(issue_.other, fmt::format("and {} before the body", other()));
            } else {
                say(fmt::format("decorator given twice: '@{}'", text()))
                    .note_at(issue_.other, "the first one is here");
            }
            return;
        case Code::E0308:
            say(fmt::format("@workgroup takes one to three sizes, got {}", issue_.other.begin));
            return;
        case Code::E0309:
            say(fmt::format("size must be positive, got {}", text()));
            return;
        case Code::E0310:
            if (issue_.variant == 1) {
                say("unknown reduction operator: none is given")
                    .help(fmt::format("the operators are {}", kOperators));
            } else {
                say(fmt::format("unknown reduction operator {}", found()))
                    .help(fmt::format("the operators are {}", kOperators));
            }
            return;
        case Code::E0432:
            say(fmt::format("reduction axis {} is out of range: the kernel has {} loop variable{}",
                            text(), issue_.other.begin, issue_.other.begin == 1 ? "" : "s"));
            return;
        default:
            decorator_argument();
            return;
    }
}

void Writer::decorator_argument() {
    static constexpr std::string_view kExpected[] = {
        "",
        "@async takes no argument",
        "@parallel takes 'data' or 'model'",
        "@workgroup takes sizes without names",
        "@shared takes one number of bytes",
        "@tile takes names with sizes, as in `@tile(block_q=64)`",
        "@broadcast takes an operand and an axis, as in `@broadcast(vector, axis=1)`",
        "@kernel reduce takes an operator and an axis, as in `reduce(+, axis=1)`",
        "@device takes a string or a list of strings",
    };
    say(fmt::format("decorator argument is wrong: {}", kExpected[issue_.variant]));
}

void Writer::functions() {
    switch (issue_.code) {
        case Code::E0407: {
            if (issue_.variant == 1) {
                say(fmt::format("unknown function {}: a kernel calls functions by their names",
                                found()));
                return;
            }
            Diagnostics::Entry entry = say(fmt::format("unknown function {}", name()));
            suggest(entry, function_names());
            entry.help(fmt::format("the functions are {}", joined(function_names())));
            return;
        }
        case Code::E0408: {
            if (issue_.variant == 1) {
                say(fmt::format("wrong number of arguments: '{}' has none with the name {}",
                                other(), name()));
                return;
            }
            const std::uint32_t got = issue_.other.begin;
            int least = 0;
            int most = 0;
            for (const WordInfo& word : kWords) {
                if (!word.is_function || word.text != text()) continue;
                least = word.least;
                most = word.most;
            }
            const std::string range =
                least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
            say(fmt::format("wrong number of arguments: {} takes {}, got {}", name(), range, got));
            return;
        }
        default:
            suggest(say(fmt::format("unknown dtype {}", name())), dtype_names());
            return;
    }
}

void Writer::host_construct() {
    static constexpr std::string_view kNames[] = {
        "'compute'", "'await'", "a string", "a quantity", "a list", "'|>'", "",
    };
    if (issue_.code == Code::E0418) {
        say(fmt::format("kernel construct in a script: {}", found()))
            .help("put it in the body of a compute(...) {...}");
    } else if (issue_.variant == 6) {
        say(fmt::format("host construct in a kernel: {}", name()));
    } else {
        say(fmt::format("host construct in a kernel: {}", kNames[issue_.variant]));
    }
}

void Writer::stores() {
    switch (issue_.code) {
        case Code::E0413:
            say(fmt::format("loop variable {} is assigned", name()))
                .note_at(issue_.other, "it is declared here");
            return;
        case Code::E0414:
            say(fmt::format("{} is assigned, but declared with 'let'", name()))
                .note_at(issue_.other, "it is declared here")
                .help("declare it with 'var'");
            return;
        case Code::E0420:
            say(fmt::format("kernel writes the operand {}", name()))
                .help("a kernel writes 'out' and its own variables");
            return;
        case Code::E0421:
            say("'out' is read before it is written");
            return;
        default:
            say("'out' is never written")
                .help("store what the kernel computes, as in `out[i] = x[i]`");
            return;
    }
}

void Writer::yields() {
    switch (issue_.code) {
        case Code::E0430:
            say("'yield' outside a reduce kernel")
                .help("the kind of a kernel that yields is a reduction, as in `@kernel reduce(+)`");
            return;
        case Code::E0431:
            if (issue_.variant == 1) {
                say("yielded value does not fit the operator: argmin and argmax take a pair")
                    .help("as in `yield (x[i], i)`");
            } else {
                say("yielded value does not fit the operator: only argmin and argmax take a pair");
            }
            return;
        default:
            say("reduce kernel never yields").help("as in `yield x[i]`");
            return;
    }
}

void Writer::names() {
    switch (issue_.code) {
        case Code::E0406:
            say("kernel body is '...'").help("write what the kernel computes");
            return;
        case Code::E0409:
            say("operand expression needs an alias")
                .help(fmt::format("as in `compute(w = {})`", text()));
            return;
        case Code::E0410:
            say(issue_.variant == 1 ? fmt::format("operand {} is declared twice", name())
                                    : fmt::format("{} is declared twice in one block", name()))
                .note_at(issue_.other, "it is declared first here");
            return;
        case Code::W0701:
            say(fmt::format("{} shadows another name", name()))
                .note_at(issue_.other, "the name that it hides is declared here");
            return;
        default:
            undefined();
            return;
    }
}

NodeId Writer::enclosing_compute() const {
    NodeId best = -1;
    for (std::uint32_t id = 0; id < tree_.count; ++id) {
        const Node& node = tree_.nodes[id];
        if (node.kind != Kind::Compute || node.span.begin > issue_.span.begin) continue;
        // Of computes that begin before it, the last one is the innermost or a finished one.
        if (node.span.end() >= issue_.span.end()) best = static_cast<NodeId>(id);
    }
    return best;
}

/// Names of operands, and of all else that is declared between the operands and the issue.
void Writer::collect(NodeId compute, std::vector<std::string>& operands,
                     std::vector<std::string>& locals) const {
    const NodeId list = tree_[compute].first;
    if (list < 0 || tree_[list].kind != Kind::Operands) return;
    for (NodeId o = tree_[list].first; o >= 0; o = tree_[o].next) {
        const NodeId alias = tree_[o].first;
        const bool named = tree_[alias].kind == Kind::Name;
        const NodeId name = named ? alias : tree_[alias].next;
        if (name >= 0) operands.emplace_back(tree_.text_of(name));
    }
    for (std::uint32_t id = 0; id < tree_.count; ++id) {
        const Node& node = tree_.nodes[id];
        if (node.kind != Kind::Loop && node.kind != Kind::Decl && node.kind != Kind::Shared)
            continue;
        if (node.span.begin < tree_[list].span.end() || node.first < 0) continue;
        if (node.span.begin > issue_.span.begin) continue;
        locals.emplace_back(tree_.text_of(node.first));
    }
}

void Writer::undefined() {
    std::vector<std::string> operands;
    std::vector<std::string> candidates;
    const NodeId compute = enclosing_compute();
    if (compute >= 0) collect(compute, operands, candidates);
    candidates.insert(candidates.begin(), operands.begin(), operands.end());
    candidates.emplace_back("out");
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());

    const std::string_view what = issue_.variant == 2 ? "a variable, or 'out'"
                                  : issue_.variant == 3
                                      ? "an operand"
                                      : "an operand, loop variable, dimension or bound value";
    Diagnostics::Entry entry = say(fmt::format("undefined name {}: not {}", name(), what));
    entry.note(operands.empty() ? "the kernel has no operands"
                                : fmt::format("the operands are {}", joined(operands)));
    suggest(entry, candidates);
    if (issue_.variant == 2) entry.help(fmt::format("declare it: `var {} = ...`", text()));
}

}  // namespace

void describe(const Issue& issue, const Tree& tree, Diagnostics& diagnostics) {
    Writer writer(issue, tree, diagnostics);
    switch (issue.code) {
        case Code::E0407:
        case Code::E0408:
        case Code::E0416:
            return writer.functions();
        case Code::E0413:
        case Code::E0414:
        case Code::E0420:
        case Code::E0421:
        case Code::E0422:
            return writer.stores();
        case Code::E0417:
        case Code::E0418:
            return writer.host_construct();
        case Code::E0430:
        case Code::E0431:
        case Code::E0433:
            return writer.yields();
        case Code::E0432:
        case Code::N0802:
        case Code::N0804:
            return writer.decorators();
        default:
            break;
    }
    if (issue.code < Code::E0200) return writer.layout();
    if (issue.code < Code::E0301) return writer.syntax();
    if (issue.code < Code::E0402) return writer.decorators();
    return writer.names();
}

}  // namespace quern::lang
