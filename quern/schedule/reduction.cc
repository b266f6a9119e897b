#include "quern/schedule/reduction.h"

#include <limits>
#include <optional>

#include "quern/support/check.h"

namespace quern::schedule {
namespace {

using ir::BinaryOp;

std::optional<BinaryOp> find(const std::vector<ir::Stmt>& block, ir::SymbolId symbol) {
    for (const ir::Stmt& s : block) {
        if (s.kind == ir::StmtKind::Accumulate && s.symbol == symbol) return s.op;
        for (const auto* inner : {&s.body, &s.otherwise}) {
            if (const auto op = find(*inner, symbol)) return op;
        }
    }
    return std::nullopt;
}

/// The least or the largest value of an integer dtype, as 64 bits.
std::int64_t extreme(DType dtype, bool is_least) {
    const int bits = int(size_of(dtype)) * 8;
    if (is_unsigned_integer(dtype)) {
        return is_least ? 0 : std::int64_t(~std::uint64_t(0) >> (64 - bits));
    }
    const std::int64_t least = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
    return is_least ? least : ~least;
}

}  // namespace

BinaryOp operator_of(const std::vector<ir::Stmt>& block, ir::SymbolId symbol) {
    // A loop that never contributes leaves the var as it is, whatever the operator.
    return find(block, symbol).value_or(BinaryOp::Add);
}

ir::ExprId identity(ir::Kernel& kernel, BinaryOp op, DType dtype) {
    const double infinity = std::numeric_limits<double>::infinity();
    switch (op) {
        case BinaryOp::Mul:
            return is_floating(dtype) ? kernel.floating(1, dtype)
                                      : kernel.cast(kernel.integer(1), dtype);
        case BinaryOp::Min:
        case BinaryOp::Max: {
            const bool is_max = op == BinaryOp::Max;
            if (is_floating(dtype)) return kernel.floating(is_max ? -infinity : infinity, dtype);
            if (dtype == DType::Bool) return kernel.boolean(!is_max);
            const ir::ExprId value = kernel.integer(extreme(dtype, is_max));
            return dtype == DType::Int64 ? value : kernel.cast(value, dtype);
        }
        case BinaryOp::And:
            return kernel.boolean(true);
        case BinaryOp::Or:
            return kernel.boolean(false);
        default:
            QUERN_CHECK(op == BinaryOp::Add, "an operator that reduces");
            if (is_floating(dtype)) return kernel.floating(0, dtype);
            return dtype == DType::Int64 ? kernel.integer(0)
                                         : kernel.cast(kernel.integer(0), dtype);
    }
}

}  // namespace quern::schedule
