// What can be said of the host level of a script before it runs: what it reads and gives, which
// calls cannot be, and what the devices here cannot do.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "quern/frontend/placement.h"
#include "quern/script/functions.h"
#include "quern/script/numbers.h"
#include "quern/script/script.h"

namespace quern::script {

using frontend::absent_device;
using frontend::device_list;
namespace {

using lang::Code;
using lang::Diagnostics;
using lang::Kind;
using lang::NodeId;
using lang::Op;
using lang::Span;

bool is_constant(std::string_view name) {
    return name == "inf" || name == "true" || name == "false" ||
           dtype_from_string(name).has_value();
}

class Checker {
public:
    Checker(const lang::Source& source, Diagnostics& diagnostics, const CheckOptions& options)
        : tree_(source.tree()), diagnostics_(diagnostics), options_(options) {}

    Signature check() {
        collect_pipelines();
        for (NodeId id = tree_[tree_.root].first; id >= 0; id = tree_[id].next) {
            if (tree_[id].kind != Kind::Pipeline) statement(id);
        }
        globals_ = std::exchange(scope_, {});
        for (const auto& [name, id] : pipelines_) pipeline(id);
        if (declared_pipelines_ == 1 && called_.empty()) make_main(pipelines_.begin()->second);
        finish();
        return std::move(signature_);
    }

private:
    /// Names bound in one scope, and whether they may be assigned.
    using Scope = std::map<std::string, bool, std::less<>>;

    const lang::Node& node(NodeId id) const { return tree_[id]; }
    NodeId child(NodeId id, int n) const { return tree_.child(id, n); }
    std::string text(NodeId id) const { return std::string(tree_.text_of(id)); }
    Diagnostics::Entry error(Code code, NodeId id, std::string message) {
        return diagnostics_.add(code, node(id).span, std::move(message));
    }

    void collect_pipelines() {
        for (NodeId id = node(tree_.root).first; id >= 0; id = node(id).next) {
            if (node(id).kind != Kind::Pipeline) continue;
            ++declared_pipelines_;
            const NodeId name = child(id, 0);
            const auto [first, added] = pipelines_.emplace(text(name), id);
            if (!added) {
                error(Code::E0410, name, fmt::format("pipeline '{}' is declared twice", text(name)))
                    .note_at(node(child(first->second, 0)).span, "the first one is here");
            }
        }
    }

    void make_main(NodeId id) {
        signature_.main = id;
        for (NodeId p = node(child(id, 1)).first; p >= 0; p = node(p).next) {
            signature_.parameters.push_back({text(child(p, 0)), node(child(p, 0)).span});
        }
        signature_.results.push_back(text(child(id, 0)));
    }

    void finish() {
        auto& inputs = signature_.inputs;
        std::sort(inputs.begin(), inputs.end(),
                  [](const FreeName& a, const FreeName& b) { return a.span.begin < b.span.begin; });
        std::set<std::string> seen;
        std::erase_if(inputs,
                      [&](const FreeName& input) { return !seen.insert(input.name).second; });
        std::sort(signature_.kernels.begin(), signature_.kernels.end(),
                  [&](const KernelUse& a, const KernelUse& b) {
                      return node(a.compute).span.begin < node(b.compute).span.begin;
                  });
        signature_.kernel_names.assign(kernel_names_.begin(), kernel_names_.end());
    }

    void pipeline(NodeId id) {
        scope_ = {};
        inside_pipeline_ = true;
        std::set<std::string> parameters;
        for (NodeId p = node(child(id, 1)).first; p >= 0; p = node(p).next) {
            const NodeId name = child(p, 0);
            if (!parameters.insert(text(name)).second) {
                error(Code::E0410, name,
                      fmt::format("parameter '{}' is declared twice", text(name)));
            }
            scope_[text(name)] = false;
            type(child(p, 1));
        }
        if (node(child(id, 2)).kind == Kind::Type) type(child(id, 2));
        for (NodeId s = node(child(id, 3)).first; s >= 0; s = node(s).next) statement(s);
        inside_pipeline_ = false;
    }

    /// Checks a parameter's type and binds the dimensions that it names.
    void type(NodeId id) {
        const std::string name = text(child(id, 0));
        if (name != "tensor" && name != "int" && name != "float" && name != "bool" &&
            name != "string") {
            auto entry =
                error(Code::E0416, child(id, 0),
                      fmt::format("expected 'tensor', 'int', 'float', 'bool' or 'string', got '{}'",
                                  name));
            suggest(entry, name, {"tensor", "int", "float", "bool", "string"});
            entry.help("a tensor is written with its dimensions, as in `tensor[n, m]`");
        }
        for (NodeId d = node(child(id, 0)).next; d >= 0; d = node(d).next) {
            if (node(d).kind == Kind::Name) scope_.emplace(text(d), false);
        }
    }

    void statement(NodeId id) {
        switch (node(id).kind) {
            case Kind::Config:
                return config(id);
            case Kind::Decl:
                expression(child(id, 2));
                return bind(child(id, 0), node(id).op == Op::Var);
            case Kind::Assign:
                return assign(id);
            case Kind::Return:
            case Kind::ExprStmt:
                return expression(child(id, 0));
            default:
                error(Code::E0418, id, "expected a statement of a script, got one of a kernel")
                    .help("put it into the body of a compute(...) { ... }");
        }
    }

    void config(NodeId id) {
        for (NodeId s = node(id).first; s >= 0; s = node(s).next) {
            const NodeId name = child(s, 0), value = child(s, 1);
            expression(value);
            if (text(name) == "compute_device") {
                device(value);
            } else if (text(name) != "numerics") {
                error(Code::E0440, name, fmt::format("unknown setting '{}'", text(name)))
                    .help("the settings are compute_device and numerics");
            }
        }
    }

    void bind(NodeId target, bool assignable) {
        if (node(target).kind == Kind::Tuple) {
            for (NodeId t = node(target).first; t >= 0; t = node(t).next) bind(t, assignable);
            return;
        }
        const std::string name = text(target);
        scope_[name] = assignable;
        if (inside_pipeline_) return;
        if (bound_.insert(name).second) signature_.results.push_back(name);
    }

    void assign(NodeId id) {
        expression(child(id, 1));
        const NodeId target = child(id, 0);
        if (node(target).kind != Kind::Name) {
            error(Code::E0441, target, "a script assigns whole names, not elements or members")
                .help("write elements in a kernel");
            return;
        }
        const auto* bound = lookup(text(target));
        if (bound == nullptr) {
            error(Code::E0411, target,
                  fmt::format("'{}' is assigned and never declared", text(target)))
                .help(fmt::format("declare it: var {} = ...", text(target)));
        } else if (!*bound) {
            error(Code::E0414, target,
                  fmt::format("'{}' is not a var and cannot be assigned", text(target)))
                .help(fmt::format("declare it with 'var', or bind it anew: let {} = ...",
                                  text(target)));
        }
    }

    const bool* lookup(std::string_view name) const {
        if (const auto found = scope_.find(name); found != scope_.end()) return &found->second;
        const auto found = globals_.find(name);
        return found == globals_.end() ? nullptr : &found->second;
    }

    void expression(NodeId id) {
        switch (node(id).kind) {
            case Kind::Name:
                return name(id);
            case Kind::Call:
                return call(id, 0);
            case Kind::Pipe:
                return pipe(id);
            case Kind::Compute:
                return compute(id);
            case Kind::Member:
                return expression(child(id, 0));
            case Kind::NamedArg:
                return expression(child(id, 1));
            case Kind::Quantity:
                if (literal(text(id))) return;
                if (has_known_unit(text(id))) {
                    error(Code::E0110, id,
                          fmt::format("'{}' is out of range: a quantity has 63 bits", text(id)));
                } else {
                    error(Code::E0441, id, fmt::format("'{}' has no known unit", text(id)))
                        .help("units are " + quantity_units());
                }
                return;
            case Kind::ReduceOp:
                // Only reduce() has one, and that it is called here is reported.
                return;
            default:
                break;
        }
        for (NodeId c = node(id).first; c >= 0; c = node(c).next) expression(c);
    }

    void name(NodeId id) {
        const std::string name = text(id);
        if (lookup(name) != nullptr || is_constant(name)) return;
        signature_.inputs.push_back({name, node(id).span});
    }

    void pipe(NodeId id) {
        expression(child(id, 0));
        const NodeId target = child(id, 1);
        if (launch_ == child(id, 0)) {
            if (auto piped = piped_into_launch(tree_, target, pipelines_)) {
                signature_.kernels.back().then.push_back(std::move(*piped));
                launch_ = id;
            }
        }
        if (node(target).kind == Kind::Call) {
            call(target, 1);
        } else {
            error(Code::E0407, target, "expected a call after '|>'");
        }
    }

    /// `piped` arguments come from the left of a `|>`.
    void call(NodeId id, int piped) {
        NodeId callee = child(id, 0);
        if (node(callee).kind == Kind::Member) {
            expression(child(callee, 0));
            callee = child(callee, 1);
            ++piped;
        }
        int positional = piped;
        NodeId decorated = -1;
        std::vector<NodeId> named;
        for (NodeId a = node(child(id, 0)).next; a >= 0; a = node(a).next) {
            if (node(a).kind == Kind::Decorator) {
                decorator(a);
                if (decorated < 0) decorated = a;
                continue;
            }
            expression(a);
            if (node(a).kind == Kind::NamedArg) {
                named.push_back(a);
            } else {
                ++positional;
            }
        }
        if (node(callee).kind != Kind::Name) {
            error(Code::E0407, callee, "expected the name of a function or a pipeline");
            return;
        }
        const std::string name = text(callee);
        if (const auto found = pipelines_.find(name); found != pipelines_.end()) {
            called_.insert(name);
            pipeline_arguments(callee, found->second, positional, named);
            return;
        }
        const bool is_of_object = node(child(id, 0)).kind == Kind::Member;
        function_arguments(callee, find_function(name), positional, named, is_of_object);
        if (decorated >= 0) {
            error(
                Code::E0302, decorated,
                fmt::format("'@{}' belongs to a compute or to the call of a pipeline, and '{}' is "
                            "a function",
                            text(child(decorated, 0)), name))
                .help("put the call into a pipeline");
        }
        if (name == "to_device" && node(callee).next >= 0) device(node(callee).next);
    }

    void pipeline_arguments(NodeId callee, NodeId id, int positional,
                            const std::vector<NodeId>& named) {
        const int expected = tree_.child_count(child(id, 1));
        if (positional != expected && named.empty()) {
            error(Code::E0504, callee,
                  fmt::format("pipeline '{}' expects {} operand{}, got {}", text(callee), expected,
                              expected == 1 ? "" : "s", positional))
                .note_at(node(child(id, 0)).span, "it is declared here");
        }
        for (const NodeId a : named) {
            error(Code::E0408, child(a, 0), "a pipeline takes its operands by position");
        }
    }

    void function_arguments(NodeId callee, const Function& function, int positional,
                            const std::vector<NodeId>& named, bool is_of_object) {
        const std::string name = text(callee);
        if (function.kind == FunctionKind::None) {
            auto entry = error(Code::E0407, callee, fmt::format("there is no function '{}'", name));
            std::vector<std::string> candidates = function_names();
            for (const auto& [pipeline, id] : pipelines_) candidates.push_back(pipeline);
            suggest(entry, name, candidates);
            return;
        }
        if (function.kind == FunctionKind::KernelOnly) {
            error(Code::E0418, callee, fmt::format("'{}' has a meaning in kernels only", name));
            return;
        }
        for (const NodeId a : named) {
            if (function.takes(text(child(a, 0)))) continue;
            error(Code::E0408, child(a, 0),
                  fmt::format("'{}' has no argument '{}'", name, text(child(a, 0))));
        }
        if (!named_arguments(callee, function, positional, named, is_of_object)) return;
        // What a method belongs to is no argument of it.
        const int given = positional + int(named.size()) - int(is_of_object);
        const int least = std::max(function.least - int(is_of_object), 0);
        const int most = function.most - int(is_of_object);
        if (given < least || given > most) {
            const std::string expected =
                least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
            error(Code::E0408, callee,
                  fmt::format("'{}' expects {} argument{}, got {}", name, expected,
                              expected == "1" ? "" : "s", given));
        }
    }

    /// Names that stand for an argument that is there already, and arguments that no name can be:
    /// false if there are too few of these.
    bool named_arguments(NodeId callee, const Function& function, int positional,
                         const std::vector<NodeId>& named, bool is_of_object) {
        const int unnamed = function.unnamed();
        if (positional < unnamed && positional + int(named.size()) >= unnamed) {
            error(Code::E0408, callee,
                  fmt::format("'{}' expects {} arguments without a name, got {}", function.name,
                              unnamed - int(is_of_object), positional - int(is_of_object)));
            return false;
        }
        // The first argument of allocate() may be a pool, which only its value says.
        const bool may_have_pool = function.name == "allocate" && !is_of_object;
        const int first = function.kind == FunctionKind::Memory ? int(is_of_object) : unnamed;
        std::set<std::string> given;
        for (int n = first;
             !may_have_pool && n < positional && n - first < int(function.named.size()); ++n) {
            given.emplace(function.named[std::size_t(n - first)]);
        }
        for (const NodeId a : named) {
            const std::string name = text(child(a, 0));
            if (given.insert(name).second) continue;
            error(Code::E0408, child(a, 0), fmt::format("'{}' is given twice", name));
        }
        return true;
    }

    void suggest(Diagnostics::Entry& entry, std::string_view name,
                 const std::vector<std::string>& candidates) {
        for (const std::string& near : lang::nearest(name, candidates)) {
            entry.help(fmt::format("did you mean '{}'?", near));
        }
    }

    void compute(NodeId id) {
        for (NodeId o = node(child(id, 0)).first; o >= 0; o = node(o).next) {
            expression(child(o, 1));
        }
        for (int part = 1; part <= 2; ++part) {
            const NodeId decorators = child(id, part);
            for (NodeId d = node(decorators).first; d >= 0; d = node(d).next) decorator(d);
        }
        kernel_names_.merge(semantics::free_names(tree_, id));
        kernel_names_.merge(semantics::names_of_kind(tree_, id));
        signature_.kernels.push_back({id, {}});
        launch_ = id;
    }

    void decorator(NodeId id) {
        const NodeId name = child(id, 0);
        const NodeId argument = node(name).next;
        if (text(name) != "device" || argument < 0) return;
        if (node(argument).kind != Kind::List) return device(argument);
        for (NodeId each = node(argument).first; each >= 0; each = node(each).next) device(each);
    }

    /// Reports a device that is written out and absent.
    void device(NodeId id) {
        if (!options_.devices || node(id).kind != Kind::String) return;
        const std::string quoted = text(id);
        if (const auto message = absent_device(quoted.substr(1, quoted.size() - 2))) {
            error(Code::E0601, id, *message).note(device_list());
        }
    }

    lang::Tree tree_;
    Diagnostics& diagnostics_;
    CheckOptions options_;
    Signature signature_;
    Pipelines pipelines_;
    int declared_pipelines_ = 0;
    std::set<std::string> called_;
    std::set<std::string, std::less<>> kernel_names_;
    Scope scope_, globals_;

    /// What the top level binds.
    std::set<std::string> bound_;

    /// The last compute, or the last pipe that belongs to its launch.
    NodeId launch_ = -1;
    bool inside_pipeline_ = false;
};

}  // namespace

Signature check(const lang::Source& source, Diagnostics& diagnostics, const CheckOptions& options) {
    return Checker(source, diagnostics, options).check();
}

}  // namespace quern::script
