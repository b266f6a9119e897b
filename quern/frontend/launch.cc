#include "quern/frontend/launch.h"

#include <fmt/format.h>

#include <list>
#include <mutex>
#include <unordered_map>

#include "quern/frontend/prepare.h"
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

}  // namespace

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
    Tensor result(binding.output, out.dtype, options.device);
    const interpret::View output{result.data(), out.dtype, binding.output,
                                 row_major(binding.output)};
    std::vector<interpret::ScalarValue> scalars;
    for (const ir::Scalar& s : kernel.scalars) {
        const auto it = arguments.find(s.name);
        scalars.push_back(it == arguments.end() ? interpret::ScalarValue{}
                                                : scalar_value(it->second));
    }
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
