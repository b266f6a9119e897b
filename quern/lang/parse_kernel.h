#pragma once

#include "quern/lang/parser.h"

// compute(...) {...}: operands and the statements of a kernel body.

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
        if (kind_ != Tok::LeftBrace) {
            fail(Code::E0304);
            ok = skip_to_block(level) && kind_ == Tok::LeftBrace;
        }
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

constexpr NodeId Parser::operands() {
    const NodeId node = add(Kind::Operands, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = -1;
    advance();
    while (kind_ != Tok::RightParen || last >= 0) {
        const NodeId operand = compute_operand();
        if (operand < 0) return -1;
        last = link(node, last, operand);
        if (kind_ == Tok::RightParen) break;
        if (kind_ != Tok::Comma) return fail(Code::E0204);
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
        int kept = kernel.first_issue;
        for (int i = kept; i < issues_.count; ++i) {
            const Code code = issues_.list[i].code;
            if (code == Code::E0411 || code == Code::E0421) {
                --issues_.errors;
            } else {
                issues_.list[kept] = issues_.list[i];
                ++kept;
            }
        }
        issues_.count = kept;
        return;
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
    if (!kernel.yields) report(Code::E0433, kernel.kind_span);
    if (kernel.axis >= 0) check_axis(block);
}

/// The block of a statement whose keyword is `opener`.
constexpr NodeId Parser::block(Span opener) {
    const std::uint32_t begin = tokens_[p_].begin;
    if (kind_ != Tok::Colon && kind_ != Tok::LeftBrace) return fail(Code::E0208, 0, opener);
    const bool braces = kind_ == Tok::LeftBrace;
    advance();
    const NodeId node = add(Kind::Block, Op::None, begin, begin);
    const bool was_in_kernel = in_kernel_;
    std::uint32_t outer_block = 0;
    const std::uint32_t bindings = names_.size();
    if (was_in_kernel) names_.open_scope(outer_block);
    bool ok = true;
    if (braces) {
        statements(node, Tok::RightBrace);
        if (kind_ == Tok::RightBrace) advance();
        close(node);
    } else if (kind_ == Tok::Newline) {
        advance();
        if (kind_ == Tok::Indent) {
            advance();
            nodes_[node].span.begin = tokens_[p_].begin;
            statements(node, Tok::Dedent);
            if (kind_ == Tok::Dedent) advance();
        } else {
            std::uint32_t next = p_;
            while (tokens_[next].kind == Tok::Dedent) ++next;
            if (tokens_[next].kind != Tok::Bad) {
                report(Code::E0103, {tokens_[next].begin, 1}, 0, opener);
            }
            names_.kernel.lost_statement = true;
        }
    } else {
        const Word word = tokens_[p_].word();
        const bool is_simple = kind_ != Tok::Ellipsis && kind_ != Tok::At && word != Word::For &&
                               word != Word::If && word != Word::Else && word != Word::Return &&
                               !(word == Word::Shared && tokens_[p_ + 1].is(Word::Var));
        nodes_[node].span.begin = tokens_[p_].begin;
        const NodeId only = is_simple ? statement() : fail(Code::E0207, 1, opener);
        ok = only >= 0;
        if (ok) {
            link(node, -1, only);
            nodes_[node].span = nodes_[only].span;
        }
    }
    if (was_in_kernel) names_.close_scope(outer_block, bindings);
    return ok ? node : -1;
}

/// Statements up to `closer`, which is left, as the children of `parent`.
constexpr void Parser::statements(NodeId parent, Tok closer) {
    NodeId last = -1;
    int orphans = 0;
    bool failed = false;
    while (kind_ != Tok::End) {
        switch (kind_) {
            case Tok::Newline:
            case Tok::Semicolon:
                advance();
                continue;
            case Tok::Indent:
                // After a header that could not be read, its block is read as part of this one.
                if (!failed) report(Code::E0109, {tokens_[p_].begin, 1});
                ++orphans;
                advance();
                continue;
            case Tok::Dedent:
                if (orphans == 0 && closer == Tok::Dedent) return;
                --orphans;
                advance();
                continue;
            case Tok::RightBrace:
                return;
            default:
                break;
        }
        const std::uint32_t first = p_;
        const std::uint8_t level = tokens_[p_].level;
        const NodeId node = in_kernel_ ? statement() : host_statement();
        failed = node < 0;
        if (!failed) {
            last = link(parent, last, node);
            nodes_[parent].span.length = nodes_[node].span.end() - nodes_[parent].span.begin;
            continue;
        }
        if (in_kernel_) note_lost_statement(first);
        skip_statement(level);
        if (p_ == first) advance();
    }
}

/// After a statement that could not be read, names that seem undeclared may have been declared in
/// it, unless its first word says that it declares nothing.
constexpr void Parser::note_lost_statement(std::uint32_t first) {
    KernelState& kernel = names_.kernel;
    const Token& token = tokens_[first];
    if (token.is(Word::Yield)) {
        kernel.yields = true;
    } else if (token.kind == Tok::Name && names_.find(token.name) != 0) {
        kernel.writes_out = kernel.writes_out || token.is(Word::Out);
    } else {
        kernel.lost_statement = true;
    }
}

/// After `let` or `var`: what can neither be declared nor follow a name.
constexpr bool needs_name_before(Tok next) {
    return next == Tok::Int || next == Tok::Float || next == Tok::Quantity || next == Tok::String ||
           next == Tok::Newline || next == Tok::Semicolon || next == Tok::RightBrace ||
           next == Tok::Dedent;
}

constexpr NodeId Parser::statement() {
    if (kind_ == Tok::Ellipsis) {
        report(Code::E0406, tokens_[p_].span());
        names_.kernel.is_unwritten = true;
        if (kind_ == Tok::End) return -1;
        const NodeId node = leaf(Kind::Ellipsis);
        return end_statement() ? node : -1;
    }
    if (kind_ == Tok::At) return fail(Code::E0306);
    if (kind_ != Tok::Name) return assignment_or_expression();
    const Tok next = peek();
    switch (tokens_[p_].word()) {
        case Word::For:
            return for_statement();
        case Word::If:
            return if_statement();
        case Word::Yield:
            return yield_statement();
        case Word::Else:
        case Word::In:
        case Word::And:
        case Word::Or:
            return fail(Code::E0207);
        case Word::Return:
            return fail(Code::E0417, 6);
        case Word::Config:
            return next == Tok::LeftBrace ? fail(Code::E0417, 6) : assignment_or_expression();
        case Word::Pipeline:
            return next == Tok::Name ? fail(Code::E0417, 6) : assignment_or_expression();
        case Word::Shared:
            if (next != Tok::Name || !tokens_[p_ + 1].is(Word::Var)) {
                return assignment_or_expression();
            }
            return shared_statement();
        case Word::Let:
        case Word::Var:
            if (next == Tok::Name) return declaration();
            if (next == Tok::LeftParen || needs_name_before(next)) {
                advance();
                return fail(Code::E0217);
            }
            return assignment_or_expression();
        default:
            return assignment_or_expression();
    }
}

constexpr NodeId Parser::for_statement() {
    const std::uint8_t level = tokens_[p_].level;
    const Span keyword = tokens_[p_].span();
    const NodeId node = add(Kind::For, Op::None, keyword.begin, keyword.end());
    std::uint32_t outer_block = 0;
    const std::uint32_t bindings = names_.size();
    names_.open_scope(outer_block);
    NodeId last = -1;
    bool ok = true;
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
    const NodeId body = ok ? block(keyword) : -1;
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
    const NodeId begin = expression(kSum);
    if (begin < 0) return -1;
    last = link(node, last, begin);
    if (kind_ != Tok::DotDot) return fail(Code::E0212);
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

constexpr NodeId Parser::yield_statement() {
    KernelState& kernel = names_.kernel;
    const Span keyword = tokens_[p_].span();
    const NodeId node = add(Kind::Yield, Op::None, keyword.begin, keyword.end());
    advance();
    const NodeId value = expression(kPipe);
    if (value < 0) return -1;
    link(node, -1, value);
    close(node);
    kernel.yields = true;
    if (kernel.is_reduce) {
        int elements = 0;
        if (nodes_[value].kind == Kind::Tuple) {
            for (NodeId e = nodes_[value].first; e >= 0; e = nodes_[e].next) ++elements;
        }
        const bool wants_pair =
            kernel.reduce_op == Word::Argmin || kernel.reduce_op == Word::Argmax;
        if (elements != (wants_pair ? 2 : 0)) {
            report(Code::E0431, nodes_[value].span, wants_pair ? 1 : 0, kernel.kind_span);
        }
    } else if (!kernel.lost_decorator) {
        report(Code::E0430, keyword, 0, kernel.kind_span);
    }
    return end_statement() ? node : -1;
}

constexpr NodeId Parser::declared_name(Code missing) {
    if (kind_ != Tok::Name) return fail(missing);
    if (is_reserved(tokens_[p_].name)) return fail(Code::E0218);
    return leaf(Kind::Name);
}

constexpr NodeId Parser::shared_statement() {
    const std::uint32_t begin = tokens_[p_].begin;
    const NodeId node = add(Kind::Shared, Op::None, begin, begin);
    advance();
    advance();
    const std::uint32_t name = p_;
    NodeId last = declared_name(Code::E0213);
    if (last < 0) return -1;
    link(node, -1, last);
    if (kind_ != Tok::LeftBracket) return fail(Code::E0214);
    const NodeId sizes = dims();
    if (sizes < 0) return -1;
    for (NodeId size = nodes_[sizes].first; size >= 0; size = nodes_[size].next) {
        check_positive(size);
    }
    last = link(node, last, sizes);
    names_.declare(BindingKind::Shared, tokens_[name].name, tokens_[name].span());
    const NodeId dtype = dtype_or_empty();
    if (dtype < 0) return -1;
    link(node, last, dtype);
    close(node);
    return end_statement() ? node : -1;
}

constexpr NodeId Parser::dtype_or_empty() {
    if (kind_ != Tok::Colon) return empty();
    advance();
    if (kind_ != Tok::Name) return fail(Code::E0215);
    const std::uint32_t name = tokens_[p_].name;
    if (name >= kWordCount || !kWords[name].is_dtype) {
        report(Code::E0416, tokens_[p_].span());
        if (kind_ == Tok::End) return -1;
    }
    return leaf(Kind::Name);
}

/// The name is declared after its value, and even if that could not be read.
constexpr NodeId Parser::declaration() {
    const Op op = is_word(Word::Let) ? Op::Let : Op::Var;
    const NodeId node = add(Kind::Decl, op, tokens_[p_].begin, tokens_[p_].end);
    advance();
    const std::uint32_t name = p_;
    NodeId last = declared_name(Code::E0217);
    if (last < 0) return -1;
    link(node, -1, last);
    const NodeId dtype = dtype_or_empty();
    NodeId value = -1;
    if (dtype >= 0) {
        last = link(node, last, dtype);
        if (kind_ == Tok::Set) {
            advance();
            value = expression(kPipe);
        } else {
            fail(Code::E0216);
        }
    }
    names_.declare(op == Op::Let ? BindingKind::Let : BindingKind::Var, tokens_[name].name,
                   tokens_[name].span());
    if (value < 0) return -1;
    link(node, last, value);
    close(node);
    return end_statement() ? node : -1;
}

constexpr Op assignment_op(Tok kind) {
    switch (kind) {
        case Tok::Set:
            return Op::Set;
        case Tok::AddSet:
            return Op::AddSet;
        case Tok::SubSet:
            return Op::SubSet;
        case Tok::MulSet:
            return Op::MulSet;
        case Tok::DivSet:
            return Op::DivSet;
        default:
            return Op::None;
    }
}

/// ident { "." ident } [ index ].
constexpr bool Parser::is_target(NodeId node) const {
    if (nodes_[node].kind == Kind::Index) node = nodes_[node].first;
    while (nodes_[node].kind == Kind::Member) node = nodes_[node].first;
    return nodes_[node].kind == Kind::Name;
}

constexpr NodeId Parser::assignment_or_expression() {
    const std::uint32_t begin = tokens_[p_].begin;
    const bool negated = kind_ == Tok::Bang || is_word(Word::Not);
    target_pending_ = false;
    NodeId target = negated ? expression(kPipe) : operand(kTarget);
    if (target < 0) return -1;
    const bool pending = target_pending_;
    const Op op = assignment_op(kind_);
    if (pending && op != Op::None && is_target(target)) {
        const NodeId node = add(Kind::Assign, op, begin, begin);
        const std::uint32_t name = target_name_;
        const Span span = target_span_;
        const Use use = nodes_[target].kind == Kind::Index && target_use_ == Use::Plain
                            ? Use::Indexed
                            : target_use_;
        link(node, -1, target);
        advance();
        const NodeId value = expression(kPipe);
        names_.store(name, span, use, op != Op::Set);
        if (value < 0) return -1;
        link(node, target, value);
        close(node);
        return end_statement() ? node : -1;
    }
    if (pending) names_.use(target_name_, target_root_, target_span_, target_use_);
    const NodeId value = expression(kPipe, target);
    if (value < 0) return -1;
    const NodeId node = add(Kind::ExprStmt, Op::None, begin, begin);
    link(node, -1, value);
    close(node);
    return end_statement() ? node : -1;
}

}  // namespace quern::lang
