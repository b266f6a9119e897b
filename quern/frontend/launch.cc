#include "quern/frontend/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "quern/frontend/launch_record.h"
#include "quern/frontend/pass_check.h"
#include "quern/frontend/run.h"
#include "quern/frontend/spread.h"
#include "quern/ir/coverage.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/held.h"
#include "quern/runtime/storage.h"

namespace quern::frontend {

std::vector<OperandInfo> infos_of(std::span<const Tensor> operands) {
    std::vector<OperandInfo> infos;
    for (const Tensor& t : operands) infos.push_back({t.dtype(), t.shape()});
    return infos;
}

OperandInfo check_launch(const lang::Source& source, lang::NodeId compute,
                         std::span<const OperandInfo> operands, const Arguments& arguments,
                         const LaunchOptions& options) {
    const BoundKernel launch = bind_launch(source, compute, operands, arguments, options);
    const ir::Kernel& kernel = launch.kernel();
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    return {out.dtype, out.flat ? operands[kernel.first_flat()].shape : launch.binding.output};
}

Tensor launch(const lang::Source& source, lang::NodeId compute, std::span<const Tensor> operands,
              const Arguments& arguments, const LaunchOptions& options) {
    const Held held(that_may_end(operands), options.are_held);
    if (!options.placement.others.empty()) {
        return launch_spread(source, compute, operands, arguments, options);
    }
    LaunchKey key(source, compute, options.placement.device, options.pedantic, options.numerics);
    for (const Tensor& operand : operands) key.add(operand);
    for (const auto& [name, number] : arguments) key.add(name, number);
    for (const semantics::Piped& function : options.then) key.add(function);
    for (const FusedOperand& operand : options.fused) key.add(operand);
    if (auto result = launch_again(key, options.progress)) return std::move(*result);
    return launch(key, source, compute, operands, arguments, options);
}

void compile_launch(const lang::Source& source, lang::NodeId compute,
                    std::span<const OperandInfo> operands, const Arguments& arguments,
                    const LaunchOptions& options) {
    const BoundKernel launch = bind_launch(source, compute, operands, arguments, options);
    or_kernel_error(source, compute, [&] {
        return launch.prepared->compiled->find(
            launch.kernel(), launch.row_major_facts(kAnywhere, kResult), options.numerics);
    });
}

void check_memory(const lang::Source& source, lang::NodeId compute,
                  std::span<const Tensor> operands, const Arguments& arguments,
                  const LaunchOptions& options) {
    const Device& device = options.placement.device;
    if (!options.pedantic || !device.is_vulkan()) return;
    const std::size_t number = *vulkan_number(device.id());
    const auto found = std::ranges::find_if(
        operands, [&](const Tensor& operand) { return !InFlight::is_on(operand, number); });
    if (found == operands.end()) return;
    const auto prepared = prepare(source, compute, infos_of(operands), arguments, options);
    const ir::Buffer& buffer =
        prepared->lowered.kernel.buffers[std::size_t(found - operands.begin())];
    // The program's memory can be adopted as a tensor of any device.
    const bool is_adopted = found->device() == device;
    lang::Diagnostics diagnostics(source);
    diagnostics
        .add(lang::Code::E0602, buffer.span,
             fmt::format("expected '{}' in the memory of {}, got it in that of {}", buffer.name,
                         device.id(), is_adopted ? "the program" : found->device().id()))
        .note("without --pedantic it is copied for this launch")
        .help(fmt::format("copy it once, by to_device(\"{}\"{})", device.id(),
                          is_adopted ? ", copy=true" : ""));
    diagnostics.raise();
}

Tensor launch(const LaunchKey& key, const lang::Source& source, lang::NodeId compute,
              std::span<const Tensor> operands, const Arguments& arguments,
              const LaunchOptions& options) {
    if (!options.placement.others.empty()) {
        return launch_spread(source, compute, operands, arguments, options);
    }
    const Device& device = options.placement.device;
    check_memory(source, compute, operands, arguments, options);
    const BoundLaunch bound_launch = bound(source, compute, operands, arguments, options);
    // Nothing is compiled for batches without elements.
    if (ir::runs_nothing(bound_launch.kernel(), bound_launch.environment())) {
        return Tensor(bound_launch.shape, bound_launch.dtype, device);
    }
    if (device.is_cpu()) {
        const std::uint64_t generation = memory_generation();
        const auto check = pass_check(bound_launch);
        auto [code, ready] = compiled(source, bound_launch, check.get());
        LaunchRecord record{.kernel = std::move(code),
                            .launch = std::move(ready),
                            .shape = bound_launch.shape,
                            .dtype = bound_launch.dtype,
                            .device = device,
                            .is_cleared = !bound_launch.writes_all()};
        Tensor result = new_result(record);
        std::vector<void*> addresses = bound_launch.addresses();
        addresses.push_back(result.data());
        const bool has_run = record.kernel->run(record.launch, addresses, options.progress);
        if (check && has_run) check->see_result(result);
        if (check && !check->fault().empty()) {
            bound_launch.prepared->compiled->discard(record.kernel, bound_launch.kernel(),
                                                     options.numerics);
            raise(InternalError("[passes] " + check->fault() + "; please report"));
        }
        if (has_run) {
            if (bound_launch.are_as_given) remember(key, std::move(record), generation);
            return result;
        }
    }
    if (device.is_vulkan()) {
        const bool is_whole = bound_launch.writes_all();
        Tensor result = is_whole ? Tensor::empty(bound_launch.shape, bound_launch.dtype, device)
                                 : Tensor(bound_launch.shape, bound_launch.dtype, device);
        if (vulkan_runs(source, bound_launch, device, result, !is_whole)) return result;
    }
    if (device.id() == "interpreter") warn_if_chosen_for_want_of_compiler();
    // The interpreter runs what was asked of it, and says where and why compiled code failed.
    Tensor result(bound_launch.shape, bound_launch.dtype, device);
    interpret(source, bound_launch, result, options.progress);
    return result;
}

}  // namespace quern::frontend
