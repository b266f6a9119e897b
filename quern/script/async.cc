// Work that goes on beside the script: @async, await, all() and any().

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "quern/script/interpreter.h"

namespace quern::script {

Interpreter::Interpreter(const Interpreter& other)
    : source_(other.source_),
      tree_(other.tree_),
      signature_(other.signature_),
      bindings_(other.bindings_),
      options_(other.options_),
      pipelines_(other.pipelines_),
      globals_(other.globals_),
      depth_(other.depth_),
      placement_(other.placement_),
      numerics_(other.numerics_),
      placed_kernels_(other.placed_kernels_),
      is_placed_(other.is_placed_),
      configured_(other.configured_),
      kernel_name_(other.kernel_name_),
      all_held_(other.all_held_),
      is_beside_(true) {}

Interpreter::~Interpreter() {
    for (const Started& started : started_) started.future.wait();
}

Value Interpreter::start(NodeId id, Future<Value> future) {
    started_.push_back({future, id});
    return future;
}

/// Whoever awaits work gets its error. What is not done yet is still waited for.
void Interpreter::take(const Future<Value>& future) {
    for (Started& started : started_) {
        if (started.future == future) started.place = -1;
    }
    std::erase_if(started_, [](const Started& s) { return s.place < 0 && s.future.is_ready(); });
}

/// An error that nobody awaited ends the script too.
void Interpreter::finish_started() {
    for (const Started& started : started_) started.future.wait();
    const std::vector<Started> all = std::move(started_);
    started_.clear();
    for (const Started& started : all) {
        if (started.place >= 0) at(started.place, [&] { started.future.get(); });
    }
}

Value Interpreter::await_future(NodeId id) {
    const NodeId future_at = child(id, 0), timeout_at = child(id, 1), otherwise = child(id, 2);
    const Value awaited = evaluate(future_at);
    const auto* future = awaited.as<Future<Value>>();
    if (future == nullptr) {
        fail(Code::E0441, future_at,
             fmt::format("await expects a future, got {}", describe(awaited)),
             {"a compute or a pipeline call with @async gives one, and so do all() and any()"});
    }
    const bool has_timeout = node(timeout_at).kind != Kind::Empty;
    if (has_timeout) {
        const Value timeout = evaluate(timeout_at);
        const auto* integer = timeout.as<std::int64_t>();
        const auto* number = timeout.as<double>();
        const double seconds = integer ? double(*integer) : number ? *number : -1;
        // A size in bytes is an integer, too.
        const bool is_size =
            node(timeout_at).kind == Kind::Quantity && text(timeout_at).ends_with('B');
        if (!(seconds >= 0) || is_size) {
            fail(Code::E0441, timeout_at,
                 fmt::format("timeout expects a time, such as 100ms or 2s, got {}",
                             is_size ? text(timeout_at) : to_string(timeout)));
        }
        if (!future->wait_for(std::chrono::duration<double>(seconds))) {
            // Its error is not lost: the script still waits for it at its end.
            if (node(otherwise).kind != Kind::Empty) return evaluate(otherwise);
            fail(Code::E0632, id,
                 fmt::format("'{}' is not done after {} s", text(future_at), seconds),
                 {"say what the value is then: await f timeout T else v"});
        }
    }
    future->wait();
    take(*future);
    Value value = future->get();
    if (const auto* tensor = value.as<Tensor>(); tensor && !is_freeing_) alive(id, *tensor);
    return value;
}

Value Interpreter::joined(NodeId callee, const Argument& argument) {
    const std::string name = text(callee);
    const std::vector<Value>* elements = nullptr;
    if (const auto* list = argument.value.as<List>()) elements = &list->elements;
    if (const auto* tuple = argument.value.as<Tuple>()) elements = &tuple->elements;
    std::vector<Future<Value>> futures;
    for (std::size_t i = 0; elements != nullptr && i < elements->size(); ++i) {
        const auto* future = (*elements)[i].as<Future<Value>>();
        if (future != nullptr) futures.push_back(*future);
    }
    if (elements == nullptr || futures.size() != elements->size()) {
        fail(
            Code::E0441, argument.node,
            fmt::format("'{}' expects a list of futures, got {}", name, to_string(argument.value)));
    }
    if (futures.empty()) {
        fail(Code::E0631, argument.node,
             fmt::format("'{}' expects at least one future, got none", name));
    }
    for (const Future<Value>& future : futures) take(future);
    if (name == "all") {
        const auto all = when_all(std::move(futures));
        return start(callee,
                     run_after<Value>(std::vector{all}, [all] { return Value(List{all.get()}); }));
    }
    const auto any = when_any(std::move(futures));
    return start(callee, run_after<Value>(std::vector{any}, [any] {
                     const auto& [value, index] = any.get();
                     return Value(Tuple{{value, std::int64_t(index)}});
                 }));
}

std::shared_ptr<Interpreter> Interpreter::beside(const Arguments& arguments) const {
    std::vector<Tensor> operands;
    const auto add = [&](const Argument& argument) {
        if (const auto* tensor = argument.value.as<Tensor>()) operands.push_back(*tensor);
    };
    std::ranges::for_each(arguments.positional, add);
    for (const auto& [name, argument] : arguments.named) add(argument);
    const std::shared_ptr<Interpreter> beside(new Interpreter(*this));
    beside->all_held_.insert(beside->all_held_.end(), operands.begin(), operands.end());
    beside->held_ = std::make_shared<Held>(std::move(operands), /*are_held=*/held_ != nullptr);
    return beside;
}

/// The other arguments are looked at now, where the call stands.
Value Interpreter::piped_future(NodeId at, Argument piped) {
    const Future<Value> future = *piped.value.as<Future<Value>>();
    take(future);
    Arguments given = arguments(at, std::move(piped), When::Now);
    const auto called = [at, future](Interpreter& by, Arguments with) {
        with.positional.front().value = future.get();
        Value value = by.call_with(at, with);
        const auto* const inner = value.as<Future<Value>>();
        if (inner == nullptr) return value;
        by.take(*inner);
        return inner->get();
    };
    // What is explained comes in the order of the text, and what is timed runs alone.
    if (options_.shapes_only || options_.explained || options_.timed) {
        return start(at, ready_future(called(*this, std::move(given))));
    }
    const auto beside = this->beside(given);
    return start(at, run_after<Value>(std::vector{future}, [beside, called, given] {
                     return beside->held_->during([&] {
                         Value value = called(*beside, given);
                         beside->finish_started();
                         return value;
                     });
                 }));
}

Future<Value> Interpreter::async_pipeline(NodeId callee, NodeId pipeline,
                                          const Arguments& arguments) {
    // What is explained comes in the order of the text, and what is timed runs alone.
    if (options_.shapes_only || options_.explained || options_.timed) {
        return ready_future(call_pipeline(callee, pipeline, arguments));
    }
    const auto beside = this->beside(arguments);
    return run_async<Value>([beside, callee, pipeline, arguments] {
        return beside->held_->during([&] {
            Value value = beside->call_pipeline(callee, pipeline, arguments);
            beside->finish_started();
            return value;
        });
    });
}

}  // namespace quern::script
