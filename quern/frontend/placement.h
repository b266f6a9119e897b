#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/device.h"
#include "quern/lang/parse.h"

// Where a kernel runs, and what a text may ask for that no device here can do.

namespace quern::frontend {

/// What @parallel asks for: a part of the outermost parallel loop for each device, or one of the
/// innermost parallel loop that indexes a weight.
enum class Spread : std::uint8_t { None, Data, Model };

struct Placement {
    /// Where the result is.
    Device device;

    /// The further devices of a launch that is spread.
    std::vector<Device> others;
    Spread spread = Spread::None;

    /// Of @parallel, or empty.
    lang::Span span;
};

/// The message of E0601 if there is no device of that id.
std::optional<std::string> absent_device(std::string_view id);

/// "the devices here are ..."
std::string device_list();

/// What a list of decorators says, or `otherwise`. Throws KernelError for a device that is absent
/// (E0601); warns of @parallel with a single device (W0707).
Placement placed(const lang::Source& source, lang::NodeId first_decorator,
                 const Placement& otherwise);

/// Whether a list of decorators has @async, and whether a Compute node does.
bool is_async(const lang::Source& source, lang::NodeId first_decorator);
bool is_async_compute(const lang::Source& source, lang::NodeId compute);

/// What the decorators of a Compute node say, in its body or, first, in its header.
Placement placed_compute(const lang::Source& source, lang::NodeId compute,
                         const Placement& otherwise);

}  // namespace quern::frontend
