#include "quern/schedule/lowerer.h"

// Sums of products in which subgroups of a work-group multiply matrices that it has staged. The
// sums are the subgroup's while the loop runs, and then go to the lanes that have them by an array
// of the group.

namespace quern::schedule {

using ir::Stmt;
using lir::Op;
using lir::Part;

/// None where not both factors are staged, or this pass has no whole matrices for each subgroup.
std::optional<Lowerer::Matrices> Lowerer::matrices(const Stmt& s) {
    if (!plan_.tiling.has(s.symbol, Level::Matrix)) return std::nullopt;
    const lir::Atom& atom = plan_.tiling.atom;
    const auto product = sum_of_products(k_, s, atom);
    if (!product) return std::nullopt;
    Matrices m;
    m.sum = product->sum;
    for (const ExprId load : {product->x, product->y}) {
        const auto found = staged_.find(load);
        if (found == staged_.end()) return std::nullopt;
        const bool is_left = sharing_.at(found->second.across).axis.rows > 1;
        (is_left ? m.left : m.right) = load;
        (is_left ? m.rows : m.columns) = found->second.extent;
    }
    if (m.rows == 0 || m.columns == 0) return std::nullopt;
    const int lanes = active_lanes();
    const auto share = share_of(atom, m.rows, m.columns, lanes / subgroup_);
    if (!share) return std::nullopt;
    m.share = *share;
    b_.set_atom(atom);
    const std::int64_t height = std::int64_t(share->rows) * atom.rows;
    const std::int64_t width = std::int64_t(share->columns) * atom.columns;
    const ValueId number = b_.binary(Op::Div, b_.iota(std::uint16_t(lanes)), b_.integer(subgroup_));
    const ValueId beside = b_.integer(m.columns / width);
    m.row = b_.mul(b_.binary(Op::Div, number, beside), b_.integer(height));
    m.column = b_.mul(b_.binary(Op::Rem, number, beside), b_.integer(width));
    const ValueId zero = b_.constant(atom.sum, 0);
    for (int n = 0; n < share->rows * share->columns; ++n) {
        m.sums.push_back(b_.reg(b_.matrix_fill(zero, std::uint16_t(lanes))));
    }
    return m;
}

/// What is staged: beyond the last iteration it is zeros.
void Lowerer::multiply(const Matrices& m) {
    const lir::Atom& atom = plan_.tiling.atom;
    const auto load = [&](Part part, ExprId id, ValueId first, std::int64_t next, std::int64_t k) {
        const Staged& tile = staged_.at(id);
        const ValueId own = b_.add(first, b_.integer(next));
        const ValueId offset = tile.is_along_loop
                                   ? b_.add(b_.mul(own, b_.integer(tile.pitch)), b_.integer(k))
                                   : b_.add(own, b_.integer(k * tile.pitch));
        const bool is_turned = tile.is_along_loop == (part == Part::Right);
        return b_.matrix_load(part, tile.array, offset, std::uint64_t(tile.pitch), is_turned);
    };
    const std::int64_t depth = staged_.at(m.left).depth;
    for (std::int64_t k = 0; k < depth; k += atom.depth) {
        std::vector<ValueId> right;
        for (int c = 0; c < m.share.columns; ++c) {
            right.push_back(load(Part::Right, m.right, m.column, c * atom.columns, k));
        }
        std::size_t n = 0;
        for (int r = 0; r < m.share.rows; ++r) {
            const ValueId left = load(Part::Left, m.left, m.row, r * atom.rows, k);
            for (int c = 0; c < m.share.columns; ++c, ++n) {
                const ValueId sum = b_.get(m.sums[n]);
                b_.set(m.sums[n], b_.matrix_multiply(left, right[std::size_t(c)], sum));
            }
        }
    }
}

/// Gives each lane its sums.
void Lowerer::add_up(const Matrices& m) {
    const lir::Atom& atom = plan_.tiling.atom;
    const auto [array, is_new] = matrix_arrays_.try_emplace(m.sum);
    if (is_new) {
        array->second =
            b_.buffer(k_.symbols[m.sum].name + ".matrices", atom.sum, lir::Space::Lane, true);
    }
    const lir::BufferId sums = array->second;
    b_.alloc(sums, b_.integer(m.rows * m.columns));
    std::size_t n = 0;
    for (int r = 0; r < m.share.rows; ++r) {
        const ValueId row = b_.add(m.row, b_.integer(std::int64_t(r) * atom.rows));
        for (int c = 0; c < m.share.columns; ++c, ++n) {
            const ValueId column = b_.add(m.column, b_.integer(std::int64_t(c) * atom.columns));
            const ValueId offset = b_.add(b_.mul(row, b_.integer(m.columns)), column);
            b_.matrix_store(sums, offset, b_.get(m.sums[n]), std::uint64_t(m.columns));
        }
    }
    // As the lanes of a pass have its rows and columns.
    const auto places = [&](ExprId load) {
        const ir::SymbolId across = staged_.at(load).across;
        const Pass& pass = sharing_.at(across);
        Bundle all;
        all.axes = names_.at(across).bundle.axes;
        for (int u = 0; u < pass.unroll; ++u) {
            const std::int64_t before = std::int64_t(u) * pass.axis.width();
            all.copies.push_back(b_.add(numbers(pass.axis), b_.integer(before)));
        }
        return all;
    };
    const Bundle total = map(places(m.left), places(m.right), [&](ValueId row, ValueId column) {
        const ValueId offset = b_.add(b_.mul(row, b_.integer(m.columns)), column);
        return b_.gather(sums, offset);
    });
    const Bundle present = map(names_.at(m.sum).bundle, [&](ValueId r) { return b_.get(r); });
    assign(m.sum, map(present, total, [&](ValueId sum, ValueId x) { return b_.add(sum, x); }));
}

}  // namespace quern::schedule
