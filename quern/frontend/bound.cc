#include "quern/frontend/bound.h"

#include <fmt/format.h>

#include <utility>

#include "quern/frontend/fused.h"
#include "quern/ir/coverage.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/shape.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"

namespace quern::frontend {

namespace {

std::vector<Shape> bound_shapes(const lang::Source& source, const ir::Kernel& kernel,
                                std::span<const OperandInfo> operands) {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const ir::Buffer& buffer = kernel.buffers[i];
        if (!buffer.flat) {
            shapes.push_back(operands[i].shape);
            continue;
        }
        const std::uint32_t first = kernel.first_flat();
        if (operands[i].shape != operands[first].shape) {
            lang::Diagnostics diagnostics(source);
            diagnostics
                .add(lang::Code::E0502, buffer.span,
                     fmt::format("expected '{}' of shape {} as '{}', got {}", buffer.name,
                                 to_string(operands[first].shape), kernel.buffers[first].name,
                                 to_string(operands[i].shape)))
                .note("one loop over len reads every operand by its row-major position");
            diagnostics.raise();
        }
        shapes.push_back({element_count(operands[i].shape)});
    }
    return shapes;
}

interpret::ScalarValue scalar_value(const Number& number) {
    if (const auto* i = std::get_if<std::int64_t>(&number)) return {*i, static_cast<double>(*i)};
    if (const auto* b = std::get_if<bool>(&number)) return {*b, double(*b)};
    return {0, std::get<double>(number)};
}

}  // namespace

ir::Environment BoundKernel::environment() const {
    ir::Environment environment;
    environment.dims = binding.dims;
    environment.shapes = shapes;
    return environment;
}

bool BoundKernel::writes_all() const {
    return ir::writes_all(kernel(), binding.output, environment());
}

ir::Facts BoundKernel::row_major_facts(const void* operand, const void* result) const {
    std::vector<std::vector<std::int64_t>> strides;
    for (const Shape& shape : shapes) strides.push_back(row_major_strides(shape));
    strides.push_back(row_major_strides(binding.output));
    std::vector<ir::OperandView> views;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        views.push_back({operand, kernel().buffers[i].dtype, shapes[i], strides[i]});
    }
    views.push_back(
        {result, kernel().buffers[kernel().output()].dtype, binding.output, strides.back()});
    return ir::facts_of(kernel(), binding.dims, views);
}

BoundKernel bind_launch(const lang::Source& source, lang::NodeId compute,
                        std::span<const OperandInfo> operands, const Arguments& arguments,
                        const LaunchOptions& options) {
    return bind_launch(source, prepare(source, compute, operands, arguments, options), operands);
}

BoundKernel bind_launch(const lang::Source& source, std::shared_ptr<const Prepared> prepared,
                        std::span<const OperandInfo> operands) {
    BoundKernel bound;
    bound.prepared = std::move(prepared);
    bound.shapes = bound_shapes(source, bound.kernel(), operands);
    lang::Diagnostics diagnostics(source);
    auto binding = semantics::bind(bound.prepared->lowered, bound.shapes, {}, diagnostics);
    diagnostics.raise();
    bound.binding = std::move(*binding);
    return bound;
}

BoundLaunch bound(const lang::Source& source, lang::NodeId compute,
                  std::span<const Tensor> operands, const Arguments& arguments,
                  const LaunchOptions& options) {
    BoundLaunch launch(bind_launch(source, compute, infos_of(operands), arguments, options));
    launch.compute = compute;
    launch.numerics = options.numerics;
    const ir::Kernel& kernel = launch.kernel();
    const auto vulkan = vulkan_number(options.placement.device.id());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        // Row-major positions need row-major elements.
        const bool flat = kernel.buffers[i].flat;
        launch.are_as_given = launch.are_as_given && (!flat || operands[i].is_contiguous());
        launch.operands.push_back(flat ? operands[i].contiguous() : operands[i]);
        Tensor& t = launch.operands.back();
        const bool is_moved = vulkan && !InFlight::is_on(operands[i], *vulkan);
        if (is_moved && InFlight::is_on(t, *vulkan)) count_copied(t.bytes());
        launch.views.push_back({InFlight::address_to_read(t, vulkan), t.dtype(), launch.shapes[i],
                                flat ? row_major_strides(launch.shapes[i]) : t.strides()});
    }
    for (const ir::Scalar& s : kernel.scalars) {
        const Number* number = find_number(s.name, arguments, options);
        launch.scalars.push_back(number == nullptr ? interpret::ScalarValue{}
                                                   : scalar_value(*number));
    }
    if (options.part) {
        const std::size_t first = launch.scalars.size() - 2;
        launch.scalars[first] = scalar_value(options.part->begin);
        launch.scalars[first + 1] = scalar_value(options.part->end);
    }
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    launch.shape = out.flat ? operands[kernel.first_flat()].shape() : launch.binding.output;
    QUERN_CHECK(element_count(launch.shape) == element_count(launch.binding.output),
                "a result has the elements that its code writes");
    launch.dtype = out.dtype;
    launch.output = {nullptr, out.dtype, launch.binding.output,
                     row_major_strides(launch.binding.output)};
    return launch;
}

std::vector<void*> BoundLaunch::addresses() const {
    std::vector<void*> list;
    list.reserve(views.size() + 1);
    for (const interpret::View& view : views) list.push_back(view.data);
    return list;
}

}  // namespace quern::frontend
