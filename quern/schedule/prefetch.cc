#include <map>
#include <optional>
#include <set>
#include <vector>

#include "quern/schedule/loops.h"
#include "quern/schedule/passes.h"

namespace quern::schedule {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

namespace {

/// What a load reads, whichever loop it stands in.
using Element = std::vector<std::uint32_t>;

void collect_loads(const ir::Kernel& kernel, const std::vector<Stmt>& block,
                   std::vector<ExprId>& loads) {
    for (const Stmt& s : block) {
        if (exists(s.value)) {
            for (const ExprId node : ir::reachable(kernel, s.value)) {
                if (kernel[node].kind == ExprKind::Load) loads.push_back(node);
            }
        }
        collect_loads(kernel, s.body, loads);
        collect_loads(kernel, s.otherwise, loads);
    }
}

/// The axis that the grid's variable moves by one and the loop's does not, or none.
std::optional<std::size_t> moved_axis(ir::Kernel& kernel, const ir::Expr& load, ir::SymbolId grid) {
    std::optional<std::size_t> axis;
    for (int p = 0; p < load.count; ++p) {
        const ExprId index = kernel.index_of(load, p);
        if (!ir::depends_on(kernel, index, grid)) continue;
        if (axis || step_of(kernel, index, grid) != 1) return std::nullopt;
        axis = std::size_t(p);
    }
    return axis;
}

}  // namespace

std::map<ExprId, std::size_t> loads_to_prefetch(ir::Kernel& kernel, const Tiling& tiling,
                                                const Stmt& innermost) {
    std::map<ExprId, std::size_t> result;
    if (exists(innermost.step) && !kernel.is_constant(innermost.step, 1)) return result;
    if (tiling.has(innermost.symbol, Level::Unroll)) return result;
    std::set<Element> seen, done;
    const Stmt* first = nullptr;
    for (const Stmt& s : innermost.body) {
        const bool is_lanes = s.kind == StmtKind::For && tiling.has(s.symbol, Level::Vector);
        if (!is_lanes) continue;
        if (!first) first = &s;
        if (s.value != first->value || s.end != first->end || s.step != first->step) continue;
        std::vector<ExprId> loads;
        collect_loads(kernel, s.body, loads);
        std::set<Element> here;
        for (const ExprId id : loads) {
            const ir::Expr load = kernel[id];
            const auto axis = load.a < kernel.operand_count
                                  ? moved_axis(kernel, load, innermost.symbol)
                                  : std::nullopt;
            if (!axis) continue;
            Element element{load.a};
            for (int p = 0; p < load.count; ++p) {
                element.push_back(std::uint32_t(ir::substitute(
                    kernel, kernel.index_of(load, p), s.symbol, kernel.symbol(first->symbol))));
            }
            if (seen.count(element) != 0 && done.insert(element).second) result[id] = *axis;
            here.insert(std::move(element));
        }
        seen.merge(here);
    }
    return result;
}

}  // namespace quern::schedule
