#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

    /// Names that an argument may be given by; empty strings are unused.
    std::array<std::string_view, 4> named = {};

    bool takes(std::string_view argument) const;
};

/// The function of that name; its kind is None if there is none.
Function find_function(std::string_view name);

/// Every name that a script may call, for "did you mean".
std::vector<std::string> function_names();

}  // namespace quern::script
