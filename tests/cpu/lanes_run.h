// Kernels run lane by lane, as a device's work-groups run them, without the device.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/backend/common/image_of.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/lir/executor.h"
#include "quern/lir/lanes.h"
#include "tests/cpu/case.h"

namespace quern::cpu_test {

struct LanesRun {
    /// None if an assertion did not hold.
    std::optional<Tensor> result;

    /// What no device may do, or empty.
    std::string mistake;

    /// Of all functions, if it was asked for: see lir::Execution.
    std::uint32_t bank_steps = 0;
};

/// The bytes that a view reaches.
inline lir::Memory reach_of(const interpret::View& view) {
    const auto size = std::int64_t(size_of(view.dtype));
    lir::Memory reach{static_cast<std::byte*>(view.data), 0, size};
    for (std::size_t p = 0; p < view.shape.size(); ++p) {
        if (view.shape[p] == 0) return {};
        const std::int64_t last = (view.shape[p] - 1) * view.strides[p] * size;
        (last < 0 ? reach.begin : reach.end) += last;
    }
    return reach;
}

/// The functions of a plan, each for the lanes of a work-group.
inline std::vector<lir::Function> functions_of(const schedule::Plan& plan,
                                               std::uint32_t subgroup = 1,
                                               std::uint32_t group_bytes = lir::kGroupBytes) {
    return schedule::for_lanes(plan, subgroup, group_bytes);
}

/// The plan with these functions, as they are written for a device.
inline schedule::Plan with_functions(schedule::Plan plan, std::vector<lir::Function> functions,
                                     const lir::Native& native) {
    for (std::size_t n = 0; n < functions.size(); ++n) {
        plan.stages[n].function = lir::legalise(std::move(functions[n]), native);
    }
    return plan;
}

/// A plan whose functions are those of lanes.
inline schedule::Plan plan_of_lanes(const Case& c, Numerics numerics,
                                    const schedule::Target& target, std::uint32_t subgroup) {
    const schedule::Plan plan = schedule::plan(c.kernel(), c.facts(), numerics, target);
    return with_functions(plan, functions_of(plan, subgroup, target.group_bytes), target.native);
}

/// Runs these functions in place of a plan's own.
inline LanesRun run_on_lanes(const Case& c, const schedule::Plan& plan,
                             const std::vector<lir::Function>& functions,
                             bool counts_banks = false) {
    const KernelImage image = image_of(plan, {});
    const ReadyLaunch ready = c.ready(image);
    LanesRun run;
    Tensor result = c.output();
    std::vector<lir::Memory> memory(image.buffer_count);
    for (std::size_t i = 0; i < c.views().size(); ++i) {
        interpret::View view = c.views()[i];
        // A flat operand is all its elements in order.
        if (view.strides.size() != view.shape.size()) {
            view.shape = {element_count(view.shape)};
            view.strides = {1};
        }
        memory[i] = reach_of(view);
    }
    memory[c.views().size()] = {static_cast<std::byte*>(result.data()), 0,
                                std::int64_t(result.bytes())};
    std::vector<std::vector<std::byte>> shared;
    for (std::size_t i = 0; i < image.shared.size(); ++i) {
        auto& array = shared.emplace_back(ready.shared[i], std::byte{0xFF});
        memory[image.shared[i].buffer] = {array.data(), 0, std::int64_t(array.size())};
    }
    for (std::size_t s = 0; s < functions.size(); ++s) {
        const lir::Execution done = lir::execute(functions[s], {.words = ready.stages[s].words,
                                                                .memory = memory,
                                                                .local_bytes = ready.local,
                                                                .points = ready.stages[s].points,
                                                                .counts_banks = counts_banks});
        run.mistake = done.mistake;
        run.bank_steps = std::max(run.bank_steps, done.bank_steps);
        if (done.has_failed || !done.mistake.empty()) return run;
    }
    run.result = result;
    return run;
}

inline LanesRun run_on_lanes(const Case& c, Numerics numerics, const schedule::Target& target,
                             std::uint32_t subgroup = 1) {
    const schedule::Plan plan = schedule::plan(c.kernel(), c.facts(), numerics, target);
    std::vector<lir::Function> functions = functions_of(plan, subgroup, target.group_bytes);
    for (lir::Function& function : functions) {
        function = lir::legalise(std::move(function), target.native);
        const std::vector<std::string> broken = lir::verify(function);
        if (!broken.empty()) return {std::nullopt, "legalised: " + broken.front(), 0};
    }
    return run_on_lanes(c, plan, functions);
}

}  // namespace quern::cpu_test
