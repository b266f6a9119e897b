#pragma once

#include <cstdint>

#include "quern/lang/checks.h"
#include "quern/lang/lexer.h"

// The one parser of the kernel language: tokens to a tree of syntax.h, names and decorators checked
// on the way. constexpr, so that it serves text at run time and text in a C++ program alike. The
// bodies are in the parse_*.h that follow it.

namespace quern::lang {

/// What a parse found, beside the tree and the issues.
struct Parsed {
    NodeId root = -1;
    std::uint32_t node_count = 0;
    std::uint32_t name_count = 0;
};

/// A number that has its value again at the end of a scope.
class Restored {
public:
    constexpr explicit Restored(int& number) : number_(number), before_(number) {}
    constexpr ~Restored() { number_ = before_; }
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

private:
    int& number_;
    int before_;
};

class Parser {
public:
    constexpr Parser(const Workspace& space, Issues& issues, bool pedantic)
        : space_(space),
          tokens_(space.tokens),
          nodes_(space.nodes),
          issues_(issues),
          names_(space, issues),
          pedantic_(pedantic) {}

    constexpr Parsed run();

private:
    /// Precedences, loosest first.
    enum Level : std::uint8_t { kNone, kPipe, kOr, kAnd, kNot, kCompare, kSum, kTerm };

    /// What `operand` may read.
    enum Form : std::uint8_t { kAny, kTarget, kPostfix };

    // Tokens.
    /// Stays at the end, to which a report may have gone in the middle of a statement.
    constexpr void advance() {
        if (kind_ == Tok::End) return;
        ++p_;
        kind_ = tokens_[p_].kind;
    }
    constexpr void move_to(std::uint32_t p) {
        p_ = p;
        kind_ = tokens_[p].kind;
    }
    constexpr bool is_word(Word word) const { return tokens_[p_].is(word); }
    constexpr Tok peek() const { return kind_ == Tok::End ? Tok::End : tokens_[p_ + 1].kind; }
    constexpr std::uint32_t last_end() const { return tokens_[p_ - 1].end; }
    constexpr bool at_end_of_statement() const {
        return kind_ == Tok::Newline || kind_ == Tok::Semicolon || kind_ == Tok::RightBrace ||
               kind_ == Tok::Dedent || kind_ == Tok::End;
    }
    constexpr bool end_statement();
    constexpr NodeId fail(Code code, std::uint8_t variant = 0, Span other = {});
    constexpr NodeId fail_at(Code code, Span span, std::uint8_t variant = 0, Span other = {});
    constexpr void report(Code code, Span span, std::uint8_t variant = 0, Span other = {});
    constexpr void skip_statement(std::uint8_t level);
    constexpr bool skip_to_block(std::uint8_t level);
    constexpr void skip_indented();

    // Nodes.
    constexpr NodeId add(Kind kind, Op op, std::uint32_t begin, std::uint32_t end);
    constexpr NodeId leaf(Kind kind);
    constexpr NodeId empty() {
        return add(Kind::Empty, Op::None, tokens_[p_].begin, tokens_[p_].begin);
    }
    constexpr NodeId link(NodeId parent, NodeId last, NodeId child);
    constexpr void close(NodeId node) {
        nodes_[node].span.length = last_end() - nodes_[node].span.begin;
    }
    constexpr void grow(int a, int b);

    // Expressions.
    constexpr NodeId expression(Level lowest, NodeId first = -1);
    constexpr Level level_of_next() const;
    constexpr NodeId pipe(NodeId value);
    constexpr NodeId operand(Form form);
    constexpr NodeId await_future();
    constexpr NodeId primary();
    constexpr NodeId parenthesized();
    constexpr NodeId list();
    constexpr NodeId call(NodeId callee, std::uint32_t name);
    constexpr NodeId arguments(NodeId parent, NodeId last, bool reduces, bool selects = false);
    constexpr NodeId reduce_operator(bool of_function);
    constexpr NodeId unknown_call(NodeId callee, std::uint32_t name);
    constexpr NodeId index(NodeId object);
    constexpr NodeId subscript();
    constexpr void check_call(NodeId node, std::uint32_t name);

    // compute and its body.
    constexpr NodeId compute();
    constexpr NodeId operands();
    constexpr NodeId compute_operand();
    constexpr void declare_operand(NodeId operand, std::uint32_t first, std::uint32_t last);
    constexpr NodeId dims();
    constexpr bool find_body(std::uint8_t level);
    constexpr NodeId kernel_body(NodeId& decorators);
    constexpr void finish_kernel(NodeId block);
    constexpr NodeId block(Span opener);
    constexpr void statements(NodeId parent, Tok closer);
    constexpr NodeId statement();
    constexpr NodeId for_statement();
    constexpr NodeId loop();
    constexpr NodeId if_statement();
    constexpr NodeId if_chain();
    constexpr bool at_else();
    constexpr NodeId yield_statement();
    constexpr NodeId shared_statement();
    constexpr NodeId declaration();
    constexpr NodeId assignment_or_expression();
    constexpr bool is_target(NodeId node) const;
    constexpr NodeId declared_name(Code missing);
    constexpr NodeId dtype_or_empty();
    constexpr void note_lost_statement(std::uint32_t first);

    // Decorators.
    constexpr NodeId decorator(bool header);
    constexpr NodeId decorators_before_brace();
    constexpr bool at_call_decorator() const;
    constexpr void check_decorator(NodeId node, Word word);
    constexpr void check_kernel(NodeId node);
    constexpr void check_reduce(NodeId kind);
    constexpr void check_device(NodeId node, int count);
    constexpr void check_twice(NodeId decorators);
    constexpr void check_devices(NodeId header, NodeId body);
    constexpr bool same_text(NodeId a, NodeId b) const;
    constexpr void check_positive(NodeId node);
    constexpr bool is_not_positive(NodeId node) const;
    constexpr void check_axis(NodeId block);

    // Host level.
    constexpr NodeId host_statement();
    constexpr NodeId host_declaration();
    constexpr NodeId host_names();
    constexpr NodeId config();
    constexpr NodeId pipeline();
    constexpr NodeId params();
    constexpr NodeId type();

    const Workspace& space_;
    Token* tokens_;
    Node* nodes_;
    Issues& issues_;
    Names names_;
    bool pedantic_;

    std::uint32_t p_ = 0;
    Tok kind_ = Tok::End;
    std::uint32_t end_ = 0;
    std::uint32_t node_count_ = 0;

    int issues_before_statement_ = 0;

    /// A decorator stood at host level: it may have been meant for the next kernel.
    bool stray_decorator_ = false;

    /// Of the expression read last.
    int height_ = 0;

    /// In the statements of a kernel body: names are judged, host constructs refused.
    bool in_kernel_ = false;

    /// Of the name or path that `operand(kTarget)` began with, which nobody has judged yet.
    bool target_pending_ = false;
    std::uint32_t target_name_ = 0;
    std::uint32_t target_root_ = 0;
    Span target_span_;
    Use target_use_ = Use::Plain;
};

constexpr NodeId Parser::fail_at(Code code, Span span, std::uint8_t variant, Span other) {
    report(code, span, variant, other);
    return -1;
}

/// What the lexer reported is not reported again, nor another thing at the place of an error.
constexpr NodeId Parser::fail(Code code, std::uint8_t variant, Span other) {
    if (kind_ == Tok::Bad || kind_ == Tok::End) return -1;
    if (issues_.ends_with_error_at(tokens_[p_].begin)) return -1;
    return fail_at(code, tokens_[p_].span(), variant, other);
}

constexpr void Parser::report(Code code, Span span, std::uint8_t variant, Span other) {
    issues_.add(code, span, variant, other);
    if (issues_.full()) move_to(end_);
}

constexpr bool Parser::end_statement() {
    if (kind_ == Tok::Newline || kind_ == Tok::Semicolon) {
        advance();
        return true;
    }
    if (at_end_of_statement()) return true;
    // What was wrong in the statement is why it does not end here.
    if (!issues_.has_error_since(issues_before_statement_)) fail(Code::E0206);
    return false;
}

/// Goes to the end of a statement that began at `level` and could not be read.
constexpr void Parser::skip_statement(std::uint8_t level) {
    while (kind_ != Tok::End) {
        const std::uint8_t here = tokens_[p_].level;
        if (here < level) return;
        if (here == level && (kind_ == Tok::Newline || kind_ == Tok::Semicolon)) return advance();
        advance();
    }
}

/// After an error in its header: goes to the block of a statement that began at `level`, or returns
/// false at its end.
constexpr bool Parser::skip_to_block(std::uint8_t level) {
    std::uint32_t colon = 0;
    while (kind_ != Tok::End) {
        const std::uint8_t here = tokens_[p_].level;
        if (here < level) break;
        if (here == level) {
            if (kind_ == Tok::LeftBrace) return true;
            if (kind_ == Tok::Newline || kind_ == Tok::Semicolon) break;
            if (kind_ == Tok::Colon && peek() == Tok::Newline) return true;
            // One in the line opens the block only if nothing behind it does.
            if (kind_ == Tok::Colon && colon == 0) colon = p_;
        }
        advance();
    }
    if (colon > 0) move_to(colon);
    return colon > 0;
}

/// From an Indent behind the Dedent that ends it.
constexpr void Parser::skip_indented() {
    const std::uint8_t level = tokens_[p_].level;
    do {
        advance();
    } while (kind_ != Tok::End && tokens_[p_].level > level);
    if (kind_ == Tok::Dedent) advance();
}

constexpr NodeId Parser::add(Kind kind, Op op, std::uint32_t begin, std::uint32_t end) {
    if (node_count_ == space_.node_capacity) {
        // Unreachable: Capacity gives two nodes to each byte.
        issues_.add(Code::E0104, tokens_[p_].span());
        move_to(end_);
        --node_count_;
    }
    Node& node = nodes_[node_count_];
    node.kind = kind;
    node.op = op;
    node.span.begin = begin;
    node.span.length = end - begin;
    node.first = -1;
    node.next = -1;
    space_.node_names[node_count_] = 0;
    ++node_count_;
    return static_cast<NodeId>(node_count_ - 1);
}

/// A node of the present token, which is passed.
constexpr NodeId Parser::leaf(Kind kind) {
    const Token& token = tokens_[p_];
    const NodeId node = add(kind, Op::None, token.begin, token.end);
    space_.node_names[node] = token.name;
    advance();
    return node;
}

constexpr NodeId Parser::link(NodeId parent, NodeId last, NodeId child) {
    (last < 0 ? nodes_[parent].first : nodes_[last].next) = child;
    return child;
}

/// Sets the height of an expression with parts of these heights.
constexpr void Parser::grow(int a, int b) {
    height_ = (a > b ? a : b) + 1;
    if (height_ <= kMaxHeight || kind_ == Tok::End) return;
    issues_.add(Code::E0104, tokens_[p_].span(), 1);
    move_to(end_);
}

}  // namespace quern::lang

// IWYU pragma: begin_exports
#include "quern/lang/parse_call.h"
#include "quern/lang/parse_compute.h"
#include "quern/lang/parse_control.h"
#include "quern/lang/parse_decorators.h"
#include "quern/lang/parse_expression.h"
#include "quern/lang/parse_script.h"
#include "quern/lang/parse_statements.h"
// IWYU pragma: end_exports
