#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/lang/syntax.h"
#include "quern/semantics/request.h"

// The functions that a script may call beside its pipelines. The one list for checks and for calls.

namespace quern::script {

enum class FunctionKind {
    Host,         // works on tensors and devices
    Elementwise,  // a kernel function: of numbers, or of tensors element by element
    Cast,         // the name of a dtype
    Async,        // waits for futures
    Memory,       // allocates
    KernelOnly,   // has a meaning in kernels alone
    None,
};

struct Function {
    std::string_view name;
    FunctionKind kind = FunctionKind::None;
    int least = 0;
    int most = 0;

    /// Names that an argument may be given by, in the order of their positions; empty strings are
    /// unused.
    std::array<std::string_view, 4> named = {};

    /// The first arguments have no names.
    int unnamed() const { return kind == FunctionKind::Memory ? 0 : least; }

    bool takes(std::string_view argument) const;
};

/// The function of that name; its kind is None if there is none.
Function find_function(std::string_view name);

/// Pipelines of a script by name.
using Pipelines = std::map<std::string, lang::NodeId, std::less<>>;

/// The function of a pipe behind a compute, if it belongs to the compute's launch.
std::optional<semantics::Piped> piped_into_launch(const lang::Tree& tree, lang::NodeId call,
                                                  const Pipelines& pipelines);

/// Every name that a script may call, for "did you mean".
std::vector<std::string> function_names();

}  // namespace quern::script
