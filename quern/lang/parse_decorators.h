#pragma once

#include "quern/lang/parser.h"

// Decorators of compute, of kernel bodies and of calls of pipelines, and what is right in them.

namespace quern::lang {

/// `@device`, `@async` or `@parallel` behind a call: not the operator @, which stands apart from
/// what follows or before another name.
constexpr bool Parser::at_call_decorator() const {
    if (kind_ != Tok::At) return false;
    const Token& next = tokens_[p_ + 1];
    if (next.begin != tokens_[p_].end) return false;
    return next.is(Word::Device) || next.is(Word::Async) || next.is(Word::Parallel);
}

constexpr NodeId Parser::decorators_before_brace() {
    const NodeId node = add(Kind::Decorators, Op::None, tokens_[p_].begin, tokens_[p_].begin);
    const std::uint8_t level = tokens_[p_].level;
    NodeId last = -1;
    while (kind_ == Tok::At) {
        const NodeId deco = decorator(true);
        if (deco < 0) {
            // Whatever is wrong has been reported; the body is still worth reading.
            names_.kernel.lost_decorator = true;
            skip_to_block(level);
            break;
        }
        last = link(node, last, deco);
        close(node);
    }
    check_twice(node);
    return node;
}

constexpr NodeId Parser::decorator(bool header) {
    const NodeId node = add(Kind::Decorator, Op::None, tokens_[p_].begin, tokens_[p_].end);
    advance();
    if (kind_ != Tok::Name) return fail(Code::E0301, header ? 1 : 0);
    const Word word = tokens_[p_].word();
    const bool of_header = word == Word::Device || word == Word::Async || word == Word::Parallel;
    const bool of_body = word == Word::Device || word == Word::Kernel || word == Word::Workgroup ||
                         word == Word::Shared || word == Word::Tile || word == Word::Broadcast;
    if (!(header ? of_header : of_body)) {
        const std::uint8_t elsewhere = of_header ? 2 : of_body ? 3 : header ? 1 : 0;
        return fail(Code::E0302, elsewhere);
    }
    NodeId last = link(node, -1, leaf(Kind::Name));
    if (word == Word::Kernel) {
        if (kind_ != Tok::Name) return fail(Code::E0303);
        names_.kernel.kind_span = tokens_[p_].span();
        last = link(node, last, leaf(Kind::Name));
    }
    if (kind_ == Tok::LeftParen) {
        const bool reduces =
            word == Word::Kernel && space_.node_names[last] == std::uint32_t(Word::Reduce);
        last = arguments(node, last, reduces);
        if (last < 0) return -1;
    }
    close(node);
    check_decorator(node, word);
    return node;
}

constexpr bool Parser::is_not_positive(NodeId node) const {
    if (nodes_[node].kind == Kind::Unary && nodes_[node].op == Op::Neg) {
        return nodes_[nodes_[node].first].kind == Kind::Int;
    }
    if (nodes_[node].kind != Kind::Int) return false;
    const Span span = nodes_[node].span;
    for (std::uint32_t i = span.begin; i < span.end(); ++i) {
        if (space_.text[i] != '0') return false;
    }
    return true;
}

/// A size that is written as a number.
constexpr void Parser::check_positive(NodeId node) {
    if (is_not_positive(node)) report(Code::E0309, nodes_[node].span);
}

constexpr void Parser::check_decorator(NodeId node, Word word) {
    const NodeId name = nodes_[node].first;
    const NodeId first = nodes_[name].next;
    const Span place = first >= 0 ? nodes_[first].span : nodes_[name].span;
    int count = 0;
    int named = 0;
    for (NodeId a = first; a >= 0; a = nodes_[a].next) {
        ++count;
        if (nodes_[a].kind == Kind::NamedArg) ++named;
    }
    switch (word) {
        case Word::Kernel:
            return check_kernel(node);
        case Word::Device:
            return check_device(node, count);
        case Word::Async:
            if (count > 0) report(Code::E0313, place, 1);
            return;
        case Word::Parallel: {
            const bool known = count == 1 && nodes_[first].kind == Kind::Name &&
                               (space_.node_names[first] == std::uint32_t(Word::Data) ||
                                space_.node_names[first] == std::uint32_t(Word::Model));
            if (!known) report(Code::E0313, place, 2);
            return;
        }
        case Word::Workgroup:
            if (named > 0) return report(Code::E0313, place, 3);
            if (count < 1 || count > 3) {
                return report(Code::E0308, nodes_[name].span, 0, {std::uint32_t(count), 0});
            }
            for (NodeId a = first; a >= 0; a = nodes_[a].next) check_positive(a);
            return;
        case Word::Shared:
            if (count != 1 || named > 0) return report(Code::E0313, place, 4);
            return check_positive(first);
        case Word::Tile:
            if (count == 0 || named != count) return report(Code::E0313, place, 5);
            for (NodeId a = first; a >= 0; a = nodes_[a].next) {
                check_positive(nodes_[nodes_[a].first].next);
            }
            return;
        default: {  // broadcast
            const NodeId second = first >= 0 ? nodes_[first].next : -1;
            const bool right = count == 2 && nodes_[first].kind == Kind::Name &&
                               nodes_[second].kind == Kind::NamedArg &&
                               space_.node_names[nodes_[second].first] == std::uint32_t(Word::Axis);
            // A name alone is right as far as it goes: what stands behind it is wrong.
            const bool one_too_many = count > 2 && named == 1;
            const NodeId wrong = one_too_many ? nodes_[second].next : second;
            const bool behind = second >= 0 && nodes_[first].kind == Kind::Name;
            if (!right) return report(Code::E0313, behind ? nodes_[wrong].span : place, 6);
            if (!names_.is_operand(space_.node_names[first])) report(Code::E0411, place, 3);
            return;
        }
    }
}

constexpr void Parser::check_kernel(NodeId node) {
    KernelState& kernel = names_.kernel;
    const NodeId kind = nodes_[nodes_[node].first].next;
    const std::uint32_t name = space_.node_names[kind];
    // A second @kernel is reported by check_twice; the first one counts.
    if (kernel.has_kind) return;
    kernel.has_kind = true;
    kernel.is_reduce = name == std::uint32_t(Word::Reduce);
    if (kernel.is_reduce) return check_reduce(kind);
    const bool known =
        name >= std::uint32_t(Word::Elementwise) && name <= std::uint32_t(Word::Custom);
    if (!known) report(Code::N0804, nodes_[kind].span);
}

/// reduce(op) or reduce(op, axis=k).
constexpr void Parser::check_reduce(NodeId kind) {
    const NodeId op = nodes_[kind].next;
    if (op < 0) return report(Code::E0310, nodes_[kind].span, 1);
    const std::uint32_t name = space_.node_names[op];
    names_.kernel.reduce_op = name < kWordCount ? static_cast<Word>(name) : Word::None;
    const NodeId axis = nodes_[op].next;
    if (axis < 0) return;
    const bool right = nodes_[axis].kind == Kind::NamedArg &&
                       space_.node_names[nodes_[axis].first] == std::uint32_t(Word::Axis) &&
                       nodes_[axis].next < 0;
    if (!right) return report(Code::E0313, nodes_[axis].span, 7);
    names_.kernel.axis = nodes_[nodes_[axis].first].next;
}

constexpr void Parser::check_device(NodeId node, int count) {
    const NodeId name = nodes_[node].first;
    const NodeId id = nodes_[name].next;
    bool right = count == 1;
    if (right && nodes_[id].kind == Kind::List) {
        right = nodes_[id].first >= 0;
        for (NodeId e = nodes_[id].first; e >= 0; e = nodes_[e].next) {
            right = right && nodes_[e].kind == Kind::String;
        }
    } else if (right) {
        right = nodes_[id].kind == Kind::String;
    }
    if (!right) report(Code::E0313, nodes_[count > 0 ? id : name].span, 8);
}

/// Each decorator at most once in one place. @broadcast speaks of one operand each time.
constexpr void Parser::check_twice(NodeId decorators) {
    NodeId seen[std::uint16_t(Word::Parallel) + 1] = {};
    for (NodeId d = nodes_[decorators].first; d >= 0; d = nodes_[d].next) {
        const NodeId name = nodes_[d].first;
        const std::uint32_t word = space_.node_names[name];
        if (word == std::uint32_t(Word::Broadcast)) continue;
        if (seen[word] > 0) {
            const bool kernel = word == std::uint32_t(Word::Kernel);
            report(kernel ? Code::E0305 : Code::E0307, nodes_[name].span, 0,
                   nodes_[seen[word]].span);
        } else {
            seen[word] = name;
        }
    }
}

constexpr bool Parser::same_text(NodeId a, NodeId b) const {
    const Span x = nodes_[a].span;
    const Span y = nodes_[b].span;
    if (x.length != y.length) return false;
    for (std::uint32_t i = 0; i < x.length; ++i) {
        if (space_.text[x.begin + i] != space_.text[y.begin + i]) return false;
    }
    return true;
}

/// @device may stand before the body and in it, with one value.
constexpr void Parser::check_devices(NodeId header, NodeId body) {
    NodeId found[2] = {-1, -1};
    for (int i = 0; i < 2; ++i) {
        NodeId d = nodes_[i == 0 ? header : body].first;
        while (d >= 0 && space_.node_names[nodes_[d].first] != std::uint32_t(Word::Device)) {
            d = nodes_[d].next;
        }
        found[i] = d;
    }
    if (found[0] < 0 || found[1] < 0) return;
    NodeId a = nodes_[nodes_[found[0]].first].next;
    NodeId b = nodes_[nodes_[found[1]].first].next;
    const NodeId first = a;
    const NodeId second = b;
    if (a < 0 || b < 0) return;
    // A list of one device is that device.
    if (nodes_[a].kind == Kind::List) a = nodes_[a].first;
    if (nodes_[b].kind == Kind::List) b = nodes_[b].first;
    bool same = true;
    while (same && a >= 0 && b >= 0) {
        same = same_text(a, b);
        a = nodes_[a].next;
        b = nodes_[b].next;
    }
    if (same && a < 0 && b < 0) return;
    report(Code::E0307, nodes_[second].span, 1, nodes_[first].span);
}

/// `axis=` of a reduction counts the loop variables of the perfect nest.
constexpr void Parser::check_axis(NodeId block) {
    NodeId value = names_.kernel.axis;
    const bool negative = nodes_[value].kind == Kind::Unary && nodes_[value].op == Op::Neg;
    if (negative) value = nodes_[value].first;
    if (nodes_[value].kind != Kind::Int) return;
    std::uint32_t loops = 0;
    while (true) {
        const NodeId only = nodes_[block].first;
        if (only < 0 || nodes_[only].next >= 0 || nodes_[only].kind != Kind::For) break;
        block = nodes_[only].first;
        while (nodes_[block].kind == Kind::Loop) {
            ++loops;
            block = nodes_[block].next;
        }
    }
    const Span digits = nodes_[value].span;
    std::uint32_t axis = 0;
    for (std::uint32_t i = digits.begin; i < digits.end() && axis <= loops; ++i) {
        axis = axis * 10 + static_cast<std::uint32_t>(space_.text[i] - '0');
    }
    if (negative ? axis > loops : axis >= loops) {
        report(Code::E0432, nodes_[names_.kernel.axis].span, 0, {loops, 0});
    }
}

}  // namespace quern::lang
