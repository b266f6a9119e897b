#pragma once

#include <string>
#include <string_view>

#include "quern/ir/cir.h"

namespace quern::schedule {

/// Sees a kernel after each pass that it goes through.
class Observer {
public:
    virtual ~Observer() = default;

    /// Called after each pass, with its name and the kernel that it made. Throws nothing.
    virtual void see(std::string_view pass, const ir::Kernel& kernel) = 0;

    /// What is wrong with what it saw, or empty.
    virtual const std::string& fault() const = 0;
};

}  // namespace quern::schedule
