#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/lir/lir.h"

namespace quern {

/// A compiled kernel as it is kept and launched: machine code, and what a launch must work out to
/// call it. Needs no compiler.
struct KernelImage {
    /// One loop of a grid.
    struct Axis {
        /// How many iterations the loop has.
        ir::ExprId trips = ir::kNoExpr;

        /// Blocks should be multiples of it.
        std::int64_t multiple = 1;
    };

    /// One function, called once (no grid) or for every point of a grid, in any order and at once.
    struct Stage {
        std::string function;
        std::vector<lir::Parameter> parameters;

        /// The first axis is the slowest.
        std::vector<Axis> grid;

        /// How many iterations the loops of a point of the grid do, about; 1 if it has none.
        ir::ExprId iterations = ir::kNoExpr;
    };

    struct Array {
        DType dtype = DType::Float32;
        std::vector<ir::ExprId> shape;
    };

    /// An array that stages share.
    struct Shared {
        lir::BufferId buffer = 0;
        Array array;
    };

    /// schedule::to_string of the tiling.
    std::string schedule;

    /// Holds nothing but the expressions that `shape`, `trips` and `iterations` name, over dims and
    /// extents.
    ir::Kernel numbers;

    /// Those of the kernel, and one for each of `shared`.
    std::uint32_t buffer_count = 0;
    std::uint32_t operand_count = 0;
    std::vector<Stage> stages;
    std::vector<Shared> shared;

    /// What each thread has for itself.
    std::vector<Array> local;

    /// An ELF object without undefined symbols: position-independent code with its constants, a
    /// function for each stage.
    std::vector<std::byte> object;
};

/// The image as bytes, little-endian.
std::vector<std::byte> to_bytes(const KernelImage& image);

/// Reads what `to_bytes` wrote. Throws DeviceError that says what is wrong if any number in it
/// does not fit the others; the object is not looked into.
KernelImage image_from(std::span<const std::byte> bytes);

}  // namespace quern
