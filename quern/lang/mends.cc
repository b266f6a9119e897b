#include "quern/lang/mends.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "quern/lang/words.h"

namespace quern::lang {
namespace {

struct Mend {
    std::string_view words;  // separated and surrounded by spaces
    std::string_view help;
};

constexpr Mend kWordMends[] = {
    {" def fn func function ",
     "a function of tensors is written `pipeline f(x: tensor[n]) -> tensor[n]:`, a kernel "
     "`compute(x) { ... }`"},
    {" __global__ __device__ kernel void template ",
     "a kernel is written `let y = compute(x) { ... }`"},
    {" class struct ", "there are kernels, pipelines and values, no classes"},
    {" import from include using ", "there is nothing to import: every function has its name"},
    {" auto const constexpr int long short unsigned float double half char size_t uint ",
     "declare a name with `let v = ...`, or with `var v = ...` if it is assigned again; convert "
     "with `int32(v)` or `float32(v)`"},
    {" mut ", "a name that is assigned again is declared with `var`"},
    {" elif elseif elsif ", "write `else if`"},
    {" while do loop until ", "the only loop is `for i in 0..n:`"},
    {" foreach parallel parfor prange ",
     "a loop is written `for i in 0..n:`; the outermost ones run in parallel"},
    {" range arange ", "a loop is written `for i in 0..n:`"},
    {" switch case match ", "write `if` and `else if`"},
    {" lambda ", "write the expression where it is used"},
    {" print printf println cout ", "nothing is printed by a text: look at its results"},
    {" __shared__ shared ", "as in `shared var t[64]`"},
    {" __syncthreads ", "write `barrier()`"},
    {" threadIdx blockIdx blockDim gridDim program_id ",
     "a kernel loops over all its indices, as in `for i in 0..len:`"},
    {" len ", "`len` is a name, as in `0..len`"},
    {" torch np numpy jnp jax math tl triton std F ",
     "a function has no module before its name, as in `exp(x[i])`"},
    {" maximum fmax fmaxf ", "write `max(a, b)`"},
    {" minimum fmin fminf ", "write `min(a, b)`"},
    {" where ", "write `select(condition, a, b)`"},
    {" fabs fabsf ", "write `abs(v)`"},
    {" sum ", "write `reduce(+, v)`, or add to a `var` in a loop"},
    {" mean ", "divide `reduce(+, v)` by the number of elements"},
};

constexpr Mend kReductionMends[] = {
    {" sum add ", "a sum is `+`"},
    {" prod product mul ", "a product is `*`"},
    {" mean avg average ", "a mean is the sum, `+`, divided by the number of elements"},
    {" maximum amax ", "a maximum is `max`"},
    {" minimum amin ", "a minimum is `min`"},
    {" all ", "for all is `and`"},
    {" any ", "for any is `or`"},
};

template <std::size_t N>
std::string_view find(const Mend (&table)[N], std::string_view word) {
    if (word.empty()) return {};
    const std::string spaced = fmt::format(" {} ", word);
    for (const Mend& mend : table) {
        if (mend.words.find(spaced) != std::string_view::npos) return mend.help;
    }
    return {};
}

struct Foreign {
    char32_t code;
    std::string_view name;  // of what is seen as nothing or as its like
    std::string_view help;
};

constexpr std::string_view kDoubleQuote = "a string stands between ASCII quotation marks, \"";
constexpr std::string_view kMinus = "write the ASCII '-'";
constexpr std::string_view kSpace = "write the ASCII space";

constexpr Foreign kForeign[] = {
    {'^', "", "use `pow(x, 3)` or `x * x * x`"},
    {'&', "", "the operator is written 'and'"},
    {'|', "", "the operator is written 'or', a pipe '|>'"},
    {'#', "", "a comment begins with //"},
    {'/', "", "a comment begins with //"},
    {'\'', "", "a string stands between double quotes"},
    {'`', "", "a name is written without quotes, a string between double quotes"},
    {'~', "", "the operator is written 'not'"},
    {'\\', "", "an expression goes on to the next line inside parentheses"},
    {0x00a0, "no-break space", kSpace},
    {0x00ab, "", kDoubleQuote},
    {0x00bb, "", kDoubleQuote},
    {0x00b2, "", "write `x * x`"},
    {0x00b7, "", "write '*'"},
    {0x00d7, "", "write '*'"},
    {0x00f7, "", "write '/'"},
    {0x2009, "thin space", kSpace},
    {0x200b, "zero-width space", "delete it"},
    {0x2010, "", kMinus},
    {0x2011, "", kMinus},
    {0x2012, "", kMinus},
    {0x2013, "", kMinus},
    {0x2014, "", kMinus},
    {0x2018, "", kDoubleQuote},
    {0x2019, "", kDoubleQuote},
    {0x201a, "", kDoubleQuote},
    {0x201c, "", kDoubleQuote},
    {0x201d, "", kDoubleQuote},
    {0x201e, "", kDoubleQuote},
    {0x2025, "", "write two ASCII dots, '..'"},
    {0x2026, "", "write the ASCII dots: two between the bounds of a loop, as in `0..n`"},
    {0x202f, "narrow no-break space", kSpace},
    {0x2192, "", "write '->'"},
    {0x2212, "", kMinus},
    {0x221e, "", "write 'inf'"},
    {0x2227, "", "the operator is written 'and'"},
    {0x2228, "", "the operator is written 'or'"},
    {0x00ac, "", "the operator is written 'not'"},
    {0x2260, "", "write '!='"},
    {0x2264, "", "write '<='"},
    {0x2265, "", "write '>='"},
    {0x3000, "ideographic space", kSpace},
    {0xfeff, "byte-order mark", "save the text without it"},
};

bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Decoded {
    char32_t code = 0;
    std::size_t length = 0;  // 0: not UTF-8
};

/// The character that begins `text`, in its shortest form and no surrogate.
Decoded decode(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
    char32_t code = first & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0u) != 0x80) return {};
        code = code << 6 | (byte(i) & 0x3fu);
    }
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kLeast[length] || code > 0x10ffff || is_surrogate) return {};
    return {code, length};
}

}  // namespace

std::string_view mend_of_word(std::string_view word) {
    const std::string_view help = find(kWordMends, word);
    if (!help.empty()) return help;
    const auto is_dtype = [&](const WordInfo& info) { return info.is_dtype && info.text == word; };
    const bool dtype = std::any_of(std::begin(kWords), std::end(kWords), is_dtype);
    return dtype ? "a declaration is written `var v: float32 = 0.0`" : std::string_view();
}

std::string_view mend_of_reduction(std::string_view name) { return find(kReductionMends, name); }

std::string_view mend_of_path(std::string_view path) {
    for (const std::string_view attribute : {".shape", ".size"}) {
        if (path.ends_with(attribute)) {
            return "an extent is a name that a loop gives: with `x[i]` in `for i in 0..n:`, n is "
                   "the extent of x";
        }
    }
    return find(kWordMends, first_word(path));
}

Stranger stranger_of(std::string_view text) {
    const Decoded first = decode(text);
    const auto is_control = [](char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); };
    if (first.length == 0 || (first.code < 0x80 && is_control(first.code))) {
        return {fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(text[0])), ""};
    }
    const auto* row = std::find_if(std::begin(kForeign), std::end(kForeign),
                                   [&](const Foreign& f) { return f.code == first.code; });
    const bool known = row != std::end(kForeign);
    const auto number = static_cast<std::uint32_t>(first.code);
    if (is_control(first.code) || (known && !row->name.empty())) {
        const std::string_view name = known ? row->name : "control character";
        return {fmt::format("the character U+{:04X}, {},", number, name),
                known ? std::string(row->help) : ""};
    }
    std::string_view shown = text.substr(0, first.length);
    if (text == "&&" || text == "||" || text == "/*") shown = text;
    return {fmt::format("'{}'", shown), known ? std::string(row->help) : ""};
}

std::string_view inside_brackets(std::string_view text) {
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '(' || c == '[') ++depth;
        if (c == ')' || c == ']') --depth;
        if (depth == 0) return text.substr(1, i > 0 ? i - 1 : 0);
    }
    return {};
}

std::string bounds_of_range(std::string_view arguments) {
    std::vector<std::string_view> parts;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= arguments.size(); ++i) {
        const char c = i < arguments.size() ? arguments[i] : ',';
        if (c == '(' || c == '[') ++depth;
        if (c == ')' || c == ']') --depth;
        if (c != ',' || depth != 0) continue;
        std::string_view part = arguments.substr(begin, i - begin);
        while (part.starts_with(' ')) part.remove_prefix(1);
        while (part.ends_with(' ')) part.remove_suffix(1);
        if (part.empty()) return {};
        parts.push_back(part);
        begin = i + 1;
    }
    if (parts.size() == 1) return fmt::format("0..{}", parts[0]);
    if (parts.size() == 2) return fmt::format("{}..{}", parts[0], parts[1]);
    if (parts.size() == 3) return fmt::format("{}..{} step {}", parts[0], parts[1], parts[2]);
    return {};
}

std::string_view first_word(std::string_view text) {
    std::size_t end = 0;
    while (end < text.size() && is_word_part(text[end])) ++end;
    return text.substr(0, end);
}

std::string_view last_word(std::string_view text) {
    std::size_t begin = text.size();
    while (begin > 0 && is_word_part(text[begin - 1])) --begin;
    return text.substr(begin);
}

}  // namespace quern::lang
