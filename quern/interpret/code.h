#pragma once

#include <cstdint>
#include <vector>

#include "quern/interpret/functions.h"
#include "quern/interpret/interpret.h"
#include "quern/interpret/operations.h"
#include "quern/interpret/tree.h"

// A kernel as instructions over registers, made for one launch: extents, strides and addresses of
// operands are numbers in it. Main code runs on the calling thread; a region is the code of one
// parallel nest, which many machines run, each from the registers of the main code.

namespace quern::interpret {

enum class Op : std::uint16_t {
#define UNARY_OP(name, to, from, value) name,
#define BINARY_OP(name, to, from, value) name,
#define DIVIDE_OP(name, field, value) name,
#define LOAD_OP(name, type, to, value) name,
#define STORE_OP(name, type, value) name,
#define OTHER_OP(name) name,
#include "quern/interpret/opcodes.def"
};

/// Jumps are relative to the instruction that jumps, so that code can be moved as a whole.
struct Target {
    std::int32_t offset;
    std::uint32_t c;
};

struct Instruction {
    Op op = Op::Halt;
    std::uint32_t dst = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    union {
        std::int64_t immediate = 0;
        Target to;
        FloatFunction float_function;
        DoubleFunction double_function;
        Reg (*apply)(Reg, Reg);
    };
};

/// What an instruction that can fail says when it does.
struct Site {
    ir::Code code = ir::Code::E0507;
    ir::Span span;
    ir::BufferId buffer = ir::kNone;
    std::uint32_t axis = 0;

    /// Of an index: it was a uint64, whose bits the trap has.
    bool is_unsigned = false;
};

/// First registers of every machine.
inline constexpr std::uint32_t kZero = 0;

/// A loop's share of a reduction. Registers `partials` + 16 * level hold the partials of each level
/// of chunks.
struct Reduction {
    std::uint32_t partials = 0;
    Tree tree;
    ir::BinaryOp op = ir::BinaryOp::Add;
};

/// A loop with chunks to end: its reductions are `first` to `last` - 1.
struct ReducingLoop {
    std::uint32_t first = 0;
    std::uint32_t last = 0;

    /// Index in Code::tracked of a loop that tells how far it is at the end of each chunk.
    std::uint32_t tracked = ir::kNone;
};

/// A part of the work of which it is known how much is done: the whole (the first), a region, or a
/// loop. The parts within one iteration of a loop count as equally long.
struct Tracked {
    std::uint32_t parent = ir::kNone;

    /// Which part of its parent it is, and how many parts it has itself.
    std::uint32_t place = 0;
    std::uint32_t parts = 0;

    /// Registers of a loop's iteration number and of its number of iterations.
    std::uint32_t iteration = kZero;
    std::uint32_t count = kZero;
};

/// The output, or a local or shared array. Only these can be read before they are written.
struct ArrayInfo {
    ir::BufferId buffer = ir::kNone;
    std::uint32_t element_bytes = 0;

    /// Whether some load reads it, so that it is noted what is written.
    bool is_read = false;

    /// Registers of its extents.
    std::vector<std::uint32_t> extents;
    std::uint32_t site = 0;
};

/// One loop of a parallel nest: registers, and the code to run when its variable has changed.
struct PointLoop {
    std::uint32_t variable = 0;
    std::uint32_t begin = 0;
    std::uint32_t step = 0;
    std::uint32_t count = 0;
    std::uint32_t label = 0;
};

struct Region {
    /// Outermost first. Points are numbered in row-major order.
    std::vector<PointLoop> loops;
    std::uint32_t entry = 0;
    bool has_loops = false;

    /// Registers of the current point's number and of the number to stop at.
    std::uint32_t point = 0;
    std::uint32_t end = 0;

    /// The number that tells points apart in claims is in here. It exceeds `point` where inner
    /// loops of the nest could not be numbered beforehand; each point has `ids_per_point` of them.
    std::uint32_t id = 0;
    std::int64_t ids_per_point = 1;

    /// Index in Code::tracked, if it is wanted.
    std::uint32_t tracked = ir::kNone;

    /// Arrays from outside that its points may share an element of: claims are kept for them.
    std::vector<std::uint32_t> claimed;
};

struct Code {
    std::vector<Instruction> instructions;
    std::vector<Reg> registers;
    std::vector<Site> sites;
    std::vector<Reduction> reductions;
    std::vector<ReducingLoop> loops;
    std::vector<ArrayInfo> arrays;  // the output first
    std::vector<Region> regions;
    std::vector<Tracked> tracked;
};

/// What a launch binds.
struct Launch {
    std::span<const std::int64_t> dims;
    std::span<const ScalarValue> scalars;
    std::span<const View> operands;
    const View* output = nullptr;

    /// Whether somebody wants to know how much of the work is done.
    bool is_tracked = false;
};

Code compile(const ir::Kernel& kernel, const Launch& launch);

}  // namespace quern::interpret
