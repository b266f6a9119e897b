#include "quern/script/functions.h"

#include <algorithm>

#include "quern/dtype.h"
#include "quern/lang/words.h"

namespace quern::script {
namespace {

using enum FunctionKind;

constexpr Function kFunctions[] = {
    {"compute_devices", Host, 0, 0},
    {"split", Host, 2, 3, {"axis"}},
    {"reshape", Host, 2, 2},
    {"permute", Host, 2, 2},
    {"to_device", Host, 2, 3, {"copy"}},
    {"all", Async, 1, 1},
    {"any", Async, 1, 1},
    {"allocate", Memory, 0, 4, {"shape", "dtype", "device", "pinned"}},
    {"memory_pool", Memory, 0, 2, {"device", "size"}},
    {"free", Memory, 1, 2},
    {"reset", Memory, 1, 1},
#define UNARY(name, op, operand, value) {#name, Elementwise, 1, 1},
#define BINARY(name, op, value) {#name, Elementwise, 2, 2},
#include "quern/lang/functions.def"
    {"relu", Elementwise, 1, 1},
    {"sigmoid", Elementwise, 1, 1},
    {"isnan", Elementwise, 1, 1},
    {"clamp", Elementwise, 3, 3},
    {"select", Elementwise, 3, 3},
// What remains of the special functions works on tiles or steers a kernel.
#define SPECIAL(name, least, most) {#name, KernelOnly, least, most},
#include "quern/lang/functions.def"
};

}  // namespace

bool Function::takes(std::string_view argument) const {
    return !argument.empty() && std::find(named.begin(), named.end(), argument) != named.end();
}

Function find_function(std::string_view name) {
    for (const Function& function : kFunctions) {
        if (function.name == name) return function;
    }
    if (dtype_from_string(name)) return {name, Cast, 1, 1};
    return {name, None};
}

std::optional<semantics::Piped> piped_into_launch(const lang::Tree& tree, lang::NodeId call,
                                                  const Pipelines& pipelines) {
    if (tree[call].kind != lang::Kind::Call || tree.child_count(call) != 1) return std::nullopt;
    const lang::NodeId callee = tree.child(call, 0);
    const std::string name(tree.text_of(callee));
    if (!lang::is_unary_function(name) || pipelines.contains(name)) return std::nullopt;
    return semantics::Piped{name, tree[callee].span};
}

std::vector<std::string> function_names() {
    std::vector<std::string> names;
    for (const Function& function : kFunctions) {
        if (function.kind != KernelOnly) names.emplace_back(function.name);
    }
    return names;
}

}  // namespace quern::script
