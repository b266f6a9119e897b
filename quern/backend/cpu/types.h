#pragma once

#include <llvm-c/Core.h>

#include "quern/lir/lir.h"

namespace quern::cpu {

/// LLVM types of LIR values in one module. A bool is i1 as a value and i8 in memory. Floats of
/// 16 bits are i16: LLVM's own types call library functions where the processor has no conversion,
/// and flush denormal bfloat16 where it has one.
class Types {
public:
    explicit Types(LLVMContextRef context) : context_(context) {}

    LLVMTypeRef scalar(DType dtype) const;
    LLVMTypeRef memory(DType dtype) const {
        return dtype == DType::Bool ? LLVMInt8TypeInContext(context_) : scalar(dtype);
    }
    LLVMTypeRef value(lir::Type type) const { return with_lanes(scalar(type.dtype), type.lanes); }
    LLVMTypeRef in_memory(lir::Type type) const {
        return with_lanes(memory(type.dtype), type.lanes);
    }
    static LLVMTypeRef with_lanes(LLVMTypeRef type, unsigned lanes) {
        return lanes == 1 ? type : LLVMVectorType(type, lanes);
    }

    LLVMTypeRef i1() const { return LLVMInt1TypeInContext(context_); }
    LLVMTypeRef i8() const { return LLVMInt8TypeInContext(context_); }
    LLVMTypeRef i16() const { return LLVMInt16TypeInContext(context_); }
    LLVMTypeRef i32() const { return LLVMInt32TypeInContext(context_); }
    LLVMTypeRef i64() const { return LLVMInt64TypeInContext(context_); }
    LLVMTypeRef f16() const { return LLVMHalfTypeInContext(context_); }
    LLVMTypeRef f32() const { return LLVMFloatTypeInContext(context_); }
    LLVMTypeRef f64() const { return LLVMDoubleTypeInContext(context_); }
    LLVMTypeRef pointer() const { return LLVMPointerTypeInContext(context_, 0); }

    /// An integer in every lane of a type.
    static LLVMValueRef integer(LLVMTypeRef type, std::uint64_t value);
    static LLVMValueRef real(LLVMTypeRef type, double value);

private:
    LLVMContextRef context_;
};

}  // namespace quern::cpu
