#include "quern/lir/without_float64.h"

#include <algorithm>

#include "quern/lir/rewrite.h"
#include "quern/lir/soft_float64.h"
#include "quern/lir/without_int64.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

bool is_double(DType dtype) { return dtype == DType::Float64; }
DType stored(DType dtype) { return is_double(dtype) ? DType::UInt64 : dtype; }

class Float64Pass : public Rewrite {
public:
    explicit Float64Pass(const Function& from) : Rewrite(from, outline(from), stored), soft_(b_) {}

private:
    static Function outline(const Function& from) {
        Function to = outline_of(from);
        for (Buffer& buffer : to.buffers) buffer.dtype = stored(buffer.dtype);
        return to;
    }

    DType dtype(ValueId id) const { return from_[id].type.dtype; }

    ValueId written(const Inst& i, const Inst& copied) override {
        const bool takes_double = exists(i.a) && is_double(dtype(i.a));
        switch (class_of(i.op)) {
            case OpClass::Unary:
                if (takes_double) return soft_.unary(i.op, copied.a);
                break;
            case OpClass::Binary:
                if (takes_double) return soft_.binary(i.op, copied.a, copied.b);
                break;
            case OpClass::Compare:
                if (takes_double) return soft_.compare(i.op, copied.a, copied.b);
                break;
            case OpClass::Ternary:
                QUERN_CHECK(!takes_double, "products and sums that are rounded each");
                break;
            case OpClass::Convert:
                return convert(i, copied);
            case OpClass::Lanes:
                if (i.op == Op::Fold && takes_double) return fold(i, copied.a);
                break;
            default:
                break;
        }
        return b_.copy(copied);
    }

    ValueId convert(const Inst& i, const Inst& copied) {
        const DType from = dtype(i.a), to = i.type.dtype;
        const ValueId a = copied.a;
        if (i.op == Op::Bitcast) {
            return stored(from) == stored(to) ? a : b_.bitcast(a, stored(to));
        }
        if (is_double(from)) return soft_.to(a, to);
        if (is_double(to)) return soft_.from(a);
        // Which else go by way of float64.
        const bool is_half = to == DType::Float16 || to == DType::BFloat16;
        return is_wide(from) && is_half ? soft_.narrowed(a, to) : b_.copy(copied);
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

    SoftFloat64 soft_;
};

}  // namespace

std::optional<Function> without_float64(const Function& function) {
    const bool has_any = std::ranges::any_of(function.insts, [&](const Inst& i) {
        const bool is_half = i.type.dtype == DType::Float16 || i.type.dtype == DType::BFloat16;
        return is_double(i.type.dtype) ||
               (i.op == Op::Cast && is_half && is_wide(function[i.a].type.dtype));
    });
    if (!has_any) return std::nullopt;
    return Float64Pass(function).run();
}

}  // namespace quern::lir
