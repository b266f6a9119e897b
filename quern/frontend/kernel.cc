#include "quern/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>

#include "quern/frontend/launch.h"
#include "quern/frontend/placement.h"
#include "quern/static_kernel.h"
#include "quern/support/check.h"

namespace quern {

using lang::Kind;
using lang::NodeId;

struct Kernel::Body {
    std::shared_ptr<const lang::Source> source;
    NodeId compute = -1;
    std::vector<std::string> operands;
    std::vector<std::string> then;
    std::set<std::string, std::less<>> names;
    bool pedantic = false;
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

void collect_names(const lang::Tree& tree, NodeId id, std::set<std::string, std::less<>>& names) {
    if (tree[id].kind == Kind::Name) names.emplace(tree.text_of(id));
    for (NodeId c = tree[id].first; c >= 0; c = tree[c].next) collect_names(tree, c, names);
}

frontend::Arguments arguments_of(std::span<const Argument> arguments,
                                 const std::set<std::string, std::less<>>& names,
                                 const std::vector<std::string>& operands) {
    frontend::Arguments result;
    for (const Argument& a : arguments) {
        const bool is_operand =
            std::find(operands.begin(), operands.end(), a.name) != operands.end();
        // A convolution knows these two whether or not its text says them.
        const bool known = names.count(a.name) > 0 || a.name == "stride" || a.name == "padding";
        if (!known || is_operand) {
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

}  // namespace

Kernel::Kernel(std::string text, const KernelOptions& options) {
    auto body = std::make_shared<Body>();
    body->pedantic = options.pedantic;
    lang::Diagnostics diagnostics(text, options.file);
    body->source = lang::parse(std::move(text), {options.file, options.pedantic}, diagnostics);
    diagnostics.raise();
    const lang::Tree tree = body->source->tree();
    NodeId value = only_value(tree);
    while (value >= 0 && tree[value].kind == Kind::Pipe) {
        body->then.insert(body->then.begin(),
                          std::string(tree.text_of(tree[tree.child(value, 1)].first)));
        value = tree[value].first;
    }
    if (value < 0 || tree[value].kind != Kind::Compute) {
        raise(
            ValueError("[kernel] expected one compute(...) { ... }, got a script; scripts run with "
                       "the command quern"));
    }
    body->compute = value;
    for (NodeId o = tree[tree.child(value, 0)].first; o >= 0; o = tree[o].next) {
        body->operands.push_back(semantics::operand_name(tree, o));
    }
    collect_names(tree, value, body->names);
    body_ = std::move(body);
}

Tensor Kernel::run(std::span<const Tensor> operands, std::span<const Argument> arguments) const {
    frontend::LaunchOptions options;
    options.device = frontend::placed_compute(*body_->source, body_->compute, device_);
    options.pedantic = body_->pedantic;
    options.then = body_->then;
    return frontend::launch(*body_->source, body_->compute, operands,
                            arguments_of(arguments, body_->names, body_->operands), options);
}

Kernel Kernel::on(const Device& device) const {
    Kernel kernel = *this;
    kernel.device_ = device;
    return kernel;
}

Kernel Kernel::async() const {
    raise(
        DeviceError("[async] E0600: the interpreter runs kernels while the caller waits; "
                    "asynchronous work needs the cpu device"));
}

std::string Kernel::explain() const { return frontend::explain(*body_->source, body_->compute); }

std::string Kernel::explain(std::span<const Tensor> operands,
                            std::span<const Argument> arguments) const {
    std::vector<frontend::OperandInfo> infos;
    for (const Tensor& t : operands) infos.push_back({t.dtype(), t.shape()});
    frontend::LaunchOptions options;
    options.device = frontend::placed_compute(*body_->source, body_->compute, device_);
    options.pedantic = body_->pedantic;
    options.then = body_->then;
    return frontend::explain(*body_->source, body_->compute, infos,
                             arguments_of(arguments, body_->names, body_->operands), options);
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
    static std::deque<Kernel> kept;
    {
        const std::lock_guard lock(mutex);
        for (const Kernel& kernel : kept) {
            if (kernel.text() == text) return kernel;
        }
    }
    Kernel kernel{std::string(text)};
    const std::lock_guard lock(mutex);
    kept.push_front(kernel);
    if (kept.size() > kKept) kept.pop_back();
    return kernel;
}

}  // namespace detail
}  // namespace quern
