// The passes of the schedule, one by one, on the interpreter.
#pragma once

#include <limits>
#include <string>

#include "quern/frontend/pass_check.h"
#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

/// What the first pass does that makes a kernel which is not valid, or has another result than the
/// one before: every pass keeps each bit. Empty if none does.
inline std::string first_wrong_pass(const Case& c, Numerics numerics) {
    const frontend::BoundLaunch launch = c.launch();
    frontend::PassCheck check(launch, std::numeric_limits<double>::infinity());
    schedule::prepare(c.kernel(), c.facts(), numerics, &check);
    return check.fault();
}

}  // namespace quern::cpu_test
