#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern/dtype.h"
#include "quern/lang/syntax.h"

// LIR: what one lane, or one vector of lanes, of a device does. Instructions stand in blocks in the
// order in which they run; control flow is structured. What a block defines may be used after it in
// the same block and in blocks inside. Addresses are offsets in elements from the start of a
// buffer; the strides that make them are parameters. CIR says what a kernel means, LIR how.

namespace quern::lir {

/// An instruction, and the value that it gives if it gives one.
enum class ValueId : std::uint32_t {};
inline constexpr ValueId kNone{0xffffffffu};
constexpr bool exists(ValueId id) { return id != kNone; }

using BlockId = std::uint32_t;
using BufferId = std::uint32_t;
inline constexpr std::uint32_t kNoBlock = 0xffffffffu;

enum class OpClass : std::uint8_t {
    Leaf,      // Constant: bits, in every lane. Parameter: bits is its number; of 32 bits the low
               // half of its word, ParameterHigh the high one. Iota: 0, 1, 2, ... Lane: which of
               // the function's lanes this is
    Unary,     // a
    Binary,    // a, b of the type of the result; shifts are arithmetic on signed integers. Of a
               // Div of float32 bits is kInRange where b is known to be below 2^126, or no finite
               // number
    Compare,   // a, b of one type; bool lanes
    Ternary,   // a * b + c, rounded once; a relaxed one once or twice
    Select,    // a (bool) ? b : c, in each lane
    Convert,   // Cast: a as Tensor::to converts; bits is kInRange of a float that is known to lie
               // in the range of the integer that it becomes. Bitcast: the same bits and size
    Packet,    // Element: number `bits` of packet a. Join: the elements of a, then those of b
    Lanes,     // Splat: a in every lane. Extract: lane `bits` of a. Any: true in some lane of a.
               // Shuffle: lanes of a and b by pattern `bits` of the function.
               // Fold: `fold` over the lanes of a, halves first: 0 with n/2, ...; then 0 with n/4.
               // bits: 0, or over how many neighbours, a power of two: each lane gets its own's
               // FromLane: what a is in lane b (int32) of this lane's subgroup; 32 bits. All lanes
               // come to it together, and see nothing else of each other
    Memory,    // see Inst
    Matrix,    // see Inst
    Register,  // Register: begins as a. Get: the present value of a. Set: a becomes b
    Control,   // see Inst
};

enum class Op : std::uint8_t {
#define OP(name, text, kind) name,
#include "quern/lir/ops.def"
};

inline constexpr OpClass kClasses[] = {
#define OP(name, text, kind) OpClass::kind,
#include "quern/lir/ops.def"
};
constexpr OpClass class_of(Op op) { return kClasses[static_cast<int>(op)]; }

/// Whether lanes come to an instruction together or not at all.
constexpr bool meets(Op op) {
    return op == Op::Barrier || op == Op::FromLane || class_of(op) == OpClass::Matrix;
}

/// Whether an instruction makes a value of its operands and does no more.
constexpr bool only_computes(OpClass kind) { return kind < OpClass::Lanes; }
std::string_view to_string(Op op);

/// A matrix product that a device's subgroups take at once, sum + left * right, of rows x depth and
/// depth x columns elements. Its lanes hold each matrix together; which has what only the device
/// knows.
struct Atom {
    std::uint16_t rows = 0;
    std::uint16_t columns = 0;
    std::uint16_t depth = 0;

    /// Of left and right, and of the sum, in which products are exact.
    DType operand = DType::Float16;
    DType sum = DType::Float32;

    bool operator==(const Atom&) const = default;
};

/// What a value is in a product by an atom; none: it is a number in each lane.
enum class Part : std::uint8_t { None, Left, Right, Sum };

struct Type {
    DType dtype = DType::Int64;
    std::uint16_t lanes = 1;
    Part part = Part::None;

    /// How many numbers each lane has, which lie side by side in memory: 1, 2, 4 or 8.
    std::uint8_t packet = 1;

    bool operator==(const Type&) const = default;
};

/// Whose lanes a barrier is of.
enum class Scope : std::uint8_t {
    Group,     // all lanes of the group
    Subgroup,  // those that the device runs together, of a group that is one subgroup
};

/// Memory that lanes share, a bit each: the group's own, and the device's, in which arrays lie too
/// that an Alloc makes.
enum class Spaces : std::uint8_t { None = 0, Group = 1, Device = 2, All = 3 };
constexpr Spaces operator|(Spaces a, Spaces b) { return Spaces(int(a) | int(b)); }
constexpr bool has(Spaces all, Spaces some) { return (int(all) & int(some)) != 0; }

/// Memory: offsets, int64 or int32, count elements of `buffer`.
///   Load     a: offset of lane 0; lanes are neighbours. c: mask or none; where false, zero.
///            Of packets, lane l has those from a + l * packet on, in 4, 8 or 16 bytes at a
///            multiple of as many.
///   Gather   a: offset of each lane. c: mask
///   Store    a: offset, b: value, c: mask.  Scatter the same with an offset for each lane.
///            bits: 0, or a number. Accesses of the same one touch no element twice, but for a load
///            and a store by one lane: within a pass over a block, and in loops that are apart.
///   Prefetch a: offset of an element that will be loaded; may lie outside of the buffer.
///   Alloc    a: number of elements. `buffer` begins here, with any content, for one pass over the
///            block.
/// Matrix: matrices of the function's atom, each of a subgroup, whose lanes come to it together
/// with the same operands. In memory `bits` elements are between the first ones of two rows.
///   MatrixFill      a in every element.
///   MatrixLoad      a: offset of the first element, as Memory has it. is_turned: columns lie there
///                   as else rows do.
///   MatrixStore     a: offset, b: value. Those between two barriers write no element twice.
///   MatrixMultiply  c + a * b; the order of the sums is the device's.
/// Control:
///   For      from a below b by `bits` (at least 1); the value is the variable, an int64 or int32.
///            `body`. is_apart: no iteration touches an element that another one stores, but in
///            arrays that an Alloc inside makes.
///   If       a ? body : otherwise
///   Barrier  all lanes of the group arrive, and see what each other wrote in the memory that it
///            orders, by its `scope` and `spaces`.
///   Assert   a must be true in each lane (where c, if given, is true); else the function ends and
///            says that it failed. A function of lanes ends for those of which it is not true, and
///            none may wait for them.
struct Inst {
    Op op = Op::Constant;
    Op fold = Op::Add;

    /// Of a Store of lanes: past the caches. Its address is a multiple of the vector's bytes, or of
    /// 64 if those are more.
    bool is_streamed = false;

    /// Of a MatrixLoad.
    bool is_turned = false;

    /// Of a For.
    bool is_apart = false;

    /// Of floats: may be fused, taken in another order, divided by as a product with 1 / b.
    bool is_relaxed = false;

    /// Of a Barrier.
    Scope scope = Scope::Group;
    Spaces spaces = Spaces::None;
    Type type;
    BufferId buffer = 0;
    ValueId a = kNone;
    ValueId b = kNone;
    ValueId c = kNone;
    std::uint64_t bits = 0;
    BlockId body = kNoBlock;
    BlockId otherwise = kNoBlock;
    lang::Span span = {};
};

/// Of a Cast and a Div: see OpClass.
inline constexpr std::uint64_t kInRange = 1;

/// Bytes that the lanes of a work-group share on every device: the least maxComputeSharedMemorySize
/// of Vulkan.
inline constexpr std::uint32_t kGroupBytes = 16384;

enum class Space : std::uint8_t {
    Global,  // an operand, the output, or an array that stages of one launch share
    Group,   // seen by the lanes of one work-group
    Lane,    // of one lane (on a CPU, of one thread)
};

struct Buffer {
    std::string name;
    DType dtype = DType::Float32;
    Space space = Space::Global;
    bool is_written = false;

    /// Of an array of a work-group that is there from its beginning; 0 for one that an Alloc makes.
    std::uint32_t elements = 0;

    /// Where it lies, seen from a function of lanes.
    Spaces memory() const { return elements > 0 ? Spaces::Group : Spaces::Device; }
};

enum class ParameterKind : std::uint8_t {
    Dim,        // a: index in ir::Kernel::dims
    Extent,     // a: operand, b: axis
    Stride,     // a: operand or output, b: axis; in elements
    Scalar,     // a: index in ir::Kernel::scalars; its bits, integers widened
    ScalarAs,   // a: index in ir::Kernel::scalars, b: a DType, a float of 32 bits at most: the
                // scalar's double rounded to it; its bits
    Block,      // a: number of the grid's axis; how many iterations one grid point does
    GridBegin,  // the first grid point of this call
    GridEnd,    // one past the last
};

struct Parameter {
    ParameterKind kind = ParameterKind::Dim;
    std::uint32_t a = 0;
    std::uint32_t b = 0;

    bool operator==(const Parameter&) const = default;
};

/// One entry of compiled code. Called with parameters as 64-bit words and the address of each
/// global buffer.
struct Function {
    std::string name;

    /// How many lanes of a work-group run it together, each with values of its own. 1: vectors are
    /// lanes, or there are none.
    std::uint32_t lanes = 1;

    /// How many of them, from a multiple of it on, a device runs together, so that they know each
    /// other's values; a power of two. 1: none do.
    std::uint32_t subgroup = 1;

    /// Of its matrices.
    Atom atom;
    std::vector<Parameter> parameters;
    std::vector<Buffer> buffers;
    std::vector<Inst> insts;

    /// For each lane of a shuffle, which of a's lanes it is, or of b's behind them.
    std::vector<std::vector<std::uint16_t>> patterns;
    std::vector<std::vector<ValueId>> blocks;  // blocks[0] is the whole function

    const Inst& operator[](ValueId id) const { return insts[static_cast<std::uint32_t>(id)]; }
};

/// Every invariant that does not hold, in words: operands that are defined where they are used,
/// types, masks, structure. Empty for a valid function.
std::vector<std::string> verify(const Function& function);

/// Returns the function as text, one instruction a line, blocks indented.
std::string print(const Function& function);

}  // namespace quern::lir
