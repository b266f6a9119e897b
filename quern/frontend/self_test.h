#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quern/device.h"
#include "quern/dtype.h"
#include "quern/ir/cir.h"
#include "quern/numerics.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/tensor.h"

// Drivers of Vulkan have faults, and may round as they like. What kernels need of one is tried by
// small kernels, whose results the interpreter knows, before the first that needs it runs.

namespace quern::frontend {

/// A small kernel that a driver which is right gives the interpreter's result for.
struct Probe {
    /// What is tried, as "elements of int16".
    std::string what;
    std::string text;
    std::function<std::vector<Tensor>()> operands;
    Numerics numerics = Numerics::Strict;
    vulkan::PointsAre points = vulkan::PointsAre::Chosen;
    lir::Atom atom = {};

    /// What is tried by probes of their own, of which others are free.
    bool may_have_packets = false;
    bool may_fuse = false;

    /// What is done about kernels that need it on a driver that gets it wrong.
    std::string otherwise = "kernels that need it are refused";

    /// How far results may be apart, relative to the interpreter's; 0: no bit but those of a NaN.
    double tolerance = 0;
};

/// What a kernel needs that there is no other code for. `has_quotients`: it takes some, or roots.
std::vector<Probe> probes_for(const ir::Kernel& kernel, Numerics numerics, bool has_quotients);

/// Where products and sums are one operation.
Probe probe_of_fused();

/// Where lanes load or store several elements at once.
std::vector<Probe> probes_of_packets(const ir::Kernel& kernel);

/// Where a point has so many lanes.
std::vector<Probe> probes_of_lanes(std::uint32_t lanes);

/// Where lanes of a work-group tell each other values without memory; so many of them, of which
/// more than 16 are in rows.
Probe probe_of_subgroups(std::uint32_t lanes);

/// Where they multiply matrices together, by an atom of the device.
Probe probe_of_matrices(const lir::Atom& atom);

/// Where float16 is the device's.
Probe probe_of_float16();

/// Where the driver may compute with floats that it knows, as 0 * x, which is not 0 for every x.
Probe probe_of_folding();

/// What a driver gets wrong of a probe, in words; empty if it is right. `run` gives its result.
std::string fault_of(const Probe& probe, const std::function<Tensor(const Probe&)>& run);

/// Whether this thread runs a probe: nothing of it is counted.
bool is_probing() noexcept;

/// The same for a device "vulkan:N": found once for each process, with a warning. The result is in
/// the cache of compiled kernels too, for the driver's version. Code that it does not compile is a
/// fault too, what it said, but one that is not kept. Empty within a probe. Throws DeviceError,
/// OutOfMemory.
std::string fault_of(const Probe& probe, const Device& device);

}  // namespace quern::frontend
