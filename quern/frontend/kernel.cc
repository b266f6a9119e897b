#include "quern/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>

#include "quern/async.h"
#include "quern/frontend/explain.h"
#include "quern/frontend/launch.h"
#include "quern/frontend/launch_record.h"
#include "quern/frontend/placement.h"
#include "quern/frontend/run.h"
#include "quern/lang/words.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/held.h"
#include "quern/runtime/storage.h"
#include "quern/static_kernel.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {

using lang::Kind;
using lang::NodeId;

/// What a call runs by, besides its operands.
struct Kernel::Where {
    Device device;
    Numerics numerics;
};

struct Kernel::Body {
    std::shared_ptr<const lang::Source> source;
    NodeId compute = -1;
    std::vector<std::string> operands;
    std::vector<semantics::Piped> then;
    std::set<std::string, std::less<>> names;
    bool pedantic = false;

    /// What is piped is part of the text.
    frontend::LaunchKey key(const Where& where) const {
        return frontend::LaunchKey(*source, compute, where.device, pedantic, where.numerics);
    }

    /// Of a call with these.
    frontend::LaunchKey key(const Where& where, std::span<const detail::Input> inputs) const;

    Tensor launch(const frontend::LaunchKey& key, std::span<const Tensor> operand_list,
                  std::span<const Argument> arguments, const Where& where) const;

    /// Throws what a launch throws before any work; else says what the result will be.
    frontend::OperandInfo check(std::span<const Tensor> operand_list,
                                std::span<const Argument> arguments, const Where& where) const;

    frontend::LaunchOptions options_on(const Where& where) const {
        frontend::LaunchOptions options;
        frontend::Placement placement;
        placement.device = where.device;
        options.placement = frontend::placed_compute(*source, compute, placement);
        options.pedantic = pedantic;
        options.numerics = where.numerics;
        options.are_held = true;
        options.then = then;
        return options;
    }
};

namespace {

/// The value of the text's only statement.
NodeId only_value(const lang::Tree& tree) {
    const NodeId statement = tree[tree.root].first;
    if (statement < 0 || tree[statement].next >= 0) return -1;
    switch (tree[statement].kind) {
        case Kind::Decl:
            return tree.child(statement, 2);
        case Kind::ExprStmt:
        case Kind::Return:
            return tree.child(statement, 0);
        default:
            return -1;
    }
}

/// The function of a call behind `|>`. A kernel has no second launch, so it takes one value.
semantics::Piped piped(const lang::Tree& tree, NodeId call, lang::Diagnostics& diagnostics) {
    const NodeId callee = tree[call].kind == Kind::Call ? tree[call].first : call;
    const lang::Span span = tree[callee].span;
    const std::string name(tree.text_of(callee));
    if (!lang::is_unary_function(name)) {
        auto entry = diagnostics.add(lang::Code::E0407, span,
                                     fmt::format("'{}' is not a function of one value", name));
        const std::vector<std::string> known(std::begin(lang::kUnaryFunctions),
                                             std::end(lang::kUnaryFunctions));
        for (const std::string& near : lang::nearest(name, known)) {
            entry.help(fmt::format("did you mean '{}'?", near));
        }
        entry.help("a kernel's result goes through functions of one value only: |> sqrt()");
    } else if (tree.child_count(call) != 1) {
        diagnostics.add(lang::Code::E0408, span,
                        fmt::format("'{}' expects the piped value alone, got {} more", name,
                                    tree.child_count(call) - 1));
    }
    return {name, span};
}

frontend::Arguments arguments_of(std::span<const Argument> arguments,
                                 const std::set<std::string, std::less<>>& names,
                                 const std::vector<std::string>& operands) {
    frontend::Arguments result;
    for (const Argument& a : arguments) {
        const bool is_operand =
            std::find(operands.begin(), operands.end(), a.name) != operands.end();
        if (!names.contains(a.name) || is_operand) {
            raise(
                ValueError(fmt::format("[kernel] expected arg() with a name that the kernel leaves "
                                       "free, got '{}'",
                                       a.name)));
        }
        if (!result.emplace(a.name, a.value).second) {
            raise(ValueError(fmt::format("[kernel] expected '{}' once, got it twice", a.name)));
        }
    }
    return result;
}

std::vector<Tensor> that_may_end(std::span<const detail::Input> inputs) {
    std::vector<Tensor> result;
    for (const detail::Input& input : inputs) {
        if (input.tensor && Held::may_end(*input.tensor)) result.push_back(*input.tensor);
    }
    return result;
}

std::pair<std::vector<Tensor>, std::vector<Argument>> taken_apart(
    std::span<const detail::Input> inputs) {
    std::pair<std::vector<Tensor>, std::vector<Argument>> result;
    for (const detail::Input& input : inputs) {
        if (input.tensor != nullptr) result.first.push_back(*input.tensor);
        if (input.argument != nullptr) result.second.push_back(*input.argument);
    }
    return result;
}

}  // namespace

std::shared_ptr<const Kernel::Body> Kernel::parse(std::string text, const KernelOptions& options) {
    auto body = std::make_shared<Body>();
    body->pedantic = options.pedantic;
    lang::Diagnostics diagnostics(text, options.file, options.first_line);
    body->source = lang::parse(
        std::move(text), {options.file, options.pedantic, options.first_line, {}}, diagnostics);
    if (diagnostics.has_errors()) diagnostics.raise();
    const lang::Tree tree = body->source->tree();
    NodeId value = only_value(tree);
    for (; value >= 0 && tree[value].kind == Kind::Pipe; value = tree[value].first) {
        body->then.insert(body->then.begin(), piped(tree, tree.child(value, 1), diagnostics));
    }
    if (value < 0 || tree[value].kind != Kind::Compute) {
        raise(
            ValueError("[kernel] expected one compute(...) { ... }, got a script; scripts run with "
                       "the command quern"));
    }
    diagnostics.raise();
    body->compute = value;
    for (NodeId o = tree[tree.child(value, 0)].first; o >= 0; o = tree[o].next) {
        body->operands.push_back(semantics::operand_name(tree, o));
    }
    body->names = semantics::free_names(tree, value);
    body->names.merge(semantics::names_of_kind(tree, value));
    return body;
}

Kernel::Kernel(std::string text, const KernelOptions& options)
    : body_(or_out_of_memory("kernel", [&] { return parse(std::move(text), options); })) {}

frontend::LaunchKey Kernel::Body::key(const Where& where,
                                      std::span<const detail::Input> inputs) const {
    frontend::LaunchKey result = key(where);
    for (const detail::Input& input : inputs) {
        if (input.tensor != nullptr) result.add(*input.tensor);
    }
    for (const detail::Input& input : inputs) {
        if (input.argument != nullptr) result.add(input.argument->name, input.argument->value);
    }
    return result;
}

Tensor Kernel::Body::launch(const frontend::LaunchKey& key, std::span<const Tensor> operand_list,
                            std::span<const Argument> arguments, const Where& where) const {
    const frontend::LaunchOptions options = options_on(where);
    return frontend::launch(key, *source, compute, operand_list,
                            arguments_of(arguments, names, operands), options);
}

frontend::OperandInfo Kernel::Body::check(std::span<const Tensor> operand_list,
                                          std::span<const Argument> arguments,
                                          const Where& where) const {
    const frontend::Arguments numbers = arguments_of(arguments, names, operands);
    const frontend::LaunchOptions options = options_on(where);
    auto result = frontend::check_launch(*source, compute, frontend::infos_of(operand_list),
                                         numbers, options);
    frontend::check_memory(*source, compute, operand_list, numbers, options);
    return result;
}

Tensor Kernel::run(std::span<const Tensor> operands, std::span<const Argument> arguments) const {
    return or_out_of_memory("kernel", [&] {
        const Held held(that_may_end(operands));
        return run_held(operands, arguments);
    });
}

Tensor Kernel::run_held(std::span<const Tensor> operands,
                        std::span<const Argument> arguments) const {
    return or_out_of_memory("kernel", [&] {
        const Where place = where();
        frontend::LaunchKey key = body_->key(place);
        for (const Tensor& operand : operands) key.add(operand);
        for (const Argument& argument : arguments) key.add(argument.name, argument.value);
        auto result = frontend::launch_again(key);
        return result ? std::move(*result) : body_->launch(key, operands, arguments, place);
    });
}

Tensor Kernel::call(std::span<const detail::Input> inputs) const {
    return or_out_of_memory("kernel", [&] {
        const Where place = where();
        const Held held(that_may_end(inputs));
        const frontend::LaunchKey key = body_->key(place, inputs);
        if (auto result = frontend::launch_again(key)) return std::move(*result);
        const auto [operands, arguments] = taken_apart(inputs);
        return body_->launch(key, operands, arguments, place);
    });
}

void detail::require_int64(const std::string& name, std::uint64_t value) {
    if (value <= std::uint64_t(INT64_MAX)) return;
    raise(ValueError(fmt::format("[arg] expected an integer of at most {} for '{}', got {}",
                                 INT64_MAX, name, value)));
}

namespace {

/// From the first byte of a tensor's elements to behind the last.
struct Bytes {
    std::int64_t begin = 0, end = 0;

    explicit Bytes(const Tensor& tensor)
        : begin(reinterpret_cast<std::intptr_t>(
              InFlight::address_to_read(tensor, vulkan_number(tensor.device().id())))) {
        end = begin;
        if (tensor.element_count() == 0) return;
        const auto size = std::int64_t(size_of(tensor.dtype()));
        end += size;
        for (int p = 0; p < tensor.rank(); ++p) {
            const std::int64_t stride = tensor.strides()[std::size_t(p)] * size;
            (stride < 0 ? begin : end) += (tensor.shape()[std::size_t(p)] - 1) * stride;
        }
    }
    bool meets(const Bytes& other) const { return begin < other.end && other.begin < end; }
};

/// Whether an element of a tensor lies in some bytes; exactly, unless elements of neighbouring rows
/// lie between each other: then true if they may.
class Elements {
public:
    explicit Elements(const Tensor& tensor) : size_(std::int64_t(size_of(tensor.dtype()))) {
        for (int p = 0; p < tensor.rank(); ++p) {
            const std::int64_t count = tensor.shape()[std::size_t(p)];
            const std::int64_t stride = tensor.strides()[std::size_t(p)] * size_;
            if (count > 1 && stride != 0) axes_.push_back({std::abs(stride), count});
        }
        std::ranges::sort(axes_, std::greater<>(), &Axis::stride);
    }

    bool lie_in(const Bytes& bytes, const Bytes& own) const { return lie_in(bytes, own, 0); }

private:
    struct Axis {
        std::int64_t stride, count;
    };

    /// Those from an axis on, which have the bytes `own`.
    bool lie_in(const Bytes& bytes, const Bytes& own, std::size_t p) const {
        if (!own.meets(bytes)) return false;
        if (p == axes_.size()) return true;
        const auto [stride, count] = axes_[p];
        const std::int64_t inner = own.end - own.begin - (count - 1) * stride;
        if (inner > stride) return true;
        const std::int64_t before = bytes.begin - own.begin - inner;
        const std::int64_t low = before < 0 ? 0 : before / stride + 1;
        const std::int64_t high = std::min(count - 1, (bytes.end - own.begin - 1) / stride);
        // One between two others lies inside.
        if (high - low > 1) return true;
        for (std::int64_t i = low; i <= high; ++i) {
            Bytes some = own;
            some.begin += i * stride;
            some.end = some.begin + inner;
            if (lie_in(bytes, some, p + 1)) return true;
        }
        return false;
    }

    std::int64_t size_;
    std::vector<Axis> axes_;
};

/// Throws if an operand has memory of the result.
void require_apart(const Tensor& result, std::span<const Tensor* const> operands) {
    const Bytes written(result);
    for (std::size_t n = 0; n < operands.size(); ++n) {
        const Bytes read(*operands[n]);
        if (!read.meets(written) || !Elements(*operands[n]).lie_in(written, read)) continue;
        raise(ValueError(fmt::format(
            "[kernel] expected a result that shares no memory with operand {}, got one that does",
            n)));
    }
}

/// Throws if a kernel that gives `made` cannot write it to `result`.
void require_fit(const Tensor& result, const frontend::OperandInfo& made, const Device& device) {
    if (result.shape() != made.shape) {
        raise(ShapeError(fmt::format("[kernel] expected a result of shape {}, got {}",
                                     to_string(made.shape), to_string(result.shape()))));
    }
    if (result.dtype() != made.dtype) {
        raise(DTypeError(fmt::format("[kernel] expected a result of dtype {}, got {}",
                                     to_string(made.dtype), to_string(result.dtype()))));
    }
    if (result.device() != device) {
        raise(DeviceError(fmt::format("[kernel] expected a result on '{}', got one on '{}'",
                                      device.id(), result.device().id())));
    }
    if (!result.is_contiguous()) {
        raise(ShapeError("[kernel] expected a result without gaps, got a view that has some"));
    }
}

/// What `launch` gives; if the kernel fails, nobody takes the old elements of `result` for new
/// ones.
template <class Launch>
Tensor or_poisoned(Tensor& result, const Launch& launch) {
#if QUERN_EXCEPTIONS
    try {
        return launch();
    } catch (const frontend::FailedLaunch&) {
        frontend::poison(result);
        throw;
    }
#else
    static_cast<void>(result);
    return launch();
#endif
}

}  // namespace

void Kernel::call_into(Tensor& result, std::span<const detail::Input> inputs) const {
    or_out_of_memory("kernel", [&] {
        const Where place = where();
        const Held held(that_may_end(inputs)), written(that_may_end(std::span(&result, 1)));
        const frontend::LaunchKey key = body_->key(place, inputs);
        require_apart(result, key.operands());
        if (frontend::launch_again_into(key, result)) return;
        const auto given = taken_apart(inputs);
        const frontend::OperandInfo made_info = body_->check(given.first, given.second, place);
        require_fit(result, made_info, body_->options_on(place).placement.device);
        const Tensor made = or_poisoned(
            result, [&] { return body_->launch(key, given.first, given.second, place); });
        if (result.bytes() > 0) std::memcpy(result.data(), made.data(), result.bytes());
    });
}

Kernel Kernel::on(const Device& device) const {
    Kernel kernel = *this;
    kernel.device_ = device;
    return kernel;
}

Kernel Kernel::with(Numerics numerics) const {
    Kernel kernel = *this;
    kernel.numerics_ = numerics;
    return kernel;
}

Kernel::Where Kernel::where() const {
    return {device_ ? *device_ : Device(), numerics_ ? *numerics_ : default_numerics()};
}

AsyncKernel Kernel::async() const { return AsyncKernel(*this); }
AsyncKernel Kernel::async(const Stream& stream) const { return AsyncKernel(*this, stream); }

Future<Tensor> AsyncKernel::call(std::span<const detail::AsyncInput> inputs) const {
    return or_out_of_memory("kernel", [&] {
        std::vector<Future<Tensor>> futures;
        std::vector<Tensor> operands;
        std::vector<Argument> arguments;
        std::vector<std::size_t> places;
        for (const detail::AsyncInput& input : inputs) {
            if (input.argument != nullptr) arguments.push_back(*input.argument);
            if (input.tensor != nullptr) operands.push_back(*input.tensor);
            if (input.future == nullptr) continue;
            // Its place is filled when it is there.
            places.push_back(operands.size());
            operands.emplace_back();
            futures.push_back(*input.future);
        }
        if (futures.empty()) return run(operands, arguments);
        auto held = std::make_shared<Held>(operands);
        const Kernel::Where place = kernel_.where();
        auto work = [kernel = kernel_.on(place.device).with(place.numerics), held = std::move(held),
                     arguments, futures, places] {
            const auto with_all = [&] {
                std::vector<Tensor> got;
                for (const Future<Tensor>& future : futures) got.push_back(future.get());
                std::vector<Tensor> others;
                std::ranges::copy_if(got, std::back_inserter(others), [&](const Tensor& tensor) {
                    return std::ranges::none_of(held->tensors(), [&](const Tensor& one) {
                        return one.shares_storage_with(tensor);
                    });
                });
                Held also(std::move(others));
                return also.during([&] {
                    std::vector<Tensor> all(held->tensors().begin(), held->tensors().end());
                    for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = got[i];
                    return kernel.run_held(all, arguments);
                });
            };
            return or_out_of_memory("kernel", [&] { return held->during(with_all); });
        };
        if (stream_) return Stream(*stream_).run_behind(futures, std::move(work));
        return run_after<Tensor>(futures, std::move(work));
    });
}

Future<Tensor> AsyncKernel::run(std::span<const Tensor> operands,
                                std::span<const Argument> arguments) const {
    return or_out_of_memory("kernel", [&] {
        const Kernel::Where place = kernel_.where();
        kernel_.body_->check(operands, arguments, place);
        auto held = std::make_shared<Held>(std::vector(operands.begin(), operands.end()));
        auto work = [kernel = kernel_.on(place.device).with(place.numerics), held = std::move(held),
                     arguments = std::vector(arguments.begin(), arguments.end())] {
            return held->during([&] { return kernel.run_held(held->tensors(), arguments); });
        };
        return stream_ ? Stream(*stream_).run(std::move(work)) : run_async<Tensor>(std::move(work));
    });
}

std::string Kernel::explain() const {
    return or_out_of_memory(
        "explain", [&] { return frontend::explain(*body_->source, body_->compute, body_->then); });
}

std::string Kernel::explain(std::span<const Tensor> operands,
                            std::span<const Argument> arguments) const {
    return or_out_of_memory("explain", [&] {
        const frontend::LaunchOptions options = body_->options_on(where());
        return frontend::explain(*body_->source, body_->compute, frontend::infos_of(operands),
                                 arguments_of(arguments, body_->names, body_->operands), options);
    });
}

const std::vector<std::string>& Kernel::operand_names() const noexcept { return body_->operands; }

const std::string& Kernel::text() const noexcept { return body_->source->text; }

namespace detail {

void check_static_shape(const Shape& shape, const Shape& expected) {
    if (shape == expected) return;
    raise(ShapeError(fmt::format("[StaticTensor] expected a tensor of shape {}, got {}",
                                 to_string(expected), to_string(shape))));
}

Kernel kernel_of(std::string_view text) {
    constexpr std::size_t kKept = 64;
    static std::mutex mutex;
    // Never destroyed: destructors of the program's own objects may launch.
    static std::deque<Kernel>& kept = *new std::deque<Kernel>;
    {
        const std::lock_guard lock(mutex);
        for (const Kernel& kernel : kept) {
            if (kernel.text() == text) return kernel;
        }
    }
    return or_out_of_memory("compute", [&] {
        Kernel kernel{std::string(text)};
        const std::lock_guard lock(mutex);
        kept.push_front(kernel);
        if (kept.size() > kKept) kept.pop_back();
        return kernel;
    });
}

}  // namespace detail
}  // namespace quern
