#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quern/device.h"
#include "quern/error.h"
#include "quern/ir/facts.h"
#include "quern/lang/parse.h"
#include "quern/numerics.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/support/threads.h"
#include "quern/tensor.h"

namespace quern::frontend {

struct BoundLaunch;

/// A driver did not compile the code of a kernel.
class UncompiledCode final : public DeviceError {
public:
    UncompiledCode(const Device& device, std::string error)
        : DeviceError("[" + device.id() + "] " + error), error_(std::move(error)) {}

    /// What the driver said.
    const std::string& error() const noexcept { return error_; }

private:
    std::string error_;
};

/// What the devices "vulkan:N" have of one kernel, for each set of facts that they met.
/// Thread-safe.
class VulkanKernels {
public:
    /// Code for a launch of which `facts` hold: what is there, or made now. Throws DeviceError,
    /// OutOfMemory.
    std::shared_ptr<const vulkan::Compiled> find(const Device& device, const ir::Kernel& kernel,
                                                 const ir::Facts& facts, Numerics numerics,
                                                 const vulkan::Variant& variant);

private:
    static std::shared_ptr<const vulkan::Compiled> compiled(const Device& device,
                                                            const ir::Kernel& kernel,
                                                            const ir::Facts& facts,
                                                            Numerics numerics,
                                                            const vulkan::Variant& variant);

    struct Entry {
        std::string device;
        Numerics numerics;
        vulkan::Variant variant;
        ir::Facts facts;
        std::shared_ptr<const vulkan::Compiled> code;
    };

    Mutex mutex_;
    std::vector<Entry> entries_;
};

/// Where the elements of a launch on a device "vulkan:N" are, and what holds of them there.
struct PlacedLaunch {
    std::vector<vulkan::Range> operands;
    vulkan::Range output;
    ir::Facts facts;
};
PlacedLaunch place_on_vulkan(const BoundLaunch& launch, const Device& device, const Tensor& result);

/// Begins a launch on a device "vulkan:N", whose result waits for it where somebody looks.
/// `keeps_result` says that the kernel leaves elements of the result as they are. False if an
/// assertion did not hold: then the result is unspecified. `wanted`: what code it may have, whose
/// windows the launch's sizes say. Throws Refusal if the device does not run the kernel,
/// OutOfMemory, DeviceError.
bool run_on_vulkan(const BoundLaunch& launch, const Device& device, Tensor& result,
                   bool keeps_result, const vulkan::Variant& wanted = {});

}  // namespace quern::frontend
