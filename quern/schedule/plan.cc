#include "quern/schedule/plan.h"

#include <utility>

#include "quern/lir/lanes.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"
#include "quern/support/check.h"

namespace quern::schedule {
namespace {

using ir::Stmt;
using ir::StmtKind;

void collect_local(const ir::Kernel& kernel, const std::vector<Stmt>& block, bool is_top,
                   Plan& plan) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::Alloc) {
            const ir::Buffer& buffer = kernel.buffers[s.buffer];
            (is_top ? plan.shared : plan.local).push_back({s.buffer, buffer.dtype, buffer.shape});
        }
        if (is_top && (s.kind == StmtKind::Let || s.kind == StmtKind::Var)) continue;
        collect_local(kernel, s.body, false, plan);
        collect_local(kernel, s.otherwise, false, plan);
    }
}

/// Of numbers that the target has; integers of 32 bits where they are less work.
void represent(Stage& stage, const Target& target, Plan& plan) {
    lir::Represented all =
        lir::represented(std::move(stage.function), target.native, target.is_small);
    stage.function = std::move(all.function);
    stage.has_soft_float64 = all.has_soft_float64;
    stage.wide = std::move(all.wide);
    plan.is_small |= all.is_small;
}

}  // namespace

ir::Kernel prepare(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                   Observer* observer) {
    ir::Kernel k = kernel;
    const auto pass = [&](std::string_view name, auto apply) {
        apply();
        if (observer) observer->see(name, k);
    };
    pass("watch", [&] { watch(k); });
    pass("inline_index_lets", [&] { inline_index_lets(k); });
    pass("whole_tiles", [&] { whole_tiles(k, facts); });
    pass("forward_arrays", [&] { forward_arrays(k); });
    pass("spread_nested_reductions", [&] { spread_nested_reductions(k); });
    pass("split_long_reductions",
         [&] { split_long_reductions(k, facts, numerics == Numerics::Reproducible); });
    pass("chunk_arg_reductions", [&] { chunk_arg_reductions(k); });
    pass("keep_tiles", [&] { keep_tiles(k, facts); });
    pass("mark_parallel", [&] { mark_parallel(k); });
    return k;
}

Plan lower(ir::Kernel prepared, const ir::Facts& facts, const Target& target, Tiling tiling) {
    Plan plan;
    plan.kernel = std::move(prepared);
    plan.tiling = std::move(tiling);
    ir::Kernel& k = plan.kernel;
    collect_local(k, k.body, true, plan);
    Lowerer(plan, facts, target).run();
    std::uint32_t number = std::uint32_t(k.buffers.size());
    for (const Stmt& s : k.body) {
        if (s.kind == StmtKind::Let || s.kind == StmtKind::Var) {
            plan.shared.push_back({number++, k.symbols[s.symbol].dtype, {}});
        }
    }
    for (Stage& stage : plan.stages) {
        represent(stage, target, plan);
        const auto broken = lir::verify(stage.function);
        QUERN_CHECK(broken.empty(), "a valid function: " + broken.front());
    }
    return plan;
}

Plan plan(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics, const Target& target,
          Observer* observer) {
    ir::Kernel prepared = prepare(kernel, facts, numerics, observer);
    Tiling tiling = choose(prepared, facts, numerics, target);
    return lower(std::move(prepared), facts, target, std::move(tiling));
}

std::vector<lir::Function> for_lanes(const Plan& plan, std::uint32_t subgroup,
                                     std::uint32_t group_bytes) {
    std::vector<lir::Function> all;
    for (const Stage& stage : plan.stages) {
        all.push_back(lir::for_lanes(stage.function, subgroup, group_bytes));
    }
    return all;
}

}  // namespace quern::schedule
