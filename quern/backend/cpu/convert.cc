#include "quern/backend/cpu/convert.h"

#include "quern/backend/cpu/intrinsics.h"

namespace quern::cpu {
namespace {

bool is_narrow(DType dtype) { return dtype == DType::Float16 || dtype == DType::BFloat16; }

}  // namespace

LLVMValueRef Converter::cast(LLVMValueRef value, DType from, DType to, unsigned lanes) {
    lanes_ = lanes;
    const LLVMTypeRef target = lanes_of(types_.scalar(to));
    if (from == DType::Bool) {
        if (!is_floating(to)) return LLVMBuildZExt(b_, value, target, "");
        if (!is_narrow(to)) return LLVMBuildUIToFP(b_, value, target, "");
        return from_float32(LLVMBuildUIToFP(b_, value, lanes_of(types_.f32()), ""), to);
    }
    if (to == DType::Bool) {
        if (is_narrow(from)) {
            value = to_float32(value, from);
            from = DType::Float32;
        }
        const LLVMTypeRef type = LLVMTypeOf(value);
        return is_floating(from) ? LLVMBuildFCmp(b_, LLVMRealUNE, value, Types::real(type, 0), "")
                                 : LLVMBuildICmp(b_, LLVMIntNE, value, Types::integer(type, 0), "");
    }
    if (!is_floating(from) && !is_floating(to)) {
        if (size_of(from) >= size_of(to)) {
            return size_of(from) == size_of(to) ? value : LLVMBuildTrunc(b_, value, target, "");
        }
        return is_signed_integer(from) ? LLVMBuildSExt(b_, value, target, "")
                                       : LLVMBuildZExt(b_, value, target, "");
    }
    if (!is_floating(from)) {
        const bool is_signed = is_signed_integer(from);
        const auto make = [&](LLVMTypeRef type) {
            return is_signed ? LLVMBuildSIToFP(b_, value, type, "")
                             : LLVMBuildUIToFP(b_, value, type, "");
        };
        if (!is_narrow(to)) return make(target);
        if (size_of(from) == 8) value = sticky_integer(value, is_signed);
        return from_float32(sticky_float(make(lanes_of(types_.f64()))), to);
    }
    if (!is_floating(to)) {
        return saturate(is_narrow(from) ? to_float32(value, from) : value, to);
    }
    if (is_narrow(from)) {
        const LLVMValueRef wide = to_float32(value, from);
        if (to == DType::Float32) return wide;
        if (to == DType::Float64) return LLVMBuildFPExt(b_, wide, target, "");
        return from_float32(wide, to);
    }
    if (from == DType::Float32) {
        return to == DType::Float64 ? LLVMBuildFPExt(b_, value, target, "")
                                    : from_float32(value, to);
    }
    return to == DType::Float32 ? LLVMBuildFPTrunc(b_, value, target, "")
                                : from_float32(sticky_float(value), to);
}

LLVMValueRef Converter::to_float32(LLVMValueRef value, DType from) {
    if (from == DType::Float16) {
        if (!has_half_) return half_to_float(value);
        return LLVMBuildFPExt(b_, LLVMBuildBitCast(b_, value, lanes_of(types_.f16()), ""),
                              lanes_of(types_.f32()), "");
    }
    const LLVMValueRef wide = LLVMBuildZExt(b_, value, lanes_of(types_.i32()), "");
    return LLVMBuildBitCast(b_, LLVMBuildShl(b_, wide, number(16), ""), lanes_of(types_.f32()), "");
}

LLVMValueRef Converter::from_float32(LLVMValueRef value, DType to) {
    if (to == DType::Float32) return value;
    if (to == DType::BFloat16) return float_to_bfloat(value);
    if (!has_half_) return float_to_half(value);
    return LLVMBuildBitCast(b_, LLVMBuildFPTrunc(b_, value, lanes_of(types_.f16()), ""),
                            lanes_of(types_.i16()), "");
}

/// Normal numbers move to the other exponent; denormal ones are integers times 2^-24.
LLVMValueRef Converter::half_to_float(LLVMValueRef value) {
    const LLVMTypeRef f32 = lanes_of(types_.f32());
    const LLVMValueRef bits = LLVMBuildZExt(b_, value, lanes_of(types_.i32()), "");
    const LLVMValueRef sign =
        LLVMBuildShl(b_, LLVMBuildAnd(b_, bits, number(0x8000), ""), number(16), "");
    const LLVMValueRef rest = LLVMBuildAnd(b_, bits, number(0x7fff), "");
    const LLVMValueRef moved = LLVMBuildShl(b_, rest, number(13), "");
    const LLVMValueRef normal = LLVMBuildAdd(b_, moved, number(112u << 23), "");
    const LLVMValueRef special = LLVMBuildOr(b_, moved, number(0x7f800000), "");
    const LLVMValueRef small = LLVMBuildBitCast(
        b_, LLVMBuildFMul(b_, LLVMBuildSIToFP(b_, rest, f32, ""), Types::real(f32, 0x1p-24), ""),
        lanes_of(types_.i32()), "");
    LLVMValueRef result = LLVMBuildSelect(
        b_, LLVMBuildICmp(b_, LLVMIntULT, rest, number(0x400), ""), small, normal, "");
    result = LLVMBuildSelect(b_, LLVMBuildICmp(b_, LLVMIntUGE, rest, number(0x7c00), ""), special,
                             result, "");
    // A signalling NaN becomes quiet.
    const LLVMValueRef quiet = LLVMBuildOr(b_, result, number(0x400000), "");
    result = LLVMBuildSelect(b_, LLVMBuildICmp(b_, LLVMIntUGT, rest, number(0x7c00), ""), quiet,
                             result, "");
    return LLVMBuildBitCast(b_, LLVMBuildOr(b_, result, sign, ""), f32, "");
}

/// Adding 0.5 aligns a denormal result's last bit with a float's; the rest rounds by its bits.
LLVMValueRef Converter::float_to_half(LLVMValueRef value) {
    const LLVMTypeRef f32 = lanes_of(types_.f32());
    const LLVMTypeRef i32 = lanes_of(types_.i32());
    const LLVMValueRef bits = LLVMBuildBitCast(b_, value, i32, "");
    const LLVMValueRef rest = LLVMBuildAnd(b_, bits, number(0x7fffffff), "");
    const LLVMValueRef sign =
        LLVMBuildAnd(b_, LLVMBuildLShr(b_, bits, number(16), ""), number(0x8000), "");
    const LLVMValueRef magnitude = LLVMBuildBitCast(b_, rest, f32, "");
    const LLVMValueRef small = LLVMBuildSub(
        b_, LLVMBuildBitCast(b_, LLVMBuildFAdd(b_, magnitude, Types::real(f32, 0.5), ""), i32, ""),
        number(0x3f000000), "");
    const LLVMValueRef odd =
        LLVMBuildAnd(b_, LLVMBuildLShr(b_, rest, number(13), ""), number(1), "");
    LLVMValueRef normal = LLVMBuildAdd(b_, rest, LLVMBuildAdd(b_, odd, number(0xfff), ""), "");
    normal = LLVMBuildLShr(b_, LLVMBuildSub(b_, normal, number(112u << 23), ""), number(13), "");
    LLVMValueRef result = LLVMBuildSelect(
        b_, LLVMBuildICmp(b_, LLVMIntULT, rest, number(0x38800000), ""), small, normal, "");
    result = LLVMBuildSelect(b_, LLVMBuildICmp(b_, LLVMIntUGE, rest, number(0x47800000), ""),
                             number(0x7c00), result, "");
    const LLVMValueRef payload =
        LLVMBuildAnd(b_, LLVMBuildLShr(b_, rest, number(13), ""), number(0x3ff), "");
    const LLVMValueRef nan = LLVMBuildOr(b_, payload, number(0x7e00), "");
    result = LLVMBuildSelect(b_, LLVMBuildICmp(b_, LLVMIntUGT, rest, number(0x7f800000), ""), nan,
                             result, "");
    return LLVMBuildTrunc(b_, LLVMBuildOr(b_, result, sign, ""), lanes_of(types_.i16()), "");
}

LLVMValueRef Converter::float_to_bfloat(LLVMValueRef value) {
    const LLVMTypeRef i32 = lanes_of(types_.i32());
    const LLVMValueRef bits = LLVMBuildBitCast(b_, value, i32, "");
    const LLVMValueRef high = LLVMBuildLShr(b_, bits, number(16), "");
    const LLVMValueRef odd = LLVMBuildAnd(b_, high, number(1), "");
    const LLVMValueRef rounded = LLVMBuildLShr(
        b_, LLVMBuildAdd(b_, bits, LLVMBuildAdd(b_, odd, number(0x7fff), ""), ""), number(16), "");
    const LLVMValueRef is_nan = LLVMBuildFCmp(b_, LLVMRealUNO, value, value, "");
    const LLVMValueRef nan = LLVMBuildOr(b_, high, number(0x40), "");
    return LLVMBuildTrunc(b_, LLVMBuildSelect(b_, is_nan, nan, rounded, ""), lanes_of(types_.i16()),
                          "");
}

/// A 64-bit integer that is a double, and rounds to a 16-bit float as the given one does: from 2^53
/// on, where 16-bit floats are farther apart than 2^45, what 12 bits say is only whether they are
/// 0.
LLVMValueRef Converter::sticky_integer(LLVMValueRef value, bool is_signed) {
    const LLVMTypeRef i64 = LLVMTypeOf(value);
    const auto integer = [&](std::uint64_t bits) { return Types::integer(i64, bits); };
    constexpr std::uint64_t exact = std::uint64_t{1} << 53;
    const LLVMValueRef shifted = is_signed ? LLVMBuildAdd(b_, value, integer(exact), "") : value;
    const LLVMValueRef is_exact =
        LLVMBuildICmp(b_, LLVMIntULE, shifted, integer(is_signed ? 2 * exact : exact), "");
    const LLVMValueRef low = LLVMBuildAnd(b_, value, integer(0xfff), "");
    const LLVMValueRef high = LLVMBuildAnd(b_, value, integer(~std::uint64_t{0xfff}), "");
    const LLVMValueRef between = LLVMBuildOr(b_, high, integer(0x800), "");
    const LLVMValueRef is_zero = LLVMBuildICmp(b_, LLVMIntEQ, low, integer(0), "");
    const LLVMValueRef sticky = LLVMBuildSelect(b_, is_zero, high, between, "");
    return LLVMBuildSelect(b_, is_exact, value, sticky, "");
}

/// A float that rounds to a narrower format as the double does: where the double does not fit, the
/// neighbour of it whose last bit is set.
LLVMValueRef Converter::sticky_float(LLVMValueRef value) {
    const LLVMTypeRef f32 = lanes_of(types_.f32());
    const LLVMTypeRef f64 = lanes_of(types_.f64());
    const LLVMTypeRef i32 = lanes_of(types_.i32());
    const LLVMValueRef near = LLVMBuildFPTrunc(b_, value, f32, "");
    const LLVMValueRef back = LLVMBuildFPExt(b_, near, f64, "");
    const LLVMValueRef bits = LLVMBuildBitCast(b_, near, i32, "");
    const LLVMValueRef odd =
        LLVMBuildICmp(b_, LLVMIntNE, LLVMBuildAnd(b_, bits, number(1), ""), number(0), "");
    const LLVMValueRef exact = LLVMBuildFCmp(b_, LLVMRealUEQ, back, value, "");
    const LLVMValueRef below =
        LLVMBuildFCmp(b_, LLVMRealOLT, intrinsic(module_, b_, "llvm.fabs", {f64}, {back}),
                      intrinsic(module_, b_, "llvm.fabs", {f64}, {value}), "");
    const LLVMValueRef moved = LLVMBuildAdd(
        b_, bits, LLVMBuildSelect(b_, below, number(1), number(~std::uint64_t(0)), ""), "");
    const LLVMValueRef stays = LLVMBuildOr(b_, odd, exact, "");
    return LLVMBuildBitCast(b_, LLVMBuildSelect(b_, stays, bits, moved, ""), f32, "");
}

LLVMValueRef Converter::saturate(LLVMValueRef value, DType to) {
    const LLVMTypeRef target = lanes_of(types_.scalar(to));
    const char* name = is_signed_integer(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    return intrinsic(module_, b_, name, {target, LLVMTypeOf(value)}, {value});
}

}  // namespace quern::cpu
