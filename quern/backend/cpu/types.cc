#include "quern/backend/cpu/types.h"

#include <vector>

namespace quern::cpu {
namespace {

LLVMValueRef in_lanes(LLVMTypeRef type, LLVMValueRef one) {
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return one;
    std::vector<LLVMValueRef> lanes(LLVMGetVectorSize(type), one);
    return LLVMConstVector(lanes.data(), unsigned(lanes.size()));
}

LLVMTypeRef element(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

}  // namespace

LLVMTypeRef Types::scalar(DType dtype) const {
    switch (dtype) {
        case DType::Bool:
            return i1();
        case DType::Int8:
        case DType::UInt8:
        case DType::Float8E4M3:
        case DType::Float8E5M2:
            return i8();
        case DType::Int16:
        case DType::UInt16:
        case DType::Float16:
        case DType::BFloat16:
            return i16();
        case DType::Int32:
        case DType::UInt32:
            return i32();
        case DType::Int64:
        case DType::UInt64:
            return i64();
        case DType::Float32:
            return f32();
        case DType::Float64:
            return f64();
    }
    return i8();
}

LLVMValueRef Types::integer(LLVMTypeRef type, std::uint64_t value) {
    return in_lanes(type, LLVMConstInt(element(type), value, 1));
}

LLVMValueRef Types::real(LLVMTypeRef type, double value) {
    return in_lanes(type, LLVMConstReal(element(type), value));
}

}  // namespace quern::cpu
