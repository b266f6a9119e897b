#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "quern/frontend/placement.h"
#include "quern/script/interpreter.h"
#include "quern/support/check.h"

namespace quern::script {

using frontend::absent_device;
using frontend::device_list;

Interpreter::Interpreter(const lang::Source& source, const Signature& signature,
                         const Bindings& bindings, const RunOptions& options)
    : source_(source),
      tree_(source.tree()),
      signature_(signature),
      bindings_(bindings),
      options_(options),
      numerics_(options.numerics ? *options.numerics : default_numerics()) {
    if (options.device) placement_.device = *options.device;
    for (NodeId id = node(tree_.root).first; id >= 0; id = node(id).next) {
        if (node(id).kind == Kind::Pipeline) pipelines_.emplace(text(child(id, 0)), id);
    }
}

Results Interpreter::run() {
    globals_ = bindings_;
    Flow flow = Flow::Next;
    for (NodeId id = node(tree_.root).first; id >= 0 && flow == Flow::Next; id = node(id).next) {
        if (node(id).kind != Kind::Pipeline) flow = statement(id);
    }
    Results results;
    if (flow == Flow::Return) results.returned = std::move(returned_);
    if (flow == Flow::Next && signature_.main >= 0) run_main();
    finish_started();
    for (const std::string& name : bound_) results.named.emplace_back(name, globals_[name]);
    return results;
}

void Interpreter::run_main() {
    const NodeId name = child(signature_.main, 0);
    Arguments arguments;
    for (NodeId p = node(child(signature_.main, 1)).first; p >= 0; p = node(p).next) {
        arguments.positional.push_back({bindings_.at(text(child(p, 0))), child(p, 0)});
    }
    bind_name(name, call_pipeline(name, signature_.main, arguments));
}

void Interpreter::fail(Code code, NodeId id, std::string message, std::vector<std::string> help,
                       std::vector<std::string> notes) const {
    lang::Diagnostics diagnostics(source_);
    auto entry = diagnostics.add(code, node(id).span, std::move(message));
    for (std::string& text : notes) entry.note(std::move(text));
    for (std::string& text : help) entry.help(std::move(text));
    raise(KernelError(diagnostics.sorted()));
}

#if QUERN_EXCEPTIONS
void Interpreter::fail_with_current(NodeId id) const {
    const auto placed = [&](const Error& error) {
        const Diagnostic here = lang::Diagnostics(source_).at(node(id).span);
        return fmt::format("{}:{}:{}: {}", here.file, here.line, here.column, error.what());
    };
    try {
        throw;
    } catch (const KernelError&) {
        throw;
    } catch (const OutOfMemory& error) {
        fail(Code::E0608, id, error.what());
    } catch (const std::bad_alloc&) {
        fail(Code::E0608, id, "[script] expected room, got none from the system");
    } catch (const ShapeError& error) {
        fail(Code::E0502, id, error.what());
    } catch (const DeviceError& error) {
        fail(Code::E0601, id, error.what());
    } catch (const FileError& error) {
        raise(FileError(placed(error)));
    } catch (const InternalError& error) {
        raise(InternalError(placed(error)));
    } catch (const Error& error) {
        fail(Code::E0441, id, error.what());
    }
}
#endif

Value Interpreter::checked(NumberResult result, NodeId id) const {
    if (auto* fault = std::get_if<NumberFault>(&result)) fail(fault->code, id, fault->message);
    return std::get<Value>(std::move(result));
}

Interpreter::Flow Interpreter::statement(NodeId id) {
    return at(id, [&] { return execute(id); });
}

Interpreter::Flow Interpreter::execute(NodeId id) {
    switch (node(id).kind) {
        case Kind::Config:
            config(id);
            return Flow::Next;
        case Kind::Decl:
            kernel_name_ = text(child(id, 0));
            // What the top level names is a result of the script, so it is looked at.
            bind(child(id, 0), evaluate(child(id, 2), frame_ != nullptr ? When::Later : When::Now));
            break;
        case Kind::Assign:
            assign(id);
            break;
        case Kind::Return:
            returned_ = evaluate(child(id, 0));
            return Flow::Return;
        case Kind::ExprStmt:
            evaluate(child(id, 0));
            break;
        default:
            fail(Code::E0418, id, "expected a statement of a script, got one of a kernel");
    }
    kernel_name_.clear();
    return Flow::Next;
}

void Interpreter::config(NodeId id) {
    for (NodeId setting = node(id).first; setting >= 0; setting = node(setting).next) {
        const std::string name = text(child(setting, 0));
        const NodeId value_at = child(setting, 1);
        const Value value = evaluate(value_at);
        const auto* said = value.as<std::string>();
        if (said == nullptr) {
            fail(Code::E0441, value_at,
                 fmt::format("{} expects a string, got {}", name, describe(value)));
        }
        if (name == "numerics") {
            const std::optional<Numerics> numerics = numerics_named(*said);
            if (!numerics) {
                fail(Code::E0441, value_at,
                     fmt::format("numerics expects \"strict\", \"reproducible\" or \"fast\", got "
                                 "\"{}\"",
                                 *said));
            }
            if (!options_.numerics) numerics_ = *numerics;
            continue;
        }
        if (const auto message = absent_device(*said)) {
            fail(Code::E0601, value_at, *message, {}, {device_list()});
        }
        if (options_.device) continue;
        set_default_device(*said);
        configured_ = Device(*said);
        if (!is_placed_) placement_.device = *configured_;
    }
}

void Interpreter::bind(NodeId target, const Value& value) {
    if (node(target).kind != Kind::Tuple) return bind_name(target, value);
    const std::vector<Value>* elements = nullptr;
    if (const auto* tuple = value.as<Tuple>()) elements = &tuple->elements;
    if (const auto* list = value.as<List>()) elements = &list->elements;
    const auto expected = std::size_t(tree_.child_count(target));
    if (elements == nullptr || elements->size() != expected) {
        fail(Code::E0441, target,
             fmt::format("{} names expect a tuple of {}, got {}", expected, expected,
                         describe(value)));
    }
    std::size_t n = 0;
    for (NodeId name = node(target).first; name >= 0; name = node(name).next) {
        bind(name, (*elements)[n++]);
    }
}

void Interpreter::bind_name(NodeId target, const Value& value) {
    if (value.is_none()) {
        fail(Code::E0441, target,
             fmt::format("'{}' expects a value, got a call that returns nothing", text(target)));
    }
    const std::string name = text(target);
    (frame_ != nullptr ? *frame_ : globals_)[name] = value;
    if (frame_ == nullptr && is_bound_.insert(name).second) bound_.push_back(name);
}

void Interpreter::assign(NodeId id) {
    const NodeId target = child(id, 0);
    const std::string name = text(target);
    kernel_name_ = name;
    const NodeId value_at = child(id, 1);
    Value value = evaluate(value_at);
    Scope* scope = &globals_;
    if (frame_ != nullptr && frame_->contains(name)) scope = frame_;
    const auto found = scope->find(name);
    if (found == scope->end()) {
        fail(Code::E0411, target, fmt::format("'{}' has no value yet", name));
    }
    const auto compound = [](lang::Op op) {
        switch (op) {
            case lang::Op::AddSet:
                return lang::Op::Add;
            case lang::Op::SubSet:
                return lang::Op::Sub;
            case lang::Op::MulSet:
                return lang::Op::Mul;
            case lang::Op::DivSet:
                return lang::Op::Div;
            default:
                return lang::Op::None;
        }
    }(node(id).op);
    if (compound != lang::Op::None) {
        value = checked(combine(compound, found->second, value), value_at);
    }
    found->second = std::move(value);
}

Results run(const lang::Source& source, const Bindings& bindings, const RunOptions& options) {
    lang::Diagnostics diagnostics(source);
    const Signature signature = check(source, diagnostics, {.devices = true});
    std::vector<FreeName> needed = signature.inputs;
    // A pipeline that is wrong is not run, so it needs no operands.
    if (!diagnostics.has_errors()) {
        needed.insert(needed.end(), signature.parameters.begin(), signature.parameters.end());
    }
    std::vector<std::string> known = signature.results;
    for (const auto& [name, value] : bindings) known.push_back(name);
    for (const FreeName& input : needed) {
        if (bindings.contains(input.name)) continue;
        auto entry = diagnostics.add(lang::Code::E0411, input.span,
                                     fmt::format("'{}' has no value", input.name));
        entry.note("the script does not bind it, so it is an input");
        entry.help(fmt::format(
            "give it tensors with --in {0}=FILE or a number with --arg {0}=VALUE", input.name));
        for (const std::string& near : lang::nearest(input.name, known)) {
            entry.help(fmt::format("did you mean '{}'?", near));
        }
    }
    diagnostics.raise();
    return Interpreter(source, signature, bindings, options).run();
}

const Value* Results::find(std::string_view name) const {
    for (const auto& [bound, value] : named) {
        if (bound == name) return &value;
    }
    return nullptr;
}

}  // namespace quern::script
