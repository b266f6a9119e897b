#pragma once

#include "quern/lang/issue.h"

namespace quern::lang {

/// Adds the diagnostic of an issue to `diagnostics`: its message, notes, help and fix-its. The tree
/// may be that of a text with errors; it tells what names there are.
void describe(const Issue& issue, const Tree& tree, Diagnostics& diagnostics);

}  // namespace quern::lang
