#pragma once

#include "quern/lang/parse_statements.h"
#include "quern/lang/parser.h"

// The host level: statements of a script, config, pipelines.

namespace quern::lang {

constexpr Parsed Parser::run() {
    Parsed parsed;
    Lexer lexer(space_, issues_);
    end_ = lexer.run() - 1;
    names_.set_name_count(lexer.name_count());
    move_to(issues_.full() ? end_ : 0);
    parsed.root = add(Kind::Script, Op::None, 0, 0);
    while (kind_ != Tok::End) {
        statements(parsed.root, Tok::End);
        // A brace that opens nothing was reported by the lexer.
        if (kind_ == Tok::RightBrace) advance();
    }
    nodes_[parsed.root].span = Span{0, space_.size};
    parsed.node_count = node_count_;
    parsed.name_count = lexer.name_count();
    return parsed;
}

constexpr NodeId Parser::host_statement() {
    if (kind_ == Tok::At) stray_decorator_ = true;
    if (kind_ == Tok::At || kind_ == Tok::Ellipsis) return fail(Code::E0418);
    const Tok next = peek();
    switch (tokens_[p_].word()) {
        case Word::For:
        case Word::If:
        case Word::Yield:
            return fail(Code::E0418);
        case Word::Else:
        case Word::In:
        case Word::And:
        case Word::Or:
            return fail(Code::E0207);
        case Word::Shared:
            if (next == Tok::Name && tokens_[p_ + 1].is(Word::Var)) return fail(Code::E0418);
            break;
        case Word::Config:
            if (next == Tok::LeftBrace) return config();
            break;
        case Word::Pipeline:
            if (next == Tok::Name) return pipeline();
            break;
        case Word::Let:
        case Word::Var:
            if (next == Tok::Name || next == Tok::LeftParen) return host_declaration();
            if (needs_name_before(next)) {
                advance();
                return fail(Code::E0217);
            }
            break;
        default:
            break;
    }
    const bool returns = is_word(Word::Return);
    const bool starts_with_name = kind_ == Tok::Name;
    const std::uint32_t begin = tokens_[p_].begin;
    if (returns) advance();
    const NodeId value = expression(kPipe);
    if (value < 0) return -1;
    const Op op = assignment_op(kind_);
    const bool assigns = op != Op::None && starts_with_name && !returns && is_target(value);
    if (assigns && op != Op::Set) return fail(Code::E0418, 1, nodes_[value].span);
    const Kind kind = returns ? Kind::Return : assigns ? Kind::Assign : Kind::ExprStmt;
    const NodeId node = add(kind, assigns ? op : Op::None, begin, begin);
    link(node, -1, value);
    if (assigns) {
        advance();
        const NodeId assigned = expression(kPipe);
        if (assigned < 0) return -1;
        link(node, value, assigned);
    }
    close(node);
    return end_statement() ? node : -1;
}

constexpr NodeId Parser::host_declaration() {
    const Op op = is_word(Word::Let) ? Op::Let : Op::Var;
    const NodeId node = add(Kind::Decl, op, tokens_[p_].begin, tokens_[p_].end);
    advance();
    NodeId last = kind_ == Tok::LeftParen ? host_names() : declared_name(Code::E0217);
    if (last < 0) return -1;
    link(node, -1, last);
    last = link(node, last, empty());
    if (kind_ != Tok::Set) return fail(Code::E0216);
    advance();
    const NodeId value = expression(kPipe);
    if (value < 0) return -1;
    link(node, last, value);
    close(node);
    return end_statement() ? node : -1;
}

/// `(` name, ... `)`.
constexpr NodeId Parser::host_names() {
    const NodeId node = add(Kind::Tuple, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = -1;
    do {
        advance();
        const NodeId name = declared_name(Code::E0217);
        if (name < 0) return -1;
        last = link(node, last, name);
    } while (kind_ == Tok::Comma);
    if (kind_ != Tok::RightParen) return fail(Code::E0204);
    advance();
    close(node);
    return node;
}

/// `config {` name: value, ... `}`, on one line or several.
constexpr NodeId Parser::config() {
    const NodeId node = add(Kind::Config, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = -1;
    advance();
    advance();
    while (true) {
        while (kind_ == Tok::Newline || kind_ == Tok::Semicolon) advance();
        if (kind_ == Tok::RightBrace) break;
        if (kind_ != Tok::Name) return fail(Code::E0219);
        const NodeId setting = add(Kind::Setting, Op::None, tokens_[p_].begin, tokens_[p_].end);
        const NodeId name = link(setting, -1, leaf(Kind::Name));
        if (kind_ != Tok::Colon) return fail(Code::E0219, 1);
        advance();
        const NodeId value = expression(kPipe);
        if (value < 0) return -1;
        link(setting, name, value);
        close(setting);
        last = link(node, last, setting);
        if (kind_ == Tok::Comma) advance();
    }
    advance();
    close(node);
    return end_statement() ? node : -1;
}

constexpr NodeId Parser::pipeline() {
    const std::uint8_t level = tokens_[p_].level;
    const Span keyword = tokens_[p_].span();
    const NodeId node = add(Kind::Pipeline, Op::None, keyword.begin, keyword.end());
    advance();
    NodeId last = declared_name(Code::E0201);
    if (last < 0) return -1;
    link(node, -1, last);
    const NodeId parameters = params();
    NodeId result = -1;
    if (parameters >= 0) {
        last = link(node, last, parameters);
        if (kind_ == Tok::Arrow) {
            advance();
            result = type();
        } else {
            result = empty();
        }
    }
    if (result < 0) {
        if (!skip_to_block(level)) return -1;
        result = empty();
    }
    last = link(node, last, result);
    if (kind_ != Tok::Colon) return fail(Code::E0208, 1, keyword);
    if (peek() != Tok::Newline) {
        advance();
        return fail(Code::E0103, 1, keyword);
    }
    const NodeId body = block(keyword);
    if (body < 0) return -1;
    link(node, last, body);
    nodes_[node].span.length = nodes_[body].span.end() - keyword.begin;
    return node;
}

constexpr NodeId Parser::params() {
    if (kind_ != Tok::LeftParen) return fail(Code::E0220, 1);
    const NodeId node = add(Kind::Params, Op::None, tokens_[p_].begin, tokens_[p_].end);
    std::uint32_t outer_block = 0;
    const std::uint32_t bindings = names_.size();
    names_.open_scope(outer_block);
    NodeId last = -1;
    bool ok = true;
    advance();
    while (ok && (kind_ != Tok::RightParen || last >= 0)) {
        ok = kind_ == Tok::Name;
        if (!ok) {
            fail(Code::E0220);
            break;
        }
        const Token& token = tokens_[p_];
        const NodeId param = add(Kind::Param, Op::None, token.begin, token.end);
        const NodeId name = declared_name(Code::E0220);
        ok = name >= 0;
        if (!ok) break;
        names_.declare(BindingKind::Operand, token.name, token.span());
        link(param, -1, name);
        if (kind_ == Tok::Colon) {
            advance();
        } else {
            fail(Code::E0220, 2);
            ok = false;
            break;
        }
        const NodeId what = type();
        ok = what >= 0;
        if (!ok) break;
        link(param, name, what);
        close(param);
        last = link(node, last, param);
        if (kind_ == Tok::RightParen) break;
        ok = kind_ == Tok::Comma;
        if (ok) {
            advance();
        } else {
            fail(Code::E0204);
        }
    }
    names_.close_scope(outer_block, bindings);
    if (!ok) return -1;
    advance();
    close(node);
    return node;
}

/// ident [ `[` name, number or `?`, ... `]` ].
constexpr NodeId Parser::type() {
    if (kind_ != Tok::Name) return fail(Code::E0215);
    const NodeId node = add(Kind::Type, Op::None, tokens_[p_].begin, tokens_[p_].end);
    NodeId last = link(node, -1, leaf(Kind::Name));
    if (kind_ == Tok::LeftBracket) {
        do {
            advance();
            if (kind_ != Tok::Name && kind_ != Tok::Int && kind_ != Tok::Question) {
                return fail(Code::E0215, 1);
            }
            const Kind kind = kind_ == Tok::Name  ? Kind::Name
                              : kind_ == Tok::Int ? Kind::Int
                                                  : Kind::Unknown;
            last = link(node, last, leaf(kind));
        } while (kind_ == Tok::Comma);
        if (kind_ != Tok::RightBracket) return fail(Code::E0205);
        advance();
    }
    close(node);
    return node;
}

}  // namespace quern::lang
