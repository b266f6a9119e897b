#pragma once

#include <cstdint>
#include <string_view>

#include "quern/lang/compile_time.h"

// Kernels made from a number, by code that runs while C++ compiles and at run time alike, so that
// both doors of the parser can be compared on the same texts.

namespace quern::lang {

struct GeneratedText {
    static constexpr std::uint32_t kCapacity = 1600;
    char data[kCapacity]{};
    std::uint32_t size = 0;

    constexpr std::string_view view() const { return {data, size}; }
    constexpr void put(std::string_view piece) {
        for (const char c : piece) {
            if (size < kCapacity) data[size++] = c;
        }
    }
    constexpr void put(int number) {
        if (number >= 10) put(number / 10);
        const char digit = static_cast<char>('0' + number % 10);
        put(std::string_view(&digit, 1));
    }
};

class TextGenerator {
public:
    constexpr explicit TextGenerator(std::uint32_t seed) : state_(seed * 2654435761u + 12345) {}

    /// A kernel without errors.
    constexpr GeneratedText good() {
        constexpr std::string_view kHeaders[] = {"let y = ", "", "y = ", "return "};
        put(kHeaders[below(4)]);
        put("compute(x, m.w, v = f(1))");
        constexpr std::string_view kDecorators[] = {" {", " @async {", " @device(\"cpu\") {",
                                                    " @parallel(data) @device([\"a\", \"b\"]) {"};
        put(kDecorators[below(4)]);
        in_braces_ = below(3) == 0;
        indent_ = 4;
        reduces_ = below(4) == 0;
        constexpr std::string_view kReductions[] = {"@kernel reduce(+)",
                                                    "@kernel reduce(max, axis=0)",
                                                    "@kernel reduce(and)", "@kernel reduce(*)"};
        constexpr std::string_view kKinds[] = {"@kernel custom", "@kernel fused",
                                               "@kernel elementwise",
                                               "@kernel conv2d(stride=2, padding=1)"};
        line();
        put(reduces_ ? kReductions[below(4)] : kKinds[below(4)]);
        end();
        if (below(2) == 0) {
            line();
            put("@workgroup(8, 4)");
            end();
        }
        line();
        put("for i in 0..n, j in 1..2*n step 2");
        block(2);
        put(in_braces_ ? "}" : "\n}");
        if (below(4) == 0) put(" |> exp()");
        return text_;
    }

    /// A kernel with an error: a good one, changed in one place.
    constexpr GeneratedText bad() {
        const GeneratedText original = good();
        constexpr std::string_view kPieces[] = {"(",     ")",  "[",  "]",  "{",      "}",
                                                ":",     "\n", "^",  "@",  "\"",     "..",
                                                "x[0] ", ", ", "= ", "1 ", "yield ", "else "};
        for (int attempt = 0; attempt < 20; ++attempt) {
            GeneratedText changed;
            const std::uint32_t at = below(original.size);
            const std::uint32_t removed = below(3);
            changed.put(original.view().substr(0, at));
            if (removed != 1) changed.put(kPieces[below(18)]);
            changed.put(original.view().substr(at + removed < original.size ? at + removed : at));
            const Verdict verdict =
                check_bytes<GeneratedText::kCapacity>(changed.data, changed.size);
            if (verdict.error != kernel_error::none) return changed;
        }
        GeneratedText last;
        last.put("let a = ");
        return last;
    }

private:
    constexpr std::uint32_t below(std::uint32_t n) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return (state_ >> 3) % n;
    }
    constexpr void put(std::string_view piece) { text_.put(piece); }

    constexpr void line() {
        if (in_braces_) return put(" ");
        put("\n");
        for (int i = 0; i < indent_; ++i) put(" ");
    }
    constexpr void end() {
        if (in_braces_) put(";");
    }

    constexpr void block(int depth) {
        if (in_braces_) {
            put(" {");
        } else {
            put(":");
            indent_ += 4;
        }
        const int serial = ++locals_;
        const std::uint32_t statements = 1 + below(3);
        for (std::uint32_t i = 0; i < statements; ++i) {
            line();
            if (i == 0 && below(2) == 0) {
                const bool typed = below(2) == 0;
                put(typed ? "var t" : "let t");
                text_.put(serial);
                put(typed ? ": f32 = " : " = ");
                expression(2);
                end();
                continue;
            }
            statement(depth);
        }
        line();
        put(reduces_ ? "yield " : "out[i, j] = ");
        expression(1);
        end();
        indent_ -= in_braces_ ? 0 : 4;
        if (in_braces_) put(" }");
    }

    constexpr void statement(int depth) {
        switch (depth > 0 ? below(4) : 2) {
            case 0:
                put("for k");
                text_.put(depth);
                put(" in 0..n - 1");
                return block(depth - 1);
            case 1:
                put("if ");
                expression(2);
                put(" < 4 and not n > 2");
                return block(depth - 1);
            case 2:
                put("let u");
                text_.put(++locals_);
                put(" = ");
                expression(3);
                return end();
            default:
                put("shared var s");
                text_.put(++locals_);
                put("[16, n]: f32");
                return end();
        }
    }

    constexpr void expression(int depth) {
        constexpr std::string_view kLeaves[] = {
            "x[i]", "m.w[j, i + 1]", "v", "2.5", "n", "1e-3", "7", "x[i:i+4]", "inf", "v[:, j]"};
        constexpr std::string_view kOperators[] = {" + ", " - ", "*", " / ", " @ ", " % "};
        switch (depth > 0 ? below(6) : 0) {
            case 0:
            case 1:
                return put(kLeaves[below(10)]);
            case 2:
                put("(");
                expression(depth - 1);
                put(")");
                return;
            case 3:
                put("-");
                return expression(depth - 1);
            case 4:
                put("max(");
                expression(depth - 1);
                put(", ");
                expression(depth - 1);
                put(")");
                return;
            default:
                expression(depth - 1);
                put(kOperators[below(6)]);
                return expression(depth - 1);
        }
    }

    GeneratedText text_;
    std::uint32_t state_;
    int indent_ = 0;
    int locals_ = 0;
    bool in_braces_ = false;
    bool reduces_ = false;
};

constexpr GeneratedText good_text(std::uint32_t seed) { return TextGenerator(seed).good(); }
constexpr GeneratedText bad_text(std::uint32_t seed) { return TextGenerator(seed).bad(); }

}  // namespace quern::lang
