#include "quern/schedule/matrices.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

namespace {

/// The load that a factor is, in the dtype of the sum.
ExprId loaded(const ir::Kernel& kernel, ExprId id, const lir::Atom& atom) {
    const Expr& cast = kernel[id];
    if (cast.kind != ExprKind::Cast || cast.dtype != atom.sum) return ir::kNoExpr;
    const Expr& load = kernel[ExprId{cast.a}];
    const bool is_operand = load.kind == ExprKind::Load && load.a != kernel.output();
    return is_operand && load.dtype == atom.operand ? ExprId{cast.a} : ir::kNoExpr;
}

}  // namespace

std::optional<SumOfProducts> sum_of_products(const ir::Kernel& kernel, const Stmt& loop,
                                             const lir::Atom& atom) {
    if (loop.body.size() != 1 || loop.body[0].kind != StmtKind::Accumulate) return std::nullopt;
    const Stmt& s = loop.body[0];
    const Expr& value = kernel[s.value];
    const bool is_product = value.kind == ExprKind::Binary && value.dtype == atom.sum &&
                            static_cast<BinaryOp>(value.op) == BinaryOp::Mul;
    const bool is_sum = s.op == BinaryOp::Add && kernel.symbols[s.symbol].dtype == atom.sum;
    if (!is_product || !is_sum) return std::nullopt;
    const SumOfProducts found{s.symbol, loaded(kernel, ExprId{value.a}, atom),
                              loaded(kernel, ExprId{value.b}, atom)};
    if (!exists(found.x) || !exists(found.y)) return std::nullopt;
    return found;
}

std::optional<Share> share_of(const lir::Atom& atom, std::int64_t rows, std::int64_t columns,
                              std::int64_t subgroups) {
    if (rows % atom.rows != 0 || columns % atom.columns != 0) return std::nullopt;
    const std::int64_t down = rows / atom.rows, across = columns / atom.columns;
    std::optional<Share> best;
    for (std::int64_t parts = 1; parts <= subgroups && parts <= down; ++parts) {
        if (subgroups % parts != 0 || down % parts != 0) continue;
        if (across % (subgroups / parts) != 0) continue;
        const Share share{int(down / parts), int(across / (subgroups / parts))};
        if (!best || share.rows + share.columns < best->rows + best->columns) best = share;
    }
    return best;
}

}  // namespace quern::schedule
