// Running an example the way its reader would.

#include "example.h"

#include <map>
#include <memory>

#include "quern/frontend/check.h"
#include "quern/lang/parse.h"
#include "quern/script/script.h"

namespace quern::errors {
namespace {

using lang::Kind;

/// Collects warnings and notes while it lives.
class Heard {
public:
    explicit Heard(std::vector<Diagnostic>& list)
        : before_(set_warning_handler([&list](const Diagnostic& d) { list.push_back(d); })) {}
    ~Heard() { set_warning_handler(before_); }
    Heard(const Heard&) = delete;
    Heard& operator=(const Heard&) = delete;

private:
    WarningHandler before_;
};

bool is_kernel(const lang::Tree& tree) {
    const lang::NodeId statement = tree[tree.root].first;
    return statement >= 0 && tree[statement].next < 0 && tree[statement].kind == Kind::ExprStmt &&
           tree[tree[statement].first].kind == Kind::Compute;
}

void run_kernel(const Example& example) {
    const Kernel kernel(example.text, {.file = {}, .pedantic = example.pedantic});
    std::vector<Tensor> tensors;
    std::vector<std::string> names;
    for (const Operand& operand : example.operands) {
        tensors.push_back(operand.tensor);
        names.push_back(operand.name);
    }
    if (names != kernel.operand_names()) {
        throw ValueError("the comment names other operands than the kernel");
    }
    kernel.run(tensors, example.arguments);
}

/// `model.layers.0.w` is the key `layers.0.w` of the set `model`.
void run_script(const Example& example, const lang::Source& source) {
    script::Bindings bindings;
    std::map<std::string, TensorSet> sets;
    for (const auto& [name, tensor] : example.operands) {
        const std::size_t dot = name.find('.');
        if (dot == std::string::npos) {
            bindings[name] = tensor;
        } else {
            sets[name.substr(0, dot)][name.substr(dot + 1)] = tensor;
        }
    }
    for (auto& [name, set] : sets) {
        bindings[name] =
            script::SetView{std::make_shared<const TensorSet>(std::move(set)), std::string()};
    }
    for (const Argument& argument : example.arguments) {
        std::visit([&](auto value) { bindings[argument.name] = value; }, argument.value);
    }
    script::RunOptions options;
    options.pedantic = example.pedantic;
    script::run(source, bindings, options);
}

}  // namespace

std::vector<Diagnostic> diagnostics_of(const Example& example) {
    lang::Diagnostics diagnostics(example.text);
    lang::ParseOptions options;
    options.pedantic = example.pedantic;
    const auto source = lang::parse(example.text, options, diagnostics);
    const bool kernel = !diagnostics.has_errors() && is_kernel(source->tree());
    if (kernel && !example.has_operands) {
        for (const auto& [compute, then] : script::check(*source, diagnostics).kernels) {
            frontend::check(*source, compute, diagnostics, then);
        }
    }
    std::vector<Diagnostic> list = diagnostics.sorted();
    if (diagnostics.has_errors() || (kernel && !example.has_operands)) return list;

    // A Kernel parses again and reports again what the parser found.
    if (kernel) list.clear();
    const Heard heard(list);
    try {
        kernel ? run_kernel(example) : run_script(example, *source);
    } catch (const KernelError& error) {
        list.insert(list.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
    return list;
}

}  // namespace quern::errors
