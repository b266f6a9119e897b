// libFuzzer target: any text is parsed or refused, and what is accepted prints to the same tree.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "quern/lang/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace quern::lang;
    const std::string text(reinterpret_cast<const char*>(data), size);
    Diagnostics diagnostics(text);
    const auto source = parse(text, {}, diagnostics);
    for (const quern::Diagnostic& diagnostic : diagnostics.sorted()) {
        if (to_string(diagnostic).empty()) std::abort();
    }
    if (diagnostics.has_errors()) return 0;
    const std::string once = print(source->tree());
    Diagnostics again(once);
    const auto reparsed = parse(once, {}, again);
    if (again.has_errors() || !same(source->tree(), reparsed->tree())) std::abort();
    return 0;
}
