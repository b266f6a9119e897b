#pragma once

#include "quern/lang/parser.h"

// Loops and conditions.

namespace quern::lang {

constexpr NodeId Parser::for_statement() {
    const std::uint8_t level = tokens_[p_].level;
    const Span keyword = tokens_[p_].span();
    const NodeId node = add(Kind::For, Op::None, keyword.begin, keyword.end());
    std::uint32_t outer_block = 0;
    const std::uint32_t bindings = names_.size();
    names_.open_scope(outer_block);
    NodeId last = -1;
    bool ok = true;
    if (names_.kernel.loops == 0) names_.kernel.before_loops = bindings;
    names_.kernel.uses_locals = false;
    do {
        advance();
        const NodeId one = loop();
        ok = one >= 0;
        if (ok) last = link(node, last, one);
    } while (ok && kind_ == Tok::Comma);
    if (!ok) {
        names_.kernel.lost_statement = true;
        ok = skip_to_block(level);
    }
    const bool may_be_empty = names_.kernel.loops > 0 && names_.kernel.uses_locals;
    ++names_.kernel.loops;
    names_.kernel.conditions += may_be_empty;
    const NodeId body = ok ? block(keyword) : -1;
    names_.kernel.conditions -= may_be_empty;
    --names_.kernel.loops;
    names_.close_scope(outer_block, bindings);
    if (body < 0) return -1;
    link(node, last, body);
    nodes_[node].span.length = nodes_[body].span.end() - keyword.begin;
    return node;
}

constexpr NodeId Parser::loop() {
    if (kind_ != Tok::Name) return fail(Code::E0210);
    if (is_word(Word::In) && !tokens_[p_ + 1].is(Word::In)) return fail(Code::E0210);
    if (is_reserved(tokens_[p_].name)) return fail(Code::E0218);
    const Token& variable = tokens_[p_];
    const NodeId node = add(Kind::Loop, Op::None, variable.begin, variable.end);
    NodeId last = link(node, -1, leaf(Kind::Name));
    if (!is_word(Word::In)) return fail(Code::E0211);
    advance();
    if (is_word(Word::Range) && peek() == Tok::LeftParen) {
        return fail(Code::E0212, 1, variable.span());
    }
    const NodeId begin = expression(kSum);
    if (begin < 0) return -1;
    last = link(node, last, begin);
    if (kind_ != Tok::DotDot) return fail(Code::E0212, 0, variable.span());
    advance();
    const NodeId end = expression(kSum);
    if (end < 0) return -1;
    last = link(node, last, end);
    NodeId step = -1;
    if (is_word(Word::Step)) {
        advance();
        step = expression(kSum);
        if (step < 0) return -1;
        check_positive(step);
    } else {
        step = empty();
    }
    link(node, last, step);
    close(node);
    names_.declare(BindingKind::Loop, variable.name, variable.span());
    return node;
}

/// `else` after a block, at the end of its line or on the next.
constexpr bool Parser::at_else() {
    if (kind_ == Tok::Newline && tokens_[p_ + 1].is(Word::Else)) advance();
    return is_word(Word::Else);
}

/// A chain of `else if` is read by a loop: it nests the tree, not the parser.
constexpr NodeId Parser::if_statement() {
    ++names_.kernel.conditions;
    const NodeId node = if_chain();
    --names_.kernel.conditions;
    return node;
}

constexpr NodeId Parser::if_chain() {
    NodeId first = -1;
    NodeId outer = -1;
    int length = 0;
    std::uint32_t end = 0;
    while (true) {
        const std::uint8_t level = tokens_[p_].level;
        const Span keyword = tokens_[p_].span();
        const NodeId node = add(Kind::If, Op::None, keyword.begin, keyword.end());
        if (++length > kMaxHeight / 2) return fail(Code::E0104, 1);
        advance();
        NodeId condition = expression(kPipe);
        if (condition < 0) {
            names_.kernel.lost_statement = true;
            if (!skip_to_block(level)) return -1;
            condition = empty();
        }
        link(node, -1, condition);
        const NodeId body = block(keyword);
        if (body < 0) return -1;
        link(node, condition, body);
        end = nodes_[body].span.end();
        if (first < 0) {
            first = node;
        } else {
            link(node, outer, node);
        }
        outer = body;
        if (!at_else()) {
            link(node, body, empty());
            break;
        }
        const Span otherwise = tokens_[p_].span();
        advance();
        if (is_word(Word::If)) continue;
        const NodeId other = block(otherwise);
        if (other < 0) return -1;
        link(node, body, other);
        end = nodes_[other].span.end();
        break;
    }
    for (NodeId node = first; node >= 0 && nodes_[node].kind == Kind::If;) {
        nodes_[node].span.length = end - nodes_[node].span.begin;
        node = nodes_[nodes_[nodes_[node].first].next].next;
    }
    return first;
}

}  // namespace quern::lang
