#pragma once

#include <cstdint>

#include "quern/interpret/operations.h"
#include "quern/ir/cir.h"

// The tree of reductions: see interpret.h for what it is.

namespace quern::interpret {

using ir::kChunk;
using ir::kPartials;

/// 4096^6 is more than any loop has iterations.
inline constexpr std::int64_t kLevels = 6;

/// An operator on one dtype.
struct Tree {
    Reg identity{};
    Reg (*apply)(Reg, Reg) = nullptr;

    /// The first `live` partials in pairs, down to one. The others hold the identity.
    Reg (*combine)(Reg* partials, std::int64_t live) = nullptr;
};

/// Add, Mul, Max, Min, And, Or.
Tree tree_of(ir::BinaryOp op, DType dtype);

/// Sets the partials for a loop of `count` iterations.
void begin_reduction(const Tree& tree, Reg* partials, std::int64_t count);

/// Ends a chunk after `done` iterations, a multiple of 4096, when there are more to come.
void end_chunk(const Tree& tree, Reg* partials, std::int64_t done);

Reg end_reduction(const Tree& tree, Reg* partials, std::int64_t count);

}  // namespace quern::interpret
