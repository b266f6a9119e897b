#pragma once

#include <cstdint>
#include <vector>

#include "quern/lir/lir.h"
#include "quern/runtime/vulkan_plugin.h"

namespace quern::vulkan {

/// What a device promises of its arithmetic, where code may ask for it.
struct FloatControls {
    bool keeps_nan16 = false, keeps_nan32 = false, keeps_nan64 = false;
    bool rounds_even16 = false, rounds_even32 = false, rounds_even64 = false;
    bool keeps_denormals16 = false, keeps_denormals32 = false, keeps_denormals64 = false;

    /// It converts between float16 and float32, rounding to even, and takes sums and products.
    bool has_float16 = false;

    /// What the driver knows of floats it folds as no float behaves: Mesa's llvmpipe takes 0 for
    /// 0 * x and x for x + 0, which loses NaN and signs.
    bool folds_wrongly = false;

    /// It does so with floats that were integers alone: SwiftShader takes 0 for x * f32(i - i).
    bool folds_casts = false;

    /// Mesa takes an int32 that became 64 bits to be above every constant (in 22.3), and an integer
    /// of 64 bits that became a double and then a float to be rounded once.
    bool converts_wrongly = false;

    /// It leaves loops after kMostIterations of an invocation, as llvmpipe does.
    bool cuts_loops = false;

    /// Its functions have few places on the stack, which must be used sparingly (limits.h).
    bool has_few_places = false;
};

/// The integers that a device computes with, and those that it loads and stores; 32 bits it always
/// has.
struct Integers {
    bool has_8 = true, has_16 = true, has_64 = true;
    bool loads_8 = true, loads_16 = true;
};

/// Invocations of a work-group that does several points, unless a pipeline is told others.
inline constexpr std::uint32_t kGroup = 64;

/// The specialisation constant that says how many. It is the size of the group itself, not a part
/// of it: MoltenVK knows sizes that are made of one for it.
inline constexpr std::uint32_t kInvocationsOfGroup = 0;

/// Where an invocation that ends early says why, in bytes: an assertion does not hold; the driver
/// left a loop before its end.
inline constexpr std::uint32_t kAssertionFailed = 0, kLoopCut = 4;

/// How a module finds memory: by addresses of 64 bits, which takes bufferDeviceAddress and the
/// memory model of Vulkan; or in storage buffers that are bound to it, which any device has.
enum class BuffersAre : std::uint8_t { Addressed, Bound };

/// In how many bindings the buffers of a function are that are larger than what a device binds at
/// once: pieces one behind the other, of 2^bits bytes each but for the last.
struct Windows {
    std::uint32_t bits = 31;

    /// By buffer; those behind them are one binding.
    std::vector<std::uint32_t> counts = {};

    std::uint32_t of(std::size_t buffer) const {
        return buffer < counts.size() ? counts[buffer] : 1;
    }
};

/// The bindings of a module whose buffers are bound, all of set 0: the table of a launch, which has
/// what Push tells of; the pieces of the buffers that the function reads or writes; and memory for
/// the arrays of lanes, if it has any.
struct Bindings {
    /// Numbers of buffers, and the first binding of each.
    std::vector<std::uint32_t> buffers, first;
    Windows windows;

    /// The binding behind those of the buffers.
    std::uint32_t arrays = 1;
    bool has_arrays = false;

    static constexpr std::uint32_t kTable = 0;
    std::uint32_t count() const { return arrays + has_arrays; }
};

Bindings bindings_of(const lir::Function& function, const Windows& windows = {});

/// What a dispatch pushes. Of its points number i is `begin` + i, if that is below `end`. What lies
/// somewhere is given by its address, or by the bytes before it in its binding.
struct Push {
    /// Of the value of each parameter as 64 bits.
    std::uint64_t words = 0;

    /// Of where each buffer lies, 64 bits each; 0 for one of a lane.
    std::uint64_t buffers = 0;

    /// Memory for the arrays of lanes, `scratch_bytes` for each point.
    std::uint64_t scratch = 0;
    std::uint64_t scratch_bytes = 0;

    /// Two words of 32 bits that become 1.
    std::uint64_t failed = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    /// A zero that the driver does not know to be one.
    std::uint64_t zero = 0;
};

/// Whether a work-group does one point, since its invocations are lanes that wait for each other,
/// exchange values or share arrays.
bool is_alone(const lir::Function& function);

/// How many points a work-group does: one that is alone, else as many as have `group` invocations.
std::uint32_t points_of_group(const lir::Function& function, std::uint32_t group = kGroup);

/// How many points of so many instructions are at most so much work together: whole groups of them,
/// and one at least.
std::uint64_t points_at_once(std::uint64_t most_work, std::uint64_t each, std::uint64_t group);

Groups groups_of(const lir::Function& function, const Integers& integers,
                 std::uint32_t group = kGroup);

/// A function of LIR without vectors (lir/lanes.h) as a SPIR-V module with the entry point "main".
/// If it has several lanes an invocation is one of them, else it does a point. It is legalised for
/// the device (lir/legalise.h, native_of): integers of 8 and 16 bits that it lacks are moved in 32
/// bits. Buffers are below 2^31 bytes; on a device that has integers of 64
/// bits as large as their pieces together, and those that have addresses of any size. Needs Vulkan
/// 1.2 and what its capabilities say.
std::vector<std::uint32_t> emit(const lir::Function& function, const FloatControls& controls,
                                const Integers& integers, BuffersAre buffers,
                                const Windows& windows = {});

/// Whether it has products and sums in one.
bool is_fused(const lir::Function& function);

/// Whether it takes quotients or roots of floats.
bool has_quotients(const lir::Function& function);

/// Whether a function, legalised for a device that has float16, makes use of that.
bool has_halves(const lir::Function& function);

/// Whether its lanes load or store several elements at once.
bool has_packets(const lir::Function& function);

/// Whether an assertion of that module may fail.
bool may_fail(const lir::Function& function);

}  // namespace quern::vulkan
