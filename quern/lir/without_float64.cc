#include "quern/lir/without_float64.h"

#include <algorithm>

#include "quern/lir/builder.h"
#include "quern/lir/soft_float64.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

bool is_double(DType dtype) { return dtype == DType::Float64; }
bool is_wide(DType dtype) { return dtype == DType::Int64 || dtype == DType::UInt64; }
DType stored(DType dtype) { return is_double(dtype) ? DType::UInt64 : dtype; }

class Pass {
public:
    explicit Pass(const Function& from)
        : from_(from), b_(from.name), soft_(b_), values_(from.insts.size(), kNone) {}

    Function run() {
        for (const Buffer& buffer : from_.buffers) {
            b_.buffer(buffer.name, stored(buffer.dtype), buffer.space, buffer.is_written);
        }
        b_.set_atom(from_.atom);
        for (const Parameter& p : from_.parameters) b_.parameter(p);
        block(0);
        return b_.take();
    }

private:
    ValueId value(ValueId id) const { return exists(id) ? values_[std::uint32_t(id)] : kNone; }
    DType dtype(ValueId id) const { return from_[id].type.dtype; }

    void block(BlockId number) {
        for (const ValueId id : from_.blocks[number]) {
            const ValueId made = visit(from_[id], id);
            // A loop's variable is there before its body.
            if (from_[id].op != Op::For) values_[std::uint32_t(id)] = made;
        }
    }

    ValueId visit(const Inst& i, ValueId id) {
        b_.set_relaxed(i.is_relaxed && !is_double(i.type.dtype));
        const ValueId a = value(i.a), b = value(i.b);
        const bool takes_double = exists(i.a) && is_double(dtype(i.a));
        switch (class_of(i.op)) {
            case OpClass::Unary:
                return takes_double ? soft_.unary(i.op, a) : copy(i);
            case OpClass::Binary:
                return takes_double ? soft_.binary(i.op, a, b) : copy(i);
            case OpClass::Compare:
                return takes_double ? soft_.compare(i.op, a, b) : copy(i);
            case OpClass::Ternary:
                QUERN_CHECK(!takes_double, "products and sums that are rounded each");
                return copy(i);
            case OpClass::Convert:
                return convert(i);
            case OpClass::Lanes:
                return i.op == Op::Fold && takes_double ? fold(i, a) : copy(i);
            case OpClass::Control:
                return control(i, id);
            default:
                return copy(i);
        }
    }

    ValueId copy(const Inst& from) {
        Inst i = from;
        i.type.dtype = stored(i.type.dtype);
        i.a = value(i.a);
        i.b = value(i.b);
        i.c = value(i.c);
        if (i.op == Op::Shuffle) return b_.shuffle(i.a, i.b, from_.patterns[i.bits]);
        if (i.op == Op::Parameter) return b_.parameter(from_.parameters[i.bits], i.type.dtype);
        return b_.copy(i);
    }

    ValueId convert(const Inst& i) {
        const DType from = dtype(i.a), to = i.type.dtype;
        const ValueId a = value(i.a);
        if (i.op == Op::Bitcast) {
            return stored(from) == stored(to) ? a : b_.bitcast(a, stored(to));
        }
        if (is_double(from)) return soft_.to(a, to);
        if (is_double(to)) return soft_.from(a);
        // Which else go by way of float64.
        const bool is_half = to == DType::Float16 || to == DType::BFloat16;
        return is_wide(from) && is_half ? soft_.narrowed(a, to) : copy(i);
    }

    /// What a lane has, with that of the lane that is half, a quarter, ... of all or of a row away.
    ValueId fold(const Inst& i, ValueId all) {
        const std::uint16_t lanes = b_.type(all).lanes;
        std::vector<std::uint16_t> pattern(lanes);
        const auto row = i.bits == 0 ? lanes : std::uint16_t(i.bits);
        for (int half = row / 2; half > 0; half /= 2) {
            for (std::size_t n = 0; n < pattern.size(); ++n) pattern[n] = std::uint16_t(n ^ half);
            all = soft_.binary(i.fold, all, b_.shuffle(all, all, pattern));
        }
        if (i.bits == 0) return b_.extract(all, 0);
        if (i.fold != Op::Min && i.fold != Op::Max) return all;
        // Of zeros that differ in sign the second is taken, which is another lane's for each: all
        // take what the first lane of their row has.
        for (std::size_t n = 0; n < pattern.size(); ++n) pattern[n] = std::uint16_t(n / row * row);
        return b_.shuffle(all, all, pattern);
    }

    ValueId control(const Inst& i, ValueId id) {
        if (i.op == Op::If) {
            b_.begin_if(value(i.a));
            block(i.body);
            if (i.otherwise != kNoBlock) {
                b_.begin_else();
                block(i.otherwise);
            }
            b_.end_if();
            return kNone;
        }
        if (i.op != Op::For) return copy(i);
        values_[std::uint32_t(id)] = b_.begin_for(value(i.a), value(i.b), i.bits, i.is_apart);
        block(i.body);
        b_.end_for();
        return kNone;
    }

    const Function& from_;
    Builder b_;
    SoftFloat64 soft_;
    std::vector<ValueId> values_;
};

}  // namespace

std::optional<Function> without_float64(const Function& function) {
    const bool has_any = std::ranges::any_of(function.insts, [&](const Inst& i) {
        const bool is_half = i.type.dtype == DType::Float16 || i.type.dtype == DType::BFloat16;
        return is_double(i.type.dtype) ||
               (i.op == Op::Cast && is_half && is_wide(function[i.a].type.dtype));
    });
    if (!has_any) return std::nullopt;
    return Pass(function).run();
}

}  // namespace quern::lir
