#pragma once

#include <llvm-c/Core.h>

#include "quern/lir/lir.h"
#include "quern/runtime/cpu_plugin.h"

namespace quern::cpu {

/// Adds a function of LIR to a module: i32 name(words, buffers, begin, end, scratch).
///
/// words: the value of each parameter as 64 bits. buffers: the address of each buffer, null for one
/// of a lane. begin, end: points of the grid. scratch: memory for the arrays of lanes. Returns 0,
/// or 1 where an assertion did not hold.
void emit(LLVMModuleRef module, const lir::Function& function, Simd simd);

}  // namespace quern::cpu
