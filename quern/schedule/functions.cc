#include "quern/schedule/functions.h"

#include <algorithm>

#include "quern/math/functions.h"
#include "quern/schedule/handle.h"
#include "quern/support/check.h"

namespace quern::schedule {
namespace {

using ir::UnaryOp;
using math::Handle;

#define UNARY(name, op, operand, value) \
    template <class V>                  \
    V name##_of(V x) {                  \
        return value;                   \
    }
#include "quern/lang/functions.def"

template <class V>
lir::ValueId apply(UnaryOp op, V x) {
    switch (op) {
#define UNARY(name, op, operand, value) \
    case UnaryOp::op:                   \
        return name##_of(x).id;
#include "quern/lang/functions.def"
        default:
            QUERN_CHECK(false, "a function");
    }
    return lir::kNone;
}

}  // namespace

lir::ValueId function(const FunctionPlace& place, UnaryOp op, lir::ValueId x) {
    return place.builder.type(x).dtype == DType::Float32 ? apply(op, Handle<float>{&place, x})
                                                         : apply(op, Handle<double>{&place, x});
}

lir::ValueId power(const FunctionPlace& place, lir::ValueId x, lir::ValueId y) {
    if (place.builder.type(x).dtype == DType::Float32) {
        return pow(Handle<float>{&place, x}, Handle<float>{&place, y}).id;
    }
    return pow(Handle<double>{&place, x}, Handle<double>{&place, y}).id;
}

CodeSize code_size(const ir::Expr& e) {
    lir::Builder builder("size");
    const FunctionPlace place{.builder = builder, .fuses = true, .scales = true};
    const DType dtype = e.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
    const lir::ValueId x = builder.parameter({lir::ParameterKind::Scalar}, dtype);
    if (e.kind == ir::ExprKind::Binary) {
        power(place, x, x);
    } else {
        function(place, static_cast<UnaryOp>(e.op), x);
    }
    const lir::Function written = builder.take();
    const auto is_counted = [](const lir::Inst& inst) { return inst.op != lir::Op::Constant; };
    const auto instructions = std::ranges::count_if(written.insts, is_counted);
    return {int(instructions), written.blocks.size() > 1};
}

lir::ValueId integer_power(lir::Builder& b, lir::ValueId x, lir::ValueId n) {
    const DType dtype = b.type(x).dtype;
    const std::uint16_t lanes = std::max(b.type(x).lanes, b.type(n).lanes);
    const lir::ValueId zero = b.constant(dtype, 0), one = b.constant(dtype, 1);
    const lir::ValueId result = b.reg(b.splat(one, lanes));
    const lir::ValueId square = b.reg(b.splat(x, lanes));
    const lir::ValueId rest = b.reg(b.splat(n, lanes));
    const std::int64_t bits = 8 * std::int64_t(size_of(dtype));
    b.begin_for(b.integer(0), b.integer(bits), 1);
    {
        const lir::ValueId power = b.get(square), left = b.get(rest), so_far = b.get(result);
        const lir::ValueId takes =
            b.compare(lir::Op::NotEqual, b.binary(lir::Op::And, left, one), zero);
        b.set(result, b.select(takes, b.mul(so_far, power), so_far));
        b.set(square, b.mul(power, power));
        b.set(rest, b.binary(lir::Op::ShiftRight, left, one));
    }
    b.end_for();
    return b.get(result);
}

}  // namespace quern::schedule
