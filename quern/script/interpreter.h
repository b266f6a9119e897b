#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/frontend/launch.h"
#include "quern/lang/diagnostics.h"
#include "quern/runtime/held.h"
#include "quern/script/functions.h"
#include "quern/script/numbers.h"
#include "quern/script/script.h"
#include "quern/script/waiting.h"
#include "quern/support/check.h"

namespace quern::script {

/// Walks a script's statements. The bodies are split by what they are about: statements.cc,
/// expressions.cc, calls.cc (functions and pipelines) and kernels.cc.
class Interpreter {
public:
    Interpreter(const lang::Source& source, const Signature& signature, const Bindings& bindings,
                const RunOptions& options);

    /// Waits for the work that the script began.
    ~Interpreter();

    Results run();

private:
    /// Of the same script, for a pipeline that runs beside it.
    Interpreter(const Interpreter& other);

    using NodeId = lang::NodeId;
    using Kind = lang::Kind;
    using Code = lang::Code;
    using Scope = std::map<std::string, Value, std::less<>>;

    /// A value with the place that it came from, for messages.
    struct Argument {
        Value value;
        NodeId node = -1;
    };
    struct Arguments {
        std::vector<Argument> positional;
        std::map<std::string, Argument, std::less<>> named;

        const Argument* find(std::string_view name, std::size_t position) const;
    };

    const lang::Node& node(NodeId id) const { return tree_[id]; }
    NodeId child(NodeId id, int n) const { return tree_.child(id, n); }
    std::string text(NodeId id) const { return std::string(tree_.text_of(id)); }

    /// Ends the script with a diagnostic at `id`.
    [[noreturn]] void fail(Code code, NodeId id, std::string message,
                           std::vector<std::string> help = {},
                           std::vector<std::string> notes = {}) const;
    Value checked(NumberResult result, NodeId id) const;

    /// Calls `body`; an error of the library from within that has no place in the script ends the
    /// script with a diagnostic at `id`.
    template <class Body>
    auto at(NodeId id, Body&& body) const {
#if QUERN_EXCEPTIONS
        try {
            return body();
        } catch (...) {
            fail_with_current(id);
        }
#else
        static_cast<void>(id);
        return body();
#endif
    }
    [[noreturn]] void fail_with_current(NodeId id) const;

    // Statements.
    enum class Flow { Next, Return };
    Flow statement(NodeId id);
    Flow execute(NodeId id);
    void config(NodeId id);
    void bind(NodeId target, const Value& value);
    void bind_name(NodeId target, const Value& value);
    void assign(NodeId id);
    void run_main();

    // Expressions.
    /// With When::Later a tensor may wait.
    Value evaluate(NodeId id, When when = When::Now);
    Value name(NodeId id);
    Value unary(NodeId id);
    Value binary(NodeId id);
    Value path(NodeId id);
    Value component(const Value& object, NodeId id);
    Value below(const SetView& view, const std::vector<NodeId>& path, std::size_t& at);
    std::string key_component(NodeId id);
    std::vector<Value> elements(NodeId id);
    const Value* lookup(std::string_view name) const;

    // Calls.
    Value pipe(NodeId id, When when);
    Value call(NodeId id, std::optional<Argument> piped, When when);
    Arguments arguments(NodeId call, std::optional<Argument> piped, When when);
    Value call_function(NodeId callee, const Function& function, const Arguments& arguments,
                        When when);
    Value called(NodeId callee, const Function& function, const Arguments& arguments, When when);
    NodeId callee_of(NodeId call) const;

    /// A pipeline's call with its decorators.
    Value call_placed(NodeId id, NodeId callee, NodeId pipeline, const Arguments& given);
    Value call_with(NodeId id, const Arguments& given);
    Value call_pipeline(NodeId callee, NodeId pipeline, const Arguments& arguments);
    void bind_parameters(NodeId pipeline, const std::vector<Argument>& operands, Scope& scope);
    static std::optional<Value> fitted(const Value& value, std::string_view type);
    void bind_scalar(NodeId parameter, const Argument& operand, Scope& scope);
    void bind_dimensions(NodeId type, const Value& value, NodeId place, std::string_view what,
                         Scope& scope);
    Value split(NodeId callee, const Arguments& arguments);
    Value reshape(NodeId callee, const Arguments& arguments);
    Value permute(NodeId callee, const Arguments& arguments);
    Value to_device(const Arguments& arguments);
    Value memory(NodeId callee, const Arguments& arguments);
    Value allocate(NodeId callee, const Arguments& arguments);
    bool is_pinned(const Argument& pinned, std::string_view device) const;
    Value memory_pool(NodeId callee, const Arguments& arguments);
    Shape shape_of(NodeId callee, const Argument& argument, DType dtype) const;

    /// Where the next kernel runs that says nothing itself.
    frontend::Placement next_placement();
    Device device_of(NodeId callee, const Argument* argument) const;
    const Argument& argument_named(NodeId callee, const Arguments& arguments, std::string_view name,
                                   std::size_t position) const;
    const Tensor& alive(NodeId id, const Tensor& tensor) const;
    Value elementwise(NodeId callee, const Arguments& arguments, When when);
    std::string name_in_kernel(NodeId argument, std::size_t position) const;
    Value cast(NodeId callee, const Arguments& arguments);
    const Tensor& tensor_of(NodeId callee, const Argument& argument) const;
    const Tensor& alive_tensor_of(NodeId callee, const Argument& argument) const;
    std::int64_t integer_of(NodeId callee, std::string_view what, const Argument& argument) const;
    std::vector<std::int64_t> integers_of(NodeId callee, const Argument& argument) const;

    // Asynchronous work.
    struct Started {
        Future<Value> future;
        NodeId place = -1;
    };
    Value start(NodeId id, Future<Value> future);
    void take(const Future<Value>& future);
    void finish_started();
    Value await_future(NodeId id);
    Value joined(NodeId callee, const Argument& futures);
    Future<Value> async_pipeline(NodeId callee, NodeId pipeline, const Arguments& arguments);
    Future<Value> async_launch(frontend::LaunchRequest request);

    /// What a call behind `|>` gives of what a future gives: a future.
    Value piped_future(NodeId call, Argument piped);
    std::shared_ptr<Interpreter> beside(const Arguments& arguments) const;

    // Kernels.
    Value compute(NodeId id, std::vector<semantics::Piped> then, When when);
    void announce(const frontend::LaunchRequest& request);
    Tensor launch(frontend::LaunchRequest request);

    /// Repeats a launch and hands its least time on.
    void time(frontend::LaunchRequest request);
    frontend::LaunchOptions launch_options() const;
    Operand operand(NodeId id, When when);

    /// The request with these operands: what it gives, or what will give it.
    Value launched(frontend::LaunchRequest request, const std::vector<Operand>& operands,
                   When when);
    Tensor look_at(Waiting& waiting);

    /// A tensor in place of one that waits.
    Value looked_at(Value value);
    std::string kernel_name() const { return kernel_name_.empty() ? "kernel" : kernel_name_; }
    frontend::Arguments numbers_in(NodeId compute) const;

    const lang::Source& source_;
    lang::Tree tree_;
    const Signature& signature_;
    const Bindings& bindings_;
    const RunOptions& options_;
    Pipelines pipelines_;
    Scope globals_;

    /// The pipeline that runs; null at the top level.
    Scope* frame_ = nullptr;
    int depth_ = 0;

    /// Of a pipeline with @parallel(model): its kernels go to the devices in turn.
    frontend::Placement placement_;
    Numerics numerics_;
    std::size_t placed_kernels_ = 0;

    /// By a decorator, which is no default.
    bool is_placed_ = false;

    /// The default device that the script has configured.
    std::optional<Device> configured_;
    Value returned_;

    /// What progress and explain call the kernel that runs: the name that its result is bound to.
    std::string kernel_name_;
    std::vector<std::string> bound_;
    std::set<std::string> is_bound_;

    /// Of what runs beside the script: its operands, which the script may free.
    std::shared_ptr<Held> held_;

    /// Also the operands of what began it, which waits for it.
    std::vector<Tensor> all_held_;

    /// Work that nobody has awaited.
    std::vector<Started> started_;

    /// The arguments of free() may be without memory.
    bool is_freeing_ = false;

    /// Progress is that of what the script waits for.
    bool is_beside_ = false;
};

}  // namespace quern::script
