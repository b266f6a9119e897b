#include <algorithm>
#include <bit>

#include "quern/interpret/compiler.h"
#include "quern/ir/index.h"
#include "quern/support/check.h"

namespace quern::interpret {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprId;
using ir::ExprKind;
using ir::UnaryOp;

namespace {

std::uint32_t raw(ExprId id) { return static_cast<std::uint32_t>(id); }

/// What registers hold for a dtype: selects the variant of an instruction.
enum class Family { I, U, F, D };

Family family_of(DType dtype) {
    if (dtype == DType::UInt64) return Family::U;
    if (dtype == DType::Float64) return Family::D;
    return is_floating(dtype) ? Family::F : Family::I;
}

Op variant(Family family, Op i, Op u, Op f, Op d) {
    switch (family) {
        case Family::I:
            return i;
        case Family::U:
            return u;
        case Family::F:
            return f;
        default:
            return d;
    }
}

Op instruction_of(BinaryOp op, DType dtype) {
    const Family family = family_of(dtype);
    const auto pick = [&](Op i, Op u, Op f, Op d) { return variant(family, i, u, f, d); };
    switch (op) {
        case BinaryOp::Add:
            return pick(Op::AddI, Op::AddI, Op::AddF, Op::AddD);
        case BinaryOp::Sub:
            return pick(Op::SubI, Op::SubI, Op::SubF, Op::SubD);
        case BinaryOp::Mul:
            return pick(Op::MulI, Op::MulI, Op::MulF, Op::MulD);
        case BinaryOp::Div:
            return pick(Op::DivI, Op::DivU, Op::DivF, Op::DivD);
        case BinaryOp::Rem:
            return pick(Op::RemI, Op::RemU, Op::RemF, Op::RemD);
        case BinaryOp::FloorDiv:
            QUERN_CHECK(!is_floating(dtype), "floordiv of integers");
            return pick(Op::FloorDivI, Op::DivU, Op::Halt, Op::Halt);
        case BinaryOp::Less:
            return pick(Op::LessI, Op::LessU, Op::LessF, Op::LessD);
        case BinaryOp::LessEqual:
            return pick(Op::LessEqualI, Op::LessEqualU, Op::LessEqualF, Op::LessEqualD);
        case BinaryOp::Equal:
            return pick(Op::EqualI, Op::EqualI, Op::EqualF, Op::EqualD);
        case BinaryOp::NotEqual:
            return pick(Op::NotEqualI, Op::NotEqualI, Op::NotEqualF, Op::NotEqualD);
        case BinaryOp::And:
            return Op::AndI;
        case BinaryOp::Or:
            return Op::OrI;
        case BinaryOp::Max:
            return pick(Op::MaxI, Op::MaxU, Op::MaxF, Op::MaxD);
        case BinaryOp::Min:
            return pick(Op::MinI, Op::MinU, Op::MinF, Op::MinD);
        case BinaryOp::Pow:
            if (dtype == DType::Float16) return Op::PowH;
            if (dtype == DType::BFloat16) return Op::PowB;
            return pick(Op::PowI, Op::PowU, Op::PowF, Op::PowD);
    }
    return Op::Halt;
}

bool divides(Op op) {
    return op == Op::DivI || op == Op::DivU || op == Op::RemI || op == Op::RemU ||
           op == Op::FloorDivI || op == Op::PowI;
}

/// Whether a result of the operation may need bringing back into its dtype.
bool leaves_dtype(BinaryOp op) {
    switch (op) {
        case BinaryOp::Add:
        case BinaryOp::Sub:
        case BinaryOp::Mul:
        case BinaryOp::Div:
        case BinaryOp::Rem:
        case BinaryOp::FloorDiv:
        case BinaryOp::Pow:
            return true;
        default:
            return false;
    }
}

Op load_of(DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return Op::LoadBool;
        case DType::Int8:
            return Op::LoadI8;
        case DType::Int16:
            return Op::LoadI16;
        case DType::Int32:
            return Op::LoadI32;
        case DType::Int64:
        case DType::UInt64:
            return Op::LoadI64;
        case DType::UInt8:
            return Op::LoadU8;
        case DType::UInt16:
            return Op::LoadU16;
        case DType::UInt32:
            return Op::LoadU32;
        case DType::Float16:
            return Op::LoadH;
        case DType::BFloat16:
            return Op::LoadB;
        case DType::Float32:
            return Op::LoadF;
        case DType::Float64:
            return Op::LoadD;
        case DType::Float8E4M3:
            return Op::LoadE4;
        case DType::Float8E5M2:
            return Op::LoadE5;
    }
    return Op::Halt;
}

}  // namespace

std::uint32_t Compiler::registers(std::uint32_t count) {
    const auto first = std::uint32_t(code_.registers.size());
    code_.registers.resize(first + count, Reg{});
    return first;
}

Instruction& Compiler::emit_at(std::uint32_t level, Op op, std::uint32_t dst, std::uint32_t a,
                               std::uint32_t b) {
    Instructions& place = level == depth() ? frames_.back().body : frames_[level].before;
    place.emplace_back();
    Instruction& made = place.back();
    made.op = op;
    made.dst = dst;
    made.a = a;
    made.b = b;
    return made;
}

Instruction& Compiler::emit(Op op, std::uint32_t dst, std::uint32_t a, std::uint32_t b) {
    return emit_at(depth(), op, dst, a, b);
}

Compiler::Value Compiler::result(std::uint32_t level, Op op, Value a, Value b) {
    const Value value{registers(), level};
    emit_at(level, op, value.reg, a.reg, b.reg);
    return value;
}

std::size_t Compiler::jump(Op op, std::uint32_t condition) {
    emit(op, 0, condition);
    return code().size() - 1;
}

void Compiler::land(std::size_t jump) { code()[jump].to = {std::int32_t(code().size() - jump), 0}; }

std::uint32_t Compiler::site(Site site) {
    code_.sites.push_back(site);
    return std::uint32_t(code_.sites.size() - 1);
}

void Compiler::remember(ExprId id, Value value) {
    if (value.level < depth()) {
        frames_[value.level].remembered.push_back(id);
    } else if (ranges_.is_fixed(id)) {
        scopes_.back().push_back(id);
    } else {
        return;
    }
    known_[raw(id)] = {true, value};
}

void Compiler::forget(const std::vector<ExprId>& ids) {
    for (const ExprId id : ids) known_[raw(id)].known = false;
}

void Compiler::close_scope() {
    forget(scopes_.back());
    scopes_.pop_back();
}

void Compiler::assign(std::uint32_t reg, Value value) {
    if (value.reg != reg) emit(Op::Move, reg, value.reg);
}

Compiler::Value Compiler::constant(Reg bits) {
    if (bits.u == 0) return {kZero, 0};
    for (const auto& [known, reg] : constants_) {
        if (known == bits.u) return {reg, 0};
    }
    const std::uint32_t reg = registers();
    code_.registers[reg] = bits;
    constants_.emplace_back(bits.u, reg);
    return {reg, 0};
}

Compiler::Value Compiler::integer(std::int64_t value) {
    Reg bits;
    bits.i = value;
    return constant(bits);
}

Compiler::Value Compiler::symbol(ir::SymbolId id) {
    Value value = symbols_[id];
    if (kernel_.symbols[id].kind != ir::SymbolKind::Var) return value;
    for (std::uint32_t f = 1; f < frames_.size(); ++f) {
        if (frames_[f].assigned[id]) value.level = std::max(value.level, f + 1);
    }
    return value;
}

Compiler::Value Compiler::expr(ExprId id) {
    // Chains like a + b + c + ... are walked, not recursed into.
    std::vector<ExprId> chain;
    Value value;
    for (;;) {
        const Expr& e = kernel_[id];
        if (known_[raw(id)].known) {
            value = known_[raw(id)].value;
            break;
        }
        const bool is_number = !is_floating(e.dtype) && e.dtype != DType::UInt64 &&
                               ranges_.is_safe(id) && ranges_.of(id).is_one();
        if (is_number || e.kind != ExprKind::Binary || is_lazy(id)) {
            value = is_number ? integer(ranges_.of(id).low) : compute(id);
            break;
        }
        chain.push_back(id);
        id = ExprId{e.a};
    }
    for (; !chain.empty(); chain.pop_back()) {
        value = binary(chain.back(), value);
        remember(chain.back(), value);
    }
    return value;
}

Compiler::Value Compiler::compute(ExprId id) {
    const Expr& e = kernel_[id];
    Value value;
    switch (e.kind) {
        case ExprKind::Const: {
            Reg bits;
            bits.u = 0;
            if (!is_floating(e.dtype)) {
                bits.i = kernel_.integer_value(id);
            } else if (e.dtype == DType::Float64) {
                bits.d = kernel_.floating_value(id);
            } else {
                bits.d = kernel_.floating_value(id);
                return cast(constant(bits), DType::Float64, e.dtype);
            }
            return constant(bits);
        }
        case ExprKind::Dim:
            return integer(launch_.dims[e.a]);
        case ExprKind::Extent:
            return integer(launch_.operands[e.a].shape[e.b]);
        case ExprKind::Scalar: {
            const ScalarValue& scalar = launch_.scalars[e.a];
            Reg bits;
            if (!is_floating(e.dtype)) {
                bits.i = scalar.integer;
                value = cast(constant(bits), DType::Int64, e.dtype);
            } else {
                bits.d = scalar.floating;
                value = cast(constant(bits), DType::Float64, e.dtype);
            }
            break;
        }
        case ExprKind::Symbol:
            return symbol(e.a);
        case ExprKind::Load:
            value = load(id);
            break;
        case ExprKind::Unary:
            value = unary(e);
            break;
        case ExprKind::Binary:
        case ExprKind::Select:
            value = lazy(id);
            break;
        case ExprKind::Cast:
            value = cast(expr(ExprId{e.a}), kernel_[ExprId{e.a}].dtype, e.dtype);
            break;
    }
    remember(id, value);
    return value;
}

/// Brings the register that an operation has just made back into its dtype.
Compiler::Value Compiler::wrapped(Value x, DType dtype) {
    Op op = Op::Move;
    switch (dtype) {
        case DType::Int8:
            op = Op::WrapI8;
            break;
        case DType::Int16:
            op = Op::WrapI16;
            break;
        case DType::Int32:
            op = Op::WrapI32;
            break;
        case DType::UInt8:
            op = Op::WrapU8;
            break;
        case DType::UInt16:
            op = Op::WrapU16;
            break;
        case DType::UInt32:
            op = Op::WrapU32;
            break;
        case DType::Bool:
            op = Op::ToBoolI;
            break;
        case DType::Float16:
            op = Op::RoundH;
            break;
        case DType::BFloat16:
            op = Op::RoundB;
            break;
        default:
            return x;
    }
    emit_at(x.level, op, x.reg, x.reg);
    return x;
}

Compiler::Value Compiler::binary(ExprId id, Value x) {
    const Expr& e = kernel_[id];
    const Value y = expr(ExprId{e.b});
    const DType dtype = kernel_[ExprId{e.b}].dtype;
    const Op op = instruction_of(BinaryOp(e.op), dtype);
    const std::uint32_t level = ranges_.is_safe(id) ? std::max(x.level, y.level) : depth();
    const Value value{registers(), level};
    Instruction& made = emit_at(level, op, value.reg, x.reg, y.reg);
    if (divides(op)) made.immediate = site({ir::Code::E0621, e.span, ir::kNone, 0});
    return leaves_dtype(BinaryOp(e.op)) ? wrapped(value, dtype) : value;
}

Compiler::Value Compiler::unary(const Expr& e) {
    const Value x = expr(ExprId{e.a});
    const DType dtype = kernel_[ExprId{e.a}].dtype;
    const Family family = family_of(dtype);
    const auto op = static_cast<UnaryOp>(e.op);
    if (op == UnaryOp::Not) return result(x.level, Op::NotI, x);
    if (op == UnaryOp::IsNan) {
        if (!is_floating(dtype)) return {kZero, 0};
        return result(x.level, family == Family::D ? Op::IsNanD : Op::IsNanF, x);
    }
    if (op == UnaryOp::Neg) {
        const Op negate = variant(family, Op::NegI, Op::NegI, Op::NegF, Op::NegD);
        const Value value = result(x.level, negate, x);
        return is_floating(dtype) ? value : wrapped(value, dtype);
    }
    if (!is_floating(dtype)) {
        QUERN_CHECK(op == UnaryOp::Abs, "a function of a floating dtype");
        if (!is_signed_integer(dtype)) return x;
        return wrapped(result(x.level, Op::AbsI, x), dtype);
    }
    const Value value{registers(), x.level};
    const Op call = dtype == DType::Float16    ? Op::FunctionH
                    : dtype == DType::BFloat16 ? Op::FunctionB
                    : dtype == DType::Float64  ? Op::FunctionD
                                               : Op::FunctionF;
    Instruction& instruction = emit_at(x.level, call, value.reg, x.reg);
    if (call == Op::FunctionD) {
        instruction.double_function = double_function(op);
    } else {
        instruction.float_function = float_function(op);
    }
    return value;
}

Compiler::Value Compiler::cast(Value x, DType from, DType to) {
    const Family source = family_of(from);
    if (from == to) return x;
    const auto convert = [&](Op i, Op u, Op f, Op d) {
        return result(x.level, variant(source, i, u, f, d), x);
    };
    switch (to) {
        case DType::Float64:
            return convert(Op::IToD, Op::UToD, Op::FToD, Op::Move);
        case DType::Float32:
            if (source == Family::F) return x;
            return convert(Op::IToF, Op::UToF, Op::Move, Op::DToF);
        case DType::Float16:
            return convert(Op::IToH, Op::UToH, Op::RoundH, Op::DToH);
        case DType::BFloat16:
            return convert(Op::IToB, Op::UToB, Op::RoundB, Op::DToB);
        case DType::Float8E4M3:
        case DType::Float8E5M2: {
            const bool is_e4 = to == DType::Float8E4M3;
            if (source == Family::F) return result(x.level, is_e4 ? Op::RoundE4 : Op::RoundE5, x);
            // Integers that a double rounds are beyond either format.
            return result(x.level, is_e4 ? Op::DToE4 : Op::DToE5, cast(x, from, DType::Float64));
        }
        case DType::Bool:
            return convert(Op::ToBoolI, Op::ToBoolI, Op::ToBoolF, Op::ToBoolD);
        default:
            break;
    }
    if (!is_floating(from)) return wrapped(result(x.level, Op::Move, x), to);
    const Value exact = source == Family::D ? x : result(x.level, Op::FToD, x);
    switch (to) {
        case DType::Int8:
            return result(x.level, Op::DToI8, exact);
        case DType::Int16:
            return result(x.level, Op::DToI16, exact);
        case DType::Int32:
            return result(x.level, Op::DToI32, exact);
        case DType::Int64:
            return result(x.level, Op::DToI64, exact);
        case DType::UInt8:
            return result(x.level, Op::DToU8, exact);
        case DType::UInt16:
            return result(x.level, Op::DToU16, exact);
        case DType::UInt32:
            return result(x.level, Op::DToU32, exact);
        case DType::UInt64:
            return result(x.level, Op::DToU64, exact);
        default:
            break;
    }
    QUERN_CHECK(false, "a cast to a dtype that kernels compute in");
    return x;
}

/// Whether the side that is not chosen must be, or had better be, jumped over.
bool Compiler::is_lazy(ExprId id) {
    const Expr& e = kernel_[id];
    const bool is_select = e.kind == ExprKind::Select;
    const bool is_logical = e.kind == ExprKind::Binary &&
                            (BinaryOp(e.op) == BinaryOp::And || BinaryOp(e.op) == BinaryOp::Or);
    if (!is_select && !is_logical) return false;
    std::vector<ExprId> waiting{ExprId{e.b}};
    if (is_select) waiting.push_back(ExprId{e.c});
    // Functions cost more than a jump.
    for (int nodes = 0; !waiting.empty(); ++nodes) {
        const ExprId next = waiting.back();
        waiting.pop_back();
        const Expr& x = kernel_[next];
        const bool is_call = (x.kind == ExprKind::Unary && double_function(UnaryOp(x.op))) ||
                             (x.kind == ExprKind::Binary && BinaryOp(x.op) == BinaryOp::Pow);
        if (nodes == 12 || is_call || !ranges_.is_safe(next)) return true;
        if (known_[raw(next)].known) continue;
        ir::for_each_child(kernel_, next, [&](ExprId child) { waiting.push_back(child); });
    }
    return false;
}

Compiler::Value Compiler::lazy(ExprId id) {
    const Expr& e = kernel_[id];
    // Asked before the first operand makes parts of the others known.
    const bool jumps = is_lazy(id);
    const Value condition = expr(ExprId{e.a});
    if (!jumps) {
        const Value x = expr(ExprId{e.b}), y = expr(ExprId{e.c});
        const Value value{registers(), std::max({condition.level, x.level, y.level})};
        emit_at(value.level, Op::Select, value.reg, condition.reg, x.reg).to = {0, y.reg};
        return value;
    }
    const Value value{registers(), depth()};
    if (e.kind == ExprKind::Binary) {
        emit(Op::Move, value.reg, condition.reg);
        const bool is_and = BinaryOp(e.op) == BinaryOp::And;
        const std::size_t over = jump(is_and ? Op::JumpIfNot : Op::JumpIf, value.reg);
        open_scope();
        assign(value.reg, expr(ExprId{e.b}));
        close_scope();
        land(over);
        return value;
    }
    const std::size_t otherwise = jump(Op::JumpIfNot, condition.reg);
    open_scope();
    assign(value.reg, expr(ExprId{e.b}));
    close_scope();
    const std::size_t out = jump(Op::Jump);
    land(otherwise);
    open_scope();
    assign(value.reg, expr(ExprId{e.c}));
    close_scope();
    land(out);
    return value;
}

Compiler::Value Compiler::load(ExprId id) {
    const Expr& e = kernel_[id];
    std::vector<ExprId> indices;
    for (int axis = 0; axis < e.count; ++axis) indices.push_back(kernel_.index_of(e, axis));
    const Place from = place(e.a, indices, e.span);
    if (from.element != ir::kNone) {
        const std::uint32_t array = array_of_[e.a];
        if (is_claimed(e.a)) {
            emit(Op::Observe, site({ir::Code::E0510, e.span, e.a, 0}), array, from.element);
        }
        const ir::Code unwritten =
            kernel_.buffers[e.a].kind == ir::BufferKind::Output ? ir::Code::E0421 : ir::Code::E0514;
        emit(Op::CheckWritten, site({unwritten, e.span, e.a, 0}), array, from.element);
    }
    const Value value{registers(), from.level};
    const Op op = load_of(kernel_.buffers[e.a].dtype);
    emit_at(from.level, op, value.reg, from.base, from.index).immediate = from.scale;
    return value;
}

}  // namespace quern::interpret
