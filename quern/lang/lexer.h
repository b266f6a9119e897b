#pragma once

#include <cstdint>

#include "quern/lang/magnitude.h"
#include "quern/lang/workspace.h"

// Text to tokens; the bodies that concern layout and brackets are in lexer_layout.h.

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
    constexpr bool is_foreign_quote(std::uint32_t at) const;
    constexpr std::uint32_t stranger(std::uint32_t at);
    constexpr std::uint32_t foreign_comment(std::uint32_t at);
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
    bool has_exponent = false;
    if (at(i) == 'e' || at(i) == 'E') {
        std::uint32_t k = i + 1;
        if (at(k) == '+' || at(k) == '-') ++k;
        if (is_digit(k)) {
            kind = Tok::Float;
            has_exponent = true;
            while (is_digit(k)) ++k;
            i = k;
        }
    }
    if (kind == Tok::Int && kChars.of[static_cast<unsigned char>(at(i))] == CharClass::Letter) {
        kind = Tok::Quantity;
        while (kChars.of[static_cast<unsigned char>(at(i))] == CharClass::Letter) ++i;
    }
    constexpr std::uint32_t kSafeDigits = 308;
    if (kind != Tok::Float) {
        if (digits > 18) check_range(begin, begin + digits);
    } else if ((has_exponent || digits > kSafeDigits) &&
               rounds_to_infinity({text_ + begin, i - begin})) {
        issues_.add(Code::E0110, {begin, i - begin}, 1);
    }
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

/// Quotation marks of other languages and of word processors: the latter are U+2018 to U+201F.
constexpr bool Lexer::is_foreign_quote(std::uint32_t i) const {
    const auto byte = [this](std::uint32_t k) { return static_cast<unsigned char>(at(k)); };
    return at(i) == '\'' || at(i) == '`' ||
           (byte(i) == 0xe2 && byte(i + 1) == 0x80 && byte(i + 2) >= 0x98 && byte(i + 2) <= 0x9f);
}

/// A character that is not part of the language, or several that are one mistake.
constexpr std::uint32_t Lexer::stranger(std::uint32_t i) {
    const std::uint32_t begin = i;
    const char c = text_[begin];
    const auto is_ascii = [this](std::uint32_t k) {
        return static_cast<unsigned char>(text_[k]) < 0x80;
    };
    if (c == '#') {
        issues_.add(Code::E0105, {begin, 1});
        while (i < size_ && text_[i] != '\n') ++i;
        return i;
    }
    ++i;
    if ((c == '&' || c == '|') && at(i) == c) ++i;
    if (is_foreign_quote(begin)) {
        std::uint32_t k = i;
        while (k < size_ && text_[k] != '\n' && !is_foreign_quote(k)) ++k;
        if (k < size_ && text_[k] != '\n') i = k + 1;
    }
    if (!is_ascii(i - 1)) {
        while (i < size_ && !is_ascii(i)) ++i;
    }
    issues_.add(Code::E0105, {begin, i - begin});
    push(Tok::Bad, begin, i);
    return i;
}

/// `/*`, and what follows up to `*/`, or else to the end of the line.
constexpr std::uint32_t Lexer::foreign_comment(std::uint32_t i) {
    issues_.add(Code::E0105, {i, 2});
    std::uint32_t end = i + 2;
    // A text of nothing but these is still read once.
    if (!issues_.full()) {
        while (end + 1 < size_ && (text_[end] != '*' || text_[end + 1] != '/')) ++end;
        if (end + 1 < size_) return end + 2;
    }
    while (i < size_ && text_[i] != '\n') ++i;
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
            if (next == '*') return foreign_comment(i);
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

/// Too deep: nothing after `i` is read.
constexpr void Lexer::stop(std::uint32_t i, std::uint32_t length) {
    issues_.add(Code::E0104, {i, length});
    push(Tok::Bad, i, i + length);
    opens_ = 1;
    blocks_ = 0;
    push(Tok::End, size_, size_);
    stopped_ = true;
}

}  // namespace quern::lang

// IWYU pragma: begin_exports
#include "quern/lang/lexer_layout.h"
// IWYU pragma: end_exports
