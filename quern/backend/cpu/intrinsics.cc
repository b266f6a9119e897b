#include "quern/backend/cpu/intrinsics.h"

namespace quern::cpu {

LLVMValueRef intrinsic(LLVMModuleRef module, LLVMBuilderRef builder, std::string_view name,
                       std::vector<LLVMTypeRef> types, std::vector<LLVMValueRef> arguments) {
    const unsigned id = LLVMLookupIntrinsicID(name.data(), name.size());
    const LLVMValueRef function =
        LLVMGetIntrinsicDeclaration(module, id, types.data(), types.size());
    const LLVMTypeRef type = LLVMGlobalGetValueType(function);
    return LLVMBuildCall2(builder, type, function, arguments.data(), unsigned(arguments.size()),
                          "");
}

}  // namespace quern::cpu
