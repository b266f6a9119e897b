#include "quern/schedule/functions.h"

#include "quern/math/error_function.h"
#include "quern/math/exponential.h"
#include "quern/math/hyperbolic.h"
#include "quern/math/logarithm.h"
#include "quern/math/power.h"
#include "quern/math/trigonometric.h"
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

}  // namespace quern::schedule
