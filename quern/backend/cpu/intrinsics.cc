#include "quern/backend/cpu/intrinsics.h"

#include "quern/support/check.h"

namespace quern::cpu {
namespace {

/// x and y are vectors of 512 bits.
LLVMValueRef scale_whole(LLVMModuleRef module, LLVMBuilderRef builder, LLVMValueRef x,
                         LLVMValueRef y) {
    const LLVMContextRef context = LLVMGetModuleContext(module);
    const LLVMTypeRef type = LLVMTypeOf(x);
    const unsigned lanes = LLVMGetVectorSize(type);
    const std::string_view name =
        lanes == 16 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512";
    const LLVMValueRef every = LLVMConstAllOnes(LLVMIntTypeInContext(context, lanes));
    constexpr unsigned long long kCurrentRounding = 4;
    const LLVMValueRef rounding =
        LLVMConstInt(LLVMInt32TypeInContext(context), kCurrentRounding, 0);
    return intrinsic(module, builder, name, {}, {x, y, LLVMGetUndef(type), every, rounding});
}

std::vector<LLVMValueRef> numbers_from(LLVMContextRef context, unsigned first, unsigned count) {
    std::vector<LLVMValueRef> numbers;
    for (unsigned n = first; n < first + count; ++n) {
        numbers.push_back(LLVMConstInt(LLVMInt32TypeInContext(context), n, 0));
    }
    return numbers;
}

}  // namespace

LLVMValueRef intrinsic(LLVMModuleRef module, LLVMBuilderRef builder, std::string_view name,
                       std::vector<LLVMTypeRef> types, std::vector<LLVMValueRef> arguments) {
    const unsigned id = LLVMLookupIntrinsicID(name.data(), name.size());
    const LLVMValueRef function =
        LLVMGetIntrinsicDeclaration(module, id, types.data(), types.size());
    const LLVMTypeRef type = LLVMGlobalGetValueType(function);
    return LLVMBuildCall2(builder, type, function, arguments.data(), unsigned(arguments.size()),
                          "");
}

LLVMValueRef scale(LLVMModuleRef module, LLVMBuilderRef builder, LLVMValueRef x, LLVMValueRef y) {
    const LLVMContextRef context = LLVMGetModuleContext(module);
    const LLVMTypeRef type = LLVMTypeOf(x);
    const bool is_vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    const LLVMTypeRef element = is_vector ? LLVMGetElementType(type) : type;
    const unsigned whole = LLVMGetTypeKind(element) == LLVMFloatTypeKind ? 16 : 8;
    if (!is_vector) {
        const LLVMValueRef first = LLVMConstInt(LLVMInt32TypeInContext(context), 0, 0);
        const auto widened = [&](LLVMValueRef v) {
            const LLVMValueRef rest = LLVMGetUndef(LLVMVectorType(element, whole));
            return LLVMBuildInsertElement(builder, rest, v, first, "");
        };
        const LLVMValueRef all = scale_whole(module, builder, widened(x), widened(y));
        return LLVMBuildExtractElement(builder, all, first, "");
    }
    if (LLVMGetVectorSize(type) == whole) return scale_whole(module, builder, x, y);
    QUERN_CHECK(LLVMGetVectorSize(type) == 2 * whole, "one register or two");
    const auto half = [&](LLVMValueRef v, unsigned from) {
        std::vector<LLVMValueRef> numbers = numbers_from(context, from, whole);
        return LLVMBuildShuffleVector(builder, v, v, LLVMConstVector(numbers.data(), whole), "");
    };
    const LLVMValueRef low = scale_whole(module, builder, half(x, 0), half(y, 0));
    const LLVMValueRef high = scale_whole(module, builder, half(x, whole), half(y, whole));
    std::vector<LLVMValueRef> numbers = numbers_from(context, 0, 2 * whole);
    return LLVMBuildShuffleVector(builder, low, high, LLVMConstVector(numbers.data(), 2 * whole),
                                  "");
}

}  // namespace quern::cpu
