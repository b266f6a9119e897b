#include "quern/ir/doubles.h"

namespace quern::ir {

bool is_rounded_scalar(const Kernel& kernel, const Expr& e) {
    if (e.kind != ExprKind::Cast || !is_rounded_to(e.dtype)) return false;
    const Expr& from = kernel[ExprId{e.a}];
    return from.kind == ExprKind::Scalar && from.dtype == DType::Float64;
}

}  // namespace quern::ir
