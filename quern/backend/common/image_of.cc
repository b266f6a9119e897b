#include "quern/backend/common/image_of.h"

#include <algorithm>
#include <utility>

#include "quern/ir/index.h"

namespace quern {
namespace {

using ir::ExprId;
using ir::ExprKind;

/// Copies expressions of one kernel to the end of another's.
class Excerpt {
public:
    Excerpt(const ir::Kernel& from, ir::Kernel& to)
        : from_(from), to_(to), made_(from.exprs.size(), ir::kNoExpr) {}

    ExprId operator()(ExprId root) {
        for (const ExprId id : ir::reachable(from_, root)) {
            if (ir::exists(made_[raw(id)])) continue;
            made_[raw(id)] = ExprId(to_.exprs.size());
            to_.exprs.push_back(renumbered(from_[id]));
        }
        return made_[raw(root)];
    }

    std::vector<ExprId> operator()(const std::vector<ExprId>& roots) {
        std::vector<ExprId> result;
        for (const ExprId root : roots) result.push_back((*this)(root));
        return result;
    }

private:
    static std::uint32_t raw(ExprId id) { return static_cast<std::uint32_t>(id); }

    ir::Expr renumbered(ir::Expr e) const {
        switch (e.kind) {
            case ExprKind::Select:
                e.c = raw(made_[e.c]);
                [[fallthrough]];
            case ExprKind::Binary:
                e.b = raw(made_[e.b]);
                [[fallthrough]];
            case ExprKind::Unary:
            case ExprKind::Cast:
                e.a = raw(made_[e.a]);
                break;
            case ExprKind::Load:
                // What is read from memory has no value before the launch, as no symbol has.
                e.kind = ExprKind::Symbol;
                e.count = 0;
                e.a = ir::kNone;
                break;
            default:
                break;
        }
        return e;
    }

    const ir::Kernel& from_;
    ir::Kernel& to_;
    std::vector<ExprId> made_;
};

}  // namespace

KernelImage image_of(const schedule::Plan& plan, std::vector<std::byte> object) {
    KernelImage image;
    Excerpt excerpt(plan.kernel, image.numbers);
    image.schedule = to_string(plan.kernel, plan.tiling);
    image.operand_count = plan.kernel.operand_count;
    image.buffer_count = std::uint32_t(plan.kernel.buffers.size() + plan.shared.size());
    for (const schedule::Stage& from : plan.stages) {
        KernelImage::Stage& stage = image.stages.emplace_back();
        stage.function = from.function.name;
        stage.parameters = from.function.parameters;
        for (const schedule::GridAxis& axis : from.grid) {
            stage.grid.push_back({excerpt(axis.trips), axis.multiple});
        }
        stage.iterations = excerpt(from.iterations);
    }
    for (const schedule::Scratch& s : plan.shared) {
        image.shared.push_back({s.buffer, {s.dtype, excerpt(s.shape)}});
    }
    for (const schedule::Scratch& s : plan.local) {
        image.local.push_back({s.dtype, excerpt(s.shape)});
    }
    image.object = std::move(object);
    return image;
}

}  // namespace quern
