#pragma once

#include "quern/lang/parser.h"

// Calls and their arguments.

namespace quern::lang {

/// The arguments of a call. `name`: that of the function, 0 if it is no plain name.
constexpr NodeId Parser::call(NodeId callee, std::uint32_t name) {
    const Span span = nodes_[callee].span;
    const NodeId node = add(Kind::Call, Op::None, span.begin, span.end());
    const int height = height_;
    const bool reduces = name == static_cast<std::uint32_t>(Word::Reduce);
    const bool selects = name < kWordCount && kWords[name].text == "select";
    NodeId last = arguments(node, link(node, -1, callee), reduces, selects);
    if (last < 0) return -1;
    if (!in_kernel_) {
        while (at_call_decorator()) {
            const NodeId deco = decorator(true);
            if (deco < 0) return -1;
            last = link(node, last, deco);
        }
    }
    close(node);
    grow(height, height_);
    return node;
}

/// `(` argument, ... `)`, linked behind `last`, which is the last child of `parent`. Returns the
/// new last child. `reduces`: the first argument is an operator. `selects`: it decides which other
/// one is evaluated.
constexpr NodeId Parser::arguments(NodeId parent, NodeId last, bool reduces, bool selects) {
    const Restored conditions(names_.kernel.conditions);
    int height = 0;
    advance();
    while (kind_ != Tok::RightParen || height > 0) {
        NodeId node = -1;
        height_ = 1;
        if (reduces) {
            node = reduce_operator(nodes_[parent].kind == Kind::Call);
            if (node < 0) return -1;
            reduces = false;
        } else if (kind_ == Tok::Name && peek() == Tok::Set) {
            node = add(Kind::NamedArg, Op::None, tokens_[p_].begin, tokens_[p_].end);
            const NodeId name = link(node, -1, leaf(Kind::Name));
            advance();
            const NodeId value = expression(kPipe);
            if (value < 0) return -1;
            link(node, name, value);
            close(node);
        } else {
            node = expression(kPipe);
            if (node < 0) return -1;
        }
        last = link(parent, last, node);
        // Only one of what follows is evaluated.
        names_.kernel.conditions += selects;
        height = height_ > height ? height_ : height;
        if (kind_ == Tok::RightParen) break;
        if (kind_ != Tok::Comma) return fail(Code::E0204);
        advance();
    }
    advance();
    height_ = height;
    return last;
}

/// The first argument of `reduce`: '+', '*', 'and', 'or', or the name of another operator, whatever
/// else has that name. The function, unlike the kind of a kernel, has no index to return.
constexpr NodeId Parser::reduce_operator(bool of_function) {
    const std::uint8_t variant = of_function ? 2 : 0;
    const Tok next = peek();
    const bool alone = next == Tok::Comma || next == Tok::RightParen;
    if (kind_ == Tok::Bad) return -1;
    if (!alone || kind_ == Tok::RightParen) return fail(Code::E0310, variant);
    if (kind_ == Tok::Plus || kind_ == Tok::Star || is_word(Word::And) || is_word(Word::Or)) {
        return leaf(Kind::ReduceOp);
    }
    if (is_word(Word::Min) || is_word(Word::Max)) return leaf(Kind::Name);
    if (!of_function && (is_word(Word::Argmin) || is_word(Word::Argmax))) return leaf(Kind::Name);
    return fail(Code::E0310, variant);
}

/// What is not a function of the language has arguments that nobody knows: they are passed.
constexpr NodeId Parser::unknown_call(NodeId callee, std::uint32_t name) {
    const Span span = nodes_[callee].span;
    const std::uint8_t variant = name == 0 ? 1 : names_.find(name) != 0 ? 2 : 0;
    report(Code::E0407, span, variant);
    const NodeId node = add(Kind::Call, Op::None, span.begin, span.end());
    link(node, -1, callee);
    const std::uint8_t level = tokens_[p_].level;
    do {
        advance();
    } while (kind_ != Tok::End && tokens_[p_].level > level);
    if (kind_ != Tok::RightParen) return -1;
    advance();
    close(node);
    height_ = 1;
    return node;
}

/// A call of a function of the language in a kernel.
constexpr void Parser::check_call(NodeId node, std::uint32_t name) {
    const Node& callee = nodes_[nodes_[node].first];
    const bool is_reduce = name == static_cast<std::uint32_t>(Word::Reduce);
    int count = 0;
    for (NodeId argument = callee.next; argument >= 0; argument = nodes_[argument].next) {
        ++count;
        if (nodes_[argument].kind != Kind::NamedArg) continue;
        const NodeId key = nodes_[argument].first;
        const bool known = is_reduce && space_.node_names[key] == std::uint32_t(Word::Axis);
        if (!known) report(Code::E0408, nodes_[key].span, 1, callee.span);
    }
    if (count < kWordTable.least[name] || count > kWordTable.most[name]) {
        report(Code::E0408, callee.span, 0, {std::uint32_t(count), 0});
    }
}

}  // namespace quern::lang
