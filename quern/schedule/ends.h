#pragma once

#include <map>
#include <vector>

#include "quern/ir/cir.h"

namespace quern::schedule {

/// What the integers at which loops end are never above. A tile that is cut off ends at the least
/// of several, by names that stand for them.
class Ends {
public:
    explicit Ends(const ir::Kernel& kernel);

    /// Expressions without vars and loads that an int64 expression is never above, itself first if
    /// it is such a one: what its lets and dims stand for, the operands of a min.
    std::vector<ir::ExprId> above(ir::ExprId id);

private:
    void collect(const std::vector<ir::Stmt>& block);
    void collect(ir::ExprId id, int depth, std::vector<ir::ExprId>& all);

    const ir::Kernel& k_;
    std::map<ir::SymbolId, ir::ExprId> lets_;
};

}  // namespace quern::schedule
