#pragma once

#include <cstddef>
#include <cstdint>

#include "quern/lang/parser.h"

// The compile-time door: a kernel text that does not parse stops the build, with the error, its
// line and its column as template arguments in the compiler's message.
//
//     constexpr CheckedText text = QUERN_CHECKED_TEXT(R"(compute(x) { ... })");
//
// is the text with its place in the C++ file. A kernel object whose type carries the text is made
// by
//
//     template <class Text>                    // one type for each use of the macro
//     class StaticKernel {
//         template <class... Operands>
//         Tensor operator()(const Operands&... operands) const {
//             lang::require_operands<Text, sizeof...(Operands)>();
//             lang::require_shapes<Text, shape_of<Operands>...>();     // static_shapes.h
//             ...                                     // Text::get() is the CheckedText
//         }
//     };
//     #define QUERN_KERNEL(...) (::quern::StaticKernel(QUERN_KERNEL_TEXT(__VA_ARGS__)))

namespace quern {

/// What is wrong with a kernel text, as compilers show it.
enum class kernel_error {
#define CODE(code, enumerator, title) enumerator,
#include "quern/lang/codes.def"
#undef CODE
    none,
};

namespace lang {

/// A text that has been checked while the program was compiled. `line` is the line of the macro.
struct CheckedText {
    const char* text = nullptr;
    std::size_t size = 0;
    int line = 0;
};

/// The outcome of a check.
struct Verdict {
    kernel_error error = kernel_error::none;
    int line = 0;
    int column = 0;

    /// Of the text's one compute; kNoCompute if it has a pipeline, several computes or none, and
    /// kUnknown if it has an error.
    static constexpr int kNoCompute = -1, kUnknown = -2;
    int operands = kNoCompute;

    /// Of the tree, to compare it with that of another parse.
    std::uint64_t hash = 0;
};

/// The memory of a parse of a text of at most `Size` bytes.
template <std::uint32_t Size>
struct FixedBuffers {
    static constexpr Capacity kCapacity{Size};
    Token tokens[kCapacity.tokens]{};
    Node nodes[kCapacity.nodes]{};
    std::uint32_t node_names[kCapacity.nodes]{};
    NameEntry names[kCapacity.names]{};
    std::uint32_t buckets[kCapacity.buckets]{};
    Binding bindings[kCapacity.bindings]{};
    std::uint32_t bound[kCapacity.bound]{};

    constexpr Workspace workspace(const char* text, std::uint32_t size) {
        Workspace space;
        space.text = text;
        space.size = size;
        space.tokens = tokens;
        space.nodes = nodes;
        space.node_capacity = kCapacity.nodes;
        space.node_names = node_names;
        space.names = names;
        space.buckets = buckets;
        space.bucket_mask = kCapacity.buckets - 1;
        space.bindings = bindings;
        space.bound = bound;
        return space;
    }
};

/// The operands of the one compute that a text consists of, perhaps behind `let name =` and before
/// pipes; -1 for any other text.
constexpr NodeId only_compute(const Node* nodes, NodeId root) {
    NodeId found = -1;
    for (NodeId s = nodes[root].first; s >= 0; s = nodes[s].next) {
        NodeId value = nodes[s].first;
        while (value >= 0 && nodes[value].next >= 0 && nodes[s].kind == Kind::Decl) {
            value = nodes[value].next;
        }
        while (value >= 0 && nodes[value].kind == Kind::Pipe) value = nodes[value].first;
        if (value < 0 || nodes[value].kind != Kind::Compute || found >= 0) return -1;
        found = value;
    }
    return found;
}

constexpr int child_count(const Node* nodes, NodeId id) {
    int count = 0;
    for (NodeId c = nodes[id].first; c >= 0; c = nodes[c].next) ++count;
    return count;
}

/// A number that differs where trees or the texts of their leaves differ.
constexpr std::uint64_t hash_of_tree(const Node* nodes, std::uint32_t count, const char* text) {
    std::uint64_t hash = 14695981039346656037u;
    const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
    for (std::uint32_t i = 0; i < count; ++i) {
        const Node& node = nodes[i];
        mix(static_cast<std::uint64_t>(node.kind) << 8 | static_cast<std::uint64_t>(node.op));
        mix(static_cast<std::uint64_t>(static_cast<std::uint32_t>(node.first)) << 32 |
            static_cast<std::uint32_t>(node.next));
        mix(static_cast<std::uint64_t>(node.span.begin) << 32 | node.span.length);
        if (node.first < 0 && node.span.length > 0)
            mix(static_cast<unsigned char>(text[node.span.begin]));
    }
    return hash;
}

constexpr Verdict verdict_at(kernel_error error, const char* text, std::uint32_t at) {
    Verdict verdict;
    verdict.error = error;
    verdict.operands = Verdict::kUnknown;
    verdict.line = 1;
    verdict.column = 1;
    for (std::uint32_t i = 0; i < at; ++i) {
        ++verdict.column;
        if (text[i] != '\n') continue;
        ++verdict.line;
        verdict.column = 1;
    }
    return verdict;
}

/// The first function behind a compute's result that does not take one value and no more, or no
/// error: a script may have it, a kernel not.
constexpr Verdict check_pipes(const Node* nodes, NodeId root, NodeId compute, const char* text) {
    Verdict verdict;
    const Node& statement = nodes[nodes[root].first];
    NodeId value = statement.first;
    while (statement.kind == Kind::Decl && nodes[value].next >= 0) value = nodes[value].next;
    for (; value != compute; value = nodes[value].first) {
        const Node& call = nodes[nodes[nodes[value].first].next];
        const Node& callee = nodes[call.first];
        const std::string_view name(text + callee.span.begin, callee.span.length);
        if (!is_unary_function(name)) {
            verdict = verdict_at(kernel_error::unknown_function, text, callee.span.begin);
        } else if (callee.next >= 0) {
            verdict = verdict_at(kernel_error::wrong_number_of_arguments, text, callee.span.begin);
        }
    }
    return verdict;
}

/// Checks a text of at most `Size` bytes; `is_kernel` where it is no script.
template <std::uint32_t Size>
constexpr Verdict check_bytes(const char* text, std::uint32_t size, bool with_hash = false,
                              bool is_kernel = false) {
    FixedBuffers<Size> buffers;
    const Workspace space = buffers.workspace(text, size);
    Issues issues;
    const Parsed parsed = Parser(space, issues, false).run();
    if (const Issue* first = issues.first_error()) {
        return verdict_at(static_cast<kernel_error>(first->code), text, first->span.begin);
    }
    Verdict verdict;
    const NodeId compute = only_compute(buffers.nodes, parsed.root);
    if (compute >= 0) {
        if (is_kernel) verdict = check_pipes(buffers.nodes, parsed.root, compute, text);
        if (verdict.error == kernel_error::none)
            verdict.operands = child_count(buffers.nodes, buffers.nodes[compute].first);
    }
    if (with_hash) verdict.hash = hash_of_tree(buffers.nodes, parsed.node_count, text);
    return verdict;
}

template <std::size_t N>
constexpr Verdict check_text(const char (&text)[N]) {
    return check_bytes<static_cast<std::uint32_t>(N - 1)>(text, N - 1);
}

template <std::size_t N>
constexpr Verdict check_kernel(const char (&text)[N]) {
    return check_bytes<static_cast<std::uint32_t>(N - 1)>(text, N - 1, false, true);
}

#if defined(__cpp_static_assert) && __cpp_static_assert >= 202306L
inline constexpr std::string_view kErrorTitles[] = {
#define CODE(code, enumerator, title) #code ": " title,
#include "quern/lang/codes.def"
#undef CODE
    "",
};

/// "line 3, column 9: E0103: expected an indented block after ':'".
struct ErrorMessage {
    char text[160]{};
    std::size_t length = 0;

    constexpr ErrorMessage(kernel_error error, int line, int column) {
        put("line ");
        put(line);
        put(", column ");
        put(column);
        put(": ");
        put(kErrorTitles[static_cast<std::size_t>(error)]);
    }
    constexpr void put(std::string_view part) {
        for (const char c : part) text[length++] = c;
    }
    constexpr void put(int number) {
        if (number >= 10) put(number / 10);
        text[length++] = static_cast<char>('0' + number % 10);
    }
    constexpr std::size_t size() const { return length; }
    constexpr const char* data() const { return text; }
};
#endif

/// What the macro makes: a type of its own for each text. `Text` has data() and size().
template <class Text, int Operands, int Line>
struct TextType : Text {
    static constexpr int kOperands = Operands;
    static constexpr CheckedText get() { return {Text::data(), Text::size(), Line}; }
};

/// The line on which the text of a macro begins. In a macro, g++ names the first line of the
/// invocation and Clang the last.
template <std::size_t N>
constexpr int first_line(const char (&text)[N], int line = __builtin_LINE()) {
#ifdef __clang__
    for (const char c : text) line -= c == '\n' ? 1 : 0;
#else
    static_cast<void>(text);
#endif
    return line;
}

}  // namespace lang

/// The text of a kernel has an error. `Line` and `Column` count from 1 in the text.
template <kernel_error Error, int Line, int Column>
struct error_in_kernel_text {
#if defined(__cpp_static_assert) && __cpp_static_assert >= 202306L
    static_assert(Error == kernel_error::none, lang::ErrorMessage(Error, Line, Column));
#else
    static_assert(Error == kernel_error::none,
                  "the kernel text has an error: see its name, line and column in "
                  "error_in_kernel_text<...>");
#endif
    static constexpr bool ok = true;
};

/// A kernel is called with another number of operands than it declares.
template <int Expected, int Got>
struct wrong_number_of_operands {
    static_assert(Expected == Got,
                  "the kernel takes another number of operands: see "
                  "wrong_number_of_operands<expected, got>");
    static constexpr bool ok = true;
};

namespace lang {

/// Stops the build unless the kernel of `Text` takes `Got` operands.
template <class Text, std::size_t Got>
constexpr void require_operands() {
    constexpr int kGot = static_cast<int>(Got);
    constexpr int kExpected = Text::kOperands < 0 ? kGot : Text::kOperands;
    static_assert(wrong_number_of_operands<kExpected, kGot>::ok);
}

}  // namespace lang
}  // namespace quern

#define QUERN_DETAIL_TEXT(check, ...)                                                        \
    ([] {                                                                                    \
        struct quern_text {                                                                  \
            static constexpr const char* data() { return __VA_ARGS__; }                      \
            static constexpr ::std::size_t size() { return sizeof(__VA_ARGS__) - 1; }        \
        };                                                                                   \
        constexpr ::quern::lang::Verdict quern_verdict = ::quern::lang::check(__VA_ARGS__);  \
        static_assert(::quern::error_in_kernel_text<quern_verdict.error, quern_verdict.line, \
                                                    quern_verdict.column>::ok);              \
        return ::quern::lang::TextType<quern_text, quern_verdict.operands,                   \
                                       ::quern::lang::first_line(__VA_ARGS__)>{};            \
    }())

/// An object of a type that carries the text: see TextType.
#define QUERN_TEXT(...) QUERN_DETAIL_TEXT(check_text, __VA_ARGS__)

/// The same of a text that is one compute and no script.
#define QUERN_KERNEL_TEXT(...) QUERN_DETAIL_TEXT(check_kernel, __VA_ARGS__)

/// A CheckedText.
#define QUERN_CHECKED_TEXT(...) (QUERN_TEXT(__VA_ARGS__).get())
