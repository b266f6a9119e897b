#pragma once

#include <string>
#include <vector>

#include "quern/ir/cir.h"

namespace quern::ir {

/// Returns what is wrong with a kernel, up to 20 findings, each naming node or statement and span;
/// empty if it is valid CIR:
///
///  - Ids are in range; operands of a node have smaller ids; dtypes agree throughout. Of f8 there
///    are only loads, stores, names and casts.
///  - Buffers: operands, one output, then local and shared. An operand's shape is its own extents;
///    shapes are int64 over dims, extents and scalars, a local one's also over symbols in scope.
///  - A symbol is declared once, by the statement of its kind, before its use and in scope. Only
///    vars are written. A local or shared array is used after its one Alloc, in its block.
///  - Accumulate: one of Add Mul Min Max And Or, inside a loop that reduces the var. That loop does
///    nothing else with the var, and not two operators. Loops without order reduce nothing and
///    write no var from outside.
///  - Parallel loops lie under parallel loops only, and alone there.
///  - A barrier is under conditions and loops that no element or var decides.
std::vector<std::string> verify(const Kernel& kernel);

}  // namespace quern::ir
