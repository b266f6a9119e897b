#pragma once

#include <llvm-c/Core.h>

#include <string_view>
#include <vector>

namespace quern::cpu {

/// Calls an intrinsic overloaded on `types`.
LLVMValueRef intrinsic(LLVMModuleRef module, LLVMBuilderRef builder, std::string_view name,
                       std::vector<LLVMTypeRef> types, std::vector<LLVMValueRef> arguments);

/// x * 2^y with AVX-512's instruction, for one lane or whole vectors of 512 bits, of f32 or f64.
LLVMValueRef scale(LLVMModuleRef module, LLVMBuilderRef builder, LLVMValueRef x, LLVMValueRef y);

}  // namespace quern::cpu
