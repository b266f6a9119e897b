// The two examples of a page of docs/errors, and what the library says of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/tensor.h"

namespace quern::errors {

struct Operand {
    std::string name;
    Tensor tensor;
};

/// A text of the language with what its first comment lines say of the call.
struct Example {
    std::string text;
    bool has_operands = false;
    bool pedantic = false;

    /// The device that it names, or empty.
    std::string needs;
    std::vector<Operand> operands;
    std::vector<Argument> arguments;
};

struct Page {
    std::string title;
    int lines = 0;
    Example wrong;
    Example right;
};

/// Reads docs/errors/<code>.md. Throws ValueError if it is missing or not of the form that
/// docs/errors/README.md describes.
Page read_page(std::string_view code);

/// Reads the first comment lines of `text`. Throws ValueError if one of them cannot be read.
Example read_example(std::string text);

/// Every diagnostic, errors and warnings and notes, that the example gives. A kernel with operands
/// and a script are run; a kernel without operands is checked, as `quern check` does.
std::vector<Diagnostic> diagnostics_of(const Example& example);

}  // namespace quern::errors
