#pragma once

#include <optional>
#include <vector>

#include "quern/lang/diagnostics.h"
#include "quern/lang/parse.h"
#include "quern/semantics/request.h"

namespace quern::frontend {

/// Checks the Compute node and what is piped into its launch as far as the text alone allows,
/// with operands as lower_text guesses them; adds what is wrong to `diagnostics`.
void check(const lang::Source& source, lang::NodeId compute, lang::Diagnostics& diagnostics,
           std::vector<semantics::Piped> then = {});

/// Lowers what the text alone says: float32 operands of the ranks that the body uses, bool where
/// one is a condition, int64 where one is an index; free names are scalars. Where that is wrong,
/// other ranks and dtypes of which fewer errors come.
std::optional<semantics::Lowered> lower_text(const lang::Source& source, lang::NodeId compute,
                                             std::vector<semantics::Piped> then,
                                             lang::Diagnostics& diagnostics);

}  // namespace quern::frontend
