#pragma once

#include "quern/lang/lexer.h"

// Layout (the off-side rule) to Newline, Indent and Dedent tokens, and brackets, which it depends
// on.

namespace quern::lang {

constexpr void Lexer::end_line() {
    if (count_ == 0) return;
    const Token& last = space_.tokens[count_ - 1];
    if (last.kind == Tok::Newline || last.kind == Tok::Dedent || last.kind == Tok::Semicolon)
        return;
    push(Tok::Newline, last.end, last.end);
}

/// Skips blank lines, then compares the indentation of the first other line with the open blocks.
constexpr std::uint32_t Lexer::begin_line(std::uint32_t i) {
    std::uint32_t start = i;
    while (true) {
        if (i >= size_) return i;
        const char c = text_[i];
        if (c == ' ' || c == '\t' || c == '\r') {
            ++i;
        } else if (c == '\n') {
            ++i;
            ++line_;
            start = i;
        } else if (c == '/' && at(i + 1) == '/') {
            while (i < size_ && text_[i] != '\n') ++i;
        } else {
            break;
        }
    }
    if (text_[i] == '}') return i;
    Open& context = open_[opens_ - 1];
    const std::uint32_t width = i - start;
    if (!context.has_base) {
        check_indent(context, start, i);
        context.has_base = true;
        context.base = indent_count_;
        indents_[indent_count_] = width;
        ++indent_count_;
        return i;
    }
    const bool comparable = width == 0 || check_indent(context, start, i);
    const std::uint32_t top = indents_[indent_count_ - 1];
    if (width == top) return i;
    const bool after_colon = count_ > 1 && space_.tokens[count_ - 2].kind == Tok::Colon;
    if (width > top) {
        if (comparable || after_colon) indent(width, i);
    } else if (comparable) {
        std::uint32_t count = indent_count_;
        while (count > context.base + 1 && indents_[count - 1] > width) --count;
        if (indents_[count - 1] != width) issues_.add(Code::E0101, {i, 1});
        dedent_to(count, i);
    } else if (after_colon) {
        indent(top + 1, i);
    }
    return i;
}

/// False if the white space of a line cannot be compared with that of the lines around it.
constexpr bool Lexer::check_indent(Open& context, std::uint32_t begin, std::uint32_t end) {
    if (begin == end || context.indent == '*') return context.indent != '*';
    const char first = text_[begin];
    std::uint32_t wrong = begin;
    if (context.indent == '\0' || context.indent == first) {
        context.indent = first;
        while (wrong < end && text_[wrong] == first) ++wrong;
        if (wrong == end) return true;
    }
    issues_.add(Code::E0102, {wrong, end - wrong}, context.indent == first ? 0 : 1);
    context.indent = '*';
    return false;
}

constexpr void Lexer::indent(std::uint32_t width, std::uint32_t at) {
    if (blocks_ == kMaxDepth) return stop(at, 1);
    push(Tok::Indent, at, at);
    indents_[indent_count_] = width;
    ++indent_count_;
    ++blocks_;
}

constexpr void Lexer::dedent_to(std::uint32_t count, std::uint32_t at) {
    while (indent_count_ > count) {
        --indent_count_;
        --blocks_;
        push(Tok::Dedent, at, at);
    }
}

constexpr void Lexer::open(Tok kind, std::uint32_t i) {
    if (opens_ > kMaxDepth) return stop(i, 1);
    push(kind, i, i + 1);
    open_[opens_] = Open{kind, false, '\0', count_ - 1, 0};
    ++opens_;
}

constexpr void Lexer::close(Tok kind, Tok opener, std::uint32_t i) {
    const Open& innermost = open_[opens_ - 1];
    if (opens_ > 1 && innermost.kind == opener) {
        --opens_;
        return push(kind, i, i + 1);
    }
    const Span place = space_.tokens[innermost.token].span();
    if (innermost.kind != Tok::LeftBrace) {
        issues_.add(Code::E0107, {i, 1}, 0, place);
        bracket_error_line_ = line_;
        // It closes its own opener farther out, and with it what was forgotten inside; without one
        // it was meant for the innermost.
        std::uint32_t own = opens_ - 1;
        while (open_[own].kind != opener && open_[own].kind != Tok::LeftBrace) --own;
        opens_ = open_[own].kind == opener ? own : opens_ - 1;
    } else if (bracket_error_line_ != line_) {
        issues_.add(Code::E0107, {i, 1}, 1);
    }
    push(Tok::Bad, i, i + 1);
}

constexpr void Lexer::close_brace(std::uint32_t i) {
    std::uint32_t brace = opens_ - 1;
    while (brace > 0 && open_[brace].kind != Tok::LeftBrace) --brace;
    if (brace == 0) {
        if (bracket_error_line_ != line_) issues_.add(Code::E0107, {i, 1}, 1);
        return push(Tok::Bad, i, i + 1);
    }
    report_unclosed(brace + 1);
    if (open_[brace].has_base) {
        dedent_to(open_[brace].base + 1, i);
        --indent_count_;
    }
    --opens_;
    push(Tok::RightBrace, i, i + 1);
}

/// Gives up the brackets that are open beyond the first `keep`, all of them ( or [.
constexpr void Lexer::report_unclosed(std::uint32_t keep) {
    if (opens_ <= keep) return;
    issues_.add(Code::E0108, space_.tokens[open_[opens_ - 1].token].span());
    while (opens_ > keep) {
        --opens_;
        space_.tokens[open_[opens_].token].kind = Tok::Bad;
    }
}

constexpr void Lexer::finish() {
    std::uint32_t brace = opens_ - 1;
    while (open_[brace].kind != Tok::LeftBrace) --brace;
    if (brace + 1 < opens_) {
        report_unclosed(brace + 1);
    } else if (brace > 0) {
        issues_.add(Code::E0108, {size_, 0}, 1, space_.tokens[open_[brace].token].span());
    }
    if (opens_ == 1) {
        end_line();
        if (open_[0].has_base) dedent_to(1, size_);
    }
    opens_ = 1;
    blocks_ = 0;
    push(Tok::End, size_, size_);
}

}  // namespace quern::lang
