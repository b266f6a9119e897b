#include "quern/ir/token.h"

namespace quern::ir {
namespace {

bool is_word_part(char c) { return is_letter(c) || is_digit(c); }

int hexadecimal(char c) {
    if (is_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void Tokens::skip_space() {
    while (position_ < text_.size()) {
        const char c = at(0);
        if (c == '#') {
            while (position_ < text_.size() && at(0) != '\n') ++position_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            if (c == '\n') ++line_;
            ++position_;
        } else {
            return;
        }
    }
}

Token Tokens::number() {
    const std::size_t begin = position_;
    bool floats = false;
    while (is_digit(at(0))) ++position_;
    if (at(0) == '.' && is_digit(at(1))) {
        floats = true;
        ++position_;
        while (is_digit(at(0))) ++position_;
    }
    const std::size_t sign = at(1) == '+' || at(1) == '-';
    if ((at(0) == 'e' || at(0) == 'E') && is_digit(at(1 + sign))) {
        floats = true;
        position_ += 1 + sign;
        while (is_digit(at(0))) ++position_;
    }
    return {floats ? Token::Kind::Float : Token::Kind::Int,
            std::string(text_.substr(begin, position_ - begin)), line_};
}

Token Tokens::quoted() {
    Token token{Token::Kind::Quoted, {}, line_};
    ++position_;
    while (position_ < text_.size() && at(0) != '`' && at(0) != '\n') {
        if (at(0) != '\\') {
            token.text += text_[position_++];
            continue;
        }
        const int high = hexadecimal(at(2)), low = hexadecimal(at(3));
        if (at(1) != 'x' || high < 0 || low < 0) return {Token::Kind::Bad, "a lone '\\'", line_};
        token.text += static_cast<char>(high * 16 + low);
        position_ += 4;
    }
    if (at(0) != '`') return {Token::Kind::Bad, "a name that is never closed", line_};
    ++position_;
    return token;
}

Token Tokens::next() {
    skip_space();
    if (position_ >= text_.size()) return {Token::Kind::End, "the end of the text", line_};
    const char c = at(0);
    if (is_digit(c)) return number();
    if (c == '`') return quoted();
    if (is_letter(c)) {
        const std::size_t begin = position_;
        while (is_word_part(at(0)) || (at(0) == '.' && is_word_part(at(1)))) ++position_;
        return {Token::Kind::Word, std::string(text_.substr(begin, position_ - begin)), line_};
    }
    for (const std::string_view op : {"..", "==", "!=", "<=", "//", "+=", "*=", "@@"}) {
        if (text_.substr(position_, 2) != op) continue;
        position_ += 2;
        return {Token::Kind::Op, std::string(op), line_};
    }
    constexpr std::string_view single = "+-*/%<=.,:()[]{}@";
    if (single.find(c) == std::string_view::npos) {
        return {Token::Kind::Bad, "a character that has no meaning here", line_};
    }
    ++position_;
    return {Token::Kind::Op, std::string(1, c), line_};
}

}  // namespace quern::ir
