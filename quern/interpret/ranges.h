#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "quern/interpret/code.h"

// What is known of integers before a launch runs: dims, extents and scalars are numbers, loop
// variables lie between their bounds. Arithmetic is that of the machine: what could wrap is
// anything.

namespace quern::interpret {

struct Range {
    std::int64_t low = std::numeric_limits<std::int64_t>::min();
    std::int64_t high = std::numeric_limits<std::int64_t>::max();

    bool is_one() const { return low == high; }
    bool within(std::int64_t least, std::int64_t most) const {
        return low >= least && high <= most;
    }
};

/// constant + the sum of coefficient * expression, with wrap-around.
struct Linear {
    struct Term {
        ir::ExprId expr = ir::kNoExpr;
        std::int64_t coefficient = 0;
    };
    std::int64_t constant = 0;
    std::vector<Term> terms;
};

class Ranges {
public:
    /// Walks the whole body, so that every symbol has its range afterwards.
    Ranges(const ir::Kernel& kernel, const Launch& launch);

    /// Bounds of an integer or bool. Where no value exists (an empty loop) they say nothing.
    Range of(ir::ExprId id);
    Range of_symbol(ir::SymbolId symbol) const { return symbols_[symbol]; }

    /// True if evaluating the expression cannot fail, whatever its place.
    bool is_safe(ir::ExprId id);

    /// True if the value depends on no var and on no array that the kernel writes.
    bool is_fixed(ir::ExprId id);

    /// True if every index of the load is within its operand.
    bool is_in_bounds(ir::ExprId load);
    bool is_in_bounds(ir::BufferId buffer, int axis, ir::ExprId index);

    /// `through_lets` replaces lets by what they stand for.
    Linear linear(ir::ExprId id, bool through_lets = false);

    /// The shape of an operand or the output as it is at launch.
    const std::vector<std::int64_t>& shape(ir::BufferId buffer) const;

private:
    struct Facts {
        bool known = false;
        bool safe = true;
        bool fixed = true;
        Range range;
    };

    const Facts& facts(ir::ExprId id);
    Facts infer(ir::ExprId id);
    Range binary(const ir::Expr& e);
    void walk(const std::vector<ir::Stmt>& body);
    void define(ir::SymbolId symbol, Range range);

    const ir::Kernel& kernel_;
    const Launch& launch_;
    std::vector<Facts> facts_;
    std::vector<Range> symbols_;
    std::vector<bool> defined_;
    std::vector<ir::ExprId> lets_;
};

}  // namespace quern::interpret
