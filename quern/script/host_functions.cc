// The functions of the host language: movement of tensors, devices, casts.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quern/frontend/placement.h"
#include "quern/runtime/device_options.h"
#include "quern/script/interpreter.h"

namespace quern::script {

using frontend::absent_device;
using frontend::device_list;

Value Interpreter::call_function(NodeId callee, const Function& function,
                                 const Arguments& arguments, When when) {
    return at(callee, [&] { return called(callee, function, arguments, when); });
}

Value Interpreter::called(NodeId callee, const Function& function, const Arguments& arguments,
                          When when) {
    const std::string name = text(callee);
    switch (function.kind) {
        case FunctionKind::Elementwise:
            return elementwise(callee, arguments, when);
        case FunctionKind::Cast:
            return cast(callee, arguments);
        case FunctionKind::Async:
            return joined(callee, *arguments.find("", 0));
        case FunctionKind::Memory:
            return memory(callee, arguments);
        case FunctionKind::Host:
            break;
        default:
            fail(Code::E0407, callee, fmt::format("there is no function '{}'", name));
    }
    if (name == "split") return split(callee, arguments);
    if (name == "reshape") return reshape(callee, arguments);
    if (name == "permute") return permute(callee, arguments);
    if (name == "to_device") return to_device(arguments);
    List list;
    for (DeviceInfo& device : devices()) list.elements.emplace_back(std::move(device));
    return list;
}

const Tensor& Interpreter::tensor_of(NodeId callee, const Argument& argument) const {
    const auto* tensor = argument.value.as<Tensor>();
    if (tensor == nullptr) {
        fail(Code::E0441, argument.node,
             fmt::format("'{}' expects a tensor, got {}", text(callee), describe(argument.value)));
    }
    return *tensor;
}

const Tensor& Interpreter::alive_tensor_of(NodeId callee, const Argument& argument) const {
    return alive(argument.node, tensor_of(callee, argument));
}

std::int64_t Interpreter::integer_of(NodeId callee, std::string_view what,
                                     const Argument& argument) const {
    const auto* integer = argument.value.as<std::int64_t>();
    if (integer == nullptr) {
        fail(Code::E0441, argument.node,
             fmt::format("'{}' expects an integer as {}, got {}", text(callee), what,
                         describe(argument.value)));
    }
    return *integer;
}

std::vector<std::int64_t> Interpreter::integers_of(NodeId callee, const Argument& argument) const {
    const auto* list = argument.value.as<List>();
    std::vector<std::int64_t> integers;
    if (list != nullptr) {
        for (const Value& element : list->elements) {
            if (const auto* integer = element.as<std::int64_t>()) integers.push_back(*integer);
        }
    }
    if (list == nullptr || integers.size() != list->elements.size()) {
        fail(Code::E0441, argument.node,
             fmt::format("'{}' expects a list of integers, got {}", text(callee),
                         to_string(argument.value)));
    }
    return integers;
}

Value Interpreter::split(NodeId callee, const Arguments& arguments) {
    const Tensor& tensor = alive_tensor_of(callee, *arguments.find("", 0));
    const Argument& parts_at = *arguments.find("", 1);
    const std::int64_t parts = integer_of(callee, "the number of parts", parts_at);
    const Argument* axis_at = arguments.find("axis", 2);
    const std::int64_t axis = axis_at != nullptr ? integer_of(callee, "the axis", *axis_at) : 0;
    const std::int64_t rank = tensor.rank();
    if (axis < -rank || axis >= rank) {
        fail(Code::E0502, axis_at != nullptr ? axis_at->node : callee,
             fmt::format("'split' expects an axis of {}, got {}", describe(Value(tensor)), axis));
    }
    const std::int64_t extent = tensor.shape(int(axis));
    if (parts < 1 || parts > std::numeric_limits<int>::max() || extent % parts != 0) {
        fail(
            Code::E0502, parts_at.node,
            fmt::format("'split' expects a number of equal parts of axis {} with extent {}, got {}",
                        axis, extent, parts));
    }
    Tuple result;
    for (Tensor& part : tensor.split(int(parts), int(axis))) {
        result.elements.emplace_back(std::move(part));
    }
    return result;
}

Value Interpreter::reshape(NodeId callee, const Arguments& arguments) {
    const Tensor& tensor = alive_tensor_of(callee, *arguments.find("", 0));
    const Argument& shape_at = *arguments.find("", 1);
    const Shape shape = integers_of(callee, shape_at);
    const std::int64_t count = tensor.element_count();
    // The product without the extent that is left open; it stops before it can overflow.
    std::int64_t product = 1;
    int open = 0;
    bool fits = true;
    for (const std::int64_t extent : shape) {
        if (extent == -1) {
            ++open;
        } else if (extent < 0) {
            fits = false;
        } else if (extent != 0 && product > std::numeric_limits<std::int64_t>::max() / extent) {
            product = 0;
            fits = count == 0;
        } else {
            product *= extent;
        }
    }
    fits = fits && open <= 1;
    fits = fits && (open == 0 ? product == count : product != 0 && count % product == 0);
    if (!fits) {
        fail(Code::E0502, shape_at.node,
             fmt::format("'reshape' expects a shape of {} elements, as {} has, got {}", count,
                         describe(Value(tensor)), quern::to_string(shape)));
    }
    return tensor.reshape(shape);
}

Value Interpreter::permute(NodeId callee, const Arguments& arguments) {
    const Tensor& tensor = alive_tensor_of(callee, *arguments.find("", 0));
    const Argument& axes_at = *arguments.find("", 1);
    const std::vector<std::int64_t> axes = integers_of(callee, axes_at);
    std::vector<bool> seen(std::size_t(tensor.rank()), false);
    std::vector<int> permutation;
    for (std::int64_t axis : axes) {
        if (axis < 0) axis += tensor.rank();
        if (axis < 0 || axis >= tensor.rank() || seen[std::size_t(axis)]) break;
        seen[std::size_t(axis)] = true;
        permutation.push_back(int(axis));
    }
    if (permutation.size() != axes.size() || axes.size() != seen.size()) {
        fail(Code::E0502, axes_at.node,
             fmt::format("'permute' expects each of the {} axes once, got {}", tensor.rank(),
                         to_string(axes_at.value)));
    }
    return tensor.permute(permutation);
}

Value Interpreter::to_device(const Arguments& arguments) {
    const Argument& tensor_at = *arguments.find("", 0);
    const auto* tensor = tensor_at.value.as<Tensor>();
    const Argument& device_at = *arguments.find("", 1);
    const auto* info = device_at.value.as<DeviceInfo>();
    const auto* id = info != nullptr ? &info->id : device_at.value.as<std::string>();
    const Argument* copy_at = arguments.find("copy", 2);
    const bool* copy = copy_at != nullptr ? copy_at->value.as<bool>() : nullptr;
    if (tensor == nullptr || id == nullptr || (copy_at != nullptr && copy == nullptr)) {
        const NodeId wrong = tensor == nullptr ? tensor_at.node
                             : id == nullptr   ? device_at.node
                                               : copy_at->node;
        fail(
            Code::E0441, wrong,
            fmt::format("'to_device' expects a tensor, a device and perhaps a truth value as copy, "
                        "got {}, {}{}",
                        describe(tensor_at.value), describe(device_at.value),
                        copy_at != nullptr ? ", " + describe(copy_at->value) : ""));
    }
    if (const auto message = absent_device(*id)) {
        fail(Code::E0601, device_at.node, *message, {}, {device_list()});
    }
    const std::string& from = alive(tensor_at.node, *tensor).device().id();
    const bool is_shared = share_memory(*id, from);
    if (copy != nullptr && !*copy && !is_shared) {
        fail(Code::E0611, copy_at->node,
             fmt::format("copy=false expects a device that has the memory of '{}', got '{}'", from,
                         *id),
             {"leave out copy=false: the elements are copied where that must be"});
    }
    const Tensor there = tensor->to(Device(*id));
    return copy != nullptr && *copy && is_shared ? there.clone() : there;
}

Value Interpreter::cast(NodeId callee, const Arguments& arguments) {
    const DType dtype = *dtype_from_string(tree_.text_of(callee));
    const Argument& argument = *arguments.find("", 0);
    if (const auto* tensor = argument.value.as<Tensor>()) {
        return alive(argument.node, *tensor).to(dtype);
    }
    if (!argument.value.is_number()) {
        fail(Code::E0441, argument.node,
             fmt::format("'{}' expects a tensor or a number, got {}", text(callee),
                         describe(argument.value)));
    }
    // Through a tensor of one element, so that a number rounds as elements do.
    Tensor scalar;
    if (const auto* truth = argument.value.as<bool>()) scalar = Tensor::from({}, {*truth});
    if (const auto* integer = argument.value.as<std::int64_t>()) {
        scalar = Tensor::from({}, {*integer});
    }
    if (const auto* number = argument.value.as<double>()) scalar = Tensor::from({}, {*number});
    const Tensor result = scalar.to(dtype);
    if (dtype == DType::Bool) return result.item() != 0;
    if (is_floating(dtype)) return result.item();
    if (dtype == DType::UInt64 && result.integers()[0] < 0) {
        fail(Code::E0441, argument.node,
             fmt::format("'{}' expects what is at most {}, as integers of scripts are, got {}",
                         text(callee), INT64_MAX, to_string(argument.value)));
    }
    return result.integers()[0];
}

}  // namespace quern::script
