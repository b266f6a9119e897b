#pragma once

#include <string>
#include <string_view>

// What one who knows Python, PyTorch, C++, CUDA or Triton writes, and what is written here instead.

namespace quern::lang {

/// The help for a word of another language; empty if none is known.
std::string_view mend_of_word(std::string_view word);

/// The help for a name of a reduction that is none of the operators; empty if none is known.
std::string_view mend_of_reduction(std::string_view name);

/// The help for a dotted name: by its root, or by a last part that is an attribute of arrays.
std::string_view mend_of_path(std::string_view path);

/// A character that is not part of the language, as a message shows it, with its help or "".
struct Stranger {
    std::string shown;
    std::string help;
};
Stranger stranger_of(std::string_view text);

/// What stands between the parenthesis or bracket that begins `text` and the one that closes it.
std::string_view inside_brackets(std::string_view text);

/// The bounds of `range(...)`, whose arguments are `arguments`: "0..n", "a..b" or "a..b step c";
/// empty for another number of them.
std::string bounds_of_range(std::string_view arguments);

/// The identifier that begins, or that ends, `text`.
std::string_view first_word(std::string_view text);
std::string_view last_word(std::string_view text);

}  // namespace quern::lang
