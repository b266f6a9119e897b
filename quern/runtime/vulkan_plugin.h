#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"
#include "quern/lir/lir.h"
#include "quern/numerics.h"
#include "quern/runtime/image.h"

// What the core knows of the plug-in that runs kernels with Vulkan. Nothing here throws: the
// plug-in is a library of its own, and says what went wrong.

namespace quern {
class Pool;
struct ReadyLaunch;
}  // namespace quern

namespace quern::vulkan {

struct DeviceDescription {
    std::string name;

    /// Bytes of the heap that kernels use.
    std::int64_t memory = 0;

    /// Of them, in one piece.
    std::uint64_t largest_allocation = 0;

    /// Whether the host sees tensors in the device's memory. Else they have memory of the host too,
    /// and what one of the two has written is copied for the other.
    bool is_memory_seen = true;

    /// The device and its driver of just this version, in words.
    std::string driver;

    /// What the device lacks that every kernel needs, or empty.
    std::string missing;
};

/// What does a point of a grid: what suits the device, which is an invocation on processors and a
/// work-group on others; an invocation; a work-group, whose invocations are the lanes of the loops
/// inside; the same, where each lane multiplies for itself; the same, where lanes know nothing of
/// each other but by memory; an invocation, by code for a device that has integers of 32 bits only.
enum class PointsAre : std::uint8_t {
    Chosen,
    Invocations,
    Groups,
    GroupsByLanes,
    GroupsByMemory,
    InvocationsOf32,
};

/// Why a call for a device did not work.
struct Failure {
    enum class Kind : std::uint8_t {
        None,
        Error,
        Lost,          // the device works no longer
        HostIsFull,    // the host has no memory for it now
        DeviceIsFull,  // the device has none
    };
    Kind kind = Kind::None;

    /// In words; of a host that is full there may be none.
    std::string what;

    explicit operator bool() const { return kind != Kind::None; }
};

/// What code is made for, besides what is known of a kernel's operands.
struct Variant {
    PointsAre points = PointsAre::Chosen;

    /// It may be for launches of small numbers only (Compiled::is_small).
    bool may_be_small = true;

    /// It may have float16 where the device has it, else integers.
    bool may_have_float16 = true;

    /// Its lanes may load and store several elements at once.
    bool may_have_packets = true;

    /// It may have the products of a sum as one operation with it.
    bool may_fuse = true;

    /// Floats are hidden from the driver, which folds what it knows of them wrongly.
    bool hides_floats = false;

    /// The one atom that it may have; of no rows for any of the device's.
    lir::Atom atom = {};

    /// In how many pieces each buffer is bound, by number (see Driver::windows_for); those behind
    /// them in one.
    std::vector<std::uint32_t> windows = {};

    bool operator==(const Variant&) const = default;
};

/// The code of one kernel on one device.
class Pipelines {
public:
    virtual ~Pipelines() = default;
};

/// How a work-group runs a stage.
struct Groups {
    /// Invocations of one; each does a point, or is a lane of one.
    std::uint32_t invocations = 0;
    bool are_lanes = false;
    std::uint32_t points = 1;

    /// How many of them the code takes to run together: they tell each other values without
    /// memory, or meet as all of the group; 1: it has no such place.
    std::uint32_t subgroup = 1;

    /// Bytes of memory that they share, and how often the code makes them meet.
    std::uint32_t shared_bytes = 0;
    std::uint32_t barriers = 0;

    /// The matrices that its subgroups multiply; of no rows if they multiply none.
    lir::Atom atom = {};

    /// Arithmetic of float64 is arithmetic on bits, since the device has none.
    bool has_soft_float64 = false;

    bool operator==(const Groups&) const = default;
};

/// "64 invocations, a point each", "64 invocations, 16 lanes of each of 4 points", "16 lanes in
/// subgroups of 8, one point; 128 bytes shared, 2 barriers", with "; products of 16 x 16 x 16
/// (float16, float32)" or "; float64 as integers" behind it.
std::string to_string(const Groups& groups);

struct Compiled {
    KernelImage image;
    std::shared_ptr<const Pipelines> pipelines;

    /// Of each stage.
    std::vector<Groups> groups;

    /// Only for launches of which has_small_numbers holds (runtime/compiled.h).
    bool is_small = false;

    /// It has the device's float16.
    bool has_float16 = false;

    /// Its lanes load or store several elements at once.
    bool has_packets = false;

    /// It takes quotients or roots of floats.
    bool has_quotients = false;

    /// It has products and sums in one.
    bool is_fused = false;

    /// The driver is known to fold floats wrongly, and they are hidden from it.
    bool hides_floats = false;

    /// Why the device does not run the kernel, or empty.
    std::string refusal;

    Failure failure;

    /// It is the code that the driver did not take, which may ask for what it says to have.
    bool is_of_code = false;
};

/// Keeps what drivers made of kernels, for other processes. Thread-safe.
class DriverCode {
public:
    virtual ~DriverCode() = default;

    /// What `write` got for this key, or none.
    virtual std::optional<std::vector<std::byte>> read(const std::string& key) const = 0;
    virtual void write(const std::string& key, std::span<const std::byte> code) const = 0;
};

/// Memory of a tensor.
struct Memory {
    /// The host's address of it, or of the memory of the host that stands for it. Null if there is
    /// none: the device has no room, or `failure`.
    std::byte* data = nullptr;
    std::size_t bytes = 0;

    /// Whether the host sees what the device writes. Else `upload` and `fetch` bring it across.
    bool is_seen = true;

    /// Whether nobody has written it.
    bool is_zero = false;

    /// The driver's.
    void* block = nullptr;

    Failure failure;
};

/// Bytes that the host sees.
struct Range {
    std::byte* data = nullptr;
    std::size_t bytes = 0;

    /// What a kernel sees as the address of element 0, behind `data`.
    std::size_t offset = 0;

    /// Whether `Driver::allocate` gave them, for the device of the launch.
    bool is_on_device = false;
};

/// Iterations of an invocation after which llvmpipe leaves a loop.
inline constexpr std::uint64_t kMostIterations = 65535;

struct Outcome {
    /// An assertion did not hold; the output is unspecified.
    bool has_failed = false;

    /// The driver left a loop before its end, after kMostIterations.
    bool is_cut = false;

    /// Bytes that the device has no memory for, or 0; and whether it is the host's memory that the
    /// device sees.
    std::size_t out_of_memory = 0;
    bool is_of_staging = false;

    Failure failure;

    /// For `wait`: the device may still be at it. 0 if it has ended.
    std::uint64_t ticket = 0;

    /// Bytes that were copied to the device's memory or back.
    std::size_t copied = 0;
};

/// Thread-safe.
class Driver {
public:
    virtual ~Driver() = default;

    virtual const std::vector<DeviceDescription>& devices() const = 0;

    /// Code for launches of which `facts` hold. `kept`, if there is one, saves the driver work.
    virtual Compiled compile(std::size_t device, const ir::Kernel& kernel, const ir::Facts& facts,
                             Numerics numerics, const Variant& variant, const DriverCode* kept) = 0;

    /// In how many pieces a device takes a buffer of so many bytes.
    virtual std::uint32_t windows_for(std::size_t device, std::uint64_t bytes) const = 0;

    /// At an address that is a multiple of 256.
    virtual Memory allocate(std::size_t device, std::size_t bytes) = 0;

    /// The memory is used again once the launch of that ticket has ended.
    virtual void free(std::size_t device, const Memory& memory, std::uint64_t ticket) noexcept = 0;

    /// Until the launch of that ticket and all before it have ended.
    virtual Failure wait(std::size_t device, std::uint64_t ticket) = 0;

    /// Of what `allocate` gives and of what kernels need beside it; what waited for launches that
    /// have ended is free. Null and why if the device is not to be used.
    virtual Pool* pool(std::size_t device, Failure& failure) = 0;

    /// Begins to copy from `data` to the device, for the launches that come. Only of memory that is
    /// not seen, and that no launch uses which has not been waited for.
    virtual Outcome upload(std::size_t device, const Memory& memory) = 0;

    /// Copies from the device to `data`, and waits. Of such memory too.
    virtual Outcome fetch(std::size_t device, const Memory& memory) = 0;

    /// Begins a launch, after those before it. Operands that are not in the device's memory are
    /// copied there, one that is given twice once, and such an output back; `keeps_output` says
    /// that it is copied there first. Waits where the launch may fail or its output is the host's.
    virtual Outcome run(const std::shared_ptr<const Pipelines>& pipelines, const KernelImage& image,
                        const ReadyLaunch& launch, std::span<const Range> operands, Range output,
                        bool keeps_output) = 0;

    /// Waits for the launches that have been submitted.
    virtual void wait_for_all() noexcept = 0;
};

/// Gives the driver of the process, or null and why.
using DriverFunction = Driver*(std::string& why);

inline constexpr const char* kDriverSymbol = "quern_vulkan_driver";
inline constexpr const char* kVersionSymbol = "quern_vulkan_code_version";
inline constexpr const char* kPluginName = "libquern_vulkan.so";

/// A ticket that has ended before anything is launched.
inline constexpr std::uint64_t kBeforeAll = 1;

/// The ticket of whatever was launched.
inline constexpr std::uint64_t kEverything = ~std::uint64_t{0};

/// Throws OutOfMemory: a device has no room for `bytes`, or they are more than it has in one piece.
[[noreturn]] void raise_no_room(std::size_t device, std::size_t bytes);

/// Throws OutOfMemory, DeviceLost or DeviceError if a call for a device did not work.
void raise_if_failed(std::size_t device, const Failure& failure);
void raise_if_failed(std::size_t device, const Outcome& outcome);

/// Waits for a launch on a device that there is, and all before it. Throws DeviceLost.
void wait_for(std::size_t device, std::uint64_t ticket);

/// Of the memory of a device that there is. Throws as raise_if_failed.
Pool& pool_of(std::size_t device);

/// Whether the host sees tensors in the memory of a device that there is.
bool is_memory_seen(std::size_t device);

/// Loads the plug-in and the system's Vulkan at the first call. Null and why if one is not here.
Driver* driver(std::string& why);

/// The same for the device "vulkan:N". Throws DeviceError (E0601) and why if one is not here.
Driver& driver_of(std::size_t device);

}  // namespace quern::vulkan
