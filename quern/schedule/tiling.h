#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/lir/lir.h"
#include "quern/numerics.h"

// A schedule is a value: for each loop of a kernel, what does its iterations. It never changes what
// a kernel means; `legal` says whether a device can run a kernel by it.

namespace quern::schedule {

enum class Level : std::uint8_t {
    Grid,    // shared out over the threads of a CPU, the work-groups of a GPU
    Vector,  // `factor` neighbours are the lanes of one vector
    Rows,    // `factor` neighbours are the rows of a vector, whose lanes are those of a Vector loop
             // inside; Vector loops that are in no row have the lanes of all rows
    Packet,  // of a Vector loop: each lane does `factor` neighbours, which memory has side by side
    Unroll,  // `factor` copies of the body, one after the other
    Stage,   // what `factor` iterations read goes to arrays of the work-group first
    Matrix,  // of those, `factor` are a product of matrices by subgroups; of a loop with a Stage
};

/// Loops without a split run one iteration after the other.
struct Split {
    /// The loop's variable.
    ir::SymbolId loop = 0;
    Level level = Level::Grid;
    std::uint16_t factor = 1;

    bool operator==(const Split&) const = default;
};

struct Tiling {
    Numerics numerics = Numerics::Strict;
    std::vector<Split> splits;

    /// Of loops split into matrices.
    lir::Atom atom;

    bool operator==(const Tiling&) const = default;
    /// None if the loop is not split on the level.
    const Split* find(ir::SymbolId loop, Level level) const {
        for (const Split& split : splits) {
            if (split.loop == loop && split.level == level) return &split;
        }
        return nullptr;
    }
    bool has(ir::SymbolId loop, Level level) const { return find(loop, level) != nullptr; }
    int factor(ir::SymbolId loop, Level level) const {
        const Split* split = find(loop, level);
        return split ? split->factor : 1;
    }
};

/// Returns "i: grid, unroll 4; j: grid, vector 16, unroll 2; k: serial" for the loops of a kernel.
std::string to_string(const ir::Kernel& kernel, const Tiling& tiling);

}  // namespace quern::schedule
