#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "quern/ir/cir.h"

namespace quern::ir {

/// Reads the text of print.h. What is read may still break rules of CIR: that is for `verify`.
/// On a text that is not a kernel there is no result, and `error` says "line 3: expected '[', got
/// 'x'".
std::optional<Kernel> parse_ir(std::string_view text, std::string& error);

}  // namespace quern::ir
