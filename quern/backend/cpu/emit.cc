#include "quern/backend/cpu/emit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "quern/backend/cpu/convert.h"
#include "quern/backend/cpu/intrinsics.h"
#include "quern/backend/cpu/types.h"
#include "quern/support/check.h"

namespace quern::cpu {
namespace {

using lir::Inst;
using lir::Op;
using lir::OpClass;
using lir::ValueId;

/// Arrays of lanes begin at multiples of it.
constexpr std::uint64_t kAlignment = 64;

constexpr LLVMFastMathFlags kRelaxed = LLVMFastMathAllowReassoc | LLVMFastMathNoSignedZeros |
                                       LLVMFastMathAllowReciprocal | LLVMFastMathAllowContract;

class Emitter {
public:
    Emitter(LLVMModuleRef module, const lir::Function& function, Simd simd)
        : f_(function),
          module_(module),
          context_(LLVMGetModuleContext(module)),
          types_(context_),
          b_(LLVMCreateBuilderInContext(context_)),
          entry_(LLVMCreateBuilderInContext(context_)),
          is_x86_(simd != Simd::Neon),
          calls_spreads_(simd != Simd::Avx512 && has_many_spreads(function)),
          values_(f_.insts.size(), nullptr),
          loops_of_(f_.insts.size(), 0),
          buffers_(f_.buffers.size(), nullptr) {}

    ~Emitter() {
        LLVMDisposeBuilder(entry_);
        LLVMDisposeBuilder(b_);
    }
    Emitter(const Emitter&) = delete;
    Emitter& operator=(const Emitter&) = delete;

    void run() {
        LLVMTypeRef arguments[] = {types_.pointer(), types_.pointer(), types_.i64(), types_.i64(),
                                   types_.pointer()};
        function_ = LLVMAddFunction(module_, f_.name.c_str(),
                                    LLVMFunctionType(types_.i32(), arguments, 5, 0));
        attribute(function_, "nounwind");
        // Else 1 / sqrt(y) of fast code is made of an estimate, which has no value for 0, infinity
        // and denormal numbers.
        constexpr std::string_view kEstimates = "reciprocal-estimates", kNone = "none";
        LLVMAddAttributeAtIndex(
            function_, LLVMAttributeFunctionIndex,
            LLVMCreateStringAttribute(context_, kEstimates.data(), unsigned(kEstimates.size()),
                                      kNone.data(), unsigned(kNone.size())));
        const LLVMBasicBlockRef entry = new_block("entry");
        const LLVMBasicBlockRef body = new_block("body");
        failed_ = new_block("failed");
        LLVMPositionBuilderAtEnd(b_, failed_);
        LLVMBuildRet(b_, LLVMConstInt(types_.i32(), 1, 0));

        LLVMPositionBuilderAtEnd(entry_, entry);
        LLVMPositionBuilderAtEnd(b_, entry);
        make_scopes();
        parameters();
        used_ = LLVMBuildAlloca(entry_, types_.i64(), "used");
        LLVMBuildStore(entry_, Types::integer(types_.i64(), 0), used_);
        LLVMPositionBuilderAtEnd(b_, body);
        block(0);
        // Other threads see what was streamed when they see that this one is done.
        if (has_streams_ && is_x86_) intrinsic(module_, b_, "llvm.x86.sse.sfence", {}, {});
        LLVMBuildRet(b_, LLVMConstInt(types_.i32(), 0, 0));
        LLVMBuildBr(entry_, body);
    }

private:
    /// A masked gather or scatter is a branch for each lane where the processor has no instruction
    /// for it, and LLVM takes seconds for code of hundreds.
    static bool has_many_spreads(const lir::Function& function) {
        constexpr int kMany = 32;
        return std::ranges::count_if(function.insts, [](const Inst& i) {
                   return (i.op == Op::Gather || i.op == Op::Scatter) && lir::exists(i.c);
               }) > kMany;
    }

    LLVMBasicBlockRef new_block(const char* name) {
        return LLVMAppendBasicBlockInContext(context_, function_, name);
    }

    void attribute(LLVMValueRef function, std::string_view name) {
        const unsigned kind = LLVMGetEnumAttributeKindForName(name.data(), name.size());
        LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(context_, kind, 0));
    }

    // Memory that buffers do not share: one alias scope for each.
    void make_scopes() {
        const auto text = [&](const std::string& s) {
            return LLVMMDStringInContext2(context_, s.data(), s.size());
        };
        LLVMMetadataRef domain_text = text("quern." + f_.name);
        const LLVMMetadataRef domain = LLVMMDNodeInContext2(context_, &domain_text, 1);
        std::vector<LLVMMetadataRef> scopes;
        for (std::size_t i = 0; i < f_.buffers.size(); ++i) {
            LLVMMetadataRef parts[] = {text(f_.name + "." + std::to_string(i)), domain};
            scopes.push_back(LLVMMDNodeInContext2(context_, parts, 2));
        }
        for (std::size_t i = 0; i < scopes.size(); ++i) {
            std::vector<LLVMMetadataRef> others;
            for (std::size_t j = 0; j < scopes.size(); ++j) {
                // Operands may overlap, but nobody writes them.
                if (j != i) others.push_back(scopes[j]);
            }
            const LLVMMetadataRef own = LLVMMDNodeInContext2(context_, &scopes[i], 1);
            const LLVMMetadataRef rest =
                LLVMMDNodeInContext2(context_, others.data(), others.size());
            own_.push_back(LLVMMetadataAsValue(context_, own));
            rest_.push_back(LLVMMetadataAsValue(context_, rest));
        }
        alias_scope_ = kind("alias.scope");
        noalias_ = kind("noalias");
    }

    unsigned kind(std::string_view name) const {
        return LLVMGetMDKindIDInContext(context_, name.data(), unsigned(name.size()));
    }

    LLVMValueRef marked(LLVMValueRef access, lir::BufferId buffer) {
        LLVMSetMetadata(access, alias_scope_, own_[buffer]);
        LLVMSetMetadata(access, noalias_, rest_[buffer]);
        return access;
    }

    void parameters() {
        for (std::uint32_t i = 0; i < f_.buffers.size(); ++i) {
            if (f_.buffers[i].space != lir::Space::Global) continue;
            LLVMValueRef at = Types::integer(types_.i64(), i);
            const LLVMValueRef address =
                LLVMBuildGEP2(entry_, types_.pointer(), LLVMGetParam(function_, 1), &at, 1, "");
            buffers_[i] =
                LLVMBuildLoad2(entry_, types_.pointer(), address, f_.buffers[i].name.c_str());
        }
        words_.resize(f_.parameters.size(), nullptr);
    }

    LLVMValueRef parameter(const Inst& i) {
        const lir::ParameterKind kind = f_.parameters[i.bits].kind;
        const bool is_begin = kind == lir::ParameterKind::GridBegin;
        if (is_begin || kind == lir::ParameterKind::GridEnd) {
            const LLVMValueRef point = LLVMGetParam(function_, is_begin ? 2 : 3);
            return i.type.dtype == DType::Int64 ? point : half(i, point);
        }
        if (i.op == Op::ParameterHigh) return half(i, parameter_at(i.bits, {DType::UInt64, 1}));
        LLVMValueRef& word = words_[i.bits];
        if (!word) word = parameter_at(i.bits, i.type);
        return word;
    }

    /// Of 64 bits.
    LLVMValueRef half(const Inst& i, LLVMValueRef word) {
        if (i.op == Op::ParameterHigh) {
            word = LLVMBuildLShr(entry_, word, Types::integer(types_.i64(), 32), "");
        }
        return LLVMBuildTrunc(entry_, word, types_.i32(), "");
    }

    LLVMValueRef parameter_at(std::uint64_t number, lir::Type type) {
        LLVMValueRef at = Types::integer(types_.i64(), number);
        const LLVMValueRef address =
            LLVMBuildGEP2(entry_, types_.i64(), LLVMGetParam(function_, 0), &at, 1, "");
        const LLVMValueRef word = LLVMBuildLoad2(entry_, types_.in_memory(type), address, "");
        return type.dtype == DType::Bool ? LLVMBuildTrunc(entry_, word, types_.i1(), "") : word;
    }

    void block(lir::BlockId number) {
        for (const ValueId id : f_.blocks[number]) {
            const Inst& inst = f_[id];
            if (inst.op != Op::For) loops_of_[std::uint32_t(id)] = loops_of(inst);
            const LLVMValueRef result = emit(inst);
            values_[std::uint32_t(id)] = result;
            if (inst.is_relaxed && LLVMIsAInstruction(result) &&
                LLVMCanValueUseFastMathFlags(result)) {
                const bool divides = inst.op == Op::Div && !has_reciprocal(inst.b);
                LLVMSetFastMathFlags(result,
                                     divides ? kRelaxed & ~LLVMFastMathAllowReciprocal : kRelaxed);
            }
        }
    }

    LLVMValueRef value(ValueId id) const { return values_[std::uint32_t(id)]; }
    DType dtype(ValueId id) const { return f_[id].type.dtype; }

    LLVMValueRef emit(const Inst& i) {
        switch (lir::class_of(i.op)) {
            case OpClass::Leaf:
                return leaf(i);
            case OpClass::Unary:
                return unary(i);
            case OpClass::Binary:
                if (i.op == Op::Scale) return scale(module_, b_, value(i.a), value(i.b));
                return binary(i.op, i.type.dtype, value(i.a), value(i.b));
            case OpClass::Compare:
                return compare(i);
            case OpClass::Ternary:
                return intrinsic(module_, b_, "llvm.fma", {types_.value(i.type)},
                                 {value(i.a), value(i.b), value(i.c)});
            case OpClass::Select:
                return LLVMBuildSelect(b_, value(i.a), value(i.b), value(i.c), "");
            case OpClass::Convert:
                if (i.op == Op::Bitcast) {
                    return LLVMBuildBitCast(b_, value(i.a), types_.value(i.type), "");
                }
                return cast(module_, b_, types_, value(i.a), dtype(i.a), i.type);
            case OpClass::Packet:
                QUERN_CHECK(false, "lanes of vectors have one number each");
                return nullptr;
            case OpClass::Lanes:
                return lanes(i);
            case OpClass::Memory:
                return memory(i);
            case OpClass::Matrix:
                QUERN_CHECK(false, "no matrices: the target has no atoms");
                return nullptr;
            case OpClass::Register:
                return reg(i);
            case OpClass::Control:
                return control(i);
        }
        return nullptr;
    }

    LLVMValueRef leaf(const Inst& i) {
        const LLVMTypeRef type = types_.value(i.type);
        if (i.op == Op::Parameter || i.op == Op::ParameterHigh) return parameter(i);
        if (i.op == Op::Iota) {
            std::vector<LLVMValueRef> numbers;
            for (unsigned n = 0; n < i.type.lanes; ++n) {
                numbers.push_back(LLVMConstInt(types_.scalar(i.type.dtype), n, 0));
            }
            return LLVMConstVector(numbers.data(), i.type.lanes);
        }
        if (!is_floating(i.type.dtype) || size_of(i.type.dtype) == 2) {
            return Types::integer(type, i.bits);
        }
        const LLVMTypeRef bits =
            LLVMIntTypeInContext(context_, unsigned(size_of(i.type.dtype)) * 8);
        return LLVMConstBitCast(LLVMConstInt(bits, i.bits, 0), type);
    }

    LLVMValueRef unary(const Inst& i) {
        const LLVMTypeRef type = types_.value(i.type);
        const LLVMValueRef a = value(i.a);
        const auto call = [&](const char* name) {
            return intrinsic(module_, b_, name, {type}, {a});
        };
        switch (i.op) {
            case Op::Not:
                return LLVMBuildNot(b_, a, "");
            case Op::Neg:
                return is_floating(i.type.dtype) ? LLVMBuildFNeg(b_, a, "")
                                                 : LLVMBuildNeg(b_, a, "");
            case Op::Abs:
                return call("llvm.fabs");
            case Op::Sqrt:
                return call("llvm.sqrt");
            case Op::Floor:
                return call("llvm.floor");
            case Op::Ceil:
                return call("llvm.ceil");
            default:
                return call("llvm.roundeven");
        }
    }

    LLVMValueRef binary(Op op, DType dtype, LLVMValueRef a, LLVMValueRef b) {
        const bool is_float = is_floating(dtype);
        const bool is_signed = is_signed_integer(dtype);
        switch (op) {
            case Op::Add:
                return is_float ? LLVMBuildFAdd(b_, a, b, "") : LLVMBuildAdd(b_, a, b, "");
            case Op::Sub:
                return is_float ? LLVMBuildFSub(b_, a, b, "") : LLVMBuildSub(b_, a, b, "");
            case Op::Mul:
                return is_float ? LLVMBuildFMul(b_, a, b, "") : LLVMBuildMul(b_, a, b, "");
            case Op::Div:
                if (is_float) return LLVMBuildFDiv(b_, a, b, "");
                return is_signed ? LLVMBuildSDiv(b_, a, b, "") : LLVMBuildUDiv(b_, a, b, "");
            case Op::Rem:
                return is_signed ? LLVMBuildSRem(b_, a, b, "") : LLVMBuildURem(b_, a, b, "");
            case Op::Min:
            case Op::Max:
                return extreme(op == Op::Max, dtype, a, b);
            case Op::And:
                return LLVMBuildAnd(b_, a, b, "");
            case Op::Or:
                return LLVMBuildOr(b_, a, b, "");
            case Op::Xor:
                return LLVMBuildXor(b_, a, b, "");
            case Op::ShiftLeft:
                return LLVMBuildShl(b_, a, b, "");
            default:
                return is_signed ? LLVMBuildAShr(b_, a, b, "") : LLVMBuildLShr(b_, a, b, "");
        }
    }

    /// a if it is NaN or better than b, else b.
    LLVMValueRef extreme(bool is_max, DType dtype, LLVMValueRef a, LLVMValueRef b) {
        // As maxps and minps have it for floats: where one is NaN they give the second.
        const LLVMValueRef better = !is_max              ? compare(Op::Less, dtype, a, b)
                                    : is_floating(dtype) ? LLVMBuildFCmp(b_, LLVMRealOGT, a, b, "")
                                                         : compare(Op::Less, dtype, b, a);
        const LLVMValueRef chosen = LLVMBuildSelect(b_, better, a, b, "");
        if (!is_floating(dtype)) return chosen;
        // Not "if it is NaN": with that LLVM's instcombine, through which fast code goes, takes
        // max(|x|, 0) for 0 wherever x is below 0.
        const LLVMValueRef is_number = LLVMBuildFCmp(b_, LLVMRealORD, a, a, "");
        return LLVMBuildSelect(b_, is_number, chosen, a, "");
    }

    bool is_zero(ValueId id) const {
        const Inst& i = f_[id];
        if (i.op == Op::Splat) return is_zero(i.a);
        if (i.op != Op::Constant || !is_floating(i.type.dtype)) return false;
        const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(i.type.dtype) - 1);
        return (i.bits & ~sign) == 0;
    }

    /// Whether 1 / b is a number with which x / b is x times that.
    bool has_reciprocal(ValueId id) const {
        const Inst& i = f_[id];
        if (i.op == Op::Splat) return has_reciprocal(i.a);
        if (i.op != Op::Constant) return true;
        if (i.type.dtype != DType::Float32) return std::isnormal(1 / std::bit_cast<double>(i.bits));
        return std::isnormal(1 / std::bit_cast<float>(std::uint32_t(i.bits)));
    }

    /// |x| above zero, as x itself says it: see `extreme`, whose fault the text can write out.
    LLVMValueRef compare(const Inst& i) {
        if (i.op == Op::Less && is_zero(i.a) && f_[i.b].op == Op::Abs && is_floating(dtype(i.a))) {
            return LLVMBuildFCmp(b_, LLVMRealONE, value(f_[i.b].a), value(i.a), "");
        }
        return compare(i.op, dtype(i.a), value(i.a), value(i.b));
    }

    LLVMValueRef compare(Op op, DType dtype, LLVMValueRef a, LLVMValueRef b) {
        if (is_floating(dtype)) {
            const LLVMRealPredicate p = op == Op::Less        ? LLVMRealOLT
                                        : op == Op::LessEqual ? LLVMRealOLE
                                        : op == Op::Equal     ? LLVMRealOEQ
                                                              : LLVMRealUNE;
            return LLVMBuildFCmp(b_, p, a, b, "");
        }
        const bool is_signed = is_signed_integer(dtype);
        const LLVMIntPredicate p = op == Op::Less        ? (is_signed ? LLVMIntSLT : LLVMIntULT)
                                   : op == Op::LessEqual ? (is_signed ? LLVMIntSLE : LLVMIntULE)
                                   : op == Op::Equal     ? LLVMIntEQ
                                                         : LLVMIntNE;
        return LLVMBuildICmp(b_, p, a, b, "");
    }

    static unsigned lanes_of(LLVMValueRef value) {
        const LLVMTypeRef type = LLVMTypeOf(value);
        return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
    }

    LLVMValueRef shuffle(LLVMValueRef a, unsigned from, unsigned count) {
        std::vector<LLVMValueRef> picks;
        for (unsigned n = 0; n < count; ++n) {
            picks.push_back(LLVMConstInt(types_.i32(), from + n, 0));
        }
        return LLVMBuildShuffleVector(b_, a, LLVMGetPoison(LLVMTypeOf(a)),
                                      LLVMConstVector(picks.data(), count), "");
    }

    LLVMValueRef lanes(const Inst& i) {
        LLVMValueRef a = value(i.a);
        if (i.op == Op::Any)
            return intrinsic(module_, b_, "llvm.vector.reduce.or", {LLVMTypeOf(a)}, {a});
        if (i.op == Op::Extract) {
            return LLVMBuildExtractElement(b_, a, LLVMConstInt(types_.i32(), i.bits, 0), "");
        }
        if (i.op == Op::Shuffle) {
            std::vector<LLVMValueRef> picks;
            for (const std::uint16_t lane : f_.patterns[i.bits]) {
                picks.push_back(LLVMConstInt(types_.i32(), lane, 0));
            }
            return LLVMBuildShuffleVector(b_, a, value(i.b),
                                          LLVMConstVector(picks.data(), i.type.lanes), "");
        }
        if (i.op == Op::Splat && LLVMIsConstant(a)) {
            std::vector<LLVMValueRef> copies(std::size_t(i.type.lanes), a);
            return LLVMConstVector(copies.data(), i.type.lanes);
        }
        if (i.op == Op::Splat) {
            const LLVMTypeRef type = types_.value(i.type);
            const LLVMValueRef first = LLVMBuildInsertElement(b_, LLVMGetPoison(type), a,
                                                              LLVMConstInt(types_.i32(), 0, 0), "");
            const LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(types_.i32(), i.type.lanes));
            return LLVMBuildShuffleVector(b_, first, LLVMGetPoison(type), zeros, "");
        }
        QUERN_CHECK(i.bits == 0, "rows of lanes are of work-groups");
        for (unsigned half = lanes_of(a) / 2; half > 1; half /= 2) {
            a = binary(i.fold, i.type.dtype, shuffle(a, 0, half), shuffle(a, half, half));
        }
        const auto lane = [&](unsigned n) {
            return LLVMBuildExtractElement(b_, a, LLVMConstInt(types_.i32(), n, 0), "");
        };
        return binary(i.fold, i.type.dtype, lane(0), lane(1));
    }

    /// How many loops are around the innermost in which the value changes, that one counted.
    int loops_of(const Inst& i) const {
        if (i.op == Op::Parameter || i.op == Op::ParameterHigh) return 0;
        if (!lir::only_computes(lir::class_of(i.op))) return loops_;
        int loops = 0;
        for (const ValueId id : {i.a, i.b, i.c}) {
            if (lir::exists(id)) loops = std::max(loops, loops_of(id));
        }
        return loops;
    }
    int loops_of(ValueId id) const { return loops_of_[std::uint32_t(id)]; }

    struct Term {
        /// Of a number, which is part of an instruction, kNumber.
        int loops = 0;
        LLVMValueRef value = nullptr;
        static constexpr int kNumber = std::numeric_limits<int>::max();
    };

    /// What an offset is the sum of, and its products by `factor`, which changes in no inner loop
    /// of theirs. Sums of one value again and again have more terms than anybody counts.
    void add_terms(ValueId id, ValueId factor, std::vector<Term>& terms) {
        const Inst& i = f_[id];
        const bool has_factor = lir::exists(factor);
        constexpr std::size_t kMost = 16;
        if (i.op == Op::Add && terms.size() < kMost) {
            add_terms(i.a, factor, terms);
            add_terms(i.b, factor, terms);
        } else if (i.op == Op::Mul && !has_factor && loops_of(i.a) != loops_of(i.b)) {
            const bool is_left = loops_of(i.a) > loops_of(i.b);
            add_terms(is_left ? i.a : i.b, is_left ? i.b : i.a, terms);
        } else if (!has_factor) {
            terms.push_back({i.op == Op::Constant ? Term::kNumber : loops_of(id), value(id)});
        } else {
            terms.push_back({std::max(loops_of(id), loops_of(factor)),
                             LLVMBuildMul(b_, value(id), value(factor), "")});
        }
    }

    /// What changes in inner loops is added last, so that the rest can leave them. Parts of an
    /// offset of 32 bits may be beyond those.
    LLVMValueRef address(lir::BufferId buffer, ValueId offset) {
        const LLVMTypeRef type = types_.memory(f_.buffers[buffer].dtype);
        std::vector<Term> terms;
        if (f_[offset].type == lir::Type{DType::Int64, 1}) {
            add_terms(offset, lir::kNone, terms);
        } else {
            terms.push_back({0, value(offset)});
        }
        std::ranges::stable_sort(terms, {}, &Term::loops);
        LLVMValueRef pointer = buffers_[buffer];
        for (std::size_t n = 0; n < terms.size();) {
            const int loops = terms[n].loops;
            LLVMValueRef sum = terms[n].value;
            for (++n; n < terms.size() && terms[n].loops == loops; ++n) {
                sum = LLVMBuildAdd(b_, sum, terms[n].value, "");
            }
            pointer = LLVMBuildGEP2(b_, type, pointer, &sum, 1, "");
        }
        return pointer;
    }

    LLVMValueRef from_memory(LLVMValueRef v, lir::Type type) {
        if (type.dtype != DType::Bool) return v;
        return LLVMBuildICmp(b_, LLVMIntNE, v, Types::integer(LLVMTypeOf(v), 0), "");
    }

    LLVMValueRef to_memory(LLVMValueRef v, lir::Type type) {
        return type.dtype == DType::Bool ? LLVMBuildZExt(b_, v, types_.in_memory(type), "") : v;
    }

    LLVMValueRef memory(const Inst& i) {
        if (i.op == Op::Alloc) return alloc(i);
        const LLVMTypeRef type = types_.in_memory(i.type);
        const auto size = unsigned(size_of(i.type.dtype));
        const LLVMValueRef where = address(i.buffer, i.a);
        if (i.op == Op::Prefetch) return prefetch(where);
        const bool is_store = i.op == Op::Store || i.op == Op::Scatter;
        const LLVMValueRef stored = is_store ? to_memory(value(i.b), i.type) : nullptr;
        const bool is_spread = i.op == Op::Gather || i.op == Op::Scatter;
        if (i.type.lanes == 1) return one_element(i, type, size, where, stored);
        LLVMValueRef mask = lir::exists(i.c) ? value(i.c) : nullptr;
        if (!mask && !is_spread) {
            const LLVMValueRef access =
                is_store ? LLVMBuildStore(b_, stored, where) : LLVMBuildLoad2(b_, type, where, "");
            LLVMSetAlignment(access, size);
            if (i.is_streamed) stream(access, i);
            marked(access, i.buffer);
            return is_store ? nullptr : from_memory(access, i.type);
        }
        if (!mask) mask = Types::integer(LLVMVectorType(types_.i1(), i.type.lanes), 1);
        const LLVMValueRef align = LLVMConstInt(types_.i32(), size, 0);
        const LLVMTypeRef pointers = LLVMTypeOf(where);
        if (is_spread && calls_spreads_) {
            const LLVMValueRef got = spread_by_call(i, type, where, stored, mask);
            return is_store ? nullptr : from_memory(got, i.type);
        }
        if (is_store) {
            marked(intrinsic(module_, b_, is_spread ? "llvm.masked.scatter" : "llvm.masked.store",
                             {type, pointers}, {stored, where, align, mask}),
                   i.buffer);
            return nullptr;
        }
        return from_memory(
            marked(intrinsic(module_, b_, is_spread ? "llvm.masked.gather" : "llvm.masked.load",
                             {type, pointers}, {where, align, mask, LLVMConstNull(type)}),
                   i.buffer),
            i.type);
    }

    /// By a function that all gathers, or scatters, of the type share.
    LLVMValueRef spread_by_call(const Inst& i, LLVMTypeRef type, LLVMValueRef where,
                                LLVMValueRef stored, LLVMValueRef mask) {
        std::vector<LLVMValueRef> arguments = {where, mask};
        if (stored) arguments.push_back(stored);
        std::vector<LLVMTypeRef> taken;
        for (const LLVMValueRef argument : arguments) taken.push_back(LLVMTypeOf(argument));
        const LLVMTypeRef given = stored ? LLVMVoidTypeInContext(context_) : type;
        const LLVMTypeRef of = LLVMFunctionType(given, taken.data(), unsigned(taken.size()), 0);
        const std::string name = std::string(to_string(i.op)) + "." +
                                 std::string(quern::to_string(i.type.dtype)) + "." +
                                 std::to_string(i.type.lanes);
        LLVMValueRef function = LLVMGetNamedFunction(module_, name.c_str());
        if (!function) {
            function = LLVMAddFunction(module_, name.c_str(), of);
            LLVMSetLinkage(function, LLVMInternalLinkage);
            const LLVMBuilderRef b = LLVMCreateBuilderInContext(context_);
            LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(context_, function, ""));
            const auto argument = [&](unsigned n) { return LLVMGetParam(function, n); };
            const LLVMValueRef align = LLVMConstInt(types_.i32(), size_of(i.type.dtype), 0);
            if (stored) {
                intrinsic(module_, b, "llvm.masked.scatter", {type, taken[0]},
                          {argument(2), argument(0), align, argument(1)});
                LLVMBuildRetVoid(b);
            } else {
                LLVMBuildRet(b, intrinsic(module_, b, "llvm.masked.gather", {type, taken[0]},
                                          {argument(0), align, argument(1), LLVMConstNull(type)}));
            }
            LLVMDisposeBuilder(b);
            for (const std::string_view each : {"noinline", "nounwind"}) attribute(function, each);
        }
        return LLVMBuildCall2(b_, of, function, arguments.data(), unsigned(arguments.size()), "");
    }

    LLVMValueRef prefetch(LLVMValueRef where) {
        const auto number = [&](std::uint64_t n) { return LLVMConstInt(types_.i32(), n, 0); };
        // To be read; into all caches; data.
        intrinsic(module_, b_, "llvm.prefetch", {LLVMTypeOf(where)},
                  {where, number(0), number(3), number(1)});
        return nullptr;
    }

    void stream(LLVMValueRef store, const Inst& i) {
        const std::uint64_t bytes = std::uint64_t(i.type.lanes) * size_of(i.type.dtype);
        LLVMSetAlignment(store, unsigned(std::min(bytes, kAlignment)));
        LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(types_.i32(), 1, 0));
        const LLVMMetadataRef node = LLVMMDNodeInContext2(context_, &one, 1);
        LLVMSetMetadata(store, kind("nontemporal"), LLVMMetadataAsValue(context_, node));
        has_streams_ = true;
    }

    LLVMValueRef one_element(const Inst& i, LLVMTypeRef type, unsigned size, LLVMValueRef where,
                             LLVMValueRef stored) {
        const auto access = [&] {
            const LLVMValueRef a =
                stored ? LLVMBuildStore(b_, stored, where) : LLVMBuildLoad2(b_, type, where, "");
            LLVMSetAlignment(a, size);
            return marked(a, i.buffer);
        };
        if (!lir::exists(i.c)) {
            const LLVMValueRef a = access();
            return stored ? nullptr : from_memory(a, i.type);
        }
        const LLVMBasicBlockRef before = LLVMGetInsertBlock(b_);
        const LLVMBasicBlockRef there = new_block("");
        const LLVMBasicBlockRef after = new_block("");
        LLVMBuildCondBr(b_, value(i.c), there, after);
        LLVMPositionBuilderAtEnd(b_, there);
        LLVMValueRef loaded = access();
        LLVMBuildBr(b_, after);
        LLVMPositionBuilderAtEnd(b_, after);
        if (stored) return nullptr;
        const LLVMValueRef phi = LLVMBuildPhi(b_, type, "");
        LLVMValueRef zero = LLVMConstNull(type);
        LLVMBasicBlockRef from[] = {there, before};
        LLVMValueRef in[] = {loaded, zero};
        LLVMAddIncoming(phi, in, from, 2);
        return from_memory(phi, i.type);
    }

    /// Arrays of lanes lie one behind the other; a loop begins each iteration where it found them.
    LLVMValueRef alloc(const Inst& i) {
        const LLVMValueRef begin = LLVMBuildLoad2(b_, types_.i64(), used_, "");
        LLVMValueRef at[] = {begin};
        buffers_[i.buffer] = LLVMBuildGEP2(b_, types_.i8(), LLVMGetParam(function_, 4), at, 1,
                                           f_.buffers[i.buffer].name.c_str());
        const std::uint64_t size = size_of(f_.buffers[i.buffer].dtype);
        const LLVMValueRef elements = LLVMBuildSExt(b_, value(i.a), types_.i64(), "");
        LLVMValueRef bytes = LLVMBuildMul(b_, elements, Types::integer(types_.i64(), size), "");
        bytes = LLVMBuildAdd(b_, bytes, Types::integer(types_.i64(), kAlignment - 1), "");
        bytes = LLVMBuildAnd(b_, bytes, Types::integer(types_.i64(), ~(kAlignment - 1)), "");
        LLVMBuildStore(b_, LLVMBuildAdd(b_, begin, bytes, ""), used_);
        return nullptr;
    }

    LLVMValueRef reg(const Inst& i) {
        if (i.op == Op::Get) return LLVMBuildLoad2(b_, types_.value(i.type), value(i.a), "");
        if (i.op == Op::Set) return LLVMBuildStore(b_, value(i.b), value(i.a));
        const LLVMValueRef place = LLVMBuildAlloca(entry_, types_.value(i.type), "");
        LLVMBuildStore(b_, value(i.a), place);
        return place;
    }

    LLVMValueRef control(const Inst& i) {
        switch (i.op) {
            case Op::For:
                return loop(i);
            case Op::If:
                return branch(i);
            case Op::Assert:
                return assert_that(i);
            default:
                return nullptr;
        }
    }

    LLVMValueRef loop(const Inst& i) {
        const LLVMBasicBlockRef head = new_block("for");
        const LLVMBasicBlockRef body = new_block("");
        const LLVMBasicBlockRef after = new_block("");
        const LLVMValueRef used = LLVMBuildLoad2(b_, types_.i64(), used_, "");
        const LLVMBasicBlockRef before = LLVMGetInsertBlock(b_);
        LLVMBuildBr(b_, head);
        LLVMPositionBuilderAtEnd(b_, head);
        const LLVMTypeRef type = types_.value(i.type);
        const LLVMValueRef variable = LLVMBuildPhi(b_, type, "");
        LLVMBuildCondBr(b_, LLVMBuildICmp(b_, LLVMIntSLT, variable, value(i.b), ""), body, after);
        LLVMPositionBuilderAtEnd(b_, body);
        LLVMBuildStore(b_, used, used_);
        // The body uses the variable under the id of the loop.
        values_[std::size_t(&i - f_.insts.data())] = variable;
        loops_of_[std::size_t(&i - f_.insts.data())] = ++loops_;
        block(i.body);
        --loops_;
        const LLVMValueRef next = LLVMBuildNSWAdd(b_, variable, Types::integer(type, i.bits), "");
        const LLVMBasicBlockRef last = LLVMGetInsertBlock(b_);
        LLVMBuildBr(b_, head);
        LLVMValueRef in[] = {value(i.a), next};
        LLVMBasicBlockRef from[] = {before, last};
        LLVMAddIncoming(variable, in, from, 2);
        LLVMPositionBuilderAtEnd(b_, after);
        LLVMBuildStore(b_, used, used_);
        return variable;
    }

    LLVMValueRef branch(const Inst& i) {
        const LLVMBasicBlockRef then = new_block("if");
        const LLVMBasicBlockRef otherwise = new_block("");
        const LLVMBasicBlockRef after = new_block("");
        LLVMBuildCondBr(b_, value(i.a), then, otherwise);
        LLVMPositionBuilderAtEnd(b_, then);
        block(i.body);
        LLVMBuildBr(b_, after);
        LLVMPositionBuilderAtEnd(b_, otherwise);
        if (i.otherwise != lir::kNoBlock) block(i.otherwise);
        LLVMBuildBr(b_, after);
        LLVMPositionBuilderAtEnd(b_, after);
        return nullptr;
    }

    LLVMValueRef assert_that(const Inst& i) {
        LLVMValueRef broken = LLVMBuildNot(b_, value(i.a), "");
        if (lir::exists(i.c)) broken = LLVMBuildAnd(b_, broken, value(i.c), "");
        if (lanes_of(broken) > 1) {
            broken =
                intrinsic(module_, b_, "llvm.vector.reduce.or", {LLVMTypeOf(broken)}, {broken});
        }
        const LLVMBasicBlockRef after = new_block("");
        LLVMBuildCondBr(b_, broken, failed_, after);
        LLVMPositionBuilderAtEnd(b_, after);
        return nullptr;
    }

    const lir::Function& f_;
    LLVMModuleRef module_;
    LLVMContextRef context_;
    Types types_;
    LLVMBuilderRef b_;
    LLVMBuilderRef entry_;
    bool is_x86_;
    bool has_streams_ = false;
    bool calls_spreads_ = false;
    std::vector<LLVMValueRef> values_;
    std::vector<int> loops_of_;
    int loops_ = 0;
    std::vector<LLVMValueRef> buffers_;
    std::vector<LLVMValueRef> words_;
    std::vector<LLVMValueRef> own_;
    std::vector<LLVMValueRef> rest_;
    unsigned alias_scope_ = 0;
    unsigned noalias_ = 0;
    LLVMValueRef function_ = nullptr;
    LLVMValueRef used_ = nullptr;
    LLVMBasicBlockRef failed_ = nullptr;
};

}  // namespace

void emit(LLVMModuleRef module, const lir::Function& function, Simd simd) {
    Emitter(module, function, simd).run();
}

}  // namespace quern::cpu
