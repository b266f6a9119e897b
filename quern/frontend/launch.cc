#include "quern/frontend/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "quern/frontend/fused.h"
#include "quern/frontend/kernel_recorder.h"
#include "quern/frontend/launch_record.h"
#include "quern/frontend/pass_check.h"
#include "quern/frontend/prepare.h"
#include "quern/ir/coverage.h"
#include "quern/ir/verify.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/disk_cache.h"
#include "quern/runtime/held.h"
#include "quern/runtime/kernel_cache.h"
#include "quern/runtime/later_warnings.h"
#include "quern/runtime/shape.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/threads.h"

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
    for (const FusedOperand& f : options.fused) {
        const LaunchRequest& by = *f.by;
        const std::string made =
            key_of(*by.source, by.compute, infos_of(by.operands), by.arguments, by.options);
        key += fmt::format("|fused{}:{}:{}", f.operand, made.size(), made);
    }
    if (options.part) key += fmt::format("|part{}", int(options.part->spread));
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

interpret::ScalarValue scalar_value(const Number& number) {
    if (const auto* i = std::get_if<std::int64_t>(&number)) return {*i, static_cast<double>(*i)};
    if (const auto* b = std::get_if<bool>(&number)) return {*b, double(*b)};
    return {0, std::get<double>(number)};
}

}  // namespace

std::vector<OperandInfo> infos_of(std::span<const Tensor> operands) {
    std::vector<OperandInfo> infos;
    for (const Tensor& t : operands) infos.push_back({t.dtype(), t.shape()});
    return infos;
}

CompiledKernels::CompiledKernels() = default;
CompiledKernels::~CompiledKernels() = default;

std::shared_ptr<const CompiledKernel> CompiledKernels::find(const ir::Kernel& kernel,
                                                            const ir::Facts& facts,
                                                            Numerics numerics,
                                                            schedule::Observer* observer) {
    auto code = find_or_make(kernel, facts, numerics, observer);
    note_for_recorders(kernel, facts, numerics);
    return code;
}

std::shared_ptr<const CompiledKernel> CompiledKernels::find_or_make(const ir::Kernel& kernel,
                                                                    const ir::Facts& facts,
                                                                    Numerics numerics,
                                                                    schedule::Observer* observer) {
    const LaterWarnings later;
    const Lock lock(mutex_);
    if (auto loaded = loaded_.find(kernel, facts, numerics)) return loaded;
    auto& kernels = kernels_[std::size_t(numerics)];
    for (const auto& compiled : kernels) {
        if (ir::serves(compiled->facts(), facts)) return compiled;
    }
    kernels.push_back(load_or_compile(kernel, facts, numerics, cpu::chosen_simd(),
                                      DiskCache::of_process(), observer));
    return kernels.back();
}

void CompiledKernels::discard(const std::shared_ptr<const CompiledKernel>& code,
                              const ir::Kernel& kernel, Numerics numerics) {
    const Lock lock(mutex_);
    std::erase(kernels_[std::size_t(numerics)], code);
    if (const DiskCache* const cache = DiskCache::of_process()) {
        cache->remove(cache_key(kernel, code->facts(), numerics, cpu::chosen_simd()));
    }
}

std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options) {
    const std::string key = key_of(source, compute, operands, arguments, options);
    if (auto found = cache().find(key)) return found;
    if (!options.fused.empty()) {
        auto fused = prepare_fused(source, compute, operands, arguments, options);
        cache().add(key, fused);
        return fused;
    }
    semantics::Request request{source,           compute,      {},   arguments,
                               options.pedantic, options.then, false};
    for (const OperandInfo& o : operands) {
        request.operands.push_back({o.dtype, static_cast<int>(o.shape.size())});
    }
    lang::Diagnostics diagnostics(source);
    auto lowered = semantics::lower(request, {}, diagnostics);
    diagnostics.raise();
    if (options.part) cut_loop(lowered->kernel, options.part->spread);
    auto prepared = verified(std::move(*lowered));
    cache().add(key, prepared);
    return prepared;
}

std::shared_ptr<const Prepared> verified(semantics::Lowered lowered) {
    if (const auto broken = ir::verify(lowered.kernel); !broken.empty()) {
        raise(InternalError(fmt::format("[verify] {}; please report", broken.front())));
    }
    interpret::Program program(lowered.kernel);
    return std::make_shared<const Prepared>(Prepared{std::move(lowered), std::move(program)});
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

semantics::Binding bind_or_raise(const lang::Source& source, const Prepared& prepared,
                                 std::span<const Shape> shapes) {
    lang::Diagnostics diagnostics(source);
    auto binding = semantics::bind(prepared.lowered, shapes, {}, diagnostics);
    diagnostics.raise();
    return std::move(*binding);
}

namespace {

ir::Environment environment_of(const semantics::Binding& binding, std::span<const Shape> shapes) {
    ir::Environment environment;
    environment.dims = binding.dims;
    environment.shapes = shapes;
    return environment;
}

}  // namespace

bool writes_all(const Prepared& prepared, const semantics::Binding& binding,
                std::span<const Shape> shapes) {
    return ir::writes_all(prepared.lowered.kernel, binding.output, environment_of(binding, shapes));
}

OperandInfo check_launch(const lang::Source& source, lang::NodeId compute,
                         std::span<const OperandInfo> operands, const Arguments& arguments,
                         const LaunchOptions& options) {
    const auto prepared = prepare(source, compute, operands, arguments, options);
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, operands);
    const semantics::Binding binding = bind_or_raise(source, *prepared, shapes);
    const ir::Kernel& kernel = prepared->lowered.kernel;
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    return {out.dtype, out.flat ? operands[kernel.first_flat()].shape : binding.output};
}

Tensor launch(const lang::Source& source, lang::NodeId compute, std::span<const Tensor> operands,
              const Arguments& arguments, const LaunchOptions& options) {
    if (!options.placement.others.empty()) {
        if (!options.are_held) std::ranges::for_each(operands, require_memory);
        return launch_spread(source, compute, operands, arguments, options);
    }
    LaunchKey key(source, compute, options.placement.device, options.pedantic, options.numerics);
    LaunchList<const Tensor*> pointers;
    for (const Tensor& operand : operands) {
        if (!options.are_held) require_memory(operand);
        key.add(operand);
        pointers.push_back(&operand);
    }
    for (const auto& [name, number] : arguments) key.add(name, number);
    for (const semantics::Piped& function : options.then) key.add(function);
    for (const FusedOperand& operand : options.fused) key.add(operand);
    if (auto result = launch_again(key, pointers, options.progress)) {
        return std::move(*result);
    }
    return launch(key, source, compute, operands, arguments, options);
}

namespace {

std::pair<std::shared_ptr<const CompiledKernel>, ReadyLaunch> compile_and_bind(
    const BoundLaunch& launch, schedule::Observer* observer) {
    const ir::Kernel& kernel = launch.prepared->lowered.kernel;
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

/// What `work` gives. A kernel that the device does not run is E0600 at its line.
template <class Work>
auto or_kernel_error(const lang::Source& source, lang::NodeId compute, const Work& work) {
#if QUERN_EXCEPTIONS
    try {
        return work();
    } catch (const Refusal& refusal) {
        lang::Diagnostics diagnostics(source);
        diagnostics
            .add(lang::Code::E0600, source.nodes[std::size_t(compute)].span,
                 "the device " + refusal.device() + " does not run " + refusal.reason())
            .help("the device \"interpreter\" runs it");
        diagnostics.raise();
        throw;
    }
#else
    static_cast<void>(source);
    static_cast<void>(compute);
    return work();
#endif
}

}  // namespace

BoundLaunch bound(const lang::Source& source, lang::NodeId compute,
                  std::span<const Tensor> operands, const Arguments& arguments,
                  const LaunchOptions& options) {
    BoundLaunch launch;
    const std::vector<OperandInfo> infos = infos_of(operands);
    launch.compute = compute;
    launch.numerics = options.numerics;
    launch.prepared = prepare(source, compute, infos, arguments, options);
    const ir::Kernel& kernel = launch.prepared->lowered.kernel;
    const auto vulkan = vulkan_number(options.placement.device.id());
    launch.shapes = bound_shapes(source, *launch.prepared, infos);
    launch.binding = bind_or_raise(source, *launch.prepared, launch.shapes);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        // Row-major positions need row-major elements.
        const bool flat = kernel.buffers[i].flat;
        launch.are_as_given = launch.are_as_given && (!flat || operands[i].is_contiguous());
        launch.operands.push_back(flat ? operands[i].contiguous() : operands[i]);
        Tensor& t = launch.operands.back();
        const bool is_moved = vulkan && !InFlight::is_on(operands[i], *vulkan);
        if (is_moved && InFlight::is_on(t, *vulkan)) count_copied(t.bytes());
        launch.views.push_back({InFlight::address(t, vulkan), t.dtype(), launch.shapes[i],
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

ir::Facts row_major_facts(const Prepared& prepared, std::span<const OperandInfo> operands,
                          std::span<const Shape> shapes, const semantics::Binding& binding,
                          const void* operand, const void* result) {
    const ir::Kernel& kernel = prepared.lowered.kernel;
    std::vector<std::vector<std::int64_t>> strides;
    for (const Shape& shape : shapes) strides.push_back(row_major_strides(shape));
    strides.push_back(row_major_strides(binding.output));
    std::vector<ir::OperandView> views;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        views.push_back({operand, operands[i].dtype, shapes[i], strides[i]});
    }
    views.push_back(
        {result, kernel.buffers[kernel.output()].dtype, binding.output, strides.back()});
    return ir::facts_of(kernel, binding.dims, views);
}

void compile_launch(const lang::Source& source, lang::NodeId compute,
                    std::span<const OperandInfo> operands, const Arguments& arguments,
                    const LaunchOptions& options) {
    const auto prepared = prepare(source, compute, operands, arguments, options);
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, operands);
    const semantics::Binding binding = bind_or_raise(source, *prepared, shapes);
    or_kernel_error(source, compute, [&] {
        return prepared->compiled->find(
            prepared->lowered.kernel,
            row_major_facts(*prepared, operands, shapes, binding, kAnywhere, kResult),
            options.numerics);
    });
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
    const semantics::Binding& binding = bound_launch.binding;
    // Nothing is compiled for batches without elements.
    if (ir::runs_nothing(bound_launch.prepared->lowered.kernel,
                         environment_of(binding, bound_launch.shapes))) {
        return Tensor(bound_launch.shape, bound_launch.dtype, device);
    }
    if (device.is_cpu()) {
        const std::uint64_t generation = memory_generation();
        const auto check = pass_check(bound_launch);
        auto [code, ready] = compiled(source, bound_launch, check.get());
        LaunchRecord record{
            .kernel = std::move(code),
            .launch = std::move(ready),
            .shape = bound_launch.shape,
            .dtype = bound_launch.dtype,
            .device = device,
            .is_cleared = !writes_all(*bound_launch.prepared, binding, bound_launch.shapes)};
        Tensor result = new_result(record);
        std::vector<void*> addresses = bound_launch.addresses();
        addresses.push_back(result.data());
        const bool has_run = record.kernel->run(record.launch, addresses, options.progress);
        if (check && has_run) check->see_result(result);
        if (check && !check->fault().empty()) {
            bound_launch.prepared->compiled->discard(
                record.kernel, bound_launch.prepared->lowered.kernel, options.numerics);
            raise(InternalError("[passes] " + check->fault() + "; please report"));
        }
        if (has_run) {
            if (bound_launch.are_as_given) remember(key, std::move(record), generation);
            return result;
        }
    }
    if (device.is_vulkan()) {
        const bool is_whole = writes_all(*bound_launch.prepared, binding, bound_launch.shapes);
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
