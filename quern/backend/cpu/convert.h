#pragma once

#include <llvm-c/Core.h>

#include "quern/backend/cpu/types.h"

namespace quern::cpu {

/// Conversions between dtypes, as Tensor::to: floats round to nearest even, floats to integers
/// truncate and saturate with NaN as 0, integers wrap, to bool is != 0.
class Converter {
public:
    /// `has_half` says that the processor converts float16.
    Converter(LLVMModuleRef module, LLVMBuilderRef builder, const Types& types, bool has_half)
        : module_(module), b_(builder), types_(types), has_half_(has_half) {}

    LLVMValueRef cast(LLVMValueRef value, DType from, DType to, unsigned lanes);

private:
    LLVMTypeRef lanes_of(LLVMTypeRef type) const { return Types::with_lanes(type, lanes_); }
    LLVMValueRef to_float32(LLVMValueRef value, DType from);
    LLVMValueRef from_float32(LLVMValueRef value, DType to);
    LLVMValueRef half_to_float(LLVMValueRef value);
    LLVMValueRef float_to_half(LLVMValueRef value);
    LLVMValueRef float_to_bfloat(LLVMValueRef value);
    LLVMValueRef sticky_float(LLVMValueRef value);
    LLVMValueRef sticky_integer(LLVMValueRef value, bool is_signed);
    LLVMValueRef saturate(LLVMValueRef value, DType to);
    LLVMValueRef number(std::uint64_t bits) const {
        return Types::integer(lanes_of(types_.i32()), bits);
    }

    LLVMModuleRef module_;
    LLVMBuilderRef b_;
    const Types& types_;
    bool has_half_;
    unsigned lanes_ = 1;
};

}  // namespace quern::cpu
