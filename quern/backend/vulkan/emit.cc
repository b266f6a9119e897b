#include "quern/backend/vulkan/emit.h"

#include <spirv/unified1/GLSL.std.450.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>

#include "quern/backend/vulkan/code.h"
#include "quern/backend/vulkan/limits.h"
#include "quern/backend/vulkan/matrices.h"
#include "quern/backend/vulkan/memory.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"

namespace quern::vulkan {
namespace {

using lir::Inst;
using lir::OpClass;
using lir::ValueId;
using spv::Op;

/// Arrays of lanes begin at multiples of it, as ready_launch counts their bytes.
constexpr std::uint64_t kAlignment = Storage::kAlignment;

class Emitter {
public:
    Emitter(const lir::Function& function, const FloatControls& controls, const Integers& integers,
            BuffersAre buffers, const Windows& windows)
        : f_(function),
          controls_(controls),
          integers_(integers),
          code_(m_, integers),
          memory_(code_, integers, buffers, windows.bits),
          matrices_(code_, f_.atom),
          bindings_(bindings_of(f_, windows)),
          values_(f_.insts.size(), 0),
          buffers_(f_.buffers.size()),
          arrays_(f_.buffers.size(), 0),
          is_written_(f_.buffers.size(), false) {
        for (const Inst& i : f_.insts) {
            const bool is_store = i.op == lir::Op::Store || i.op == lir::Op::Scatter;
            if (is_store) is_written_[i.buffer] = true;
        }
    }

    std::vector<std::uint32_t> run() {
        memory_.begin();
        const Id function = m_.new_id();
        declare();
        m_.begin(function);
        enter();
        block(0);
        m_.statement(Op::OpReturn, {});
        m_.end();
        std::vector<Id> interface { push_, invocation_ };
        if (has_lanes()) interface.push_back(group_);
        std::ranges::copy_if(arrays_, std::back_inserter(interface), [](Id id) { return id != 0; });
        std::ranges::copy(memory_.bound(), std::back_inserter(interface));
        m_.entry_point(function, "main", interface);
        m_.execution_mode(function, spv::ExecutionMode::LocalSize,
                          {points_of_group(f_) * f_.lanes, 1, 1});
        ask(function);
        return m_.words();
    }

private:
    void declare() {
        const Id word = memory_.word_type();
        const Id pushed = m_.structure({word, word, word, word, word, word, word, word});
        m_.decorate(pushed, spv::Decoration::Block);
        for (std::uint32_t i = 0; i < sizeof(Push) / 8; ++i) {
            m_.decorate_member(pushed, i, spv::Decoration::Offset, i * 8);
        }
        push_ = m_.global(spv::StorageClass::PushConstant, pushed);
        const auto number = [&](spv::BuiltIn builtin) {
            const Id id =
                m_.global(spv::StorageClass::Input, m_.vector(code_.type(DType::UInt32), 3));
            m_.decorate(id, spv::Decoration::BuiltIn, {std::uint32_t(builtin)});
            return id;
        };
        invocation_ = number(has_lanes() ? spv::BuiltIn::LocalInvocationId
                                         : spv::BuiltIn::GlobalInvocationId);
        if (has_lanes()) group_ = number(spv::BuiltIn::WorkgroupId);
        if (!is_alone(f_)) choose_group();
        for (std::size_t i = 0; i < f_.buffers.size(); ++i) {
            const lir::Buffer& b = f_.buffers[i];
            if (b.elements == 0) continue;
            const Id array = m_.array(code_.type(b.dtype), code_.u32(b.elements));
            arrays_[i] = m_.global(spv::StorageClass::Workgroup, array);
        }
    }

    void choose_group() {
        const Id u32 = code_.type(DType::UInt32);
        const Id size = m_.choice(kInvocationsOfGroup, u32, points_of_group(f_) * f_.lanes);
        points_ = has_lanes()
                      ? m_.constant_of(Op::OpSpecConstantOp, u32,
                                       {std::uint32_t(Op::OpUDiv), size, code_.u32(f_.lanes)})
                      : size;
        const Id sizes = m_.constant_of(Op::OpSpecConstantComposite, m_.vector(u32, 3),
                                        {size, code_.u32(1), code_.u32(1)});
        m_.decorate(sizes, spv::Decoration::BuiltIn, {std::uint32_t(spv::BuiltIn::WorkgroupSize)});
    }

    /// Whether an invocation is a lane of a point; else it does one.
    bool has_lanes() const { return f_.lanes > 1; }

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
        mode(controls_.keeps_nan16, ExecutionMode::SignedZeroInfNanPreserve,
             Capability::SignedZeroInfNanPreserve, 16);
        mode(controls_.rounds_even16, ExecutionMode::RoundingModeRTE, Capability::RoundingModeRTE,
             16);
        mode(controls_.keeps_denormals16, ExecutionMode::DenormPreserve, Capability::DenormPreserve,
             16);
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
        const Id to = m_.pointer(spv::StorageClass::PushConstant, memory_.word_type());
        const Id at = m_.op(Op::OpAccessChain, to, {push_, code_.u32(std::uint32_t(offset / 8))});
        return m_.op(Op::OpLoad, memory_.word_type(), {at});
    }

    /// What is the same for the whole function, and invocations beyond the last point end.
    void enter() {
        const Id three = m_.vector(code_.type(DType::UInt32), 3);
        const auto first = [&](Id builtin) {
            const Id all = m_.op(Op::OpLoad, three, {builtin});
            return m_.op(Op::OpCompositeExtract, code_.type(DType::UInt32), {all, 0});
        };
        Id number = first(has_lanes() ? group_ : invocation_);
        if (has_lanes()) {
            lane_ = first(invocation_);
            if (points_ != 0) number = take_apart(number);
        }
        point_ = memory_.sum(pushed(offsetof(Push, begin)), number);
        when(
            memory_.is_at_least(point_, pushed(offsetof(Push, end))),
            [&] { m_.statement(Op::OpReturn, {}); }, true);
        words_ = memory_.place(pushed(offsetof(Push, words)), Bindings::kTable);
        zero_ = memory_.low_of(pushed(offsetof(Push, zero)));
        const auto table = memory_.place(pushed(offsetof(Push, buffers)), Bindings::kTable);
        for (std::uint32_t i = 0; i < bindings_.buffers.size(); ++i) {
            const std::uint32_t buffer = bindings_.buffers[i];
            const auto word = memory_.moved(table, code_.u32(buffer * 8));
            buffers_[buffer] = memory_.load_place_of_buffer(word, bindings_.first[i],
                                                            bindings_.windows.of(buffer));
        }
        used_ = m_.variable(memory_.place_type());
        m_.statement(Op::OpStore, {used_, own_scratch(number).at});
    }

    /// The point that this invocation's lane is of, where a group does several.
    Id take_apart(Id group) {
        const auto u32 = [&](Op op, Id a, std::uint32_t b) {
            return code_.binary(op, DType::UInt32, a, code_.u32(b));
        };
        const Id point = u32(Op::OpUDiv, lane_, f_.lanes);
        lane_ = u32(Op::OpUMod, lane_, f_.lanes);
        const Id first = code_.binary(Op::OpIMul, DType::UInt32, group, points_);
        return code_.binary(Op::OpIAdd, DType::UInt32, first, point);
    }

    MemoryCode::Place own_scratch(Id number) {
        const auto begin = memory_.place(pushed(offsetof(Push, scratch)), bindings_.arrays);
        return memory_.moved(begin, number, pushed(offsetof(Push, scratch_bytes)));
    }

    void block(lir::BlockId number) {
        for (const ValueId id : f_.blocks[number]) {
            if (controls_.has_few_places && ++straight_ > kMostOfBlock) cut_block();
            const Id result = emit(f_[id], id);
            values_[std::uint32_t(id)] = result;
        }
    }

    Id value(ValueId id) const { return values_[std::uint32_t(id)]; }
    DType dtype(ValueId id) const { return f_[id].type.dtype; }

    Id emit(const Inst& i, ValueId id) {
        QUERN_CHECK(i.type.lanes == 1, "a value of one lane");
        switch (lir::class_of(i.op)) {
            case OpClass::Leaf:
                if (i.op == lir::Op::Parameter || i.op == lir::Op::ParameterHigh) {
                    return parameter(i);
                }
                if (i.op == lir::Op::Constant) {
                    return hidden(i.type.dtype, code_.constant(i.type.dtype, i.bits));
                }
                if (!has_lanes()) return code_.constant(i.type.dtype, 0);
                return code_.resized(DType::UInt32, i.type.dtype, lane_);
            case OpClass::Unary:
                return unary(i);
            case OpClass::Binary:
                return binary(i);
            case OpClass::Compare:
                return compare(i.op, dtype(i.a), value(i.a), value(i.b));
            case OpClass::Ternary:
                QUERN_CHECK(i.is_relaxed, "a sum of a product that may be rounded");
                return code_.exact(Op::OpExtInst, i.type.dtype,
                                   {m_.instructions("GLSL.std.450"), GLSLstd450Fma, value(i.a),
                                    value(i.b), value(i.c)});
            case OpClass::Select:
                return code_.select(i.type.dtype, value(i.a), value(i.b), value(i.c));
            case OpClass::Convert:
                return convert(i);
            case OpClass::Packet:
                return packet(i, id);
            case OpClass::Lanes:
                if (i.op == lir::Op::FromLane) return from_lane(i);
                QUERN_CHECK(i.op == lir::Op::Splat, "one lane: see lir/lanes.h");
                return value(i.a);
            case OpClass::Memory:
                if (i.type.packet > 1) return packets(i, id);
                return memory(i);
            case OpClass::Matrix:
                return matrix(i);
            case OpClass::Register:
                return reg(i);
            case OpClass::Control:
                return control(i, id);
        }
        return 0;
    }

    /// The lanes of a work-group are its invocations in order, and so are those of a subgroup.
    Id from_lane(const Inst& i) {
        m_.capability(spv::Capability::GroupNonUniform);
        m_.capability(spv::Capability::GroupNonUniformShuffle);
        const Id last = code_.u32(f_.subgroup - 1);
        const Id lane = code_.binary(Op::OpBitwiseAnd, DType::UInt32, value(i.b), last);
        const Id scope = code_.u32(std::uint32_t(spv::Scope::Subgroup));
        return m_.op(Op::OpGroupNonUniformShuffle, code_.type(i.type.dtype),
                     {scope, value(i.a), lane});
    }

    Id parameter(const Inst& i) {
        const lir::ParameterKind kind = f_.parameters[i.bits].kind;
        const bool is_high = i.op == lir::Op::ParameterHigh;
        if (kind == lir::ParameterKind::GridBegin || kind == lir::ParameterKind::GridEnd) {
            const bool is_begin = kind == lir::ParameterKind::GridBegin;
            const Id point = is_begin ? point_ : memory_.sum(point_, code_.u32(1));
            if (is_high) return memory_.high_of(point);
            return i.type.dtype == DType::Int32 ? memory_.low_of(point) : point;
        }
        const std::uint64_t at = i.bits * 8 + (is_high ? 4 : 0);
        return memory_.load(i.type.dtype, memory_.moved(words_, code_.u32(std::uint32_t(at))));
    }

    Id unary(const Inst& i) {
        const DType d = i.type.dtype;
        const Id a = value(i.a);
        switch (i.op) {
            case lir::Op::Not:
                return d == DType::Bool ? code_.negated(a) : code_.unary(Op::OpNot, d, a);
            case lir::Op::Neg:
                return code_.unary(is_floating(d) ? Op::OpFNegate : Op::OpSNegate, d, a);
            case lir::Op::Abs:
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

    /// A float that the driver does not know, where it would fold what it knows.
    Id hidden(DType d, Id value) {
        return controls_.folds_wrongly && is_floating(d) ? unknown(d, value) : value;
    }

    /// The value as one of which the driver knows neither what it is nor what it was made of.
    Id unknown(DType d, Id value) {
        const DType bits = size_of(d) == 8   ? DType::UInt64
                           : size_of(d) == 4 ? DType::UInt32
                                             : DType::UInt16;
        const Id zero = code_.cast(zero_, DType::UInt32, bits);
        const bool is_integer = !is_floating(d) || size_of(d) == 2;
        const Id as_bits = is_integer ? value : code_.bitcast(bits, value);
        const Id with_zero = code_.binary(Op::OpBitwiseOr, bits, as_bits, zero);
        return is_integer ? with_zero : code_.bitcast(d, with_zero);
    }

    Id binary(const Inst& i) {
        return binary(i.op, i.type.dtype, value(i.a), value(i.b), i.is_relaxed);
    }

    Id binary(lir::Op op, DType d, Id a, Id b, bool is_relaxed) {
        const bool is_float = is_floating(d), is_signed = is_signed_integer(d);
        const auto arithmetic = [&](Op real, Op whole) {
            if (!is_float) return code_.binary(whole, d, a, b);
            return is_relaxed ? code_.binary(real, d, a, b) : code_.exact(real, d, {a, b});
        };
        const auto logic = [&](Op truth, Op whole) {
            return d == DType::Bool ? code_.test(truth, a, b) : code_.binary(whole, d, a, b);
        };
        switch (op) {
            case lir::Op::Add:
                return arithmetic(Op::OpFAdd, Op::OpIAdd);
            case lir::Op::Sub:
                return arithmetic(Op::OpFSub, Op::OpISub);
            case lir::Op::Mul:
                return arithmetic(Op::OpFMul, Op::OpIMul);
            case lir::Op::Div:
                return arithmetic(Op::OpFDiv, is_signed ? Op::OpSDiv : Op::OpUDiv);
            case lir::Op::Rem:
                return code_.binary(Op::OpUMod, d, a, b);
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

    Id compare(lir::Op op, DType d, Id a, Id b) {
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

    /// A sum, a difference or a product of two float16 that is rounded to one, where the device
    /// takes it at once; else 0. To round to float32 before changes nothing (S. Figueroa, When is
    /// double rounding innocuous?, 1995: 24 >= 2 * 11 + 2).
    Id in_float16(const Inst& cast) {
        const bool is_rounded = cast.op == lir::Op::Cast && cast.type.dtype == DType::Float16 &&
                                dtype(cast.a) == DType::Float32;
        if (!controls_.has_float16 || !is_rounded) return 0;
        const Inst& made = f_[cast.a];
        const auto is_half = [&](ValueId id) {
            return f_[id].op == lir::Op::Cast && dtype(f_[id].a) == DType::Float16;
        };
        const Op op = made.op == lir::Op::Add   ? Op::OpFAdd
                      : made.op == lir::Op::Sub ? Op::OpFSub
                                                : Op::OpFMul;
        const bool is_one = op != Op::OpFMul || made.op == lir::Op::Mul;
        if (!is_one || !is_half(made.a) || !is_half(made.b)) return 0;
        const auto half = [&](ValueId id) { return code_.as_half(value(f_[id].a)); };
        return code_.half(op, {half(made.a), half(made.b)});
    }

    Id convert(const Inst& i) {
        const DType from = dtype(i.a), to = i.type.dtype;
        if (const Id half = in_float16(i)) return half;
        if (i.op == lir::Op::Cast) {
            const Id cast = code_.cast(value(i.a), from, to);
            const bool is_misread = size_of(to) == 8 && !is_floating(from) &&
                                    (is_floating(to) ? size_of(from) == 8 : from == DType::Int32);
            if (controls_.converts_wrongly && is_misread) return unknown(to, cast);
            const bool is_of_integer = is_floating(to) && !is_floating(from);
            const bool folds = controls_.folds_wrongly || controls_.folds_casts;
            return is_of_integer && folds ? unknown(to, cast) : cast;
        }
        const bool is_same = code_.type(from) == code_.type(to);
        return is_same ? code_.fit(to, value(i.a)) : code_.bitcast(to, value(i.a));
    }

    // Memory

    Id memory(const Inst& i) {
        if (i.op == lir::Op::Prefetch) return 0;
        if (i.op == lir::Op::Alloc) return alloc(i);
        const bool is_store = i.op == lir::Op::Store || i.op == lir::Op::Scatter;
        const Id condition = lir::exists(i.c) ? value(i.c) : 0;
        if (is_store) {
            const auto there = [&] { store(i); };
            condition ? when(condition, there) : there();
            return 0;
        }
        if (!condition) return load(i);
        Id loaded = 0, there = 0;
        const Id zero = code_.constant(i.type.dtype, 0), before = m_.block();
        when(condition, [&] {
            loaded = load(i);
            there = m_.block();
        });
        return m_.op(Op::OpPhi, code_.type(i.type.dtype), {loaded, there, zero, before});
    }

    bool is_array(const Inst& i) const { return f_.buffers[i.buffer].elements > 0; }

    MemoryCode::Place place(const Inst& i) {
        return memory_.element(buffers_[i.buffer], value(i.a), dtype(i.a), size_of(i.type.dtype));
    }

    /// Of an array of the group.
    Id element(const Inst& i) {
        const Id to = m_.pointer(spv::StorageClass::Workgroup, code_.type(i.type.dtype));
        return m_.op(Op::OpAccessChain, to, {arrays_[i.buffer], value(i.a)});
    }

    Id load(const Inst& i) {
        const DType d = i.type.dtype;
        if (!is_array(i)) return memory_.load(d, place(i), is_written_[i.buffer]);
        return memory_.load_shared(code_.type(d), element(i));
    }

    void store(const Inst& i) {
        if (!is_array(i)) return memory_.store(i.type.dtype, place(i), value(i.b));
        memory_.store_shared(element(i), value(i.b));
    }

    /// Loads or stores all elements of a packet.
    Id packets(const Inst& i, ValueId id) {
        if (i.op == lir::Op::Store) {
            memory_.store_packet(i.type.dtype, place(i), packets_.at(i.b));
            return 0;
        }
        packets_[id] =
            memory_.load_packet(i.type.dtype, place(i), i.type.packet, is_written_[i.buffer]);
        return 0;
    }

    std::vector<Id> elements(ValueId id) const {
        return f_[id].type.packet > 1 ? packets_.at(id) : std::vector{value(id)};
    }

    Id packet(const Inst& i, ValueId id) {
        if (i.op == lir::Op::Element) return elements(i.a)[i.bits];
        std::vector<Id>& joined = packets_[id] = elements(i.a);
        std::ranges::copy(elements(i.b), std::back_inserter(joined));
        return 0;
    }

    /// Arrays of lanes lie one behind the other; a loop begins each iteration where it found them.
    Id alloc(const Inst& i) {
        const DType d = f_.buffers[i.buffer].dtype;
        buffers_[i.buffer] = {used(), bindings_.arrays};
        const auto number = [&](Op op, Id a, std::uint64_t b) {
            return code_.binary(op, dtype(i.a), a, code_.constant(dtype(i.a), b));
        };
        Id bytes = number(Op::OpIMul, value(i.a), size_of(d));
        bytes = number(Op::OpIAdd, bytes, kAlignment - 1);
        bytes = number(Op::OpBitwiseAnd, bytes, ~(kAlignment - 1));
        m_.statement(Op::OpStore,
                     {used_, memory_.element(buffers_[i.buffer], bytes, dtype(i.a), 1).at});
        return 0;
    }

    Id matrix(const Inst& i) {
        switch (i.op) {
            case lir::Op::MatrixFill:
                return matrices_.fill(value(i.a));
            case lir::Op::MatrixLoad:
                return matrices_.load(i.type.part, element(i), std::uint32_t(i.bits), i.is_turned);
            case lir::Op::MatrixStore:
                matrices_.store(element(i), value(i.b), std::uint32_t(i.bits));
                return 0;
            default:
                return matrices_.multiply(value(i.a), value(i.b), value(i.c));
        }
    }

    /// Of a value in a register.
    Id type_of(lir::Type type) {
        const bool is_matrix = type.part != lir::Part::None;
        return is_matrix ? matrices_.type(type.part) : code_.type(type.dtype);
    }

    Id used() { return m_.op(Op::OpLoad, memory_.place_type(), {used_}); }

    Id reg(const Inst& i) {
        if (i.op == lir::Op::Get) return m_.op(Op::OpLoad, type_of(i.type), {value(i.a)});
        if (i.op == lir::Op::Set) {
            m_.statement(Op::OpStore, {value(i.a), value(i.b)});
            return 0;
        }
        const Id place = m_.variable(type_of(i.type));
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
            const auto failed = memory_.place(pushed(offsetof(Push, failed)), Bindings::kTable);
            memory_.mark(memory_.moved(failed, code_.u32(why)));
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
                memory_.meet(i);
                return 0;
        }
    }

    /// By a store that never happens, which the driver does not know; branches alone it joins.
    void cut_block() {
        straight_ = 0;
        when(code_.test(Op::OpINotEqual, zero_, code_.u32(0)), [&] {
            const auto place = memory_.place(pushed(offsetof(Push, failed)), Bindings::kTable);
            memory_.mark(place);
        });
    }

    Id loop(const Inst& i, ValueId id) {
        const Id type = code_.type(i.type.dtype);
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
        const Id step = code_.constant(i.type.dtype, i.bits);
        m_.statement(Op::OpStore,
                     {counter, code_.binary(Op::OpIAdd, i.type.dtype, variable, step)});
        m_.statement(Op::OpBranch, {head});
        m_.label(after);
        m_.statement(Op::OpStore, {used_, start});
        if (!controls_.cuts_loops) return variable;
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
    Integers integers_;
    Module m_;
    Code code_;
    MemoryCode memory_;
    MatrixCode matrices_;
    Bindings bindings_;
    std::vector<Id> values_;

    /// The elements of each packet.
    std::map<ValueId, std::vector<Id>> packets_;

    std::vector<MemoryCode::Place> buffers_;

    /// Those of the group, at the numbers of their buffers.
    std::vector<Id> arrays_;
    std::vector<bool> is_written_;
    Id push_ = 0;
    Id invocation_ = 0;
    Id group_ = 0;
    Id lane_ = 0;

    /// Of a group, or 0 if it does one.
    Id points_ = 0;

    Id point_ = 0;
    MemoryCode::Place words_;
    Id zero_ = 0;
    Id used_ = 0;

    /// Instructions since a block was cut.
    std::uint32_t straight_ = 0;
};

}  // namespace

bool is_alone(const lir::Function& function) {
    return std::ranges::any_of(function.insts, [](const Inst& i) { return lir::meets(i.op); }) ||
           std::ranges::any_of(function.buffers,
                               [](const lir::Buffer& buffer) { return buffer.elements > 0; });
}

std::uint32_t points_of_group(const lir::Function& function, std::uint32_t group) {
    return is_alone(function) ? 1 : std::max(group / function.lanes, 1u);
}

std::uint64_t points_at_once(std::uint64_t most_work, std::uint64_t each, std::uint64_t group) {
    return std::max<std::uint64_t>(most_work / std::max<std::uint64_t>(each, 1) / group, 1) * group;
}

Groups groups_of(const lir::Function& function, const Integers& integers, std::uint32_t group) {
    const std::uint32_t points = points_of_group(function, group);
    Groups groups{
        .invocations = points * function.lanes, .are_lanes = function.lanes > 1, .points = points};
    const bool relies = std::ranges::any_of(function.insts, [](const Inst& i) {
        return i.op == lir::Op::FromLane ||
               (i.op == lir::Op::Barrier && i.scope == lir::Scope::Subgroup);
    });
    const bool multiplies = std::ranges::any_of(
        function.insts, [](const Inst& i) { return i.op == lir::Op::MatrixMultiply; });
    if (relies || multiplies) groups.subgroup = function.subgroup;
    if (multiplies) groups.atom = function.atom;
    for (const lir::Buffer& b : function.buffers) {
        const std::size_t size = Code::is_widened(b.dtype, integers) ? 4 : size_of(b.dtype);
        groups.shared_bytes += b.elements * std::uint32_t(size);
    }
    groups.barriers =
        std::uint32_t(std::ranges::count(function.insts, lir::Op::Barrier, &Inst::op));
    return groups;
}

Bindings bindings_of(const lir::Function& function, const Windows& windows) {
    std::vector<bool> is_used(function.buffers.size(), false);
    Bindings bindings;
    bindings.windows = windows;
    for (const Inst& i : function.insts) {
        if (i.op == lir::Op::Alloc) bindings.has_arrays = true;
        if (lir::class_of(i.op) == OpClass::Memory && i.op != lir::Op::Prefetch) {
            is_used[i.buffer] = true;
        }
    }
    for (std::uint32_t b = 0; b < is_used.size(); ++b) {
        const bool is_global = function.buffers[b].space == lir::Space::Global;
        if (!is_used[b] || !is_global) continue;
        bindings.buffers.push_back(b);
        bindings.first.push_back(bindings.arrays);
        bindings.arrays += windows.of(b);
    }
    return bindings;
}

bool has_packets(const lir::Function& function) {
    return std::ranges::any_of(function.insts, [](const Inst& i) {
        return lir::class_of(i.op) == OpClass::Memory && i.type.packet > 1;
    });
}

bool is_fused(const lir::Function& function) {
    return std::ranges::find(function.insts, lir::Op::Fma, &Inst::op) != function.insts.end();
}

bool has_quotients(const lir::Function& function) {
    return std::ranges::any_of(function.insts, [](const Inst& i) {
        return is_floating(i.type.dtype) && (i.op == lir::Op::Div || i.op == lir::Op::Sqrt);
    });
}

bool has_halves(const lir::Function& function) {
    return std::ranges::any_of(function.insts, [&](const Inst& i) {
        if (i.op != lir::Op::Cast) return false;
        const DType from = function[i.a].type.dtype, to = i.type.dtype;
        return (from == DType::Float16 && to == DType::Float32) ||
               (from == DType::Float32 && to == DType::Float16);
    });
}

bool may_fail(const lir::Function& function) {
    return std::ranges::any_of(function.blocks, [&](const auto& block) {
        return std::ranges::any_of(block,
                                   [&](ValueId id) { return function[id].op == lir::Op::Assert; });
    });
}

std::vector<std::uint32_t> emit(const lir::Function& function, const FloatControls& controls,
                                const Integers& integers, BuffersAre buffers,
                                const Windows& windows) {
    return Emitter(function, controls, integers, buffers, windows).run();
}

}  // namespace quern::vulkan
