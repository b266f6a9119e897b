#include "quern/schedule/ends.h"

#include <algorithm>

#include "quern/ir/index.h"

namespace quern::schedule {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

namespace {

/// How far names are followed, and how many expressions are worth a proof.
constexpr int kDepth = 8;
constexpr std::size_t kMost = 4;

bool is_min(const ir::Expr& e) {
    return e.kind == ExprKind::Binary && static_cast<ir::BinaryOp>(e.op) == ir::BinaryOp::Min;
}

/// Whether it may be another where it is read again.
bool may_change(const ir::Kernel& kernel, ExprId id) {
    return ir::reads_var(kernel, id) ||
           std::ranges::any_of(ir::reachable(kernel, id),
                               [&](ExprId node) { return kernel[node].kind == ExprKind::Load; });
}

}  // namespace

Ends::Ends(const ir::Kernel& kernel) : k_(kernel) { collect(k_.body); }

void Ends::collect(const std::vector<Stmt>& block) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::Let) lets_.emplace(s.symbol, s.value);
        collect(s.body);
        collect(s.otherwise);
    }
}

void Ends::collect(ExprId id, int depth, std::vector<ExprId>& all) {
    const ir::Expr e = k_[id];
    if (depth == 0 || all.size() == kMost) return;
    if (is_min(e)) {
        collect(ExprId{e.a}, depth - 1, all);
        collect(ExprId{e.b}, depth - 1, all);
        return;
    }
    if (e.kind == ExprKind::Symbol) {
        if (const auto let = lets_.find(e.a); let != lets_.end()) {
            return collect(let->second, depth - 1, all);
        }
    }
    if (!may_change(k_, id)) all.push_back(id);
    if (e.kind != ExprKind::Dim) return;
    for (const ir::Constraint& c : k_.constraints) {
        if (c.left != id && c.right != id) continue;
        const ExprId other = c.left == id ? c.right : c.left;
        if (is_min(k_[other])) collect(other, depth - 1, all);
    }
}

std::vector<ExprId> Ends::above(ExprId id) {
    std::vector<ExprId> all;
    if (!may_change(k_, id)) all.push_back(id);
    std::vector<ExprId> parts;
    collect(id, kDepth, parts);
    for (const ExprId part : parts) {
        if (std::ranges::find(all, part) == all.end()) all.push_back(part);
    }
    return all;
}

}  // namespace quern::schedule
