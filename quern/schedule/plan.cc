#include "quern/schedule/plan.h"

#include "quern/ir/index.h"
#include "quern/schedule/loops.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"
#include "quern/support/check.h"

namespace quern::schedule {
namespace {

using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

/// Whether the points of every parallel nest are seen to use elements of their own.
std::string why_not_apart(const ir::Kernel& kernel, const std::vector<Stmt>& block) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::For && s.parallel) {
            ir::Kernel scratch = kernel;
            if (std::string why = why_points_meet(scratch, s); !why.empty()) return why;
            continue;
        }
        for (const auto* inner : {&s.body, &s.otherwise}) {
            if (std::string why = why_not_apart(kernel, *inner); !why.empty()) return why;
        }
    }
    return {};
}

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

}  // namespace

std::string legal(const ir::Kernel& kernel) {
    bool reads_output = false;
    for (const ir::Expr& e : kernel.exprs) {
        const bool is_remainder =
            e.kind == ExprKind::Binary && static_cast<ir::BinaryOp>(e.op) == ir::BinaryOp::Rem;
        if (is_remainder && is_floating(e.dtype)) return "% of floats";
        reads_output |= e.kind == ExprKind::Load && e.a == kernel.output();
    }
    // Points that only write may be seen to be apart while they run: see watch().
    return reads_output ? why_not_apart(kernel, kernel.body) : std::string();
}

Plan plan(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics, const Target& target,
          const Observer& observer) {
    Plan plan;
    plan.kernel = kernel;
    ir::Kernel& k = plan.kernel;
    const auto pass = [&](std::string_view name, auto apply) {
        apply();
        if (observer) observer(name, k);
    };
    pass("watch", [&] { watch(k); });
    pass("inline_index_lets", [&] { inline_index_lets(k); });
    pass("forward_arrays", [&] { forward_arrays(k); });
    pass("spread_nested_reductions", [&] { spread_nested_reductions(k); });
    pass("split_long_reductions",
         [&] { split_long_reductions(k, facts, numerics == Numerics::Reproducible); });
    pass("chunk_arg_reductions", [&] { chunk_arg_reductions(k); });
    pass("keep_tiles", [&] { keep_tiles(k, facts); });
    pass("mark_parallel", [&] { mark_parallel(k); });
    plan.tiling = choose(k, facts, numerics, target);
    collect_local(k, k.body, true, plan);
    Lowerer(plan, facts, target).run();
    std::uint32_t number = std::uint32_t(k.buffers.size());
    for (const Stmt& s : k.body) {
        if (s.kind == StmtKind::Let || s.kind == StmtKind::Var) {
            plan.shared.push_back({number++, k.symbols[s.symbol].dtype, {}});
        }
    }
    for (const Stage& stage : plan.stages) {
        const auto broken = lir::verify(stage.function);
        QUERN_CHECK(broken.empty(), "a valid function: " + broken.front());
    }
    return plan;
}

}  // namespace quern::schedule
