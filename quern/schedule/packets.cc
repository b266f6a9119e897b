#include "quern/schedule/packets.h"

#include <algorithm>
#include <vector>

#include "quern/ir/index.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"

namespace quern::schedule {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;

namespace {

/// What a lane loads at once, and the largest element of it.
constexpr std::size_t kPacketBytes = 16, kLargest = 4;

/// What is seen to divide the elements from one index of an axis to the next, where those behind
/// it have no gaps.
std::int64_t divisor_of_stride(ir::Kernel& kernel, const ir::Facts& facts, ir::BufferId buffer,
                               std::size_t axis) {
    std::int64_t product = 1;
    const std::size_t rank = kernel.buffers[buffer].shape.size();
    for (std::size_t p = axis + 1; p < rank && product < std::int64_t(kPacketBytes); ++p) {
        const ExprId shape = kernel.buffers[buffer].shape[p];
        const ir::Expr e = kernel[shape];
        const bool is_extent = e.kind == ExprKind::Extent;
        product *= divisor_of(kernel, facts, is_extent ? extent_of(kernel, e.a, e.b) : shape);
    }
    return product;
}

/// Whether iterations of the loop touch other elements.
bool moves(const ir::Kernel& kernel, const Access& access, ir::SymbolId loop) {
    return std::ranges::any_of(access.index,
                               [&](ExprId index) { return ir::depends_on(kernel, index, loop); });
}

}  // namespace

bool is_packet(ir::Kernel& kernel, const ir::Facts& facts, const Stmt& loop, std::int64_t factor,
               ir::BufferId buffer, std::span<const ExprId> indices) {
    if (buffer > kernel.output() || indices.empty()) return false;
    const std::size_t element = size_of(kernel.buffers[buffer].dtype);
    const std::size_t bytes = element * std::size_t(factor);
    const ir::OperandFacts& operand = facts.operands[buffer];
    if (element > kLargest || bytes < 4 || bytes > kPacketBytes) return false;
    if ((std::size_t{1} << operand.aligned_log2) % bytes != 0) return false;
    if (exists(loop.step) && !kernel.is_constant(loop.step, 1)) return false;
    const std::size_t last = indices.size() - 1;
    for (std::size_t p = 0; p <= last; ++p) {
        if (kernel.is_constant(indices[p], 0)) continue;
        if (p < last && ir::depends_on(kernel, indices[p], loop.symbol)) return false;
        if (operand.contiguous_axes < indices.size() - p) return false;
        if (p < last && divisor_of_stride(kernel, facts, buffer, p) % factor != 0) return false;
    }
    if (step_of(kernel, indices[last], loop.symbol) != 1) return false;
    const ir::Affine form = ir::affine_of(kernel, ir::simplify(kernel, indices[last]));
    const auto is_multiple = [&](const ir::Term& term) {
        const ir::Expr& atom = kernel[term.atom];
        if (atom.kind == ExprKind::Symbol && atom.a == loop.symbol) return true;
        const int log2 = atom.kind == ExprKind::Dim ? facts.dims[atom.a].divisible_log2 : 0;
        return (term.coefficient << log2) % factor == 0;
    };
    return std::ranges::all_of(form.terms, is_multiple) && form.constant % factor == 0 &&
           divisor_of(kernel, facts, loop.value) % factor == 0;
}

int packets_of(ir::Kernel& kernel, const ir::Facts& facts, const Stmt& loop) {
    std::vector<Access> all = accesses_of(kernel, loop.body);
    std::erase_if(all, [&](const Access& a) { return !moves(kernel, a, loop.symbol); });
    if (all.empty()) return 1;
    for (int factor = 8; factor > 1; factor /= 2) {
        const bool are_all = std::ranges::all_of(all, [&](const Access& access) {
            return is_packet(kernel, facts, loop, factor, access.buffer, access.index);
        });
        if (are_all) return factor;
    }
    return 1;
}

}  // namespace quern::schedule
