#pragma once

#include <llvm-c/Core.h>

#include <string_view>
#include <vector>

namespace quern::cpu {

/// Calls an intrinsic overloaded on `types`.
LLVMValueRef intrinsic(LLVMModuleRef module, LLVMBuilderRef builder, std::string_view name,
                       std::vector<LLVMTypeRef> types, std::vector<LLVMValueRef> arguments);

}  // namespace quern::cpu
