// The passes of the schedule, one by one, on the interpreter.
#pragma once

#include <optional>
#include <string>

#include "quern/ir/verify.h"
#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

/// The first pass that makes a kernel which is not valid, or has another result than the one
/// before: every pass keeps each bit. Empty if none does.
inline std::string first_wrong_pass(const Case& c, Numerics numerics) {
    const std::optional<Tensor> expected = c.interpreted();
    std::string wrong;
    schedule::prepare(c.kernel(), c.facts(), numerics,
                      [&](std::string_view pass, const ir::Kernel& kernel) {
                          if (!wrong.empty()) return;
                          if (const auto broken = ir::verify(kernel); !broken.empty()) {
                              wrong = std::string(pass) + ": " + broken.front();
                              return;
                          }
                          const std::optional<Tensor> result = c.interpreted(kernel);
                          const bool agrees = expected.has_value() == result.has_value() &&
                                              (!expected || same_numbers(*result, *expected));
                          if (!agrees) wrong = std::string(pass) + " changes the result";
                      });
    return wrong;
}

}  // namespace quern::cpu_test
