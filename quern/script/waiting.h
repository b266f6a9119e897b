#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/frontend/fused.h"
#include "quern/script/value.h"

namespace quern::script {

/// A tensor that nobody has looked at yet. It was checked, so its launch may come later, become
/// part of that of a kernel that reads it, or never come.
struct Waiting {
    std::shared_ptr<const frontend::LaunchRequest> request;
    frontend::OperandInfo info;

    /// What progress and explain call its kernel.
    std::string kernel;

    /// Some launch computes it for itself.
    bool was_read = false;
    std::optional<Tensor> result;
};

/// When the launch is made that gives a value.
enum class When : std::uint8_t { Now, Later };

/// An operand of a launch: if it waits, the tensor has its shape and dtype only.
struct Operand {
    Tensor tensor;
    std::shared_ptr<Waiting> waiting;
};

/// None for a value that is no tensor.
std::optional<Operand> as_operand(const Value& value);

}  // namespace quern::script
