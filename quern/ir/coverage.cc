#include "quern/ir/coverage.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace quern::ir {
namespace {

/// None if data or other loops say where it ends.
std::optional<bool> has_iterations(const Kernel& kernel, const Stmt& loop,
                                   const Environment& environment) {
    const auto begin = evaluate(kernel, loop.value, environment);
    const auto end = evaluate(kernel, loop.end, environment);
    if (!begin || !end) return std::nullopt;
    return *begin < *end;
}

bool runs_nothing(const Kernel& kernel, const std::vector<Stmt>& block,
                  const Environment& environment) {
    return std::all_of(block.begin(), block.end(), [&](const Stmt& s) {
        if (s.kind != StmtKind::For) return false;
        // One below 1 is a failure.
        const bool has_step = !exists(s.step) || evaluate(kernel, s.step, environment) >= 1;
        return has_step && (has_iterations(kernel, s, environment) == false ||
                            runs_nothing(kernel, s.body, environment));
    });
}

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
            return has_iterations(kernel_, *loop, environment_) == true;
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

bool runs_nothing(const Kernel& kernel, const Environment& environment) {
    return runs_nothing(kernel, kernel.body, environment);
}

}  // namespace quern::ir
