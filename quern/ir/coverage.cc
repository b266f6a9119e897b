#include "quern/ir/coverage.h"

#include <algorithm>
#include <vector>

namespace quern::ir {
namespace {

class Search {
public:
    Search(const Kernel& kernel, std::span<const std::int64_t> extents,
           const Environment& environment)
        : kernel_(kernel), extents_(extents), environment_(environment) {}

    bool in(const std::vector<Stmt>& block) {
        return std::any_of(block.begin(), block.end(), [&](const Stmt& s) {
            if (s.kind == StmtKind::Store && s.buffer == kernel_.output()) return covers(s);
            if (s.kind != StmtKind::For) return false;
            loops_.push_back(&s);
            const bool found = in(s.body);
            loops_.pop_back();
            return found;
        });
    }

private:
    bool covers(const Stmt& store) const {
        if (store.indices.size() != extents_.size()) return false;
        std::vector<const Stmt*> others = loops_;
        for (std::size_t p = 0; p < extents_.size(); ++p) {
            const ExprId index = store.indices[p];
            if (extents_[p] == 1 && kernel_.is_constant(index, 0)) continue;
            const auto loop = std::find_if(others.begin(), others.end(), [&](const Stmt* s) {
                const Expr& e = kernel_[index];
                return e.kind == ExprKind::Symbol && e.a == s->symbol;
            });
            if (loop == others.end() || !is_over((*loop), extents_[p])) return false;
            others.erase(loop);
        }
        // One that runs no iteration keeps the store from happening.
        return std::all_of(others.begin(), others.end(), [&](const Stmt* loop) {
            const auto begin = evaluate(kernel_, loop->value, environment_);
            const auto end = evaluate(kernel_, loop->end, environment_);
            return begin && end && *begin < *end;
        });
    }

    bool is_over(const Stmt* loop, std::int64_t extent) const {
        return kernel_.is_constant(loop->value, 0) && kernel_.is_constant(loop->step, 1) &&
               evaluate(kernel_, loop->end, environment_) == extent;
    }

    const Kernel& kernel_;
    std::span<const std::int64_t> extents_;
    const Environment& environment_;
    std::vector<const Stmt*> loops_;
};

}  // namespace

bool writes_all(const Kernel& kernel, std::span<const std::int64_t> extents,
                const Environment& environment) {
    return Search(kernel, extents, environment).in(kernel.body);
}

}  // namespace quern::ir
