#include "quern/interpret/functions.h"

#include "quern/math/functions.h"

namespace quern::interpret {
namespace {

using ir::UnaryOp;

#define UNARY(name, op, operand, value)     \
    template <class T>                      \
    T name##_of(T number) {                 \
        const math::Native<T> x = {number}; \
        return (value).number;              \
    }
#include "quern/lang/functions.def"

template <class T>
T (*function_of(UnaryOp op))
(T) {
    switch (op) {
#define UNARY(name, op, operand, value) \
    case UnaryOp::op:                   \
        return name##_of<T>;
#include "quern/lang/functions.def"
        default:
            return nullptr;
    }
}

}  // namespace

FloatFunction float_function(UnaryOp op) { return function_of<float>(op); }
DoubleFunction double_function(UnaryOp op) { return function_of<double>(op); }

float power(float x, float y) { return pow(math::Native<float>{x}, math::Native<float>{y}).number; }
double power(double x, double y) {
    return pow(math::Native<double>{x}, math::Native<double>{y}).number;
}

}  // namespace quern::interpret
