#include <fmt/format.h>

#include <limits>

#include "quern/frontend/placement.h"
#include "quern/script/interpreter.h"

namespace quern::script {

const Value* Interpreter::lookup(std::string_view name) const {
    if (frame_ != nullptr) {
        if (const auto found = frame_->find(name); found != frame_->end()) return &found->second;
    }
    const auto found = globals_.find(name);
    return found == globals_.end() ? nullptr : &found->second;
}

Value Interpreter::evaluate(NodeId id, When when) {
    switch (node(id).kind) {
        case Kind::Int:
        case Kind::Float:
        case Kind::Quantity: {
            const std::optional<Value> value = literal(tree_.text_of(id));
            if (!value) fail(Code::E0110, id, fmt::format("'{}' is out of range", text(id)));
            return *value;
        }
        case Kind::String: {
            const std::string quoted = text(id);
            return quoted.substr(1, quoted.size() - 2);
        }
        case Kind::Name:
            return when == When::Now ? looked_at(name(id)) : name(id);
        case Kind::Unary:
            return unary(id);
        case Kind::Binary:
            return binary(id);
        case Kind::Member:
        case Kind::Index:
            return path(id);
        case Kind::Call:
            return call(id, std::nullopt, when);
        case Kind::Pipe:
            return pipe(id, when);
        case Kind::Compute:
            return compute(id, {}, when);
        case Kind::Tuple:
            return Tuple{elements(id)};
        case Kind::List:
            return List{elements(id)};
        case Kind::Await:
            return await_future(id);
        default:
            fail(Code::E0441, id, "expected a value of a script");
    }
}

Value Interpreter::name(NodeId id) {
    const std::string_view name = tree_.text_of(id);
    if (const Value* value = lookup(name)) {
        if (const auto* tensor = value->as<Tensor>(); tensor && !is_freeing_) alive(id, *tensor);
        return *value;
    }
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "true" || name == "false") return name == "true";
    if (const auto dtype = dtype_from_string(name)) return *dtype;
    fail(Code::E0411, id, fmt::format("'{}' has no value yet", name));
}

std::vector<Value> Interpreter::elements(NodeId id) {
    std::vector<Value> values;
    for (NodeId c = node(id).first; c >= 0; c = node(c).next) values.push_back(evaluate(c));
    return values;
}

Value Interpreter::unary(NodeId id) {
    const Value operand = evaluate(child(id, 0));
    if (node(id).op == lang::Op::Neg) return checked(negate(operand), id);
    const bool* truth = operand.as<bool>();
    if (truth == nullptr) {
        fail(Code::E0405, id,
             fmt::format("'not' expects a truth value, got {}", describe(operand)));
    }
    return !*truth;
}

Value Interpreter::binary(NodeId id) {
    const Value left = evaluate(child(id, 0));
    const lang::Op op = node(id).op;
    if (op == lang::Op::And || op == lang::Op::Or) {
        const bool* truth = left.as<bool>();
        if (truth != nullptr && *truth == (op == lang::Op::Or)) return *truth;
    }
    const Value right = evaluate(child(id, 1));
    if (left.as<Tensor>() != nullptr || right.as<Tensor>() != nullptr) {
        fail(Code::E0441, id,
             fmt::format("an operator of a script expects numbers, got {} and {}", describe(left),
                         describe(right)),
             {"compute tensors in a kernel: compute(a, b) { @kernel elementwise ... }"});
    }
    return checked(combine(op, left, right), id);
}

/// Members and subscripts after a value. In a set of tensors they spell a key together.
Value Interpreter::path(NodeId id) {
    std::vector<NodeId> steps;
    NodeId root = id;
    while (node(root).kind == Kind::Member || node(root).kind == Kind::Index) {
        steps.insert(steps.begin(), root);
        root = child(root, 0);
    }
    Value value = evaluate(root);
    for (std::size_t at = 0; at < steps.size();) {
        if (const auto* view = value.as<SetView>()) {
            value = below(SetView(*view), steps, at);
        } else {
            value = component(value, steps[at++]);
        }
    }
    if (const auto* tensor = value.as<Tensor>(); tensor && !is_freeing_) alive(id, *tensor);
    return value;
}

/// Follows the steps from `at` as far as keys of the set go and leaves `at` behind them.
Value Interpreter::below(const SetView& view, const std::vector<NodeId>& steps, std::size_t& at) {
    std::string key = view.prefix;
    while (at < steps.size()) {
        const SetView here{view.set, key};
        std::string next = here.key(key_component(steps[at]));
        if (!view.set->contains(next) && !view.contains_below(next)) {
            if (view.set->contains(key)) break;
            const NodeId last = child(steps[at], 1);
            const std::vector<std::string> present = here.components_below(key);
            std::string list;
            for (std::size_t n = 0; n < present.size() && n < 8; ++n) {
                list += (n > 0 ? ", " : "") + present[n];
            }
            if (present.size() > 8) list += fmt::format(" and {} more", present.size() - 8);
            std::vector<std::string> help;
            const std::string wanted = key_component(steps[at]);
            for (const std::string& near : lang::nearest(wanted, present)) {
                help.push_back(fmt::format("did you mean '{}'?", near));
            }
            fail(Code::E0442, last,
                 fmt::format("'{}' has no '{}': there is no key '{}'", text(child(steps[at], 0)),
                             wanted, next),
                 std::move(help), {"it has " + list});
        }
        key = std::move(next);
        ++at;
    }
    if (const auto found = view.set->find(key); found != view.set->end()) return found->second;
    return SetView{view.set, key};
}

std::string Interpreter::key_component(NodeId id) {
    const NodeId last = child(id, 1);
    if (node(id).kind == Kind::Member) return text(last);
    if (tree_.child_count(id) != 2 || node(last).kind == Kind::Slice) {
        fail(Code::E0441, last, "a set of tensors expects one subscript, an integer or a string");
    }
    const Value value = evaluate(last);
    if (const auto* number = value.as<std::int64_t>()) return fmt::format("{}", *number);
    if (const auto* name = value.as<std::string>()) return *name;
    fail(Code::E0441, last,
         fmt::format("a set of tensors expects an integer or a string, got {}", describe(value)));
}

Value Interpreter::component(const Value& object, NodeId id) {
    const NodeId last = child(id, 1);
    if (node(id).kind == Kind::Member) {
        const auto* device = object.as<DeviceInfo>();
        const std::string member = text(last);
        if (device == nullptr) {
            fail(Code::E0441, last, fmt::format("{} has no member '{}'", describe(object), member));
        }
        if (member == "id") return device->id;
        if (member == "type") return device->type;
        if (member == "name") return device->name;
        if (member == "cores") return std::int64_t(device->cores);
        if (member == "memory") return device->memory;
        fail(Code::E0441, last, fmt::format("a device has no member '{}'", member),
             {"its members are id, type, name, cores and memory"});
    }
    const std::vector<Value>* elements = nullptr;
    if (const auto* list = object.as<List>()) elements = &list->elements;
    if (const auto* tuple = object.as<Tuple>()) elements = &tuple->elements;
    if (elements == nullptr) {
        fail(Code::E0441, last,
             fmt::format("a subscript of a script expects a list, a tuple or a set, got {}",
                         describe(object)),
             object.as<Tensor>() != nullptr
                 ? std::vector<std::string>{"read elements of a tensor in a kernel"}
                 : std::vector<std::string>{});
    }
    const Value index = evaluate(last);
    const auto* position = index.as<std::int64_t>();
    if (position == nullptr || tree_.child_count(id) != 2) {
        fail(Code::E0412, last,
             fmt::format("a subscript expects one integer, got {}", describe(index)));
    }
    if (*position < 0 || *position >= std::int64_t(elements->size())) {
        fail(Code::E0507, last, fmt::format("index {} is outside {}", *position, describe(object)));
    }
    return (*elements)[std::size_t(*position)];
}

}  // namespace quern::script
