#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/lang/diagnostics.h"
#include "quern/lang/syntax.h"

namespace quern::lang {

/// A text and its tree.
struct Source {
    std::string text;
    std::string file;

    /// The line of the file on which the text begins.
    int first_line = 1;
    std::vector<Node> nodes;
    NodeId root = -1;

    /// Of a text that the library made for a place of another text: that place, where all of its
    /// diagnostics are shown.
    std::optional<Diagnostic> stands_for;

    /// No other parse of this process has it.
    std::uint64_t serial = 0;

    Tree tree() const { return {text, nodes.data(), std::uint32_t(nodes.size()), root}; }
};

struct ParseOptions {
    std::string file;

    /// Refuse what is accepted with a note or a warning for the sake of older texts:
    /// a missing @kernel (E0303), an index that skips a nearer name (E0412).
    bool pedantic = false;

    /// As in Source.
    int first_line = 1;
    std::optional<Diagnostic> stands_for = {};
};

/// Parses a script, or a bare `compute(...) {...}` expression, and checks all that needs no
/// operand: syntax, decorators, names, arity, yields. The root is a Script. Errors are in
/// `diagnostics`; the tree is usable only if there are none.
std::shared_ptr<const Source> parse(std::string text, const ParseOptions& options,
                                    Diagnostics& diagnostics);

/// Prints a tree as text that parses to the same tree: canonical layout, one space, four columns.
std::string print(const Tree& tree);

/// True if the trees are the same but for positions.
bool same(const Tree& a, const Tree& b);

}  // namespace quern::lang
