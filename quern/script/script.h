#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/device.h"
#include "quern/frontend/work.h"
#include "quern/lang/parse.h"
#include "quern/script/value.h"
#include "quern/semantics/request.h"

// The host language around kernels: what the command `quern` runs. A script was parsed without an
// error before any of this sees it.

namespace quern::script {

/// A name that a script reads and does not bind, at its first use.
struct FreeName {
    std::string name;
    lang::Span span;
};

struct KernelUse {
    lang::NodeId compute = -1;
    std::vector<semantics::Piped> then;
};

/// What a script takes and gives.
struct Signature {
    /// Every one needs a value before the script runs. In the order of the text.
    std::vector<FreeName> inputs;

    /// The parameters of `main`, which need values too.
    std::vector<FreeName> parameters;

    /// Names in kernels. A number given for one is bound there by name.
    std::vector<std::string> kernel_names;

    /// Names bound at the top level, in order; the name of `main` last.
    std::vector<std::string> results;

    /// Every Compute node at host level, in order, with the pipes that belong to its launch.
    std::vector<KernelUse> kernels;

    /// The only pipeline, if nothing calls it: running the script runs it. Else -1.
    lang::NodeId main = -1;
};

struct CheckOptions {
    /// Reports what the devices here cannot do (E0601) as errors too.
    bool devices = false;
};

/// Checks all of the host level that needs no input; adds what is wrong to `diagnostics`.
Signature check(const lang::Source& source, lang::Diagnostics& diagnostics,
                const CheckOptions& options = {});

/// Values for inputs, parameters and names in kernels.
using Bindings = std::map<std::string, Value, std::less<>>;

/// How long a launch takes once its kernel is compiled, and what it does.
struct Timing {
    double seconds = 0;
    frontend::Work work;
    Device device;
};

struct RunOptions {
    /// Where kernels run that name no device. It wins over `config { compute_device }`.
    std::optional<Device> device;

    /// How kernels round. It wins over `config { numerics }`.
    std::optional<Numerics> numerics;

    /// As in KernelOptions.
    bool pedantic = false;

    /// Called now and then with a kernel's name and the part of it that is done.
    std::function<void(std::string_view kernel, double part)> progress;

    /// If set, receives a kernel's name and what explain() says, before the kernel is launched.
    std::function<void(std::string_view kernel, const std::string& text)> explained;

    /// If set, every launch is repeated for a while, and the least time is handed on.
    std::function<void(std::string_view kernel, const Timing& timing)> timed;

    /// Makes the code of every kernel of the device cpu before it is launched.
    bool compiles = false;

    /// Launches every kernel where it stands, and none as part of another. So does QUERN_EAGER=1.
    bool eager = false;

    /// Launches no kernel: results have shape and dtype, and zeros that take no memory.
    bool shapes_only = false;
};

/// A tensor of zeros that holds one element.
Tensor placeholder(Shape shape, DType dtype);

struct Results {
    /// Names bound at the top level with their last values, in the order of their first binding.
    std::vector<std::pair<std::string, Value>> named;

    /// What `return` gave at the top level; nothing without one.
    Value returned;

    const Value* find(std::string_view name) const;
};

/// Runs a script. Throws KernelError at the script's line; before any work if an input has no value
/// (E0411) or the script asks for what the devices here cannot do (E0601).
Results run(const lang::Source& source, const Bindings& bindings, const RunOptions& options = {});

}  // namespace quern::script
