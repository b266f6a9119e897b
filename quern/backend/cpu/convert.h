#pragma once

#include <llvm-c/Core.h>

#include "quern/backend/cpu/types.h"

namespace quern::cpu {

/// The casts that legalised functions have (lir/legalise.h), those between float16 and float32
/// included.
LLVMValueRef cast(LLVMModuleRef module, LLVMBuilderRef builder, const Types& types,
                  LLVMValueRef value, DType from, lir::Type to);

}  // namespace quern::cpu
