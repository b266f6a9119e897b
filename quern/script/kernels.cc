// From a script to its kernels: operands, numbers, devices, and the element-wise functions of
// tensors, which are kernels of one line.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "quern/frontend/explain.h"
#include "quern/frontend/placement.h"
#include "quern/lang/parse.h"
#include "quern/lang/words.h"
#include "quern/runtime/held.h"
#include "quern/script/interpreter.h"
#include "quern/support/check.h"

namespace quern::script {

namespace {

lang::NodeId find_compute(const lang::Tree& tree) {
    for (std::uint32_t id = 0; id < tree.count; ++id) {
        if (tree.nodes[id].kind == lang::Kind::Compute) return lang::NodeId(id);
    }
    return -1;
}

/// What a launch would give, without its elements.
Tensor result_of(const frontend::LaunchRequest& request) {
    auto result = frontend::check_launch(*request.source, request.compute,
                                         frontend::infos_of(request.operands), request.arguments,
                                         request.options);
    return placeholder(std::move(result.shape), result.dtype);
}

}  // namespace

Tensor placeholder(Shape shape, DType dtype) {
    element_count(shape);  // Throws on a shape that is not valid.
    const auto zero = std::make_shared<std::uint64_t>(0);
    std::vector<std::int64_t> strides(shape.size(), 0);
    // The deleter keeps the element alive as long as the tensor.
    return Tensor::adopt(zero.get(), std::move(shape), dtype, std::move(strides), [zero] {});
}

frontend::LaunchOptions Interpreter::launch_options() const {
    frontend::LaunchOptions options;
    options.pedantic = options_.pedantic;
    options.numerics = numerics_;
    options.are_held = held_ != nullptr;
    return options;
}

Value Interpreter::compute(NodeId id, std::vector<semantics::Piped> then, When when) {
    const bool is_async = frontend::is_async_compute(source_, id);
    std::vector<Operand> operands;
    for (NodeId o = node(child(id, 0)).first; o >= 0; o = node(o).next) {
        operands.push_back(operand(o, is_async ? When::Now : When::Later));
    }
    // The script's text outlives what runs of it.
    frontend::LaunchRequest request{
        {std::shared_ptr<const void>(), &source_}, id, {}, numbers_in(id), launch_options()};
    request.options.placement = frontend::placed_compute(source_, id, next_placement());
    request.options.then = std::move(then);
    return at(id, [&]() -> Value {
        if (!is_async) return launched(std::move(request), operands, when);
        for (Operand& operand : operands) request.operands.push_back(std::move(operand.tensor));
        return start(id, async_launch(std::move(request)));
    });
}

void Interpreter::announce(const frontend::LaunchRequest& request) {
    const auto& [source, compute, operands, numbers, options] = request;
    const bool is_spread = !options.placement.others.empty();
    if (options_.compiles && (options.placement.device.is_cpu() || is_spread)) {
        if (is_spread) {
            raise(
                ValueError("[bake] expected a kernel of one device, got one over several: what "
                           "each does is known when it runs; give whole operands"));
        }
        frontend::compile_launch(*source, compute, frontend::infos_of(operands), numbers, options);
    }
    if (!options_.explained) return;
    options_.explained(
        kernel_name(),
        frontend::explain(*source, compute, frontend::infos_of(operands), numbers, options));
}

Tensor Interpreter::launch(frontend::LaunchRequest request) {
    announce(request);
    if (options_.shapes_only) return result_of(request);
    if (options_.progress && !is_beside_) {
        request.options.progress = [this](double part) { options_.progress(kernel_name(), part); };
    }
    Tensor result = frontend::launch(request);
    if (options_.timed && !is_beside_) time(std::move(request));
    return result;
}

void Interpreter::time(frontend::LaunchRequest request) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kLongEnough{300};
    constexpr int kMost = 1000;
    request.options.progress = {};
    request.options.placement.span = {};  // What is to be warned of was.
    Timing timing;
    timing.device = request.options.placement.device;
    timing.work =
        frontend::work_of(*request.source, request.compute, frontend::infos_of(request.operands),
                          request.arguments, request.options);
    // What was launched before does not count.
    synchronize(timing.device);
    auto best = Clock::duration::max();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kMost && (i == 0 || Clock::now() - begin < kLongEnough); ++i) {
        const Clock::time_point start = Clock::now();
        const Tensor again = frontend::launch(request);
        synchronize(timing.device);
        best = std::min(best, Clock::now() - start);
    }
    timing.seconds = std::chrono::duration<double>(best).count();
    options_.timed(kernel_name(), timing);
}

Future<Value> Interpreter::async_launch(frontend::LaunchRequest request) {
    if (options_.timed && !is_beside_) return ready_future(Value(launch(std::move(request))));
    announce(request);
    const Tensor result = result_of(request);
    if (options_.shapes_only) return ready_future(Value(result));
    request.options.are_held = true;
    auto held = std::make_shared<Held>(std::exchange(request.operands, {}), held_ != nullptr);
    return run_async<Value>([request = std::move(request), held = std::move(held)] {
        return held->during([&] {
            return Value(frontend::launch(*request.source, request.compute, held->tensors(),
                                          request.arguments, request.options));
        });
    });
}

Operand Interpreter::operand(NodeId id, When when) {
    const NodeId expression = child(id, 1);
    const Value value = evaluate(expression, when);
    if (auto operand = as_operand(value)) {
        alive(expression, operand->tensor);
        return std::move(*operand);
    }
    std::vector<std::string> help;
    if (value.is_number()) {
        help.push_back("a kernel reads the script's numbers by name: leave it out of the operands");
    }
    if (value.as<SetView>() != nullptr) {
        help.push_back(fmt::format("name one tensor of the set: {}.NAME", text(expression)));
    }
    fail(Code::E0441, expression,
         fmt::format("an operand expects a tensor, got {}", describe(value)), std::move(help));
}

frontend::Arguments Interpreter::numbers_in(NodeId compute) const {
    frontend::Arguments numbers;
    const auto add = [&](const std::string& name, const Value* value) {
        if (value == nullptr) return;
        if (const auto* truth = value->as<bool>()) numbers[name] = *truth;
        if (const auto* integer = value->as<std::int64_t>()) numbers[name] = *integer;
        if (const auto* number = value->as<double>()) numbers[name] = *number;
    };
    for (const std::string& name : semantics::free_names(tree_, compute)) add(name, lookup(name));
    // What the text does not say is no name of the script's, but may come with the call.
    for (const std::string& name : semantics::names_of_kind(tree_, compute)) {
        const auto given = bindings_.find(name);
        if (given != bindings_.end()) add(name, &given->second);
    }
    return numbers;
}

/// What the kernel of an element-wise function calls an argument: its name, so that messages have
/// it, unless that means something else in the kernel.
std::string Interpreter::name_in_kernel(NodeId argument, std::size_t position) const {
    const std::string name = text(argument);
    constexpr std::string_view kMade = "argument";
    const bool is_free = node(argument).kind == Kind::Name && !lang::is_taken(name) &&
                         name != "i" && name != "len" && name != "true" && name != "false" &&
                         !name.starts_with(kMade) && find_function(name).kind == FunctionKind::None;
    return is_free ? name : fmt::format("{}{}", kMade, position + 1);
}

Value Interpreter::elementwise(NodeId callee, const Arguments& given, When when) {
    const std::string function = text(callee);
    std::vector<Value> values;
    std::vector<Operand> tensors;
    frontend::Arguments numbers;
    std::string operands, call;
    std::set<std::string> seen;
    for (const Argument& argument : given.positional) {
        const Value& value = argument.value;
        const std::optional<Operand> tensor = as_operand(value);
        const std::string name = name_in_kernel(argument.node, values.size());
        values.push_back(value);
        const char* const separator = call.empty() ? "" : ", ";
        if (tensor && seen.contains(name)) {
            call += fmt::format("{}{}[i]", separator, name);
            continue;
        } else if (tensor) {
            seen.insert(name);
            if (!tensors.empty() && tensors[0].tensor.shape() != tensor->tensor.shape()) {
                fail(Code::E0502, argument.node,
                     fmt::format("'{}' expects tensors of one shape, got {} and {}", function,
                                 describe(Value(tensors[0].tensor)), describe(value)));
            }
            operands += (tensors.empty() ? "" : ", ") + name;
            call += fmt::format("{}{}[i]", separator, name);
            tensors.push_back(*tensor);
            continue;
        }
        call += separator + name;
        if (const auto* truth = value.as<bool>()) {
            numbers[name] = *truth;
        } else if (const auto* integer = value.as<std::int64_t>()) {
            numbers[name] = *integer;
        } else if (const auto* number = value.as<double>()) {
            numbers[name] = *number;
        } else {
            fail(Code::E0441, argument.node,
                 fmt::format("'{}' expects tensors or numbers, got {}", function, describe(value)));
        }
    }
    if (tensors.empty()) return checked(apply_function(function, values), callee);

    const std::string kernel =
        fmt::format("compute({}) {{ @kernel elementwise; for i in 0..len {{ out[i] = {}({}) }} }}",
                    operands, function, call);
    lang::ParseOptions parse_options;
    parse_options.stands_for = lang::Diagnostics(source_).at(node(callee).span);
    // Kernels are kept by name and text; warnings belong to each place anew.
    parse_options.file = fmt::format("{}:{}:{}", source_.file, parse_options.stands_for->line,
                                     parse_options.stands_for->column);
    lang::Diagnostics diagnostics(kernel, parse_options.file);
    const auto source = lang::parse(kernel, parse_options, diagnostics);
    diagnostics.raise();
    const NodeId compute = find_compute(source->tree());
    QUERN_CHECK(compute >= 0, "the kernel of an element-wise function has a compute");
    frontend::LaunchRequest request{source, compute, {}, std::move(numbers), launch_options()};
    request.options.placement = next_placement();
    request.options.placement.span = {};  // It is of another text.
    return launched(std::move(request), tensors, when);
}

}  // namespace quern::script
