#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "quern/ir/index.h"
#include "quern/ir/parse.h"
#include "quern/ir/print.h"
#include "quern/ir/verify.h"

// Any text: refused with a line, or a kernel that prints and parses to itself, with and without
// spans, and that the verifier and the simplifier can look at.

namespace {

using namespace quern::ir;

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string error;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::optional<Kernel> kernel = parse_ir(text, error);
    if (!kernel) {
        require(error.starts_with("line "));
        return 0;
    }
    for (const bool spans : {false, true}) {
        const std::string printed = print(*kernel, {.spans = spans});
        const std::optional<Kernel> again = parse_ir(printed, error);
        require(again.has_value());
        require(print(*again, {.spans = spans}) == printed);
        require(verify(*again).empty() == verify(*kernel).empty());
    }
    if (!verify(*kernel).empty()) return 0;
    const std::size_t count = kernel->exprs.size();
    for (std::size_t i = 0; i < count; ++i) {
        const ExprId simple = simplify(*kernel, ExprId{static_cast<std::uint32_t>(i)});
        require(simplify(*kernel, simple) == simple);
        if ((*kernel)[simple].dtype == quern::DType::Int64) range_of(*kernel, simple);
    }
    return 0;
}
