#pragma once

#include <vector>

#include "quern/lir/builder.h"

namespace quern::lir {

/// All of a function but what it does.
Function outline_of(const Function& function);

/// A function written anew, instruction by instruction: the base of passes that change some and
/// leave the control flow as it is.
class Rewrite {
public:
    virtual ~Rewrite() = default;
    Rewrite(const Rewrite&) = delete;
    Rewrite& operator=(const Rewrite&) = delete;

    Function run();

protected:
    /// Into a function of this outline. `stored`: values of a dtype become those of another.
    Rewrite(const Function& from, Function outline, DType (*stored)(DType) = nullptr);

    /// What stands for an instruction that is not of control flow: `copied`, which is a copy of
    /// its, has operands that are written already, and the dtype of the result.
    virtual ValueId written(const Inst& inst, const Inst& copied) = 0;

    /// What was written for an instruction of the function.
    ValueId value(ValueId id) const { return exists(id) ? values_[std::uint32_t(id)] : kNone; }

    const Function& from_;
    Builder b_;

private:
    void block(BlockId number);
    void control(const Inst& inst, ValueId id);

    DType (*stored_)(DType);
    std::vector<ValueId> values_;
};

}  // namespace quern::lir
