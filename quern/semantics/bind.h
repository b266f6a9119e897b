#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/index.h"
#include "quern/semantics/request.h"
#include "quern/tensor.h"

namespace quern::semantics {

/// The numbers of one launch.
struct Binding {
    /// A value for each Kernel::dims entry; 0 for one that only names an opaque extent's part.
    std::vector<std::int64_t> dims;

    /// For each dim, why it has its value: "axis 1 of 'A' (bare index)".
    std::vector<std::string> origins;

    /// The index of the constraint that gave it, or -1.
    std::vector<int> sources;
    Shape output;
};

/// Gives every dimension its value for operands of these shapes (flat ones as one axis) and checks
/// every rule. What disagrees goes to `diagnostics` with both places.
std::optional<Binding> bind(const Lowered& lowered, std::span<const Shape> shapes,
                            const Limits& limits, lang::Diagnostics& diagnostics);

/// What all shared variables take together; none if an extent has no value.
std::optional<std::int64_t> shared_bytes(const ir::Kernel& kernel,
                                         const ir::Environment& environment);

/// Reports shared variables that the device has no room for, or that @shared states wrongly:
/// without shapes what the text alone decides, with them the rest.
void check_shared(const Lowered& lowered, const ir::Environment* shapes, const Limits& limits,
                  lang::Diagnostics& diagnostics);

/// "axis 1 of 'A'", "3*hidden": one side of a constraint in words.
std::string describe(const ir::Kernel& kernel, ir::ExprId id);

/// "bare index", "guard": the rule's name.
std::string_view to_string(ir::Rule rule);

}  // namespace quern::semantics
