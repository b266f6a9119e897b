#pragma once

#include "quern/lang/parser.h"

// Expressions: a stack of pending operators instead of a function per precedence, so that a level
// of nesting costs two frames of the C++ compiler's evaluation.

namespace quern::lang {

constexpr Op binary_op(Tok kind) {
    switch (kind) {
        case Tok::Plus:
            return Op::Add;
        case Tok::Minus:
            return Op::Sub;
        case Tok::Star:
            return Op::Mul;
        case Tok::Slash:
            return Op::Div;
        case Tok::Percent:
            return Op::Rem;
        case Tok::At:
            return Op::MatMul;
        case Tok::Less:
            return Op::Less;
        case Tok::LessEqual:
            return Op::LessEqual;
        case Tok::Greater:
            return Op::Greater;
        case Tok::GreaterEqual:
            return Op::GreaterEqual;
        case Tok::Equal:
            return Op::Equal;
        case Tok::NotEqual:
            return Op::NotEqual;
        default:
            return Op::None;
    }
}

constexpr Parser::Level Parser::level_of_next() const {
    switch (kind_) {
        case Tok::Plus:
        case Tok::Minus:
            return kSum;
        case Tok::Star:
        case Tok::Slash:
        case Tok::Percent:
        case Tok::At:
            return kTerm;
        case Tok::Less:
        case Tok::LessEqual:
        case Tok::Greater:
        case Tok::GreaterEqual:
        case Tok::Equal:
        case Tok::NotEqual:
            return kCompare;
        case Tok::PipeTo:
            return kPipe;
        case Tok::Name:
            return is_word(Word::And) ? kAnd : is_word(Word::Or) ? kOr : kNone;
        default:
            return kNone;
    }
}

/// An expression of operators of at least the level `lowest`. `first` is its first operand if that
/// has been read.
constexpr NodeId Parser::expression(Level lowest, NodeId first) {
    // Levels rise along the stack, so it holds one operator of each at most.
    struct Pending {
        NodeId left;
        std::uint32_t begin;
        int height;
        Level level;
        Op op;
        std::uint32_t token;
        std::uint32_t last_token;
    };
    const Restored conditions(names_.kernel.conditions);
    Pending pending[8];
    int depth = 0;
    NodeId value = first;
    // Where the value begins, parentheses included, which nodes do not know of.
    std::uint32_t begin = first < 0 ? 0 : nodes_[first].span.begin;
    while (true) {
        if (value < 0) {
            if (kind_ == Tok::Bang || is_word(Word::Not)) {
                const Level outer = depth > 0 ? pending[depth - 1].level : lowest;
                if (outer > kNot || (depth > 0 && outer == kNot)) return fail(Code::E0200);
                const std::uint32_t token = p_;
                while (kind_ == Tok::Bang || is_word(Word::Not)) advance();
                if (p_ - token > std::uint32_t(kMaxDepth)) {
                    return fail_at(Code::E0104, tokens_[token + kMaxDepth].span());
                }
                pending[depth] = Pending{-1, 0, 0, kNot, Op::Not, token, p_ - 1};
                ++depth;
            }
            begin = tokens_[p_].begin;
            value = operand(kAny);
            if (value < 0) return -1;
        }
        const Level level = level_of_next();
        while (depth > 0 && pending[depth - 1].level >= level) {
            const Pending& top = pending[depth - 1];
            const std::uint32_t end = last_end();
            if (top.level == kNot) {
                for (std::uint32_t t = top.last_token; t + 1 > top.token; --t) {
                    const NodeId node = add(Kind::Unary, Op::Not, tokens_[t].begin, end);
                    nodes_[node].first = value;
                    value = node;
                    begin = tokens_[t].begin;
                    grow(height_, 0);
                }
            } else {
                if (level == kCompare && top.level == kCompare) return fail(Code::E0203);
                begin = top.begin;
                const NodeId node = add(Kind::Binary, top.op, begin, end);
                nodes_[node].first = top.left;
                nodes_[top.left].next = value;
                value = node;
                grow(top.height, height_);
            }
            --depth;
        }
        if (level < lowest || level == kNone) return value;
        if (level == kPipe) {
            value = pipe(value);
            if (value < 0) return -1;
            continue;
        }
        const Op op = level == kAnd ? Op::And : level == kOr ? Op::Or : binary_op(kind_);
        pending[depth] = Pending{value, begin, height_, level, op, p_, p_};
        // The left side decides whether the right one is evaluated.
        names_.kernel.conditions += op == Op::And || op == Op::Or;
        ++depth;
        advance();
        value = -1;
    }
}

constexpr NodeId Parser::pipe(NodeId value) {
    const int height = height_;
    if (in_kernel_) report(Code::E0417, tokens_[p_].span(), 5);
    advance();
    if (kind_ != Tok::Name) return fail(Code::E0201, 1);
    const std::uint32_t name = tokens_[p_].name;
    const NodeId callee = leaf(Kind::Name);
    if (kind_ != Tok::LeftParen) return fail(Code::E0200, 1, nodes_[callee].span);
    const NodeId called = call(callee, name);
    if (called < 0) return -1;
    const std::uint32_t begin = nodes_[value].span.begin;
    const NodeId node = add(Kind::Pipe, Op::None, begin, last_end());
    nodes_[node].first = value;
    nodes_[value].next = called;
    grow(height, height_);
    return node;
}

/// A primary with what is written before and after it. kTarget leaves the judgement of its first
/// name to the caller, who does not know yet whether it is assigned; kPostfix refuses '-' and
/// 'await'.
constexpr NodeId Parser::operand(Form form) {
    const std::uint32_t minus = p_;
    if (kind_ == Tok::Minus && form != kPostfix) {
        while (kind_ == Tok::Minus) advance();
        if (p_ - minus > std::uint32_t(kMaxDepth)) {
            return fail_at(Code::E0104, tokens_[minus + kMaxDepth].span());
        }
        form = kAny;
    }
    std::uint32_t t = p_;
    NodeId value = -1;
    const Tok next = peek();
    if (form != kPostfix && is_word(Word::Await) &&
        (next == Tok::Name || next == Tok::LeftParen || next == Tok::LeftBracket)) {
        value = await_future();
        if (value < 0) return -1;
    } else {
        const std::uint32_t first = p_;
        std::uint32_t name = tokens_[p_].name;
        const std::uint32_t root = name;
        value = primary();
        if (value < 0) return -1;
        bool is_name = tokens_[first].kind == Tok::Name && nodes_[value].kind == Kind::Name;
        bool is_path = is_name;
        bool judged = !is_name || !in_kernel_;
        while (true) {
            if (kind_ == Tok::Dot) {
                advance();
                if (kind_ != Tok::Name) return fail(Code::E0201);
                if (is_path && !judged) name = names_.find_path(name, tokens_[p_].name);
                const NodeId member = leaf(Kind::Name);
                const std::uint32_t begin = nodes_[value].span.begin;
                const NodeId node = add(Kind::Member, Op::None, begin, last_end());
                nodes_[node].first = value;
                nodes_[value].next = member;
                value = node;
                is_name = false;
                grow(height_, 0);
                continue;
            }
            if (!judged && kind_ != Tok::LeftParen) {
                judged = true;
                const Span span{tokens_[first].begin, last_end() - tokens_[first].begin};
                const Use use = !is_name                    ? Use::Member
                                : kind_ == Tok::LeftBracket ? Use::Indexed
                                                            : Use::Plain;
                if (form == kTarget) {
                    target_name_ = name;
                    target_root_ = root;
                    target_span_ = span;
                    target_use_ = use;
                    target_pending_ = true;
                } else {
                    names_.use(name, root, span, use);
                }
            }
            if (kind_ == Tok::LeftParen) {
                judged = true;
                const std::uint32_t function = is_name ? name : 0;
                if (!in_kernel_) {
                    value = call(value, function);
                } else if (function < kWordCount && kWordTable.is_function[function]) {
                    value = call(value, function);
                    if (value >= 0) check_call(value, function);
                } else {
                    value = unknown_call(value, function);
                }
            } else if (kind_ == Tok::LeftBracket) {
                value = index(value);
            } else {
                break;
            }
            if (value < 0) return -1;
            is_name = false;
            is_path = false;
        }
    }
    while (t > minus) {
        --t;
        const NodeId node = add(Kind::Unary, Op::Neg, tokens_[t].begin, last_end());
        nodes_[node].first = value;
        value = node;
        grow(height_, 0);
    }
    return value;
}

constexpr NodeId Parser::await_future() {
    if (in_kernel_) report(Code::E0417, tokens_[p_].span(), 1);
    const NodeId node = add(Kind::Await, Op::None, tokens_[p_].begin, tokens_[p_].end);
    advance();
    NodeId last = operand(kPostfix);
    if (last < 0) return -1;
    link(node, -1, last);
    int height = height_;
    if (is_word(Word::Timeout)) {
        advance();
        const NodeId timeout = expression(kSum);
        if (timeout < 0) return -1;
        last = link(node, last, timeout);
        grow(height, height_);
        height = height_;
    } else {
        last = link(node, last, empty());
    }
    if (nodes_[last].kind != Kind::Empty && is_word(Word::Else)) {
        advance();
        const NodeId otherwise = expression(kSum);
        if (otherwise < 0) return -1;
        link(node, last, otherwise);
    } else {
        link(node, last, empty());
    }
    close(node);
    grow(height, height_);
    return node;
}

constexpr NodeId Parser::primary() {
    height_ = 1;
    switch (kind_) {
        case Tok::Name:
            if (is_reserved(tokens_[p_].name)) return fail(Code::E0200);
            if (is_word(Word::Compute) && peek() == Tok::LeftParen) {
                return in_kernel_ ? fail(Code::E0417) : compute();
            }
            return leaf(Kind::Name);
        case Tok::Int:
            return leaf(Kind::Int);
        case Tok::Float:
            return leaf(Kind::Float);
        case Tok::Quantity:
            if (in_kernel_) report(Code::E0417, tokens_[p_].span(), 3);
            return leaf(Kind::Quantity);
        case Tok::String:
            if (in_kernel_) report(Code::E0417, tokens_[p_].span(), 2);
            return leaf(Kind::String);
        case Tok::LeftParen:
            return parenthesized();
        case Tok::LeftBracket:
            if (in_kernel_) report(Code::E0417, tokens_[p_].span(), 4);
            return list();
        default:
            return fail(Code::E0200);
    }
}

constexpr NodeId Parser::parenthesized() {
    const std::uint32_t begin = tokens_[p_].begin;
    advance();
    const NodeId first = expression(kPipe);
    if (first < 0) return -1;
    if (kind_ == Tok::RightParen) {
        advance();
        return first;
    }
    const NodeId node = add(Kind::Tuple, Op::None, begin, begin);
    NodeId last = link(node, -1, first);
    int height = height_;
    while (kind_ == Tok::Comma) {
        advance();
        const NodeId element = expression(kPipe);
        if (element < 0) return -1;
        last = link(node, last, element);
        height = height_ > height ? height_ : height;
    }
    if (kind_ != Tok::RightParen) return fail(Code::E0204);
    advance();
    close(node);
    grow(height, 0);
    return node;
}

constexpr NodeId Parser::list() {
    const NodeId node = add(Kind::List, Op::None, tokens_[p_].begin, tokens_[p_].end);
    advance();
    NodeId last = -1;
    int height = 0;
    while (kind_ != Tok::RightBracket) {
        const NodeId element = expression(kPipe);
        if (element < 0) return -1;
        last = link(node, last, element);
        height = height_ > height ? height_ : height;
        if (kind_ == Tok::Comma) {
            advance();
        } else if (kind_ != Tok::RightBracket) {
            return fail(Code::E0205);
        }
    }
    advance();
    close(node);
    grow(height, 0);
    return node;
}

constexpr NodeId Parser::index(NodeId object) {
    const std::uint32_t begin = nodes_[object].span.begin;
    const NodeId node = add(Kind::Index, Op::None, begin, begin);
    NodeId last = link(node, -1, object);
    int height = height_;
    do {
        advance();
        const NodeId sub = subscript();
        if (sub < 0) return -1;
        last = link(node, last, sub);
        height = height_ > height ? height_ : height;
    } while (kind_ == Tok::Comma);
    if (kind_ != Tok::RightBracket) return fail(Code::E0205);
    advance();
    close(node);
    grow(height, 0);
    return node;
}

constexpr NodeId Parser::subscript() {
    NodeId begin = -1;
    height_ = 1;
    if (kind_ != Tok::Colon) {
        if (kind_ == Tok::Name && in_kernel_) {
            const Tok next = peek();
            if (next == Tok::Comma || next == Tok::RightBracket) {
                names_.use_as_index(tokens_[p_].name);
            }
        }
        begin = expression(kPipe);
        if (begin < 0) return -1;
        if (kind_ != Tok::Colon) return begin;
    }
    const std::uint32_t start = begin >= 0 ? nodes_[begin].span.begin : tokens_[p_].begin;
    const NodeId node = add(Kind::Slice, Op::None, start, start);
    NodeId last = link(node, -1, begin >= 0 ? begin : empty());
    int height = height_;
    advance();
    const bool open_end = kind_ == Tok::Colon || kind_ == Tok::Comma || kind_ == Tok::RightBracket;
    const NodeId end = open_end ? empty() : expression(kPipe);
    if (end < 0) return -1;
    last = link(node, last, end);
    height = height_ > height ? height_ : height;
    if (kind_ == Tok::Colon) {
        advance();
        const NodeId step = expression(kPipe);
        if (step < 0) return -1;
        link(node, last, step);
    } else {
        link(node, last, empty());
    }
    close(node);
    grow(height, height_);
    return node;
}

}  // namespace quern::lang
