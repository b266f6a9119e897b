#include "quern/frontend/launch.h"

#include <fmt/format.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "quern/frontend/launch_record.h"
#include "quern/frontend/prepare.h"
#include "quern/ir/coverage.h"
#include "quern/ir/verify.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/disk_cache.h"
#include "quern/runtime/kernel_cache.h"
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
    // Never destroyed: work that goes on while a program ends may still launch.
    static Cache& instance = *new Cache;
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

/// The code for a launch like this.
std::shared_ptr<const CompiledKernel> code_for(const Prepared& prepared,
                                               std::span<const std::int64_t> dims,
                                               std::span<const interpret::View> operands,
                                               const interpret::View& output) {
    const ir::Kernel& kernel = prepared.lowered.kernel;
    // Vectors of today's processors load from any address alike, so that code for one may run at
    // another.
    std::vector<ir::OperandView> views;
    const void* const anywhere = reinterpret_cast<const void*>(std::uintptr_t{1});
    for (const interpret::View& v : operands) {
        views.push_back({anywhere, v.dtype, v.shape, v.strides});
    }
    views.push_back({anywhere, output.dtype, output.shape, output.strides});
    return prepared.compiled->find(kernel, ir::facts_of(kernel, dims, views));
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
    kernels_.push_back(load_or_compile(kernel, facts, schedule::Numerics::Strict,
                                       cpu::chosen_simd(), DiskCache::of_process()));
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

bool writes_all(const Prepared& prepared, const semantics::Binding& binding,
                std::span<const Shape> shapes) {
    ir::Environment environment;
    environment.dims = binding.dims;
    environment.shapes = shapes;
    return ir::writes_all(prepared.lowered.kernel, binding.output, environment);
}

OperandInfo check_launch(const lang::Source& source, lang::NodeId compute,
                         std::span<const OperandInfo> operands, const Arguments& arguments,
                         const LaunchOptions& options) {
    const auto prepared = prepare(source, compute, operands, arguments, options);
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, operands);
    const semantics::Binding binding = bind_or_raise(source, *prepared, shapes);
    const ir::Kernel& kernel = prepared->lowered.kernel;
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    return {out.dtype, out.flat ? operands[0].shape : binding.output};
}

Tensor launch(const lang::Source& source, lang::NodeId compute, std::span<const Tensor> operands,
              const Arguments& arguments, const LaunchOptions& options) {
    LaunchKey key(source, compute, options.device, options.pedantic);
    LaunchList<const Tensor*> pointers;
    for (const Tensor& operand : operands) {
        key.add(operand);
        pointers.push_back(&operand);
    }
    for (const auto& [name, number] : arguments) key.add(name, number);
    for (const semantics::Piped& function : options.then) key.add(function);
    if (auto result = launch_again(key, pointers, options.progress)) {
        return std::move(*result);
    }
    return launch(key, source, compute, operands, arguments, options);
}

Tensor launch(const LaunchKey& key, const lang::Source& source, lang::NodeId compute,
              std::span<const Tensor> operands, const Arguments& arguments,
              const LaunchOptions& options) {
    std::vector<OperandInfo> infos;
    for (const Tensor& t : operands) infos.push_back({t.dtype(), t.shape()});
    const auto prepared = prepare(source, compute, infos, arguments, options);
    const ir::Kernel& kernel = prepared->lowered.kernel;
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, infos);
    const semantics::Binding binding = bind_or_raise(source, *prepared, shapes);

    std::vector<Tensor> kept;
    std::vector<interpret::View> views;
    std::vector<void*> addresses;
    bool are_as_given = true;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        // Row-major positions need row-major elements.
        const bool flat = kernel.buffers[i].flat;
        are_as_given = are_as_given && (!flat || operands[i].is_contiguous());
        kept.push_back(flat ? operands[i].contiguous() : operands[i]);
        Tensor& t = kept.back();
        views.push_back(
            {t.data(), t.dtype(), shapes[i], flat ? row_major(shapes[i]) : t.strides()});
        addresses.push_back(t.data());
    }
    std::vector<interpret::ScalarValue> scalars;
    for (const ir::Scalar& s : kernel.scalars) {
        const auto it = arguments.find(s.name);
        scalars.push_back(it == arguments.end() ? interpret::ScalarValue{}
                                                : scalar_value(it->second));
    }
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    const Shape shape = out.flat ? operands[0].shape() : binding.output;
    interpret::View output{nullptr, out.dtype, binding.output, row_major(binding.output)};
    if (options.device.is_cpu()) {
        LaunchRecord record{.kernel = code_for(*prepared, binding.dims, views, output),
                            .launch = {},
                            .shape = shape,
                            .dtype = out.dtype,
                            .device = options.device,
                            .is_cleared = !writes_all(*prepared, binding, shapes)};
        record.launch =
            record.kernel->ready(binding.dims, scalars, views, output, interpreter_threads());
        Tensor result = new_result(record);
        addresses.push_back(result.data());
        if (record.kernel->run(record.launch, addresses, options.progress)) {
            if (are_as_given) remember(key, std::move(record));
            return result;
        }
    }
    // The interpreter runs what was asked of it, and says where and why compiled code failed.
    Tensor result(shape, out.dtype, options.device);
    output.data = result.data();
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
    return result;
}

}  // namespace quern::frontend
