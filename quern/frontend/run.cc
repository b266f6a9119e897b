#include "quern/frontend/run.h"

#include <string>
#include <utility>
#include <vector>

#include "quern/frontend/vulkan_launch.h"
#include "quern/threads.h"

namespace quern::frontend {

namespace {

std::pair<std::shared_ptr<const CompiledKernel>, ReadyLaunch> compile_and_bind(
    const BoundLaunch& launch, schedule::Observer* observer) {
    const ir::Kernel& kernel = launch.kernel();
    std::vector<ir::OperandView> views;
    for (const interpret::View& v : launch.views) {
        views.push_back({kAnywhere, v.dtype, v.shape, v.strides});
    }
    views.push_back({kResult, launch.dtype, launch.output.shape, launch.output.strides});
    auto code = launch.prepared->compiled->find(
        kernel, ir::facts_of(kernel, launch.binding.dims, views), launch.numerics, observer);
    ReadyLaunch ready = code->ready(launch.binding.dims, launch.scalars, launch.views,
                                    launch.output, num_threads());
    return {std::move(code), std::move(ready)};
}

}  // namespace

std::pair<std::shared_ptr<const CompiledKernel>, ReadyLaunch> compiled(
    const lang::Source& source, const BoundLaunch& launch, schedule::Observer* observer) {
    return or_kernel_error(source, launch.compute,
                           [&] { return compile_and_bind(launch, observer); });
}

bool vulkan_runs(const lang::Source& source, const BoundLaunch& launch, const Device& device,
                 Tensor& result, bool keeps_result) {
    return or_kernel_error(source, launch.compute,
                           [&] { return run_on_vulkan(launch, device, result, keeps_result); });
}

void interpret(const lang::Source& source, const BoundLaunch& launch, Tensor& result,
               const Progress& progress) {
    // What devices do with the operands has to end first.
    for (const Tensor& operand : launch.operands) operand.data();
    interpret::View output = launch.output;
    output.data = result.data();
    const auto failure =
        launch.prepared->program.run(launch.binding.dims, launch.scalars, launch.views, output,
                                     {.threads = num_threads(), .progress = progress});
    if (!failure) return;
    lang::Diagnostics diagnostics(source);
    std::string message = failure->message;
    for (const auto& [span, reason] : launch.prepared->lowered.reasons) {
        if (failure->code == lang::Code::E0620 && failure->span == span) message = reason;
    }
    diagnostics.add(failure->code, failure->span, std::move(message));
    raise(FailedLaunch(diagnostics.sorted()));
}

}  // namespace quern::frontend
