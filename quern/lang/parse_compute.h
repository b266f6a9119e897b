#pragma once

#include "quern/lang/parser.h"

// compute(...) {...}: its operands, the way to its body, and what the body as a whole has to be.

namespace quern::lang {

/// The kernel around is set aside while this one is read; every exit brings it back.
constexpr NodeId Parser::compute() {
    const std::uint8_t level = tokens_[p_].level;
    const Span keyword = tokens_[p_].span();
    const NodeId node = add(Kind::Compute, Op::None, keyword.begin, keyword.end());
    const KernelState outer = names_.kernel;
    const std::uint32_t bindings = names_.size();
    std::uint32_t outer_block = 0;
    names_.open_scope(outer_block);
    names_.kernel = KernelState{};
    names_.kernel.base = bindings;
    names_.kernel.first_issue = issues_.count;
    names_.kernel.keyword = keyword;
    names_.kernel.lost_decorator = stray_decorator_;
    stray_decorator_ = false;

    advance();
    NodeId last = operands();
    bool ok = last >= 0;
    if (!ok) {
        names_.kernel.lost_statement = true;
        ok = skip_to_block(level) && kind_ == Tok::LeftBrace;
        last = empty();
    }
    link(node, -1, last);
    if (ok) {
        if (names_.find(std::uint32_t(Word::Out)) == 0) {
            names_.declare(BindingKind::Out, std::uint32_t(Word::Out), keyword);
        }
        const NodeId header = decorators_before_brace();
        ok = kind_ == Tok::LeftBrace || find_body(level);
        last = link(node, last, header);
    }
    if (ok) {
        NodeId body = -1;
        const NodeId block = kernel_body(body);
        last = link(node, last, body);
        link(node, last, block);
        check_devices(nodes_[nodes_[node].first].next, body);
    }
    close(node);
    height_ = 1;
    names_.close_scope(outer_block, bindings);
    names_.kernel = outer;
    return ok ? node : -1;
}

/// After the head of a kernel that no '{' follows: goes to one that stands farther on in the line,
/// on the next, or below decorators. Without one, an indented body is left to `statements`.
constexpr bool Parser::find_body(std::uint8_t level) {
    KernelState& kernel = names_.kernel;
    if (!kernel.lost_decorator) fail(Code::E0304);
    kernel.lost_decorator = true;
    kernel.lost_statement = true;
    bool of_head = true;
    while (of_head) {
        while (kind_ != Tok::End && tokens_[p_].level >= level &&
               (tokens_[p_].level > level || !at_end_of_statement())) {
            if (kind_ == Tok::LeftBrace && tokens_[p_].level == level) return true;
            advance();
        }
        of_head = kind_ == Tok::Newline && (peek() == Tok::At || peek() == Tok::LeftBrace);
        if (of_head) advance();
    }
    return false;
}

constexpr NodeId Parser::operands() {
    const int issues = issues_.count;
    const NodeId node = add(Kind::Operands, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = -1;
    advance();
    while (kind_ != Tok::RightParen || last >= 0) {
        const NodeId operand = compute_operand();
        if (operand < 0) return -1;
        last = link(node, last, operand);
        if (kind_ == Tok::RightParen) break;
        if (kind_ != Tok::Comma) return issues_.has_error_since(issues) ? -1 : fail(Code::E0204);
        advance();
    }
    advance();
    close(node);
    return node;
}

constexpr NodeId Parser::compute_operand() {
    const NodeId node = add(Kind::Operand, Op::None, tokens_[p_].begin, tokens_[p_].end);
    const bool has_alias = kind_ == Tok::Name && peek() == Tok::Set;
    if (kind_ == Tok::Name && is_reserved(tokens_[p_].name)) return fail(Code::E0218);
    const std::uint32_t alias = p_;
    NodeId last = link(node, -1, has_alias ? leaf(Kind::Name) : empty());
    if (has_alias) advance();
    const std::uint32_t first = p_;
    const NodeId value = expression(kPipe);
    if (value < 0) return -1;
    last = link(node, last, value);
    if (has_alias) {
        names_.declare(BindingKind::Operand, tokens_[alias].name, tokens_[alias].span());
    } else {
        declare_operand(value, first, p_);
    }
    const bool may_have_dims = !has_alias && nodes_[value].kind == Kind::Name;
    if (kind_ == Tok::Colon && may_have_dims) {
        advance();
        if (kind_ != Tok::LeftBracket) return fail(Code::E0205, 1);
        last = link(node, last, dims());
        if (last < 0) return -1;
    } else {
        link(node, last, empty());
    }
    close(node);
    return node;
}

/// The body sees an operand without an alias by its source text, so that has to be a name or a
/// path: tokens [first, last) alternate between names and dots.
constexpr void Parser::declare_operand(NodeId operand, std::uint32_t first, std::uint32_t last) {
    const Kind kind = nodes_[operand].kind;
    bool is_path = (kind == Kind::Name || kind == Kind::Member) && (last - first) % 2 == 1;
    std::uint32_t name = tokens_[first].name;
    for (std::uint32_t t = first; is_path && t < last; ++t) {
        is_path = tokens_[t].kind == ((t - first) % 2 == 0 ? Tok::Name : Tok::Dot);
        if (is_path && t > first && tokens_[t].kind == Tok::Name) {
            name = names_.path(name, tokens_[t].name);
        }
    }
    if (is_path) {
        names_.declare(BindingKind::Operand, name, nodes_[operand].span);
    } else {
        report(Code::E0409, nodes_[operand].span);
    }
}

/// `[` extent, ... `]`.
constexpr NodeId Parser::dims() {
    const NodeId node = add(Kind::Dims, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = -1;
    do {
        advance();
        const NodeId extent = expression(kSum);
        if (extent < 0) return -1;
        last = link(node, last, extent);
    } while (kind_ == Tok::Comma);
    if (kind_ != Tok::RightBracket) return fail(Code::E0205);
    advance();
    close(node);
    return node;
}

/// `{` decorators, statements `}`.
constexpr NodeId Parser::kernel_body(NodeId& decorators) {
    const std::uint32_t begin = tokens_[p_].begin;
    advance();
    decorators = add(Kind::Decorators, Op::None, tokens_[p_].begin, tokens_[p_].begin);
    NodeId last = -1;
    while (true) {
        if (kind_ == Tok::Newline || kind_ == Tok::Semicolon) {
            advance();
            continue;
        }
        if (kind_ != Tok::At) break;
        const std::uint8_t level = tokens_[p_].level;
        issues_before_statement_ = issues_.count;
        const NodeId node = decorator(false);
        if (node >= 0) {
            last = link(decorators, last, node);
            nodes_[decorators].span.length = last_end() - nodes_[decorators].span.begin;
        }
        if (node < 0 || !end_statement()) {
            names_.kernel.lost_decorator = true;
            skip_statement(level);
        }
    }
    check_twice(decorators);
    KernelState& kernel = names_.kernel;
    if (!kernel.has_kind && !kernel.lost_decorator) {
        report(pedantic_ ? Code::E0303 : Code::N0802, kernel.keyword, 1);
    }

    std::uint32_t outer_block = 0;
    const std::uint32_t bindings = names_.size();
    names_.open_scope(outer_block);
    in_kernel_ = true;
    const NodeId block = add(Kind::Block, Op::None, begin, begin);
    statements(block, Tok::RightBrace);
    in_kernel_ = false;
    names_.close_scope(outer_block, bindings);
    if (kind_ == Tok::RightBrace) advance();
    close(block);
    finish_kernel(block);
    return block;
}

constexpr void Parser::finish_kernel(NodeId block) {
    const KernelState& kernel = names_.kernel;
    if (kernel.lost_statement) {
        // What was lost may have declared, written or yielded what seems to be missing.
        return issues_.drop_provisional(kernel.first_issue);
    }
    if (kernel.is_unwritten || kernel.lost_decorator) return;
    if (!kernel.is_reduce) {
        if (kernel.writes_out) return;
        for (int i = kernel.first_issue; i < issues_.count; ++i) {
            // What was meant for the output went elsewhere, and that is reported.
            if (issues_.list[i].code == Code::E0420 || issues_.list[i].code == Code::E0430) return;
        }
        report(Code::E0422, kernel.keyword);
        return;
    }
    if (!kernel.yields) {
        // It was written to 'out' instead, and that is one mistake.
        if (kernel.reads_unwritten_out) issues_.drop_provisional(kernel.first_issue);
        report(Code::E0433, kernel.kind_span);
    }
    if (kernel.axis >= 0) check_axis(block);
}

}  // namespace quern::lang
