#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::ir {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// A token of the text form of kernels.
struct Token {
    enum class Kind : std::uint8_t {
        End,
        Word,    // a name or keyword; text is the name, without quotes
        Quoted,  // a name in backquotes, escapes resolved
        Int,
        Float,
        Op,
        Bad,  // text says what is wrong
    };
    Kind kind = Kind::End;
    std::string text;
    int line = 1;

    bool is_op(std::string_view op) const { return kind == Kind::Op && text == op; }
    bool is_word(std::string_view word) const { return kind == Kind::Word && text == word; }
};

/// Cuts a text into tokens, one at a time.
class Tokens {
public:
    explicit Tokens(std::string_view text) : text_(text) {}
    Token next();

private:
    char at(std::size_t offset) const {
        return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
    }
    void skip_space();
    Token number();
    Token quoted();

    std::string_view text_;
    std::size_t position_ = 0;
    int line_ = 1;
};

}  // namespace quern::ir
