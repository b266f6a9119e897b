// Launches that wait: an element-wise kernel whose result is read by the next one is computed by
// that one.

#include "quern/script/waiting.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "quern/script/interpreter.h"

namespace quern::script {
namespace {

bool is_eager() {
    static const bool value = [] {
        const char* text = std::getenv("QUERN_EAGER");
        return text != nullptr && std::string_view(text) == "1";
    }();
    return value;
}

}  // namespace

std::optional<Operand> as_operand(const Value& value) {
    if (const auto* tensor = value.as<Tensor>()) return Operand{*tensor, nullptr};
    const auto* waiting = value.as<std::shared_ptr<Waiting>>();
    if (waiting == nullptr) return std::nullopt;
    const Waiting& w = **waiting;
    if (w.result) return Operand{*w.result, nullptr};
    return Operand{placeholder(w.info.shape, w.info.dtype), *waiting};
}

Tensor Interpreter::look_at(Waiting& waiting) {
    if (!waiting.result) {
        const std::string before = std::exchange(kernel_name_, waiting.kernel);
        waiting.result = launch(*waiting.request);
        kernel_name_ = before;
    }
    return *waiting.result;
}

Value Interpreter::looked_at(Value value) {
    const auto* waiting = value.as<std::shared_ptr<Waiting>>();
    if (waiting == nullptr) return value;
    return look_at(**waiting);
}

Value Interpreter::launched(frontend::LaunchRequest request, const std::vector<Operand>& operands,
                            When when) {
    for (const Operand& operand : operands) request.operands.push_back(operand.tensor);
    const bool may_wait = when == When::Later && !options_.eager && !is_eager();
    frontend::OperandInfo info;
    if (may_wait ||
        std::ranges::any_of(operands, [](const Operand& o) { return o.waiting != nullptr; })) {
        info = frontend::check_launch(*request.source, request.compute,
                                      frontend::infos_of(request.operands), request.arguments,
                                      request.options);
    }
    // The last first, so that the places of those before it stay.
    for (std::size_t i = operands.size(); i-- > 0;) {
        if (!operands[i].waiting) continue;
        Waiting& waiting = *operands[i].waiting;
        const auto is_it = [&](const Operand& o) { return o.waiting == operands[i].waiting; };
        // What is read more than once is computed once, into memory.
        const bool is_shared = waiting.was_read || std::ranges::count_if(operands, is_it) > 1;
        auto one = is_shared ? std::nullopt : frontend::fused(waiting.request, request, i);
        if (one) {
            waiting.was_read = true;
            request = std::move(*one);
        } else {
            request.operands[i] = look_at(waiting);
        }
    }
    if (!may_wait || !frontend::may_wait(request)) return launch(std::move(request));
    auto waiting = std::make_shared<Waiting>();
    waiting->request = std::make_shared<const frontend::LaunchRequest>(std::move(request));
    waiting->info = std::move(info);
    waiting->kernel = kernel_name_;
    return waiting;
}

}  // namespace quern::script
