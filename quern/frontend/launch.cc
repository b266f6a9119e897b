#include "quern/frontend/launch.h"

#include <fmt/format.h>

#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "quern/frontend/prepare.h"
#include "quern/ir/coverage.h"
#include "quern/ir/verify.h"
#include "quern/runtime/device_options.h"
#include "quern/support/check.h"

namespace quern::frontend {

namespace {

/// Everything that decides the CIR, as text.
std::string key_of(const lang::Source& source, lang::NodeId compute,
                   std::span<const OperandInfo> operands, const Arguments& arguments,
                   const LaunchOptions& options) {
    std::string key = fmt::format("{}|{}|", compute, options.pedantic);
    for (const OperandInfo& o : operands) {
        key += fmt::format("{}{},", to_string(o.dtype), o.shape.size());
    }
    for (const auto& [name, number] : arguments) {
        key += fmt::format("|{}:{}", name, number.index());
        if (const auto* i = std::get_if<std::int64_t>(&number)) key += fmt::format("={}", *i);
        if (const auto* b = std::get_if<bool>(&number)) key += fmt::format("={}", *b);
    }
    for (const semantics::Piped& piped : options.then) key += "|>" + piped.name;
    key += '|';
    key += source.file;
    key += '\n';
    key += source.text;
    return key;
}

/// The most recently used kernels.
class Cache {
public:
    std::shared_ptr<const Prepared> find(const std::string& key) {
        const std::lock_guard lock(mutex_);
        const auto it = map_.find(key);
        if (it == map_.end()) return nullptr;
        order_.splice(order_.begin(), order_, it->second);
        return it->second->second;
    }

    void add(const std::string& key, std::shared_ptr<const Prepared> prepared) {
        // Made before anything changes, so that a failed allocation leaves list and map agreed.
        std::list<Entry> entry;
        entry.emplace_front(key, std::move(prepared));
        const std::lock_guard lock(mutex_);
        if (!map_.emplace(key, entry.begin()).second) return;
        order_.splice(order_.begin(), entry);
        if (order_.size() <= kCapacity) return;
        map_.erase(order_.back().first);
        order_.pop_back();
    }

private:
    static constexpr std::size_t kCapacity = 256;
    using Entry = std::pair<std::string, std::shared_ptr<const Prepared>>;
    std::mutex mutex_;
    std::list<Entry> order_;
    std::unordered_map<std::string, std::list<Entry>::iterator> map_;
};

Cache& cache() {
    static Cache instance;
    return instance;
}

std::vector<std::int64_t> row_major(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t p = shape.size(); p-- > 1;) strides[p - 1] = strides[p] * shape[p];
    return strides;
}

interpret::ScalarValue scalar_value(const Number& number) {
    if (const auto* i = std::get_if<std::int64_t>(&number)) return {*i, static_cast<double>(*i)};
    if (const auto* b = std::get_if<bool>(&number)) return {*b, double(*b)};
    return {0, std::get<double>(number)};
}

/// Memory for the result, cleared unless compiled code writes all of it.
Tensor result_for(const ir::Kernel& kernel, const semantics::Binding& binding,
                  std::span<const Shape> shapes, const Device& device) {
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    ir::Environment environment;
    environment.dims = binding.dims;
    environment.shapes = shapes;
    if (device.id() == "cpu" && ir::writes_all(kernel, binding.output, environment)) {
        return Tensor::empty(binding.output, out.dtype, device);
    }
    return Tensor(binding.output, out.dtype, device);
}

/// False if the kernel failed, with the output cleared again.
bool run_compiled(const Prepared& prepared, std::span<const std::int64_t> dims,
                  std::span<const interpret::ScalarValue> scalars,
                  std::span<const interpret::View> operands, const interpret::View& output) {
    const ir::Kernel& kernel = prepared.lowered.kernel;
    std::vector<ir::OperandView> views;
    for (const interpret::View& v : operands) {
        views.push_back({v.data, v.dtype, v.shape, v.strides});
    }
    views.push_back({output.data, output.dtype, output.shape, output.strides});
    const auto compiled = prepared.compiled->find(kernel, ir::facts_of(kernel, dims, views));
    if (compiled->run(dims, scalars, operands, output, interpreter_threads())) return true;
    std::size_t bytes = size_of(output.dtype);
    for (const std::int64_t extent : output.shape) bytes *= std::size_t(extent);
    std::memset(output.data, 0, bytes);
    return false;
}

}  // namespace

CompiledKernels::CompiledKernels() = default;
CompiledKernels::~CompiledKernels() = default;

std::shared_ptr<const CompiledKernel> CompiledKernels::find(const ir::Kernel& kernel,
                                                            const ir::Facts& facts) {
    const Lock lock(mutex_);
    for (const auto& compiled : kernels_) {
        if (ir::holds(compiled->facts(), facts)) return compiled;
    }
    kernels_.push_back(std::make_shared<const CompiledKernel>(
        kernel, facts, schedule::Numerics::Strict, cpu::chosen_simd()));
    return kernels_.back();
}

std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options) {
    const std::string key = key_of(source, compute, operands, arguments, options);
    if (auto found = cache().find(key)) return found;
    semantics::Request request{source,           compute,      {},   arguments,
                               options.pedantic, options.then, false};
    for (const OperandInfo& o : operands) {
        request.operands.push_back({o.dtype, static_cast<int>(o.shape.size())});
    }
    lang::Diagnostics diagnostics(source);
    auto lowered = semantics::lower(request, {}, diagnostics);
    diagnostics.raise();
    if (const auto broken = ir::verify(lowered->kernel); !broken.empty()) {
        raise(InternalError(fmt::format("[verify] {}; please report", broken.front())));
    }
    interpret::Program program(lowered->kernel);
    auto prepared =
        std::make_shared<const Prepared>(Prepared{std::move(*lowered), std::move(program)});
    cache().add(key, prepared);
    return prepared;
}

std::vector<Shape> bound_shapes(const lang::Source& source, const Prepared& prepared,
                                std::span<const OperandInfo> operands) {
    const ir::Kernel& kernel = prepared.lowered.kernel;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const ir::Buffer& buffer = kernel.buffers[i];
        if (!buffer.flat) {
            shapes.push_back(operands[i].shape);
            continue;
        }
        if (operands[i].shape != operands[0].shape) {
            lang::Diagnostics diagnostics(source);
            diagnostics
                .add(lang::Code::E0502, buffer.span,
                     fmt::format("expected '{}' of shape {} as '{}', got {}", buffer.name,
                                 to_string(operands[0].shape), kernel.buffers[0].name,
                                 to_string(operands[i].shape)))
                .note("one loop over len reads every operand by its row-major position");
            diagnostics.raise();
        }
        shapes.push_back({element_count(operands[i].shape)});
    }
    return shapes;
}

semantics::Binding bind_or_raise(const lang::Source& source, const Prepared& prepared,
                                 std::span<const Shape> shapes) {
    lang::Diagnostics diagnostics(source);
    auto binding = semantics::bind(prepared.lowered, shapes, {}, diagnostics);
    diagnostics.raise();
    return std::move(*binding);
}

Tensor launch(const lang::Source& source, lang::NodeId compute, std::span<const Tensor> operands,
              const Arguments& arguments, const LaunchOptions& options) {
    std::vector<OperandInfo> infos;
    for (const Tensor& t : operands) infos.push_back({t.dtype(), t.shape()});
    const auto prepared = prepare(source, compute, infos, arguments, options);
    const ir::Kernel& kernel = prepared->lowered.kernel;
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, infos);
    const semantics::Binding binding = bind_or_raise(source, *prepared, shapes);

    std::vector<Tensor> kept;
    std::vector<interpret::View> views;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        // Row-major positions need row-major elements.
        kept.push_back(kernel.buffers[i].flat ? operands[i].contiguous() : operands[i]);
        Tensor& t = kept.back();
        views.push_back({t.data(), t.dtype(), shapes[i],
                         kernel.buffers[i].flat ? row_major(shapes[i]) : t.strides()});
    }
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    Tensor result = result_for(kernel, binding, shapes, options.device);
    const interpret::View output{result.data(), out.dtype, binding.output,
                                 row_major(binding.output)};
    std::vector<interpret::ScalarValue> scalars;
    for (const ir::Scalar& s : kernel.scalars) {
        const auto it = arguments.find(s.name);
        scalars.push_back(it == arguments.end() ? interpret::ScalarValue{}
                                                : scalar_value(it->second));
    }
    if (options.device.id() == "cpu" &&
        run_compiled(*prepared, binding.dims, scalars, views, output)) {
        return out.flat ? result.reshape(operands[0].shape()) : result;
    }
    // The interpreter runs what was asked of it, and says where and why compiled code failed.
    const auto failure =
        prepared->program.run(binding.dims, scalars, views, output,
                              {.threads = interpreter_threads(), .progress = options.progress});
    if (failure) {
        lang::Diagnostics diagnostics(source);
        std::string message = failure->message;
        for (const auto& [span, reason] : prepared->lowered.reasons) {
            if (failure->code == lang::Code::E0620 && failure->span == span) message = reason;
        }
        diagnostics.add(failure->code, failure->span, std::move(message));
        diagnostics.raise();
    }
    return out.flat ? result.reshape(operands[0].shape()) : result;
}

}  // namespace quern::frontend
