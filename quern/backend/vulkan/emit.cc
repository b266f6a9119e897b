#include "quern/backend/vulkan/emit.h"

#include <spirv/unified1/GLSL.std.450.h>

#include <cstddef>
#include <functional>
#include <optional>

#include "quern/backend/vulkan/code.h"
#include "quern/support/check.h"

namespace quern::vulkan {
namespace {

using lir::Inst;
using lir::OpClass;
using lir::ValueId;
using spv::Op;

/// Arrays of lanes begin at multiples of it.
constexpr std::uint64_t kAlignment = 64;

class Emitter {
public:
    Emitter(const lir::Function& function, const FloatControls& controls)
        : f_(function),
          controls_(controls),
          code_(m_),
          values_(f_.insts.size(), 0),
          buffers_(f_.buffers.size(), 0) {}

    std::vector<std::uint32_t> run() {
        m_.capability(spv::Capability::Shader);
        m_.capability(spv::Capability::PhysicalStorageBufferAddresses);
        m_.memory_model(spv::AddressingModel::PhysicalStorageBuffer64, spv::MemoryModel::GLSL450);
        const Id function = m_.new_id();
        declare();
        m_.begin(function);
        enter();
        block(0);
        m_.statement(Op::OpReturn, {});
        m_.end();
        m_.entry_point(function, "main", {push_, invocation_});
        m_.execution_mode(function, spv::ExecutionMode::LocalSize, {kGroup, 1, 1});
        ask(function);
        return m_.words();
    }

private:
    void declare() {
        const Id word = code_.type(DType::UInt64);
        const Id pushed = m_.structure({word, word, word, word, word, word, word, word});
        m_.decorate(pushed, spv::Decoration::Block);
        for (std::uint32_t i = 0; i < sizeof(Push) / 8; ++i) {
            m_.decorate_member(pushed, i, spv::Decoration::Offset, i * 8);
        }
        push_ = m_.global(spv::StorageClass::PushConstant, pushed);
        invocation_ = m_.global(spv::StorageClass::Input, m_.vector(code_.type(DType::UInt32), 3));
        m_.decorate(invocation_, spv::Decoration::BuiltIn,
                    {std::uint32_t(spv::BuiltIn::GlobalInvocationId)});
    }

    /// Arithmetic as the language has it, where the device says that it can.
    void ask(Id function) {
        const auto mode = [&](bool has, spv::ExecutionMode mode, spv::Capability capability,
                              std::uint32_t bits) {
            if (!has) return;
            m_.capability(capability);
            m_.execution_mode(function, mode, {bits});
        };
        using spv::Capability;
        using spv::ExecutionMode;
        mode(controls_.keeps_nan32, ExecutionMode::SignedZeroInfNanPreserve,
             Capability::SignedZeroInfNanPreserve, 32);
        mode(controls_.rounds_even32, ExecutionMode::RoundingModeRTE, Capability::RoundingModeRTE,
             32);
        mode(controls_.keeps_denormals32, ExecutionMode::DenormPreserve, Capability::DenormPreserve,
             32);
        mode(controls_.keeps_nan64, ExecutionMode::SignedZeroInfNanPreserve,
             Capability::SignedZeroInfNanPreserve, 64);
        mode(controls_.rounds_even64, ExecutionMode::RoundingModeRTE, Capability::RoundingModeRTE,
             64);
        mode(controls_.keeps_denormals64, ExecutionMode::DenormPreserve, Capability::DenormPreserve,
             64);
    }

    Id pushed(std::size_t offset) {
        const Id to = m_.pointer(spv::StorageClass::PushConstant, code_.type(DType::UInt64));
        const Id at = m_.op(Op::OpAccessChain, to, {push_, code_.u32(std::uint32_t(offset / 8))});
        return m_.op(Op::OpLoad, code_.type(DType::UInt64), {at});
    }

    /// What is the same for the whole function, and invocations beyond the last point end.
    void enter() {
        const Id three = m_.vector(code_.type(DType::UInt32), 3);
        const Id all = m_.op(Op::OpLoad, three, {invocation_});
        const Id x = m_.op(Op::OpCompositeExtract, code_.type(DType::UInt32), {all, 0});
        const Id number = code_.unary(Op::OpUConvert, DType::UInt64, x);
        point_ = word(Op::OpIAdd, pushed(offsetof(Push, begin)), number);
        const Id is_beyond =
            code_.test(Op::OpUGreaterThanEqual, point_, pushed(offsetof(Push, end)));
        when(
            is_beyond, [&] { m_.statement(Op::OpReturn, {}); }, true);
        words_ = pushed(offsetof(Push, words));
        zero_ = pushed(offsetof(Push, zero));
        const Id table = pushed(offsetof(Push, buffers));
        for (std::size_t i = 0; i < f_.buffers.size(); ++i) {
            if (f_.buffers[i].space != lir::Space::Global) continue;
            buffers_[i] = load(DType::UInt64, word(Op::OpIAdd, table, code_.u64(i * 8)));
        }
        used_ = m_.variable(code_.type(DType::UInt64));
        const Id own = word(Op::OpIMul, number, pushed(offsetof(Push, scratch_bytes)));
        m_.statement(Op::OpStore, {used_, word(Op::OpIAdd, pushed(offsetof(Push, scratch)), own)});
    }

    void block(lir::BlockId number) {
        for (const ValueId id : f_.blocks[number]) {
            const Id result = emit(f_[id], id);
            values_[std::uint32_t(id)] = result;
        }
    }

    Id value(ValueId id) const { return values_[std::uint32_t(id)]; }
    DType dtype(ValueId id) const { return f_[id].type.dtype; }
    Id word(Op op, Id a, Id b) { return code_.binary(op, DType::UInt64, a, b); }

    Id emit(const Inst& i, ValueId id) {
        QUERN_CHECK(i.type.lanes == 1, "one lane");
        switch (lir::class_of(i.op)) {
            case OpClass::Leaf:
                if (i.op == lir::Op::Parameter) return parameter(i);
                return code_.constant(i.type.dtype, i.op == lir::Op::Iota ? 0 : i.bits);
            case OpClass::Unary:
                return unary(i);
            case OpClass::Binary:
                return binary(i);
            case OpClass::Compare:
                return compare(i.op, dtype(i.a), value(i.a), value(i.b));
            case OpClass::Ternary:
                QUERN_CHECK(false, "no product and sum in one: devices round twice");
                return 0;
            case OpClass::Select:
                return code_.select(i.type.dtype, value(i.a), value(i.b), value(i.c));
            case OpClass::Convert:
                return convert(i);
            case OpClass::Lanes:
                QUERN_CHECK(false, "one lane");
                return 0;
            case OpClass::Memory:
                return memory(i);
            case OpClass::Register:
                return reg(i);
            case OpClass::Control:
                return control(i, id);
        }
        return 0;
    }

    Id parameter(const Inst& i) {
        const lir::ParameterKind kind = f_.parameters[i.bits].kind;
        if (kind == lir::ParameterKind::GridBegin) return point_;
        if (kind == lir::ParameterKind::GridEnd) return word(Op::OpIAdd, point_, code_.u64(1));
        return load(i.type.dtype, word(Op::OpIAdd, words_, code_.u64(i.bits * 8)));
    }

    Id unary(const Inst& i) {
        const DType d = i.type.dtype;
        const Id a = value(i.a);
        const bool is_narrow = is_floating(d) && size_of(d) == 2;
        switch (i.op) {
            case lir::Op::Not:
                return d == DType::Bool ? code_.negated(a) : code_.unary(Op::OpNot, d, a);
            case lir::Op::Neg:
                if (!is_floating(d)) return code_.unary(Op::OpSNegate, d, a);
                if (is_narrow) {
                    return code_.binary(Op::OpBitwiseXor, d, a, code_.constant(d, 0x8000));
                }
                return code_.unary(Op::OpFNegate, d, a);
            case lir::Op::Abs:
                if (is_narrow) {
                    return code_.binary(Op::OpBitwiseAnd, d, a, code_.constant(d, 0x7fff));
                }
                return code_.function(GLSLstd450FAbs, d, a);
            case lir::Op::Sqrt:
                return code_.function(GLSLstd450Sqrt, d, a);
            case lir::Op::Floor:
                return code_.function(GLSLstd450Floor, d, a);
            case lir::Op::Ceil:
                return code_.function(GLSLstd450Ceil, d, a);
            default:
                return code_.function(GLSLstd450RoundEven, d, a);
        }
    }

    /// Whether a value is 0 in the text, perhaps of another dtype, and then whether it is -0.
    std::optional<bool> sign_of_zero(ValueId id) const {
        const Inst& i = f_[id];
        if (i.op == lir::Op::Cast) return sign_of_zero(i.a);
        if (i.op != lir::Op::Constant) return std::nullopt;
        const std::uint32_t width = Code::bits(i.type.dtype);
        const std::uint64_t sign = std::uint64_t{1} << (width - 1);
        const bool is_float = is_floating(i.type.dtype);
        if ((i.bits & (is_float ? sign - 1 : ~std::uint64_t{0})) != 0) return std::nullopt;
        return is_float && (i.bits & sign) != 0;
    }

    /// Of arithmetic on floats: a zero as the driver does not see it.
    Id operand(ValueId id) {
        const auto is_negative = sign_of_zero(id);
        if (!is_negative) return value(id);
        const DType d = dtype(id), bits = size_of(d) == 8 ? DType::UInt64 : DType::UInt32;
        Id zero = code_.cast(zero_, DType::UInt64, bits);
        if (*is_negative) {
            const std::uint64_t sign = std::uint64_t{1} << (Code::bits(d) - 1);
            zero = code_.binary(Op::OpBitwiseOr, bits, zero, code_.constant(bits, sign));
        }
        return code_.bitcast(d, zero);
    }

    Id binary(const Inst& i) {
        const DType d = i.type.dtype;
        const bool is_float = is_floating(d), is_signed = is_signed_integer(d);
        const Id a = is_float ? operand(i.a) : value(i.a), b = is_float ? operand(i.b) : value(i.b);
        const auto arithmetic = [&](Op real, Op whole) {
            if (!is_float) return code_.binary(whole, d, a, b);
            return i.is_relaxed ? code_.binary(real, d, a, b) : code_.exact(real, d, a, b);
        };
        const auto logic = [&](Op truth, Op whole) {
            return d == DType::Bool ? code_.test(truth, a, b) : code_.binary(whole, d, a, b);
        };
        switch (i.op) {
            case lir::Op::Add:
                return arithmetic(Op::OpFAdd, Op::OpIAdd);
            case lir::Op::Sub:
                return arithmetic(Op::OpFSub, Op::OpISub);
            case lir::Op::Mul:
                return arithmetic(Op::OpFMul, Op::OpIMul);
            case lir::Op::Div:
                return arithmetic(Op::OpFDiv, is_signed ? Op::OpSDiv : Op::OpUDiv);
            case lir::Op::Rem:
                return code_.binary(is_signed ? Op::OpSRem : Op::OpUMod, d, a, b);
            case lir::Op::Min:
            case lir::Op::Max:
                return extreme(i.op == lir::Op::Max, d, a, b);
            case lir::Op::And:
                return logic(Op::OpLogicalAnd, Op::OpBitwiseAnd);
            case lir::Op::Or:
                return logic(Op::OpLogicalOr, Op::OpBitwiseOr);
            case lir::Op::Xor:
                return logic(Op::OpLogicalNotEqual, Op::OpBitwiseXor);
            case lir::Op::ShiftLeft:
                return code_.binary(Op::OpShiftLeftLogical, d, a, b);
            case lir::Op::ShiftRight:
                return code_.binary(
                    is_signed ? Op::OpShiftRightArithmetic : Op::OpShiftRightLogical, d, a, b);
            default:
                QUERN_CHECK(false, "an operation that devices have");
                return 0;
        }
    }

    /// a if it is NaN or better than b, else b.
    Id extreme(bool is_max, DType d, Id a, Id b) {
        const Id better =
            is_max ? compare(lir::Op::Less, d, b, a) : compare(lir::Op::Less, d, a, b);
        const Id chosen = code_.select(d, better, a, b);
        if (!is_floating(d)) return chosen;
        return code_.select(d, compare(lir::Op::NotEqual, d, a, a), a, chosen);
    }

    Id compare(lir::Op op, DType d, Id a, Id b) {
        if (is_floating(d) && size_of(d) == 2) {
            a = code_.cast(a, d, DType::Float32);
            b = code_.cast(b, d, DType::Float32);
            d = DType::Float32;
        }
        const auto pick = [&](Op real, Op with_sign, Op without, Op truth) {
            return is_floating(d)         ? real
                   : d == DType::Bool     ? truth
                   : is_signed_integer(d) ? with_sign
                                          : without;
        };
        switch (op) {
            case lir::Op::Less:
                if (d == DType::Bool) return code_.both(code_.negated(a), b);
                return code_.test(pick(Op::OpFOrdLessThan, Op::OpSLessThan, Op::OpULessThan, {}), a,
                                  b);
            case lir::Op::LessEqual:
                if (d == DType::Bool) return code_.either(code_.negated(a), b);
                return code_.test(
                    pick(Op::OpFOrdLessThanEqual, Op::OpSLessThanEqual, Op::OpULessThanEqual, {}),
                    a, b);
            case lir::Op::Equal:
                return code_.test(
                    pick(Op::OpFOrdEqual, Op::OpIEqual, Op::OpIEqual, Op::OpLogicalEqual), a, b);
            default:
                return code_.test(pick(Op::OpFUnordNotEqual, Op::OpINotEqual, Op::OpINotEqual,
                                       Op::OpLogicalNotEqual),
                                  a, b);
        }
    }

    Id convert(const Inst& i) {
        const DType from = dtype(i.a), to = i.type.dtype;
        if (i.op == lir::Op::Cast) return code_.cast(value(i.a), from, to);
        const bool is_same = code_.type(from) == code_.type(to);
        return is_same ? value(i.a) : code_.bitcast(to, value(i.a));
    }

    // Memory

    Id pointer(DType d, Id address) {
        const auto storage = spv::StorageClass::PhysicalStorageBuffer;
        return m_.op(Op::OpConvertUToPtr, m_.pointer(storage, code_.memory_type(d)), {address});
    }

    std::uint32_t aligned(DType d) const { return std::uint32_t(size_of(d)); }

    Id load(DType d, Id address) {
        const auto access = std::uint32_t(spv::MemoryAccessMask::Aligned);
        const Id loaded =
            m_.op(Op::OpLoad, code_.memory_type(d), {pointer(d, address), access, aligned(d)});
        if (d != DType::Bool) return loaded;
        return code_.test(Op::OpINotEqual, loaded, code_.constant(DType::UInt8, 0));
    }

    void store(DType d, Id address, Id stored) {
        const auto access = std::uint32_t(spv::MemoryAccessMask::Aligned);
        if (d == DType::Bool) stored = code_.cast(stored, d, DType::UInt8);
        m_.statement(Op::OpStore, {pointer(d, address), stored, access, aligned(d)});
    }

    Id memory(const Inst& i) {
        if (i.op == lir::Op::Alloc) return alloc(i);
        if (i.op == lir::Op::Prefetch) return 0;
        const DType d = i.type.dtype;
        const Id bytes = word(Op::OpIMul, value(i.a), code_.u64(size_of(d)));
        const Id address = word(Op::OpIAdd, buffers_[i.buffer], bytes);
        const bool is_store = i.op == lir::Op::Store || i.op == lir::Op::Scatter;
        const bool has_mask = lir::exists(i.c);
        if (is_store && !has_mask) {
            store(d, address, value(i.b));
            return 0;
        }
        if (is_store) {
            when(value(i.c), [&] { store(d, address, value(i.b)); });
            return 0;
        }
        if (!has_mask) return load(d, address);
        Id loaded = 0, there = 0;
        const Id zero = code_.constant(d, 0), before = m_.block();
        when(value(i.c), [&] {
            loaded = load(d, address);
            there = m_.block();
        });
        return m_.op(Op::OpPhi, code_.type(d), {loaded, there, zero, before});
    }

    /// Arrays of lanes lie one behind the other; a loop begins each iteration where it found them.
    Id alloc(const Inst& i) {
        const DType d = f_.buffers[i.buffer].dtype;
        buffers_[i.buffer] = used();
        Id bytes = word(Op::OpIMul, value(i.a), code_.u64(size_of(d)));
        bytes = word(Op::OpIAdd, bytes, code_.u64(kAlignment - 1));
        bytes = word(Op::OpBitwiseAnd, bytes, code_.u64(~(kAlignment - 1)));
        m_.statement(Op::OpStore, {used_, word(Op::OpIAdd, buffers_[i.buffer], bytes)});
        return 0;
    }

    Id used() { return m_.op(Op::OpLoad, code_.type(DType::UInt64), {used_}); }

    Id reg(const Inst& i) {
        if (i.op == lir::Op::Get) return m_.op(Op::OpLoad, code_.type(i.type.dtype), {value(i.a)});
        if (i.op == lir::Op::Set) {
            m_.statement(Op::OpStore, {value(i.a), value(i.b)});
            return 0;
        }
        const Id place = m_.variable(code_.type(i.type.dtype));
        m_.statement(Op::OpStore, {place, value(i.a)});
        return place;
    }

    // Control flow

    /// `ends`: the body leaves the function.
    void when(Id condition, const std::function<void()>& body, bool ends = false) {
        const Id then = m_.new_id(), after = m_.new_id();
        m_.statement(Op::OpSelectionMerge, {after, 0});
        m_.statement(Op::OpBranchConditional, {condition, then, after});
        m_.label(then);
        body();
        if (!ends) m_.statement(Op::OpBranch, {after});
        m_.label(after);
    }

    void fail_if(Id condition, std::uint32_t why) {
        const auto leave = [&] {
            store(DType::UInt32, pushed(offsetof(Push, failed)), code_.u32(why));
            m_.statement(Op::OpReturn, {});
        };
        when(condition, leave, true);
    }

    Id control(const Inst& i, ValueId id) {
        switch (i.op) {
            case lir::Op::For:
                return loop(i, id);
            case lir::Op::If:
                branch(i);
                return 0;
            case lir::Op::Assert: {
                Id broken = code_.negated(value(i.a));
                if (lir::exists(i.c)) broken = code_.both(broken, value(i.c));
                fail_if(broken, kAssertionFailed);
                return 0;
            }
            default:
                QUERN_CHECK(false, "no barrier: one invocation runs all of a point");
                return 0;
        }
    }

    Id loop(const Inst& i, ValueId id) {
        const Id type = code_.type(DType::Int64);
        const Id counter = m_.variable(type);
        const Id start = used();
        m_.statement(Op::OpStore, {counter, value(i.a)});
        const Id head = m_.new_id(), test = m_.new_id(), body = m_.new_id();
        const Id next = m_.new_id(), after = m_.new_id();
        m_.statement(Op::OpBranch, {head});
        m_.label(head);
        m_.statement(Op::OpLoopMerge, {after, next, 0});
        m_.statement(Op::OpBranch, {test});
        m_.label(test);
        const Id variable = m_.op(Op::OpLoad, type, {counter});
        const Id goes_on = code_.test(Op::OpSLessThan, variable, value(i.b));
        m_.statement(Op::OpBranchConditional, {goes_on, body, after});
        m_.label(body);
        m_.statement(Op::OpStore, {used_, start});
        // The body uses the variable under the id of the loop.
        values_[std::uint32_t(id)] = variable;
        block(i.body);
        m_.statement(Op::OpBranch, {next});
        m_.label(next);
        const Id step = code_.constant(DType::Int64, i.bits);
        m_.statement(Op::OpStore,
                     {counter, code_.binary(Op::OpIAdd, DType::Int64, variable, step)});
        m_.statement(Op::OpBranch, {head});
        m_.label(after);
        m_.statement(Op::OpStore, {used_, start});
        // A driver that ends loops after so many iterations must not pass for one that does not.
        const Id reached = m_.op(Op::OpLoad, type, {counter});
        fail_if(code_.test(Op::OpSLessThan, reached, value(i.b)), kLoopCut);
        return variable;
    }

    void branch(const Inst& i) {
        const Id then = m_.new_id(), after = m_.new_id();
        const bool has_else = i.otherwise != lir::kNoBlock;
        const Id otherwise = has_else ? m_.new_id() : after;
        m_.statement(Op::OpSelectionMerge, {after, 0});
        m_.statement(Op::OpBranchConditional, {value(i.a), then, otherwise});
        m_.label(then);
        block(i.body);
        m_.statement(Op::OpBranch, {after});
        if (has_else) {
            m_.label(otherwise);
            block(i.otherwise);
            m_.statement(Op::OpBranch, {after});
        }
        m_.label(after);
    }

    const lir::Function& f_;
    FloatControls controls_;
    Module m_;
    Code code_;
    std::vector<Id> values_;

    /// The address of each.
    std::vector<Id> buffers_;
    Id push_ = 0;
    Id invocation_ = 0;
    Id point_ = 0;
    Id words_ = 0;
    Id zero_ = 0;
    Id used_ = 0;
};

}  // namespace

std::vector<std::uint32_t> emit(const lir::Function& function, const FloatControls& controls) {
    return Emitter(function, controls).run();
}

}  // namespace quern::vulkan
