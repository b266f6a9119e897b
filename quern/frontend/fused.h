#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "quern/frontend/launch.h"

// Launches that wait for their result to be looked at. Where a later one reads it element by
// element, it computes the elements itself, and there is one launch instead of two.

namespace quern::frontend {

struct Prepared;

/// All that `launch` takes, kept.
struct LaunchRequest {
    std::shared_ptr<const lang::Source> source;
    lang::NodeId compute = -1;
    std::vector<Tensor> operands;
    Arguments arguments;
    LaunchOptions options;
};

/// Whether the launch may happen later or never: each point makes one element, and nothing can fail
/// in it but for want of memory or of the device itself. Throws KernelError if it does not check.
bool may_wait(const LaunchRequest& request);

/// The launch of `consumer` in which its operand number `operand` is no tensor but what `producer`
/// gives, so that only its dtype and shape count. None if the two have no kernel in common:
/// ir/fuse.h says which have.
/// Requires: of the operands behind it none is fused yet; may_wait(producer).
std::optional<LaunchRequest> fused(const std::shared_ptr<const LaunchRequest>& producer,
                                   LaunchRequest consumer, std::size_t operand);

Tensor launch(const LaunchRequest& request);

/// What `prepare` gives for a launch with fused operands.
std::shared_ptr<const Prepared> prepare_fused(const lang::Source& source, lang::NodeId compute,
                                              std::span<const OperandInfo> operands,
                                              const Arguments& arguments,
                                              const LaunchOptions& options);

/// The number that a scalar of the CIR has in a launch; null where the host gave none.
const Number* find_number(std::string_view scalar, const Arguments& arguments,
                          const LaunchOptions& options);

}  // namespace quern::frontend
