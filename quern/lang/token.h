#pragma once

#include <cstdint>

#include "quern/lang/syntax.h"
#include "quern/lang/words.h"

namespace quern::lang {

enum class Tok : std::uint8_t {
    End,
    Newline,
    Indent,
    Dedent,
    /// Something that the lexer has already reported.
    Bad,
    Name,
    Int,
    Float,
    Quantity,
    String,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    Comma,
    Colon,
    Semicolon,
    Dot,
    DotDot,
    Ellipsis,
    PipeTo,
    Arrow,
    At,
    Question,
    Bang,
    Set,
    AddSet,
    SubSet,
    MulSet,
    DivSet,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
};

struct Token {
    Tok kind = Tok::End;

    /// How many brackets and indented blocks are open around it; of a bracket, around the pair.
    std::uint8_t level = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    /// Of a Name: which name, a Word or a number from kWordCount on. 0 for all else.
    std::uint32_t name = 0;

    constexpr Span span() const { return {begin, end - begin}; }
    constexpr Word word() const { return name < kWordCount ? static_cast<Word>(name) : Word::None; }
    constexpr bool is(Word word) const { return name == static_cast<std::uint32_t>(word); }
};

}  // namespace quern::lang
