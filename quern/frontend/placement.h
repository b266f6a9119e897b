#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "quern/device.h"
#include "quern/lang/parse.h"

// Where a kernel runs, and what a text may ask for that no device here can do.

namespace quern::frontend {

/// The message of E0600 for work over several devices that is asked for by `what`.
std::string refusal(std::string_view what);

/// The message of E0601 if there is no device of that id.
std::optional<std::string> absent_device(std::string_view id);

/// "the devices here are ..."
std::string device_list();

/// The device that a list of decorators names, or `otherwise`. Throws KernelError for a device that
/// is absent (E0601) and for several devices (E0600); warns of @parallel (W0707).
Device placed(const lang::Source& source, lang::NodeId first_decorator, const Device& otherwise);

/// Whether a list of decorators has @async, and whether a Compute node does.
bool is_async(const lang::Source& source, lang::NodeId first_decorator);
bool is_async_compute(const lang::Source& source, lang::NodeId compute);

/// The device that the decorators of a Compute node name, in its body or, first, in its header.
Device placed_compute(const lang::Source& source, lang::NodeId compute, const Device& otherwise);

}  // namespace quern::frontend
