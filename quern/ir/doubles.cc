#include "quern/ir/doubles.h"

#include "quern/ir/index.h"

namespace quern::ir {

bool is_rounded_scalar(const Kernel& kernel, const Expr& e) {
    if (e.kind != ExprKind::Cast || !is_rounded_to(e.dtype)) return false;
    const Expr& from = kernel[ExprId{e.a}];
    return from.kind == ExprKind::Scalar && from.dtype == DType::Float64;
}

bool needs_float64(const Kernel& kernel) {
    for (std::uint32_t n = 0; n < kernel.exprs.size(); ++n) {
        const Expr& e = kernel.exprs[n];
        if (e.kind == ExprKind::Scalar || is_rounded_scalar(kernel, e)) continue;
        bool needs = e.dtype == DType::Float64;
        for_each_child(kernel, ExprId{n},
                       [&](ExprId child) { needs |= kernel[child].dtype == DType::Float64; });
        if (needs) return true;
    }
    return false;
}

}  // namespace quern::ir
