#pragma once

#include <cstdint>
#include <optional>

#include "quern/ir/cir.h"
#include "quern/lir/lir.h"

// Sums of products that subgroups of a work-group take as products of matrices.

namespace quern::schedule {

/// A loop that does nothing but add x * y to a var, where x and y are elements of operands or
/// of arrays.
struct SumOfProducts {
    ir::SymbolId sum = ir::kNone;

    /// The loads.
    ir::ExprId x = ir::kNoExpr;
    ir::ExprId y = ir::kNoExpr;
};

/// None if the loop does something else, or in other dtypes than the atom has.
std::optional<SumOfProducts> sum_of_products(const ir::Kernel& kernel, const ir::Stmt& loop,
                                             const lir::Atom& atom);

/// The matrices of a tile that one subgroup has: rows x columns of them.
struct Share {
    int rows = 0;
    int columns = 0;
};

/// How so many subgroups share out a tile, each with as many matrices, so that each reads as few
/// as can be; none if they cannot.
std::optional<Share> share_of(const lir::Atom& atom, std::int64_t rows, std::int64_t columns,
                              std::int64_t subgroups);

}  // namespace quern::schedule
