// Calls: their arguments, `|>`, and pipelines with their signatures.

#include <fmt/format.h>

#include "quern/frontend/placement.h"
#include "quern/script/interpreter.h"

namespace quern::script {

namespace {

/// A chain of pipelines as long as this one calls itself, as a rule without end: of conditions the
/// host language has `and` and `or` only. Calls take the stack of the program.
constexpr int kDeepestCall = 40;

}  // namespace

const Interpreter::Argument* Interpreter::Arguments::find(std::string_view name,
                                                          std::size_t position) const {
    if (const auto found = named.find(name); found != named.end()) return &found->second;
    return position < positional.size() ? &positional[position] : nullptr;
}

Value Interpreter::pipe(NodeId id, When when) {
    std::vector<NodeId> calls;
    NodeId base = id;
    while (node(base).kind == Kind::Pipe) {
        calls.insert(calls.begin(), child(base, 1));
        base = child(base, 0);
    }
    std::size_t next = 0;
    std::vector<semantics::Piped> then;
    if (node(base).kind == Kind::Compute) {
        for (; next < calls.size(); ++next) {
            auto piped = piped_into_launch(tree_, calls[next], pipelines_);
            if (!piped) break;
            then.push_back(std::move(*piped));
        }
    }
    // What a call takes that cannot wait is looked at there.
    const auto next_when = [&] { return next < calls.size() ? When::Later : when; };
    Value value =
        then.empty() ? evaluate(base, next_when()) : compute(base, std::move(then), next_when());
    while (next < calls.size()) {
        const NodeId at = calls[next++];
        value = value.as<Future<Value>>() ? piped_future(at, {value, base})
                                          : call(at, Argument{value, base}, next_when());
        // What a call gives is not what the first operand's name means.
        base = at;
    }
    return value;
}

lang::NodeId Interpreter::callee_of(NodeId call) const {
    const NodeId callee = child(call, 0);
    return node(callee).kind == Kind::Member ? child(callee, 1) : callee;
}

Value Interpreter::call(NodeId id, std::optional<Argument> piped, When when) {
    const NodeId callee = callee_of(id);
    const std::string name = text(callee);
    const auto pipeline = pipelines_.find(name);
    if (pipeline == pipelines_.end()) {
        const Function& function = find_function(name);
        const bool takes_waiting = function.kind == FunctionKind::Elementwise;
        return call_function(
            callee, function,
            arguments(id, std::move(piped), takes_waiting ? When::Later : When::Now), when);
    }
    return call_placed(id, callee, pipeline->second, arguments(id, std::move(piped), When::Now));
}

/// A call whose arguments are there.
Value Interpreter::call_with(NodeId id, const Arguments& given) {
    const NodeId callee = callee_of(id);
    const auto pipeline = pipelines_.find(text(callee));
    if (pipeline != pipelines_.end()) return call_placed(id, callee, pipeline->second, given);
    return call_function(callee, find_function(text(callee)), given, When::Now);
}

Value Interpreter::call_placed(NodeId id, NodeId callee, NodeId pipeline, const Arguments& given) {
    NodeId decorator = node(id).first;
    while (decorator >= 0 && node(decorator).kind != Kind::Decorator) {
        decorator = node(decorator).next;
    }
    const frontend::Placement before = placement_;
    const std::size_t placed_before = placed_kernels_;
    placement_ = frontend::placed(source_, decorator, placement_);
    // A call that says nothing goes on in the turn of the pipeline that it stands in.
    const bool is_placed = placement_.span.begin != before.span.begin;
    if (is_placed) placed_kernels_ = 0;
    const bool was_placed = std::exchange(is_placed_, is_placed_ || is_placed);
    Value value = frontend::is_async(source_, decorator)
                      ? start(callee, async_pipeline(callee, pipeline, given))
                      : call_pipeline(callee, pipeline, given);
    placement_ = before;
    is_placed_ = was_placed;
    // What a pipeline configures is the process's from then on.
    if (configured_ && !is_placed_) placement_.device = *configured_;
    if (is_placed) placed_kernels_ = placed_before;
    return value;
}

frontend::Placement Interpreter::next_placement() {
    frontend::Placement next = placement_;
    if (next.spread != frontend::Spread::Model) return next;
    const std::size_t turn = placed_kernels_++ % (next.others.size() + 1);
    if (turn > 0) next.device = next.others[turn - 1];
    next.others.clear();
    next.spread = frontend::Spread::None;
    return next;
}

Interpreter::Arguments Interpreter::arguments(NodeId call, std::optional<Argument> piped,
                                              When when) {
    Arguments arguments;
    if (piped && when == When::Now) piped->value = looked_at(std::move(piped->value));
    if (piped) arguments.positional.push_back(std::move(*piped));
    const NodeId callee = child(call, 0);
    if (node(callee).kind == Kind::Member) {
        const NodeId object = child(callee, 0);
        arguments.positional.push_back({evaluate(object, when), object});
    }
    const NodeId named = node(callee).kind == Kind::Member ? child(callee, 1) : callee;
    is_freeing_ = text(named) == "free";
    for (NodeId a = node(callee).next; a >= 0; a = node(a).next) {
        if (node(a).kind == Kind::Decorator) continue;
        if (node(a).kind == Kind::NamedArg) {
            const NodeId value = child(a, 1);
            arguments.named[text(child(a, 0))] = {evaluate(value), value};
        } else {
            arguments.positional.push_back({evaluate(a, when), a});
        }
    }
    is_freeing_ = false;
    return arguments;
}

Value Interpreter::call_pipeline(NodeId callee, NodeId pipeline, const Arguments& arguments) {
    if (depth_ >= kDeepestCall) {
        fail(Code::E0104, callee,
             fmt::format("expected at most {} calls inside of each other, got one more of '{}'",
                         kDeepestCall, text(callee)));
    }
    Scope scope;
    bind_parameters(pipeline, arguments.positional, scope);
    Scope* const outer = frame_;
    frame_ = &scope;
    ++depth_;
    Flow flow = Flow::Next;
    const NodeId body = child(pipeline, 3);
    for (NodeId s = node(body).first; s >= 0 && flow == Flow::Next; s = node(s).next) {
        flow = statement(s);
    }
    Value value = flow == Flow::Return ? std::move(returned_) : Value();
    returned_ = {};
    if (const NodeId type = child(pipeline, 2); node(type).kind == Kind::Type) {
        const std::string expected = text(child(type, 0));
        std::optional<Value> fitting = fitted(value, expected);
        if (!fitting) {
            fail(Code::E0441, type,
                 fmt::format("pipeline '{}' returns a value of type '{}', got {}",
                             text(child(pipeline, 0)), expected, describe(value)));
        }
        value = std::move(*fitting);
        bind_dimensions(type, value, type, "the result", scope);
    }
    --depth_;
    frame_ = outer;
    return value;
}

void Interpreter::bind_parameters(NodeId pipeline, const std::vector<Argument>& operands,
                                  Scope& scope) {
    // Scalars first, so that a dimension of the same name has to agree with them.
    std::size_t n = 0;
    for (NodeId p = node(child(pipeline, 1)).first; p >= 0; p = node(p).next) {
        bind_scalar(p, operands[n++], scope);
    }
    n = 0;
    for (NodeId p = node(child(pipeline, 1)).first; p >= 0; p = node(p).next) {
        const Argument& operand = operands[n++];
        bind_dimensions(child(p, 1), operand.value, operand.node,
                        fmt::format("'{}'", text(child(p, 0))), scope);
    }
}

/// As a value of the type, if it is one; an integer is a float.
std::optional<Value> Interpreter::fitted(const Value& value, std::string_view type) {
    bool fits = false;
    if (type == "tensor") fits = value.as<Tensor>() != nullptr;
    if (type == "int") fits = value.as<std::int64_t>() != nullptr;
    if (type == "bool") fits = value.as<bool>() != nullptr;
    if (type == "string") fits = value.as<std::string>() != nullptr;
    if (type == "float") {
        if (const auto* integer = value.as<std::int64_t>()) return Value(double(*integer));
        fits = value.as<double>() != nullptr;
    }
    return fits ? std::optional(value) : std::nullopt;
}

void Interpreter::bind_scalar(NodeId parameter, const Argument& operand, Scope& scope) {
    const std::string type = text(child(child(parameter, 1), 0));
    std::optional<Value> bound = fitted(operand.value, type);
    if (!bound) {
        fail(Code::E0441, operand.node,
             fmt::format("parameter '{}' expects a value of type '{}', got {}",
                         text(child(parameter, 0)), type, describe(operand.value)));
    }
    scope[text(child(parameter, 0))] = std::move(*bound);
}

/// Gives the dimensions that a tensor's type names their extents; those that have one must agree.
void Interpreter::bind_dimensions(NodeId type, const Value& value, NodeId place,
                                  std::string_view what, Scope& scope) {
    const auto* tensor = value.as<Tensor>();
    const int declared = tree_.child_count(type) - 1;
    if (tensor == nullptr || declared == 0) return;
    const std::string signature = text(type);
    if (tensor->rank() != declared) {
        fail(Code::E0504, place,
             fmt::format("{} expects {} dimension{}, as in {}, got {}", what, declared,
                         declared == 1 ? "" : "s", signature, describe(value)));
    }
    int axis = 0;
    for (NodeId d = node(child(type, 0)).next; d >= 0; d = node(d).next, ++axis) {
        if (node(d).kind == Kind::Unknown) continue;
        const std::int64_t extent = tensor->shape(axis);
        std::optional<Value> expected;
        if (node(d).kind == Kind::Int) expected = literal(tree_.text_of(d));
        if (node(d).kind == Kind::Name) {
            const std::string name = text(d);
            const auto [bound, added] = scope.emplace(name, extent);
            if (added) {
                // A number of the script with the dimension's name is its value too.
                const auto global = globals_.find(name);
                if (global != globals_.end() && global->second.as<std::int64_t>() != nullptr) {
                    expected = global->second;
                }
            } else {
                expected = bound->second;
            }
        }
        if (!expected) continue;
        const auto* number = expected->as<std::int64_t>();
        if (number == nullptr || *number != extent) {
            fail(Code::E0501, place,
                 fmt::format("'{}' is {} and {} from dimension {} of {}", text(d),
                             to_string(*expected), extent, axis, what),
                 {}, {"the signature says " + signature});
        }
    }
}

}  // namespace quern::script
