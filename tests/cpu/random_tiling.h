// Tilings that nobody would choose: whatever `legal` allows gives the same numbers.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quern/backend/cpu/target.h"
#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

inline void collect_loops(const std::vector<ir::Stmt>& block, std::vector<ir::SymbolId>& loops) {
    for (const ir::Stmt& s : block) {
        if (s.kind == ir::StmtKind::For) loops.push_back(s.symbol);
        collect_loops(s.body, loops);
        collect_loops(s.otherwise, loops);
    }
}

/// A legal tiling of a prepared kernel's loops.
template <class Engine>
schedule::Tiling random_tiling(ir::Kernel& prepared, const schedule::Target& target,
                               Numerics numerics, Engine& engine) {
    using schedule::Level;
    schedule::Tiling tiling;
    tiling.numerics = numerics;
    std::vector<ir::SymbolId> loops;
    collect_loops(prepared.body, loops);
    const auto chance = [&](int percent) { return int(engine() % 100) < percent; };
    const auto try_split = [&](ir::SymbolId loop, Level level, int factor) {
        tiling.splits.push_back({loop, level, std::uint16_t(factor)});
        if (!schedule::legal(prepared, target, tiling).empty()) tiling.splits.pop_back();
    };
    // Code grows by the product of the copies: one kernel of 125 would take as long as 100 others.
    constexpr int kMostCopies = 8;
    int copies = 1;
    for (const ir::SymbolId loop : loops) {
        if (chance(80)) try_split(loop, Level::Grid, 1);
        if (chance(50)) try_split(loop, Level::Vector, target.lanes);
        if (target.has_packets && chance(50) && copies * 8 <= kMostCopies) {
            const int packet = 2 << engine() % 3;
            try_split(loop, Level::Packet, packet);
            copies *= packet;
        }
        const int factor = 2 + int(engine() % 4);
        if (chance(50) && copies * factor <= kMostCopies) {
            try_split(loop, Level::Unroll, factor);
            copies *= factor;
        }
    }
    for (const ir::SymbolId loop : loops) {
        if (chance(50)) try_split(loop, Level::Rows, 2 << engine() % 3);
        if (chance(50)) try_split(loop, Level::Stage, 16 << engine() % 2);
        if (target.atoms.empty() || !chance(80)) continue;
        if (tiling.atom.rows == 0) tiling.atom = target.atoms[engine() % target.atoms.size()];
        try_split(loop, Level::Matrix, tiling.atom.depth);
    }
    return tiling;
}

/// What is wrong with the results of one random tiling, or empty. In strict mode sums must be exact
/// in any order.
template <class Engine>
std::string wrong_by_random_tiling(const Case& c, const Tensor& expected, cpu::Simd simd,
                                   Numerics numerics, Engine& engine) {
    const schedule::Target target = cpu::target_of(simd);
    const ir::Facts facts = c.facts();
    ir::Kernel prepared = schedule::prepare(c.kernel(), facts, numerics);
    const schedule::Tiling tiling = random_tiling(prepared, target, numerics, engine);
    const CompiledKernel kernel(c.kernel(), facts,
                                compile({c.kernel(), facts, numerics, simd, &tiling}));
    const std::optional<Tensor> result = c.compiled(kernel);
    if (result && same_numbers(*result, expected)) return {};
    return std::string(result ? "other numbers" : "an assertion failed") + " on " +
           cpu::to_string(simd) + " by " + to_string(prepared, tiling);
}

}  // namespace quern::cpu_test
