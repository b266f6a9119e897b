#pragma once

#include "quern/lang/parser.h"

// Blocks and statements of a kernel body.

namespace quern::lang {

/// The block of a statement whose keyword is `opener`.
constexpr NodeId Parser::block(Span opener) {
    const std::uint32_t begin = tokens_[p_].begin;
    if (kind_ != Tok::Colon && kind_ != Tok::LeftBrace) {
        const bool is_below = kind_ == Tok::Newline && peek() == Tok::LeftBrace;
        fail(Code::E0208, is_below ? 2 : 0, opener);
        if (!is_below) return -1;
        advance();
    }
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

    // A header could not be read, and what stands here may belong to it.
    bool headless = false;
    while (kind_ != Tok::End) {
        switch (kind_) {
            case Tok::Newline:
            case Tok::Semicolon:
                advance();
                continue;
            case Tok::Indent:
                // Below what is no header of a script, nothing is meant for one.
                if (failed && !in_kernel_) {
                    skip_indented();
                    continue;
                }
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
        if (headless && (kind_ == Tok::LeftBrace || is_word(Word::Else))) {
            failed = true;
            skip_statement(level);
            continue;
        }
        const int issues = issues_.count;
        issues_before_statement_ = issues;
        const NodeId node = in_kernel_ ? statement() : host_statement();
        failed = node < 0;
        headless = failed || issues_.has_error_since(issues) || (headless && orphans > 0);
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
    if (pending && level_of_next() == kNone && !at_end_of_statement()) {
        // An assignment to what cannot be assigned reads nothing.
        end_statement();
        return -1;
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
