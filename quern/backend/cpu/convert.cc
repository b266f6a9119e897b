#include "quern/backend/cpu/convert.h"

#include "quern/backend/cpu/intrinsics.h"
#include "quern/support/check.h"

namespace quern::cpu {

LLVMValueRef cast(LLVMModuleRef module, LLVMBuilderRef b, const Types& types, LLVMValueRef value,
                  DType from, lir::Type to) {
    const LLVMTypeRef target = types.value(to);
    const LLVMTypeRef half = Types::with_lanes(types.f16(), to.lanes);
    const bool is_real = is_floating(to.dtype);
    if (from == DType::Bool) {
        return is_real ? LLVMBuildUIToFP(b, value, target, "")
                       : LLVMBuildZExt(b, value, target, "");
    }
    if (!is_floating(from)) {
        const bool is_signed = is_signed_integer(from);
        if (is_real) {
            return is_signed ? LLVMBuildSIToFP(b, value, target, "")
                             : LLVMBuildUIToFP(b, value, target, "");
        }
        if (size_of(from) == size_of(to.dtype)) return value;
        if (size_of(from) > size_of(to.dtype)) return LLVMBuildTrunc(b, value, target, "");
        return is_signed ? LLVMBuildSExt(b, value, target, "")
                         : LLVMBuildZExt(b, value, target, "");
    }
    if (!is_real) {
        const char* const name =
            is_signed_integer(to.dtype) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
        return intrinsic(module, b, name, {target, LLVMTypeOf(value)}, {value});
    }
    if (from == DType::Float16) {
        return LLVMBuildFPExt(b, LLVMBuildBitCast(b, value, half, ""), target, "");
    }
    if (to.dtype == DType::Float16) {
        return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, value, half, ""), target, "");
    }
    QUERN_CHECK(size_of(from) >= 4 && size_of(to.dtype) >= 4, "casts that are legal");
    return size_of(to.dtype) == 8 ? LLVMBuildFPExt(b, value, target, "")
                                  : LLVMBuildFPTrunc(b, value, target, "");
}

}  // namespace quern::cpu
