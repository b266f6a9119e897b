#pragma once

#include <cstdint>

#include "quern/lang/workspace.h"

// Text to tokens, and layout (the off-side rule) to Newline, Indent and Dedent tokens.

namespace quern::lang {

enum class CharClass : std::uint8_t { None, Letter, Digit, Space, Newline, Quote, Operator };

struct CharTable {
    CharClass of[256]{};

    constexpr CharTable() {
        for (int c = 'a'; c <= 'z'; ++c) of[c] = CharClass::Letter;
        for (int c = 'A'; c <= 'Z'; ++c) of[c] = CharClass::Letter;
        of[int('_')] = CharClass::Letter;
        for (int c = '0'; c <= '9'; ++c) of[c] = CharClass::Digit;
        of[int(' ')] = of[int('\t')] = of[int('\r')] = CharClass::Space;
        of[int('\n')] = CharClass::Newline;
        of[int('"')] = CharClass::Quote;
        for (const char c : {'.', '|', '-', '+', '*', '/', '=', '!', '<', '>', '%',
                             '@', ',', ':', ';', '(', ')', '[', ']', '{', '}', '?'}) {
            of[int(c)] = CharClass::Operator;
        }
    }
};

inline constexpr CharTable kChars;

class Lexer {
public:
    constexpr Lexer(const Workspace& space, Issues& issues)
        : space_(space), text_(space.text), size_(space.size), issues_(issues) {}

    /// Fills the tokens; the last one is End. Returns their number.
    constexpr std::uint32_t run();

    constexpr std::uint32_t name_count() const { return names_; }

private:
    struct Open {
        Tok kind;
        bool has_base;
        /// What its lines are indented with: 0 until one is, then ' ' or '\t'; '*' once mixed.
        char indent;
        std::uint32_t token;
        /// Of the brace and of the whole text: its first entry in indents_.
        std::uint32_t base;
    };

    constexpr void push(Tok kind, std::uint32_t begin, std::uint32_t end);
    constexpr void end_line();
    constexpr std::uint32_t begin_line(std::uint32_t at);
    constexpr bool check_indent(Open& context, std::uint32_t begin, std::uint32_t end);
    constexpr void indent(std::uint32_t width, std::uint32_t at);
    constexpr void dedent_to(std::uint32_t count, std::uint32_t at);
    constexpr std::uint32_t word(std::uint32_t at);
    constexpr std::uint32_t intern(std::uint32_t hash, std::uint32_t begin, std::uint32_t length);
    constexpr std::uint32_t number(std::uint32_t at);
    constexpr void check_range(std::uint32_t begin, std::uint32_t end);
    constexpr std::uint32_t string(std::uint32_t at);
    constexpr std::uint32_t stranger(std::uint32_t at);
    constexpr std::uint32_t symbol(std::uint32_t at);
    constexpr void open(Tok kind, std::uint32_t at);
    constexpr void close(Tok kind, Tok opener, std::uint32_t at);
    constexpr void close_brace(std::uint32_t at);
    constexpr void report_unclosed(std::uint32_t keep);
    constexpr void stop(std::uint32_t at, std::uint32_t length);
    constexpr void finish();

    constexpr char at(std::uint32_t i) const { return i < size_ ? text_[i] : '\0'; }

    const Workspace& space_;
    const char* text_;
    std::uint32_t size_;
    Issues& issues_;
    std::uint32_t count_ = 0;
    std::uint32_t names_ = 0;

    /// The brackets around the present place; entry 0 is the whole text.
    Open open_[kMaxDepth + 1] = {{Tok::LeftBrace, false, '\0', 0, 0}};
    std::uint32_t opens_ = 1;

    /// Columns of the open blocks of every context, outermost first.
    std::uint32_t indents_[2 * kMaxDepth + 4] = {};
    std::uint32_t indent_count_ = 0;
    std::uint32_t blocks_ = 0;

    std::uint32_t line_ = 0;
    std::uint32_t bracket_error_line_ = ~0u;
    bool stopped_ = false;
};

constexpr std::uint32_t Lexer::run() {
    std::uint32_t i = begin_line(0);
    while (i < size_ && !stopped_) {
        switch (kChars.of[static_cast<unsigned char>(text_[i])]) {
            case CharClass::Space:
                ++i;
                break;
            case CharClass::Newline:
                ++line_;
                ++i;
                if (open_[opens_ - 1].kind == Tok::LeftBrace) {
                    end_line();
                    i = begin_line(i);
                }
                break;
            case CharClass::Letter:
                i = word(i);
                break;
            case CharClass::Digit:
                i = number(i);
                break;
            case CharClass::Quote:
                i = string(i);
                break;
            case CharClass::Operator:
                i = symbol(i);
                break;
            case CharClass::None:
                i = stranger(i);
                break;
        }
    }
    if (!stopped_) finish();
    return count_;
}

constexpr void Lexer::push(Tok kind, std::uint32_t begin, std::uint32_t end) {
    Token& token = space_.tokens[count_];
    token.kind = kind;
    token.level = static_cast<std::uint8_t>(opens_ - 1 + blocks_);
    token.begin = begin;
    token.end = end;
    token.name = 0;
    ++count_;
}

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

constexpr std::uint32_t Lexer::word(std::uint32_t i) {
    const std::uint32_t begin = i;
    std::uint32_t hash = kHashSeed;
    while (i < size_) {
        const unsigned char c = static_cast<unsigned char>(text_[i]);
        const CharClass kind = kChars.of[c];
        if (kind != CharClass::Letter && kind != CharClass::Digit) break;
        hash = (hash ^ c) * kHashPrime;
        ++i;
    }
    push(Tok::Name, begin, i);
    space_.tokens[count_ - 1].name = intern(hash, begin, i - begin);
    return i;
}

constexpr std::uint32_t Lexer::intern(std::uint32_t hash, std::uint32_t begin,
                                      std::uint32_t length) {
    std::uint32_t slot = hash % WordTable::kSlots;
    while (kWordTable.slots[slot] != 0) {
        const std::uint16_t id = kWordTable.slots[slot];
        if (kWordTable.hashes[id] == hash) {
            std::uint32_t k = 0;
            while (k < length && kWords[id].text[k] == text_[begin + k]) ++k;
            if (k == length && k == kWords[id].text.size()) return id;
        }
        slot = (slot + 1) % WordTable::kSlots;
    }
    std::uint32_t& bucket = space_.buckets[hash & space_.bucket_mask];
    for (std::uint32_t e = bucket; e != 0; e = space_.names[e].next) {
        const NameEntry& entry = space_.names[e];
        if (entry.hash != hash || entry.length != length) continue;
        std::uint32_t k = 0;
        while (k < length && text_[entry.begin + k] == text_[begin + k]) ++k;
        if (k == length) return kWordCount + e - 1;
    }
    ++names_;
    space_.names[names_] = NameEntry{hash, begin, length, bucket};
    bucket = names_;
    return kWordCount + names_ - 1;
}

constexpr std::uint32_t Lexer::number(std::uint32_t i) {
    const std::uint32_t begin = i;
    const auto is_digit = [this](std::uint32_t k) { return at(k) >= '0' && at(k) <= '9'; };
    while (is_digit(i)) ++i;
    Tok kind = Tok::Int;
    const std::uint32_t digits = i - begin;
    if (at(i) == '.' && is_digit(i + 1)) {
        kind = Tok::Float;
        ++i;
        while (is_digit(i)) ++i;
    }
    if (at(i) == 'e' || at(i) == 'E') {
        std::uint32_t k = i + 1;
        if (at(k) == '+' || at(k) == '-') ++k;
        if (is_digit(k)) {
            kind = Tok::Float;
            while (is_digit(k)) ++k;
            i = k;
        }
    }
    if (kind == Tok::Int && kChars.of[static_cast<unsigned char>(at(i))] == CharClass::Letter) {
        kind = Tok::Quantity;
        while (kChars.of[static_cast<unsigned char>(at(i))] == CharClass::Letter) ++i;
    }
    if (digits > 18 && kind != Tok::Float) check_range(begin, begin + digits);
    push(kind, begin, i);
    return i;
}

constexpr void Lexer::check_range(std::uint32_t begin, std::uint32_t end) {
    constexpr std::uint64_t kLargest = 9223372036854775807u;
    std::uint64_t value = 0;
    for (std::uint32_t i = begin; i < end; ++i) {
        const std::uint64_t digit = static_cast<std::uint64_t>(text_[i] - '0');
        if (value > (kLargest - digit) / 10) {
            issues_.add(Code::E0110, {begin, end - begin});
            return;
        }
        value = value * 10 + digit;
    }
}

constexpr std::uint32_t Lexer::string(std::uint32_t i) {
    const std::uint32_t begin = i;
    ++i;
    while (i < size_ && text_[i] != '"' && text_[i] != '\n') ++i;
    const bool closed = i < size_ && text_[i] == '"';
    if (closed) {
        ++i;
    } else {
        issues_.add(Code::E0106, {begin, i - begin});
    }
    push(closed ? Tok::String : Tok::Bad, begin, i);
    return i;
}

/// A character that is not part of the language; all bytes of one that is not ASCII.
constexpr std::uint32_t Lexer::stranger(std::uint32_t i) {
    const std::uint32_t begin = i;
    ++i;
    const auto is_ascii = [this](std::uint32_t k) {
        return static_cast<unsigned char>(text_[k]) < 0x80;
    };
    if (!is_ascii(begin)) {
        while (i < size_ && !is_ascii(i)) ++i;
    }
    issues_.add(Code::E0105, {begin, i - begin});
    push(Tok::Bad, begin, i);
    return i;
}

constexpr std::uint32_t Lexer::symbol(std::uint32_t i) {
    const char c = text_[i];
    const char next = at(i + 1);
    Tok kind = Tok::Bad;
    std::uint32_t length = 1;
    const auto either = [&](Tok single, char second, Tok pair) {
        kind = next == second ? pair : single;
        length = next == second ? 2 : 1;
    };
    switch (c) {
        case '(':
            open(Tok::LeftParen, i);
            return i + 1;
        case '[':
            open(Tok::LeftBracket, i);
            return i + 1;
        case '{':
            open(Tok::LeftBrace, i);
            return i + 1;
        case ')':
            close(Tok::RightParen, Tok::LeftParen, i);
            return i + 1;
        case ']':
            close(Tok::RightBracket, Tok::LeftBracket, i);
            return i + 1;
        case '}':
            close_brace(i);
            return i + 1;
        case ',':
            kind = Tok::Comma;
            break;
        case ':':
            kind = Tok::Colon;
            break;
        case ';':
            kind = Tok::Semicolon;
            break;
        case '@':
            kind = Tok::At;
            break;
        case '?':
            kind = Tok::Question;
            break;
        case '%':
            kind = Tok::Percent;
            break;
        case '.':
            if (next != '.') {
                kind = Tok::Dot;
            } else if (at(i + 2) != '.') {
                kind = Tok::DotDot;
                length = 2;
            } else {
                kind = Tok::Ellipsis;
                length = 3;
            }
            break;
        case '+':
            either(Tok::Plus, '=', Tok::AddSet);
            break;
        case '*':
            either(Tok::Star, '=', Tok::MulSet);
            break;
        case '=':
            either(Tok::Set, '=', Tok::Equal);
            break;
        case '!':
            either(Tok::Bang, '=', Tok::NotEqual);
            break;
        case '<':
            either(Tok::Less, '=', Tok::LessEqual);
            break;
        case '>':
            either(Tok::Greater, '=', Tok::GreaterEqual);
            break;
        case '-':
            either(Tok::Minus, '=', Tok::SubSet);
            if (next == '>') {
                kind = Tok::Arrow;
                length = 2;
            }
            break;
        case '/':
            if (next == '/') {
                while (i < size_ && text_[i] != '\n') ++i;
                return i;
            }
            either(Tok::Slash, '=', Tok::DivSet);
            break;
        default:  // '|'
            if (next != '>') return stranger(i);
            kind = Tok::PipeTo;
            length = 2;
            break;
    }
    push(kind, i, i + length);
    return i + length;
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
        --opens_;
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

/// Too deep: nothing after `i` is read.
constexpr void Lexer::stop(std::uint32_t i, std::uint32_t length) {
    issues_.add(Code::E0104, {i, length});
    push(Tok::Bad, i, i + length);
    opens_ = 1;
    blocks_ = 0;
    push(Tok::End, size_, size_);
    stopped_ = true;
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
