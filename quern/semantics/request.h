#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quern/dtype.h"
#include "quern/ir/cir.h"
#include "quern/lang/parse.h"

namespace quern::semantics {

/// A number that the host binds to a free name of a kernel.
using Number = std::variant<std::int64_t, double, bool>;
using Arguments = std::map<std::string, Number, std::less<>>;

/// A unary function behind a `|>`, with its place in the text.
struct Piped {
    std::string name;
    lang::Span span;
};

/// Whether such a function gives 0 for 0.
bool is_zero_of_zero(std::string_view function);

struct OperandType {
    DType dtype = DType::Float32;
    int rank = 0;
};

/// What a kernel is made from: its text and all that decides its CIR, but no extents.
struct Request {
    const lang::Source& source;
    lang::NodeId compute = -1;
    std::vector<OperandType> operands;

    /// Integers and bools become constants of the CIR, floats scalars, unless a name is an extent.
    const Arguments& arguments;
    bool pedantic = false;

    /// Unary functions applied to what is stored.
    std::vector<Piped> then;

    /// Take a free name that nothing binds as a scalar (checking a text without a caller): an int64
    /// one if it is one of these, else a float.
    bool assume_scalars = false;
    std::set<std::string, std::less<>> assumed_integers = {};
};

/// Limits of the device that will run it.
struct Limits {
    std::int64_t workgroup = 1024;
    std::int64_t shared_bytes = 1 << 20;
};

/// A hint or a statement of the text that needs numbers to be checked, kept for `bind`.
struct SharedHint {
    ir::ExprId bytes = ir::kNoExpr;
    lang::Span span;
};

/// A slice of an operand that begins at the same place for every point.
struct SliceStart {
    std::uint32_t operand = 0;
    int axis = 0;
    ir::ExprId start = ir::kNoExpr;

    /// Says where it ends, so that it has an element to begin with; x[2:] may be empty.
    bool has_stop = false;
    lang::Span span;
};

/// A kernel with what binding and explaining need beside the CIR.
struct Lowered {
    ir::Kernel kernel;
    SharedHint shared_hint;
    std::vector<SliceStart> slices;

    /// What a Check of the CIR that fails says, by its place.
    std::vector<std::pair<lang::Span, std::string>> reasons;
};

/// Makes the CIR of a Compute node: names, types, tiles, dimensions, output shape, reductions,
/// races that the text shows. Everything wrong goes to `diagnostics`; nothing is returned after an
/// error.
std::optional<Lowered> lower(const Request& request, const Limits& limits,
                             lang::Diagnostics& diagnostics);

/// The text of a node, with runs of white space as one space: names of operands and extents.
std::string compact_text(const lang::Tree& tree, lang::NodeId id);

/// The name by which the body sees an operand: its alias, or its text.
std::string operand_name(const lang::Tree& tree, lang::NodeId operand);

/// The names of a Compute node that stand for numbers which it does not have, also not behind
/// @kernel: dimensions and what the host may bind.
std::set<std::string, std::less<>> free_names(const lang::Tree& tree, lang::NodeId compute);

/// Those that a caller may bind whether or not the text says them: stride and padding of a conv2d.
std::set<std::string, std::less<>> names_of_kind(const lang::Tree& tree, lang::NodeId compute);

}  // namespace quern::semantics
