#include "quern/lang/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/lang/mends.h"
#include "quern/lang/words.h"
#include "quern/lang/writer.h"

namespace quern::lang {
namespace {

constexpr std::string_view kOperators = "the operators are +, *, min, max, and, or, argmin, argmax";
constexpr std::string_view kFunctionOperators =
    "the operators of the function are +, *, min, max, and, or";

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

}  // namespace

std::string Writer::found() const {
    if (issue_.span.length == 0) return "the end of the line";
    if (text().size() > 40) return fmt::format("'{}...'", text().substr(0, 37));
    return name();
}

Diagnostics::Entry Writer::expected(std::string_view what) {
    return say(fmt::format("expected {}, got {}", what, found()));
}

std::string_view Writer::before() const {
    std::string_view text = tree_.text.substr(0, issue_.span.begin);
    text.remove_prefix(text.rfind('\n') + 1);
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

void Writer::suggest(Diagnostics::Entry entry, const std::vector<std::string>& candidates,
                     std::string_view prefix) const {
    const std::vector<std::string> near = nearest(text(), candidates);
    if (near.empty()) return;
    std::string list;
    for (std::size_t i = 0; i < near.size() && i < 3; ++i) {
        list += fmt::format("{}'{}{}'", i == 0 ? "" : " or ", prefix, near[i]);
    }
    entry.help(fmt::format("did you mean {}?", list));
    if (near.size() == 1) entry.fix(issue_.span, near.front());
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
            say(fmt::format("expected '{{' to open the kernel body, got {}", found()))
                .help("the '{' stands on the line of compute(...), and '}' ends the body");
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
        case Code::E0310: {
            Diagnostics::Entry entry =
                say(fmt::format("unknown reduction operator{}",
                                issue_.variant == 1 ? ": none is given" : " " + found()));
            if (const auto mend = mend_of_reduction(text()); !mend.empty()) {
                entry.help(std::string(mend));
            }
            entry.help(std::string(issue_.variant == 2 ? kFunctionOperators : kOperators));
            return;
        }
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
                Diagnostics::Entry entry = say(fmt::format(
                    "unknown function {}: a kernel calls functions by their names", found()));
                const std::string_view last = last_word(text());
                const std::vector<std::string> known = function_names();
                if (std::find(known.begin(), known.end(), last) != known.end()) {
                    entry.help(fmt::format("write `{}(...)`", last));
                } else if (const auto mend = mend_of_path(text()); !mend.empty()) {
                    entry.help(std::string(mend));
                }
                return;
            }
            Diagnostics::Entry entry = say(fmt::format("unknown function {}", name()));
            if (issue_.variant == 2) {
                const std::string_view call = after().substr(issue_.span.length);
                const std::string_view index = inside_brackets(call.substr(call.find('(')));
                entry.help(fmt::format("an element is written `{}[{}]`", text(),
                                       index.empty() ? "..." : index));
                return;
            }
            if (const auto mend = mend_of_word(text()); !mend.empty()) {
                entry.help(std::string(mend));
                return;
            }
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
    if (issue_.code == Code::E0418 && issue_.variant == 1) {
        const std::string_view op = text().substr(0, 1);
        say(fmt::format("kernel construct in a script: {}", found()))
            .help(fmt::format("a script assigns to a var with '=': `{0} = {0} {1} ...`", other(),
                              op));
    } else if (issue_.code == Code::E0418 && text() == "@") {
        say("kernel construct in a script: a decorator")
            .help("it stands in the body of a kernel: compute(...) { @kernel ... }");
    } else if (issue_.code == Code::E0418) {
        say(fmt::format("kernel construct in a script: {}", found()))
            .help("put it in the body of a compute(...) {...}");
    } else if (issue_.variant == 6) {
        Diagnostics::Entry entry = say(fmt::format("host construct in a kernel: {}", name()));
        if (text() == "return")
            entry.help("a kernel stores what it computes, as in `out[i] = x[i]`");
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
            say("'out' is read before it is written")
                .help("add up in a variable, `var sum = 0.0`, and store it with `out[i] = sum`");
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
    if (const auto mend = mend_of_path(text()); !mend.empty()) {
        entry.help(std::string(mend));
        return;
    }
    suggest(entry, candidates);
    if (issue_.variant == 2) entry.help(fmt::format("declare it: `var {} = ...`", text()));
}

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
